"""One connection to the engine: hands what it reads to the exchange it serves, stamped before anything else."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, cast

from exporter.relay.clock import now

if TYPE_CHECKING:
    from exporter.relay.exchange import Exchange
    from exporter.relay.pool import Pool

log = logging.getLogger(__name__)


class Upstream(asyncio.Protocol):
    """An engine connection; `exchange` is the one it serves, `None` while it is idle in the pool."""

    __slots__ = ("_counted", "_figures", "_lost", "_pool", "exchange", "idle_timer", "reused", "transport")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)  # set by connection_made
        self.exchange: Exchange | None = None
        self.idle_timer: asyncio.TimerHandle | None = None
        self.reused = False
        self._counted = False
        self._lost = False
        self._figures = pool.figures

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the new connection."""
        self.transport = cast(asyncio.Transport, transport)
        no_delay(self.transport)

    def opened(self) -> None:
        """Count the connection as open; uvloop may drop one without a word while it is still being made."""
        if not self._lost:
            self._counted = True
            self._figures.engine_connections += 1

    def data_received(self, data: bytes) -> None:
        """Stamp a read and hand it on. Bytes nobody asked for end the connection."""
        stamp = now()
        exchange = self.exchange
        if exchange is None:
            self._pool.discard(self)
            return
        try:
            exchange.from_engine(data, stamp)
        except Exception:
            log.exception("fault while relaying an answer")
            exchange.fault()

    def eof_received(self) -> bool:
        """Let the engine's end be the end of the connection."""
        self._ended(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the exchange, if it still waits for something."""
        self._lost = True
        self._figures.engine_connections -= self._counted
        if exc is not None:
            self._read_rest()
        self._ended(exc)

    def _read_rest(self) -> None:
        """Take what the socket still holds after a failed write: an engine may answer early and close.

        uvloop drops a connection at the first write that fails, with the answer unread. The socket is open until this
        callback returns.
        """
        sock = self.transport.get_extra_info("socket")
        try:
            while self.exchange is not None and (data := os.read(sock.fileno(), 65536)):
                self.data_received(data)
        except OSError:  # nothing is left, or it was reset
            return

    def _ended(self, exc: Exception | None) -> None:
        exchange = self.exchange
        if exchange is None:
            self._pool.discard(self)
            return
        try:
            exchange.engine_ended(now(), clean=exc is None)
        except Exception:
            log.exception("fault while ending an answer")
            exchange.fault()

    def resume_writing(self) -> None:
        """Request bytes have drained: the client may send on."""
        if self.exchange is not None:
            self.exchange.engine_drained()

    def close(self) -> None:
        """Close at once; whatever is unsent is dropped."""
        self.exchange = None
        self._pool.discard(self)
        self.transport.abort()


def no_delay(transport: asyncio.BaseTransport) -> None:
    """Switch Nagle's algorithm off, so that a small event is never held for an ACK. A Unix socket has none."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel find out that a peer is gone without a word: a slow reader has no time limit of ours."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
