"""Placeholder replaced by branch core."""

from typing import Any

Tap = Any
