"""What a relayed chunk costs: nginx, an aiohttp pass-through and stallwatch side by side on one load.

Each file has one job and the README beside them says how each figure is defined.
"""
