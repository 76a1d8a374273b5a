"""Every 20 ms: how late the event loop is, and a look at the reads that wait for one.

The delay of the timer is a metric, so that a stall of our own making shows and is never blamed on the engine.
"""

import asyncio

from exporter.core.histogram import Histogram
from exporter.relay.clock import now
from exporter.relay.look_queue import LookQueue

INTERVAL = 0.020
_INTERVAL_NS = 20_000_000


class Heartbeat:
    """Beats until it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lag: Histogram, looks: LookQueue) -> None:
        self._loop = loop
        self._lag = lag
        self._looks = looks
        self._beat()

    def _beat(self, due: int | None = None) -> None:
        at = now()
        if due is not None:
            self._lag.observe(max(0, at - due))
        self._looks.flush()
        self._timer = self._loop.call_later(INTERVAL, self._beat, now() + _INTERVAL_NS)

    def stop(self) -> None:
        """Beat no more."""
        self._timer.cancel()
