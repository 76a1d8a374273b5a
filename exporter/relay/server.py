"""The relay as a whole: listens, drains, and watches over its connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
from collections.abc import Callable

from exporter.core.ending import Ending
from exporter.core.relay_figures import RelayFigures
from exporter.core.tap import Tap
from exporter.relay.clock import now
from exporter.relay.context import Context
from exporter.relay.downstream import Downstream
from exporter.relay.heartbeat import Heartbeat
from exporter.relay.limits import Limits
from exporter.relay.look_queue import LookQueue
from exporter.relay.pool import Address, Pool

_WATCH = 0.25  # seconds between looks at clients that are not being read
_BACKLOG = 4096


class Relay:
    """Accepts clients on one address and relays them to one engine."""

    def __init__(
        self,
        upstream: Address,
        limits: Limits,
        figures: RelayFigures,
        open_tap: Callable[[int], Tap],
        *,
        preserve_host: bool = True,
        each_beat: Callable[[], None] = lambda: None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._context = Context(
            loop=loop,
            limits=limits,
            figures=figures,
            open_tap=open_tap,
            pool=Pool(loop, upstream, limits, figures),
            looks=LookQueue(loop, figures),
            host=upstream.authority,
            preserve_host=preserve_host,
        )
        self._each_beat = each_beat
        self._path: str | None = None  # of our Unix socket
        self._server: asyncio.Server | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._heartbeat: Heartbeat | None = None

    def settle(self) -> None:
        """Bring the figures up to this instant: reads that wait for a look, and time that clients are blocked now."""
        self._context.looks.flush()
        stamp = now()
        for client in self._context.clients:
            client.count_blocked(stamp)

    @property
    def ready(self) -> bool:
        """Whether new requests are taken: from listening until the drain begins."""
        return self._server is not None and not self._context.draining

    async def listen(self, address: Address) -> Address:
        """Start to accept; return the address with the port that was bound. OSError when it can't be bound."""
        loop = self._context.loop
        raise_file_limit()
        if address.path is not None:
            refuse_taken(address.path)
            self._path = address.path
            self._server = await loop.create_unix_server(self._client, address.path, backlog=_BACKLOG)
            bound = address
        else:
            self._server = await loop.create_server(self._client, address.host, address.port, backlog=_BACKLOG)
            bound = Address(address.host, self._server.sockets[0].getsockname()[1])
        self._heartbeat = Heartbeat(loop, self._context.figures.loop_lag, self._context.looks, self._each_beat)
        self._watch = loop.call_later(_WATCH, self._look)
        return bound

    def _client(self) -> Downstream:
        return Downstream(self._context)

    def _look(self) -> None:
        for client in list(self._context.clients):
            client.check_left()
        self._watch = self._context.loop.call_later(_WATCH, self._look)

    async def drain(self) -> int:
        """Take no new requests, let live ones end within the grace time, cut the rest; return how many were cut."""
        context = self._context
        context.draining = True
        for client in list(context.clients):
            client.close_idle()
        grace = context.limits.drain
        deadline = None if grace is None else now() + int(grace * 1e9)
        # A look every 20 ms, once in a process's life, is less code than an event that every ending has to set.
        while any(client.busy for client in context.clients) and (deadline is None or now() < deadline):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return self.cut()

    def cut(self) -> int:
        """End every exchange under way; return how many."""
        live = [client.exchange for client in self._context.clients if client.exchange is not None]
        for exchange in live:
            exchange.fail(Ending.SHUTDOWN, "the sidecar is shutting down")
        return len(live)

    async def close(self) -> None:
        """Stop listening, and end every exchange and connection at once."""
        self.cut()
        if self._server is not None:
            self._server.close()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._watch is not None:
            self._watch.cancel()
        self._context.pool.close()
        for client in list(self._context.clients):
            client.transport.abort()
        if self._server is not None and self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        await asyncio.sleep(0)


def refuse_taken(path: str) -> None:
    """OSError when somebody listens on the Unix socket at `path`: binding would take it from them without a word."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def raise_file_limit() -> None:
    """Raise the limit of open files to what the system allows: two are needed for each exchange."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
