"""`python -m exporter` is the command `stallwatch`."""

from exporter.cli import main

if __name__ == "__main__":
    main()
