"""A raw client for relay tests: sends exactly the bytes it is given and keeps every read with its stamp.

It is a `Wire` that also reads the answers: `response()` waits for the next whole one. Slow reading is `pause()` and
`resume()`; the ways to leave are `close()`, `reset()` and `half_close()`.
"""

import asyncio
import socket
from types import TracebackType
from typing import Self

from tests.http_bytes import Message, MessageReader
from tests.wire import Wire, WireEnded


class RawClient(Wire):
    """One client connection. Use as an async context manager, or call `close()`."""

    def __init__(self, sock: socket.socket, *, paused: bool = False) -> None:
        super().__init__(sock, paused=paused)
        self.answers = MessageReader(response=True)
        self._fed = 0
        self._taken = 0

    @classmethod
    async def connect(
        cls, port: int, host: str = "127.0.0.1", *, receive_buffer: int | None = None, paused: bool = False
    ) -> Self:
        """Open a connection; a small `receive_buffer` (bytes) makes a paused client hold its peer up soon."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
        except BaseException:
            sock.close()
            raise
        return cls(sock, paused=paused)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def head(self) -> Message:
        """Wait for the head of the next answer not yet taken; the message goes on filling up."""
        await self.until(lambda: len(self._read()) > self._taken)
        return self.answers.messages[self._taken]

    async def response(self, *, bodiless: bool = False) -> Message:
        """Wait for the next whole answer (1xx ones are answers of their own). WireEnded if it stays incomplete.

        Say `bodiless` for the answer to a HEAD, before any of it can have come.
        """
        self.answers.bodiless = self.answers.bodiless or bodiless

        def whole() -> bool:
            messages = self._read()
            return len(messages) > self._taken and messages[self._taken].complete

        try:
            await self.until(whole)
        except WireEnded:
            if self.ended == "fin":
                self.answers.eof()
            if not whole():
                raise
        self._taken += 1
        return self.answers.messages[self._taken - 1]

    def _read(self) -> list[Message]:
        while self._fed < len(self.reads):
            self._fed += 1
            self.answers.feed(self.reads[self._fed - 1].data)
        return self.answers.messages
