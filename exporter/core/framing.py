"""Cut a body into frames: server-sent events (WHATWG rules) or one whole document.

Bytes in, frames out; frames depend on the body, never on where its reads were cut. Nothing here raises at its input.
Lines end at the bytes CR and LF only, so U+2028 and its like stay content. A CR that ends a read ends its line at that
read; a LF that opens the next read belongs to it. Memory is bounded: an event larger than `limit` bytes is dropped,
counted in `oversized` (which the caller may set back), and reading goes on after the next blank line.
"""

import msgspec

_BOM = b"\xef\xbb\xbf"
# Beside its bytes a kept line costs a list entry, so that a flood of empty `data:` lines is bounded too.
_LINE_COST = 8


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event: its type (empty when not named) and its data."""

    data: bytes
    event: bytes = b""


class EventStream:
    """An incremental reader of `text/event-stream`."""

    __slots__ = (
        "_dropping",
        "_event",
        "_first",
        "_idle",
        "_kept",
        "_limit",
        "_lines",
        "_partial",
        "_skip_lf",
        "oversized",
    )

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` bytes of one event."""
        self._limit = limit
        self._partial = bytearray()  # of a line whose end was not read yet
        self._lines: list[bytes] = []  # data of the event under way
        self._kept = 0  # what those lines cost
        self._event = b""
        self._first = True  # the next complete line is the body's first: a BOM may open it
        self._skip_lf = False  # the last read ended in CR
        self._idle = False  # between two events, nothing of any kept
        self._dropping = False  # the event under way is oversized
        self.oversized = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Give the events that this read completes."""
        # The usual read is one whole event of one line: nothing to split, no state.
        if (
            self._idle
            and data.startswith(b"data: ")
            and data.endswith(b"\n\n")
            and data.find(b"\n") == len(data) - 2 <= self._limit
            and b"\r" not in data
        ):
            return [Frame(data[6:-2])]
        frames = self._feed(data)
        self._idle = not (self._first or self._partial or self._lines or self._event or self._dropping or self._skip_lf)
        return frames

    def finish(self, clean: bool) -> list[Frame]:
        """End of the body: an event without its blank line counts after a clean end, not after a cut (case C07)."""
        if not clean:
            return []
        return self._feed(b"\n\n")

    def _feed(self, data: bytes) -> list[Frame]:
        if self._skip_lf and data:
            self._skip_lf = False
            if data.startswith(b"\n"):
                data = data[1:]
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        head, *rest = data.split(b"\n")
        if not rest:
            self._extend(head)
            return []
        frames: list[Frame] = []
        self._extend(head)
        self._line(bytes(self._partial), frames)
        self._partial.clear()
        for line in rest[:-1]:
            self._line(line, frames)
        self._extend(rest[-1])
        return frames

    def _extend(self, piece: bytes) -> None:
        """Add to the line under way; of an oversized one a byte is kept, to know that it is not blank."""
        if self._dropping:
            if not self._partial:
                self._partial += piece[:1]
            return
        self._partial += piece
        if self._kept + len(self._partial) > self._limit:
            self._drop()
            del self._partial[1:]

    def _line(self, line: bytes, frames: list[Frame]) -> None:
        if not self._dropping and self._kept + len(line) > self._limit:
            self._drop()
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(frames)
        elif self._dropping or line.startswith(b":"):
            return
        elif line.startswith(b"data:"):
            self._keep(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line == b"data":
            self._keep(b"")
        elif line.startswith(b"event:"):
            self._event = line[6:].removeprefix(b" ")
        elif line == b"event":
            self._event = b""

    def _keep(self, value: bytes) -> None:
        self._lines.append(value)
        self._kept += len(value) + _LINE_COST

    def _drop(self) -> None:
        self._dropping = True
        self.oversized += 1
        self._lines.clear()
        self._kept = 0

    def _dispatch(self, frames: list[Frame]) -> None:
        if self._lines:
            lines = self._lines
            frames.append(Frame(lines[0] if len(lines) == 1 else b"\n".join(lines), self._event))
            lines.clear()
            self._kept = 0
        self._event = b""
        self._dropping = False


class Document:
    """A reader of one whole JSON answer: kept up to `limit` bytes, one frame at its clean end."""

    __slots__ = ("_dropped", "_kept", "_limit", "oversized")

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` bytes."""
        self._limit = limit
        self._kept = bytearray()
        self._dropped = False
        self.oversized = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Keep this read; a document has no events on the way."""
        if not self._dropped:
            self._kept += data
            if len(self._kept) > self._limit:
                self._dropped = True
                self.oversized = 1
                self._kept.clear()
        return []

    def finish(self, clean: bool) -> list[Frame]:
        """Give the document when it came whole."""
        return [Frame(bytes(self._kept))] if clean and self._kept else []
