"""Engine connections: opens new ones, keeps idle ones for a short while, and never hands out one that has ended.

Foreign exceptions of connecting are translated here, once, to an Ending.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from exporter.core.ending import Ending
from exporter.core.relay_figures import RelayFigures
from exporter.relay.limits import Limits
from exporter.relay.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect or listen: a TCP host and port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str | None = None

    @property
    def authority(self) -> bytes:
        """What a Host field says of it; `localhost` for a Unix socket."""
        if self.path is not None:
            return b"localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (host if self.port == 80 else f"{host}:{self.port}").encode()


class ConnectError(Exception):
    """The engine could not be reached; `ending` says how it counts."""

    def __init__(self, ending: Ending, message: str) -> None:
        super().__init__(message)
        self.ending = ending


class Pool:
    """The connections to one engine."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, address: Address, limits: Limits, figures: RelayFigures
    ) -> None:
        self._loop = loop
        self._address = address
        self._limits = limits
        self.figures = figures
        self._idle: list[Upstream] = []

    def take(self) -> Upstream | None:
        """Return the idle connection that was used last, or `None` when there is none."""
        while self._idle:
            upstream = self._idle.pop()
            if upstream.idle_timer is not None:
                upstream.idle_timer.cancel()
                upstream.idle_timer = None
            if not upstream.transport.is_closing():
                upstream.reused = True
                return upstream
        return None

    async def connect(self) -> Upstream:
        """Open a new connection. ConnectError when that fails or takes longer than the limit."""
        address = self._address
        try:
            async with asyncio.timeout(self._limits.connect):
                if address.path is not None:
                    _, made = await self._loop.create_unix_connection(lambda: Upstream(self), address.path)
                else:
                    _, made = await self._loop.create_connection(lambda: Upstream(self), address.host, address.port)
        except TimeoutError as error:
            raise ConnectError(
                Ending.TIMEOUT, f"no connection to the engine within {self._limits.connect:g} s"
            ) from error
        except (OSError, ValueError) as error:  # ValueError: a name that is none
            reason = getattr(error, "strerror", None) or error
            raise ConnectError(Ending.CONNECT_FAILED, f"the engine can't be reached: {reason}") from error
        made.opened()
        return made

    def give_back(self, upstream: Upstream) -> None:
        """Keep a connection whose exchange is wholly over, for `upstream_idle` seconds."""
        upstream.exchange = None
        if upstream.transport.is_closing():
            return
        upstream.idle_timer = self._loop.call_later(self._limits.upstream_idle, self.discard, upstream)
        self._idle.append(upstream)

    def discard(self, upstream: Upstream) -> None:
        """Close a connection and forget it; one that is not idle is closed all the same."""
        if upstream.idle_timer is not None:
            upstream.idle_timer.cancel()
            upstream.idle_timer = None
        if upstream in self._idle:
            self._idle.remove(upstream)
        upstream.transport.close()

    def close(self) -> None:
        """Close every idle connection."""
        for upstream in list(self._idle):
            self.discard(upstream)
