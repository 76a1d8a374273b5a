"""One TCP connection as a test sees it: every read and write kept with its true stamp, every way to end it at hand.

Built on a raw socket and the loop's readiness callbacks, so that one `send` is one write to the kernel, one entry in
`reads` is one `recv`, and a paused wire truly reads nothing. Stamps are `time.monotonic_ns`.
"""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

PATIENCE = 30.0  # seconds a wait may last before the test fails; far above anything a healthy run needs
_READ = 65536


@dataclass(frozen=True, slots=True)
class Read:
    """What one `recv` returned, and when it had returned."""

    data: bytes
    at: int


@dataclass(frozen=True, slots=True)
class Write:
    """What one `send` call took, and the instants before it and after the kernel had all of it."""

    data: bytes
    before: int
    after: int


class WireEnded(ConnectionError):
    """The connection ended before what a test waited for had come."""


class Wire:
    """A connected socket, owned. Must be made inside a running loop; reads from the start unless `paused`."""

    def __init__(self, sock: socket.socket, *, paused: bool = False) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reads: list[Read] = []
        self.writes: list[Write] = []
        self.ended: Literal["fin", "rst"] | None = None  # how the peer ended its sending side
        self.ended_at: int | None = None
        self.closed = False  # we closed or reset it
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._room = asyncio.Event()  # the socket may take bytes again
        self._reading = False
        if not paused:
            self.resume()

    @property
    def received(self) -> bytes:
        """All bytes read so far."""
        return b"".join(read.data for read in self.reads)

    @property
    def address(self) -> tuple[str, int]:
        """Our own address: what the peer sees as its peer."""
        host, port = self._sock.getsockname()[:2]
        return host, port

    def resume(self) -> None:
        """Read from now on."""
        if not self._reading and not self.closed and self.ended is None:
            self._loop.add_reader(self._sock.fileno(), self._readable)
            self._reading = True

    def pause(self) -> None:
        """Read nothing from now on: the kernel's buffers fill, then the peer is held up. Hides the peer's end too."""
        if self._reading:
            self._loop.remove_reader(self._sock.fileno())
            self._reading = False

    async def send(self, data: bytes) -> None:
        """Write at once, and wait while the peer takes nothing. ConnectionError when it has reset, or we closed."""
        before = time.monotonic_ns()
        rest = memoryview(data)
        while rest:
            if self.closed:
                raise WireEnded("closed by us")
            try:
                rest = rest[self._sock.send(rest) :]
            except BlockingIOError:
                await self._writable()
        self.writes.append(Write(data, before, time.monotonic_ns()))

    def half_close(self) -> None:
        """Send FIN and go on reading."""
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close in order: FIN (RST from the kernel if unread bytes were waiting)."""
        if not self.closed:
            self.pause()
            self._loop.remove_writer(self._sock.fileno())
            self.closed = True
            self._room.set()
            self._sock.close()
            self._news.set()

    def reset(self) -> None:
        """Close with RST; bytes still unsent are dropped."""
        if not self.closed:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close()

    async def until(self, ready: Callable[[], bool], patience: float | None = PATIENCE) -> None:
        """Wait until `ready()`, asked after each read. WireEnded if the connection ends first.

        TimeoutError after `patience` seconds; None waits for ever.
        """
        async with asyncio.timeout(patience):
            while not ready():
                if self.ended is not None or self.closed:
                    raise WireEnded(
                        f"{self.ended or 'closed by us'} after {sum(len(r.data) for r in self.reads)} bytes"
                    )
                self._news.clear()
                await self._news.wait()

    async def until_bytes(self, count: int) -> None:
        """Wait until at least `count` bytes were read."""
        await self.until(lambda: sum(len(read.data) for read in self.reads) >= count)

    async def until_seen(self, part: bytes) -> None:
        """Wait until `part` was read (across reads too)."""
        await self.until(lambda: part in self.received)

    async def until_ended(self) -> Literal["fin", "rst"]:
        """Wait until the peer has ended its side, and say how. Must be reading."""
        with contextlib.suppress(WireEnded):
            await self.until(lambda: self.ended is not None)
        if self.ended is None:
            raise WireEnded("closed by us")
        return self.ended

    async def _writable(self) -> None:
        self._room.clear()
        self._loop.add_writer(self._sock.fileno(), self._room.set)
        await self._room.wait()
        if not self.closed:
            self._loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # ECONNRESET, ETIMEDOUT and their kin
            self._end("rst")
            return
        if data:
            self.reads.append(Read(data, time.monotonic_ns()))
            self._news.set()
        else:
            self._end("fin")

    def _end(self, how: Literal["fin", "rst"]) -> None:
        self.ended, self.ended_at = how, time.monotonic_ns()
        self.pause()
        self._news.set()
