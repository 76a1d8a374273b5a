"""A programmable engine on loopback: each request is answered by a script that a test wrote, byte by byte.

A script is a coroutine function that takes the `Exchange`, or a list of steps (see the functions at the end). The
engine keeps every connection, every request raw, and the true stamps of each write and of each peer's end.
Connections stay open after a script unless the script ends them. A script may go on after its peer has left: its
writes then fail with ConnectionError, which is noted in `exchange.broken` and is no fault of the test.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from tests.http_bytes import Message, MessageReader
from tests.wire import PATIENCE, Wire, WireEnded, Write


class Connection:
    """One accepted connection: its wire and the requests read from it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.requests = MessageReader(response=False)
        self._fed = 0

    async def request(self, index: int, *, whole: bool) -> Message | None:
        """Request number `index` of this connection, once its head (or all of it) is there; None if none comes."""

        def ready() -> bool:
            self._feed()
            messages = self.requests.messages
            return len(messages) > index and (messages[index].complete or not whole)

        try:
            await self.wire.until(ready, patience=None)
        except WireEnded:
            return None
        return self.requests.messages[index]

    def _feed(self) -> None:
        while self._fed < len(self.wire.reads):
            self._fed += 1
            self.requests.feed(self.wire.reads[self._fed - 1].data)


class Exchange:
    """One request on one connection, and what its script does."""

    def __init__(self, connection: Connection, index: int, request: Message) -> None:
        self.connection = connection
        self.request = request  # with `early`, still filling up while the script runs
        self.broken: ConnectionError | None = None  # what a write met when the peer was gone
        self.finished = asyncio.Event()  # the script has ended
        self._index = index
        self._first_write = len(connection.wire.writes)
        self._last_write: int | None = None

    @property
    def wire(self) -> Wire:
        """The connection's wire: `ended`, `ended_at`, `until_ended`, `half_close`, `close`, `reset`, `pause`."""
        return self.connection.wire

    @property
    def writes(self) -> list[Write]:
        """The writes of this exchange, with stamps."""
        return self.wire.writes[self._first_write : self._last_write]

    @property
    def written(self) -> bytes:
        """All bytes written for this request."""
        return b"".join(write.data for write in self.writes)

    async def send(self, data: bytes) -> None:
        """Write `data` in one piece."""
        await self.wire.send(data)

    async def body(self) -> bytes:
        """Wait for the whole request and return its body without framing (needed with `early` only)."""
        if await self.connection.request(self._index, whole=True) is None:
            raise ConnectionResetError("the request was never completed")
        return bytes(self.request.body)

    def finish(self) -> None:
        """The script is done; later writes on the connection are another exchange's."""
        self._last_write = len(self.wire.writes)
        self.finished.set()


Step = Callable[[Exchange], Awaitable[None]]
Script = Step | Sequence[Step]


class FakeEngine:
    """The server. Use as an async context manager; a fault in a script is raised when it closes.

    `scripts` answer the first requests in order of arrival; `default` answers all others (without one, a further
    request is a fault). With `early` a script starts at the request's head instead of its end.
    """

    def __init__(self, *scripts: Script, default: Script | None = None, early: bool = False) -> None:
        self.connections: list[Connection] = []
        self.exchanges: list[Exchange] = []
        self.default = default
        self.early = early
        self.port = 0
        self.faults: list[BaseException] = []
        self._scripts = deque(scripts)
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrival = asyncio.Event()
        self._listener: socket.socket | None = None

    def queue(self, *scripts: Script) -> None:
        """Let these answer the next requests that have no script yet."""
        self._scripts.extend(scripts)

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept, self._listener)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self.connections:
            connection.wire.close()
        if self.faults and error is None:
            raise self.faults[0]

    def refuse(self) -> None:
        """Stop listening: further connections are refused, those there go on."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    async def exchange(self, index: int) -> Exchange:
        """Wait for request number `index`, in order of arrival over all connections."""
        async with asyncio.timeout(PATIENCE):
            while len(self.exchanges) <= index:
                self._arrival.clear()
                await self._arrival.wait()
        return self.exchanges[index]

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection = Connection(Wire(sock))
        self.connections.append(connection)
        self._arrival.set()
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: Connection) -> None:
        try:
            index = 0
            while request := await connection.request(index, whole=not self.early):
                exchange = Exchange(connection, index, request)
                self.exchanges.append(exchange)
                self._arrival.set()
                await self._run(exchange)
                if connection.wire.closed or await connection.request(index, whole=True) is None:
                    break
                index += 1
        except Exception as fault:  # a test's own mistake, or bad bytes from the product: shown when the engine closes
            self.faults.append(fault)
        connection.wire.close()

    async def _run(self, exchange: Exchange) -> None:
        script = self.script_for(exchange)
        try:
            for step in [script] if callable(script) else script:
                await step(exchange)
        except ConnectionError as error:
            exchange.broken = error
        finally:
            exchange.finish()

    def script_for(self, exchange: Exchange) -> Script:
        """The next queued script, else the default. LookupError when there is neither."""
        if self._scripts:
            return self._scripts.popleft()
        if self.default is None:
            raise LookupError(f"no script for {exchange.request.start!r}")
        return self.default


def send(*pieces: bytes) -> Step:
    """Write each piece on its own."""

    async def step(exchange: Exchange) -> None:
        for piece in pieces:
            await exchange.send(piece)

    return step


def wait(seconds: float) -> Step:
    """Let time pass."""

    async def step(_: Exchange) -> None:
        await asyncio.sleep(seconds)

    return step


def wait_for(event: asyncio.Event) -> Step:
    """Wait until the test sets `event`."""

    async def step(_: Exchange) -> None:
        await event.wait()

    return step


async def peer_ends(exchange: Exchange) -> None:
    """Wait until the peer closes or resets."""
    await exchange.wire.until_ended()


async def half_close(exchange: Exchange) -> None:
    """Send FIN and go on reading."""
    exchange.wire.half_close()


async def close(exchange: Exchange) -> None:
    """Close in order."""
    exchange.wire.close()


async def reset(exchange: Exchange) -> None:
    """Close with RST."""
    exchange.wire.reset()
