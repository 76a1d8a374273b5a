"""The optional limits of an exchange: a silent engine (in bytes, comments count) and a total time. Off by default."""

import asyncio
from collections.abc import Callable

from exporter.relay.clock import now


class Deadline:
    """Calls `expire(message)` once when a limit is passed. `None` means no limit; times are in seconds."""

    __slots__ = ("_expire", "_idle", "_idle_timer", "_loop", "_total_timer", "touched")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, idle: float | None, total: float | None, expire: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._idle = idle
        self._expire = expire
        self.touched: int | None = now()  # stamp of the engine's last byte; `None` while reading it is held
        self._idle_timer = None if idle is None else loop.call_later(idle, self._look)
        self._total_timer = None
        if total is not None:
            self._total_timer = loop.call_later(total, expire, f"the exchange took longer than {total:g} s")

    def _look(self) -> None:
        """Expire if the engine has been silent for so long; else look again when it could have been."""
        idle = self._idle or 0.0
        left = idle if self.touched is None else idle - (now() - self.touched) / 1e9
        if left <= 0:
            self._expire(f"the engine sent nothing for {idle:g} s")
        else:
            self._idle_timer = self._loop.call_later(left, self._look)

    def cancel(self) -> None:
        """Expire no more."""
        for timer in (self._idle_timer, self._total_timer):
            if timer is not None:
                timer.cancel()
