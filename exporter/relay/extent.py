"""Where an HTTP/1.1 message body ends, counted over bytes that are handed on as they came. Pure.

httptools gives no byte offset and silently parses a second message in the same read, so the end is counted here:
by length, by chunks, or by the close of the connection. `feed` returns the payload (chunk framing removed) for the tap;
`used` says how many bytes of that read belong to the message; `done` that it is complete. RFC 9112 sections 6 and 7.
"""

import re
from typing import Protocol

_LINE_LIMIT = 4096  # a chunk-size line with its extensions
_TRAILER_LIMIT = 64 * 1024
_SIZE_DIGITS = 15  # 2**60 bytes is more than anybody sends, and fits an int64


_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # what no line of framing may hold; a tab may be there


class FramingError(Exception):
    """The bytes break the message's own framing; where it ends can't be known any more."""


class Extent(Protocol):
    """What the relay needs of a body's framing."""

    done: bool
    used: int

    def feed(self, data: bytes) -> bytes:
        """Take one read, return its payload. FramingError when the framing is broken."""
        ...


class Length:
    """A body of a stated number of bytes; 0 is complete at once."""

    __slots__ = ("_left", "done", "used")

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0
        self.used = 0

    def feed(self, data: bytes) -> bytes:
        """Take one read, return its payload; bytes beyond the length are not used."""
        size = len(data)
        if size > self._left:
            data = data[: self._left]
            size = self._left
        self._left -= size
        self.used = size
        self.done = self._left == 0
        return data


class UntilClose:
    """A body that ends when the connection does; never `done` by itself."""

    __slots__ = ("done", "used")

    def __init__(self) -> None:
        self.done = False
        self.used = 0

    def feed(self, data: bytes) -> bytes:
        """Take one read; all of it is payload."""
        self.used = len(data)
        return data


class Chunked:
    """A chunked body, trailers included."""

    __slots__ = ("_between", "_left", "_line", "_state", "_trailer", "done", "used")

    _SIZE, _DATA, _DATA_END, _TRAILERS = range(4)

    def __init__(self) -> None:
        self._state = self._SIZE
        self._left = 0  # payload bytes still missing from the current chunk
        self._line = b""  # an unfinished line of framing
        self._trailer = 0
        self.done = False
        self.used = 0
        self._between = True  # a chunk-size line begins with the next byte

    def feed(self, data: bytes) -> bytes:
        """Take one read, return its payload. FramingError when the chunking is broken."""
        if not self._between:
            return self._walk(data, 0, [])
        size = len(data)
        pieces: list[bytes] = []
        at = 0
        while (line_end := data.find(b"\r\n", at + 1, at + 18)) > 0:
            start = line_end + 2
            end = start + chunk_size(data[at:line_end])
            if end == start or end + 2 > size:
                break
            if data[end : end + 2] != b"\r\n":
                raise FramingError("a chunk does not end with CRLF")
            if end + 2 == size:
                self.used = size
                return b"".join((*pieces, data[start:end])) if pieces else data[start:end]
            pieces.append(data[start:end])
            at = end + 2
        return self._walk(data, at, pieces)

    def _walk(self, data: bytes, at: int, pieces: list[bytes]) -> bytes:
        """Take the rest of a read, `at` on, piece by piece; `pieces` is the payload found before."""
        size = len(data)
        while at < size and not self.done:
            if self._state == self._DATA:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = self._DATA_END
            else:
                at = self._framing(data, at)
        self.used = at
        self._between = self._state == self._SIZE and not self._line
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _framing(self, data: bytes, at: int) -> int:
        """Take framing bytes from `at` up to the end of their line; return where payload or the next line starts."""
        newline = data.find(b"\n", at)
        end = len(data) if newline < 0 else newline + 1
        if len(self._line) + end - at > _LINE_LIMIT:
            raise FramingError("a line of the chunk framing is too long")
        line = self._line + data[at:end]
        if self._state == self._DATA_END and not b"\r\n".startswith(line):
            raise FramingError("a chunk does not end with CRLF")
        if newline < 0:
            self._line = line
            return end
        self._line = b""
        if line[-2:-1] != b"\r" or line.count(b"\r") != 1:
            raise FramingError("a line of the chunk framing does not end with CRLF")
        self._end_line(line[:-2])
        return end

    def _end_line(self, line: bytes) -> None:
        if self._state == self._DATA_END:
            self._state = self._SIZE
        elif self._state == self._SIZE:
            self._left = chunk_size(line)
            self._state = self._DATA if self._left else self._TRAILERS
        else:
            if line and (line[:1] in b": \t" or b":" not in line or _CONTROL.search(line)):
                raise FramingError("a trailer is no field")
            self._trailer += len(line) + 2
            if self._trailer > _TRAILER_LIMIT:
                raise FramingError("the trailers are too long")
            self.done = not line


def may_end(data: bytes) -> bool:
    """Return whether a chunked message may end within this read, whatever came before it.

    Its last four bytes are CR LF CR LF: the end of the last line of framing, and an empty line. So a read that neither
    holds these four nor begins with a CR or LF (the rest of them) holds no end.
    """
    return data[0] in (13, 10) or b"\r\n\r\n" in data


def chunk_size(line: bytes) -> int:
    """Return the payload length that a chunk-size line (without CRLF) states; extensions are passed over."""
    digits = line
    if b";" in line:
        digits, _, extension = line.partition(b";")
        if _CONTROL.search(extension):
            raise FramingError("a chunk extension holds a control character")
    # int() would take more than digits: a sign, spaces, underscores (no alphanumerics), and the prefix 0x.
    if len(digits) <= _SIZE_DIGITS and digits.isalnum() and digits[1:2] not in (b"x", b"X"):
        try:
            return int(digits, 16)
        except ValueError:
            pass
    raise FramingError("a chunk size is not a hexadecimal number")
