"""Reads that are relayed already and wait to be looked at: framing and tap take them together, every 20 ms or sooner.

Why not at once: right after a system call the processor's caches hold the kernel's code, and whatever runs then is
many times dearer. Measured at 5,000 chunks/s: the chunk framing 11 us looked at alone and 2 together, the tap 14 us
and 6. And where an engine writes all its streams at once, the last one is read, stamped and relayed before anybody
looks at the first. The stamp is that of the read, so every figure is what it would be; it is known up to 20 ms later.

The contract: whoever tells a tap what depends on order (a hold, the end), needs the framing's state, or reads figures,
flushes first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from exporter.core.relay_figures import RelayFigures

if TYPE_CHECKING:
    from exporter.relay.exchange import Exchange

log = logging.getLogger(__name__)

# So many reads are looked at when this turn of the loop has relayed all that is ready: half a millisecond of looking.
_MANY = 64
# A read of so many bytes is looked at at once: cold caches are nothing beside its size, and what waits stays small.
_LARGE = 16 * 1024

NOT_YET = -1

# One read: its exchange, its bytes, its stamp, and how many ns later the client's socket had them (NOT_YET while bytes
# for the client are unsent: then it is counted when they are sent). A plain tuple: this is the hot path.
Look = tuple["Exchange", bytes, int, int]


class LookQueue:
    """Reads in the order they came."""

    __slots__ = ("_figures", "_loop", "_reads", "_soon")

    def __init__(self, loop: asyncio.AbstractEventLoop, figures: RelayFigures) -> None:
        self._loop = loop
        self._figures = figures
        self._reads: list[Look] = []
        self._soon = False  # a flush at the end of this turn of the loop is on its way

    def put(self, look: Look) -> None:
        """Keep a read until the next flush."""
        reads = self._reads
        reads.append(look)
        if len(look[1]) > _LARGE:
            self.flush()
        elif len(reads) >= _MANY and not self._soon:
            self._soon = True
            self._loop.call_soon(self.flush)

    def settle(self, exchange: Exchange) -> None:
        """Look at what waits of one exchange, before its next read is looked at in place."""
        own = [look for look in self._reads if look[0] is exchange]
        if own:
            self._reads = [look for look in self._reads if look[0] is not exchange]
            self._look(own)

    def flush(self) -> None:
        """Look at everything that waits. An exchange that ends by what it finds has no further look."""
        self._soon = False
        if self._reads:
            reads, self._reads = self._reads, []
            self._look(reads)

    def _look(self, reads: list[Look]) -> None:
        figures = self._figures
        observe = figures.added.observe
        for exchange, data, stamp, added in reads:
            figures.bytes_to_client += len(data)
            if added >= 0:
                observe(added)
            try:
                exchange.look(data, stamp)
            except Exception:
                log.exception("fault while looking at an answer")
                exchange.fault()
