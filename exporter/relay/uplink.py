"""The request on its way up: bytes that wait for an engine connection, and a bounded copy for one retry. Pure.

An engine killed by a prompt must not get it twice: a request is repeated at most once, and only when a reused
connection turned out to be stale right away (see `may_repeat`).
"""

from exporter.relay.extent import Extent


class Uplink:
    """The request's bytes, kept until they are sent, and beyond that while a retry is still possible."""

    __slots__ = (
        "_attempts",
        "_connected",
        "_first_byte",
        "_head",
        "_kept",
        "_limit",
        "_whole",
        "body",
        "size",
        "waiting",
    )

    def __init__(self, head: bytes, body: Extent, limit: int) -> None:
        self._head = head
        self.body = body
        self._limit = limit
        self._kept: list[bytes] = []
        self.waiting = 0  # bytes of the body kept here
        self._whole = True  # everything read so far is kept
        self._connected = False
        self._attempts = 0
        self._first_byte = 0
        self.size = 0  # bytes of the body so far, framing included

    def keep(self, data: bytes) -> None:
        """Keep bytes that wait for a connection, or, up to the limit, that a retry would need."""
        self.size += len(data)
        if not self._whole:
            return
        self._kept.append(data)
        self.waiting += len(data)
        if self._connected and self.waiting > self._limit:
            self.forget()

    def forget(self) -> None:
        """Keep nothing any longer: no retry can come."""
        self._whole = False
        self._kept = []
        self.waiting = 0

    def begin(self, stamp: int, reused: bool) -> list[bytes]:
        """Return what to write first on a connection; what no retry can need is kept no longer."""
        pieces = [self._head, *self._kept]
        self._attempts += 1
        self._first_byte = stamp
        self._connected = True
        if not reused or self._attempts > 1 or self.waiting > self._limit:
            self.forget()
        return pieces

    def may_repeat(self, stamp: int, window: float) -> bool:
        """Return whether the request may go out again: once, whole, within `window` seconds of its first byte."""
        return self._whole and self._attempts == 1 and stamp - self._first_byte <= window * 1e9

    def wait_again(self) -> None:
        """Wait for another connection: nothing is forgotten until it is there."""
        self._connected = False
