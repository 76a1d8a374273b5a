"""The one seam for stamps: every stamp of the relay comes from `now`.

Plain monotonic time today; the kernel's receive time would enter here (design section 5).
"""

from time import monotonic_ns

now = monotonic_ns
"""Nanoseconds of the monotonic clock; a step of the wall clock does not move it."""
