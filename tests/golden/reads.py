"""A capture's bytes taken apart the plain way: head, body without framing, events, each byte with the time it came."""

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple


class Reads(NamedTuple):
    """The capture as it came: all bytes, and for each read the offset of its end and its time."""

    raw: bytes
    ends: list[int]
    times: list[int]

    def time(self, offset: int) -> int:
        """When the byte at `offset` came."""
        return self.times[bisect_right(self.ends, offset)]


class Event(NamedTuple):
    """One event's data, when it was whole, and in which read."""

    data: bytes
    at: int


def reads_of(pieces: list[tuple[int, bytes]]) -> Reads:
    """Join reads given as (time, bytes)."""
    return Reads(b"".join(b for _, b in pieces), list(accumulate(len(b) for _, b in pieces)), [t for t, _ in pieces])


def split_head(raw: bytes) -> tuple[int, dict[str, str], int]:
    """Status, headers by lower-case name, and the offset where the body starts."""
    end = raw.index(b"\r\n\r\n") + 4
    lines = raw[: end - 4].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return int(lines[0].split(" ")[1]), headers, end


def unframed(raw: bytes, start: int, headers: dict[str, str]) -> tuple[bytes, list[int], bool]:
    """The body without transfer framing, the raw offset of each of its bytes, and whether it is complete."""
    if "chunked" not in headers.get("transfer-encoding", ""):
        body = raw[start:]
        return body, list(range(start, len(raw))), len(body) == int(headers["content-length"])
    joined, offsets, complete = bytearray(), list[int](), False
    while not complete and (line_end := raw.find(b"\r\n", start)) >= 0:
        size = int(raw[start:line_end], 16)
        data = range(line_end + 2, min(line_end + 2 + size, len(raw)))
        joined += raw[data.start : data.stop]
        offsets += data
        complete = size == 0 and raw[line_end:] == b"\r\n\r\n"
        start = line_end + 2 + size + 2
    return bytes(joined), offsets, complete


def events_of(body: bytes, offsets: list[int], reads: Reads) -> list[Event]:
    """Server-sent events with a data field; what follows the last blank line is not whole and is left out."""
    if b"\r" in body:
        raise ValueError("these captures end lines with \\n only")
    found, start = [], 0
    while (end := body.find(b"\n\n", start)) >= 0:
        lines = body[start:end].split(b"\n")
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        if data:
            found.append(Event(data, reads.time(offsets[end + 1])))
        start = end + 2
    return found
