"""HTTP/1.1 messages out of bytes, for the test side of a connection: simple, incremental, and not the product's parser.

`MessageReader` takes bytes in any cuts and yields whole messages with their raw bytes beside the decoded body. It is
strict about framing and raises ValueError on what it cannot read: a test wants to hear of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Message:
    """One request or response. `raw` is all its bytes as they came, `body` the content with chunk framing removed."""

    start: bytes  # request line or status line
    headers: Headers
    head: bytes  # raw, with the blank line
    framing: str  # "length", "chunked", "close" or "none"
    length: int = 0  # bytes of body still to come, framing "length"
    body: bytearray = field(default_factory=bytearray)
    raw: bytearray = field(default_factory=bytearray)
    complete: bool = False

    @property
    def status(self) -> int:
        """The status code of a response."""
        return int(self.start.split(b" ", 2)[1])

    @property
    def target(self) -> bytes:
        """The request target, as sent."""
        return self.start.split(b" ", 2)[1]

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header, by its name in any case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class MessageReader:
    """Reads one direction of one connection. `bodiless` says that the next response answers a HEAD."""

    def __init__(self, *, response: bool) -> None:
        self.messages: list[Message] = []  # the last may be incomplete
        self.bodiless = False
        self._response = response
        self._rest = bytearray()
        self._need = 0  # bytes of chunk data still to come
        self._part = "size"  # size, data, crlf, trailer: where in the chunked framing we are

    @property
    def complete(self) -> list[Message]:
        """The messages that are whole."""
        return [message for message in self.messages if message.complete]

    def feed(self, data: bytes) -> None:
        """Take the next bytes. ValueError on bad framing."""
        self._rest += data
        while self._step():
            pass

    def eof(self) -> None:
        """The peer has ended: completes a message delimited by close."""
        if self.messages and not self.messages[-1].complete and self.messages[-1].framing == "close":
            self.messages[-1].complete = True

    def _step(self) -> bool:
        if not self.messages or self.messages[-1].complete:
            return self._head()
        message = self.messages[-1]
        if message.framing == "chunked":
            return self._chunked(message)
        size = len(self._rest) if message.framing == "close" else min(len(self._rest), message.length)
        message.body += self._take(message, size)
        message.length -= size
        message.complete = message.framing != "close" and message.length == 0
        return message.complete and bool(self._rest)

    def _head(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        if end < 0:
            return False
        lines = bytes(self._rest[:end]).split(b"\r\n")
        headers = [(key, value.strip(b" \t")) for key, _, value in (line.partition(b":") for line in lines[1:])]
        head = bytes(self._rest[: end + 4])
        message = Message(lines[0], headers, head, "none")
        message.framing, message.length = self._extent(message)
        message.complete = message.framing == "none" or (message.framing == "length" and message.length == 0)
        self._take(message, end + 4)
        self._part = "size"
        self.messages.append(message)
        return bool(self._rest)

    def _extent(self, message: Message) -> tuple[str, int]:
        if self._response:
            if message.status < 200 and message.status != 101:
                return "none", 0
            bodiless, self.bodiless = self.bodiless, False
            if bodiless or message.status in (204, 304):
                return "none", 0
            if message.status == 101:
                return "close", 0
        if any(value.lower() == b"chunked" for value in message.values(b"transfer-encoding")):
            return "chunked", 0
        if lengths := message.values(b"content-length"):
            return "length", int(lengths[0])
        return ("close", 0) if self._response else ("none", 0)

    def _chunked(self, message: Message) -> bool:
        if self._part == "data":
            size = min(self._need, len(self._rest))
            message.body += self._take(message, size)
            self._need -= size
            if self._need == 0:
                self._part = "crlf"
            return size > 0
        end = self._rest.find(b"\r\n")
        if end < 0:
            return False
        line = bytes(self._take(message, end + 2)[:-2])
        if self._part == "size":
            self._need = int(line.partition(b";")[0], 16)
            self._part = "data" if self._need else "trailer"
        elif self._part == "crlf":
            if line:
                raise ValueError(f"chunk longer than its size says: {line[:40]!r}")
            self._part = "size"
        elif not line:
            message.complete = True
        return True

    def _take(self, message: Message, size: int) -> bytearray:
        taken = self._rest[:size]
        del self._rest[:size]
        message.raw += taken
        return taken


def parse(data: bytes, *, response: bool) -> list[Message]:
    """All messages in `data`, the last perhaps incomplete; end of data counts as the peer's end."""
    reader = MessageReader(response=response)
    reader.feed(data)
    reader.eof()
    return reader.messages


def head(start: str, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """A message head from its first line and headers, with the blank line."""
    lines = [start, *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One HTTP chunk holding `data`."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
