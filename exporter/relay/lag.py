"""How late the event loop is: a 20 ms timer whose delay is a metric, so that a stall of our own making shows."""

import asyncio

from exporter.core.histogram import Histogram
from exporter.relay.clock import now

INTERVAL = 0.020
_INTERVAL_NS = 20_000_000


class LagSampler:
    """Observes, every 20 ms, how much later than planned the loop came to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lag: Histogram) -> None:
        self._loop = loop
        self._lag = lag
        self._due = now() + _INTERVAL_NS
        self._timer = loop.call_later(INTERVAL, self._fire)

    def _fire(self) -> None:
        at = now()
        self._lag.observe(max(0, at - self._due))
        self._due = at + _INTERVAL_NS
        self._timer = self._loop.call_later(INTERVAL, self._fire)

    def stop(self) -> None:
        """Sample no more."""
        self._timer.cancel()
