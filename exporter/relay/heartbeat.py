"""Every 20 ms: how late the event loop is, and a look at the reads that wait for one.

The delay of the timer is a metric, so that a stall of our own making shows and is never blamed on the engine.
"""

import asyncio
from collections.abc import Callable

from exporter.core.histogram import Histogram
from exporter.relay.clock import now
from exporter.relay.look_queue import LookQueue

INTERVAL = 0.020
_INTERVAL_NS = 20_000_000


class Heartbeat:
    """Beats until it is stopped. `each` is called at every beat; what it takes shows in the lag of the next one."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, lag: Histogram, looks: LookQueue, each: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._lag = lag
        self._looks = looks
        self._each = each
        self._due = now() + _INTERVAL_NS
        self._timer = loop.call_later(INTERVAL, self._beat)

    def _beat(self) -> None:
        at = now()
        self._lag.observe(max(0, at - self._due))
        self._due = at + _INTERVAL_NS
        self._timer = self._loop.call_later(INTERVAL, self._beat)
        self._looks.flush()
        self._each()

    def stop(self) -> None:
        """Beat no more."""
        self._timer.cancel()
