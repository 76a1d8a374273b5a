"""Reads that are relayed already and wait to be looked at: the taps take them together, every 20 ms or sooner.

Why not at once: right after a system call the processor's caches hold the kernel's code. Looked at one by one a chunk
cost the tap 14 us, together 6 to 8. And where an engine writes all its streams at once, the last one is read, stamped
and relayed before anybody looks at the first. The stamp is that of the read, so no figure is other than it would be.

The contract: whoever tells a tap what depends on order (a hold, the end), or reads figures, flushes first.
"""

import asyncio

from exporter.core.relay_figures import RelayFigures
from exporter.core.tap import Tap

# So many reads are looked at when this turn of the loop has relayed all that is ready; about 1 ms of looking.
_MANY = 128
# A read of so many bytes is looked at at once: it has long cost more than cold caches do, and what waits stays small.
_LARGE = 16 * 1024

NOT_YET = -1


# One read: its tap, what that must see, the read's stamp, how many ns later the client's socket had it (NOT_YET while
# bytes for the client are unsent: then it is counted when they are sent), and the written bytes that are not counted
# yet. A plain tuple: this is the hot path.
Look = tuple[Tap, bytes, int, int, int]


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

    def flush(self) -> None:
        """Let the taps look at everything that waits."""
        self._soon = False
        reads = self._reads
        if not reads:
            return
        self._reads = []
        observe = self._figures.added.observe
        total = 0
        for tap, payload, stamp, added, size in reads:
            total += size
            tap.feed(payload, stamp)
            if added >= 0:
                observe(added)
        self._figures.bytes_to_client += total
