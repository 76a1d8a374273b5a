"""The engine's answer as it comes: its heads, and where its body ends. Pure.

Knows what the head said (status, framing, reuse) and which repair the client's HTTP version needs: an HTTP/1.0 client
gets a chunked body without its chunking. Nothing else is changed.
"""

from exporter.relay.extent import Chunked, Extent, UntilClose
from exporter.relay.head import HeadError, RequestHead, ResponseHead, read_response

_HEAD_END = b"\r\n\r\n"


class Reply:
    """The state of one answer. `body` is `None` until the final head is complete, and for ever in a tunnel."""

    __slots__ = ("_limit", "_partial", "_request", "body", "dechunk", "keep_alive", "status", "tunnel", "untouched")

    def __init__(self, request: RequestHead, head_limit: int) -> None:
        self._request = request
        self._limit = head_limit
        self._partial = b""  # an unfinished head
        self.untouched = True  # not one byte of an answer has come, of a 1xx either
        self.body: Extent | None = None
        self.status: int | None = None  # of the final head
        self.keep_alive = False  # whether the engine's connection may serve again
        self.dechunk = False
        self.tunnel = False

    @property
    def begun(self) -> bool:
        """Whether the final head is complete."""
        return self.status is not None

    @property
    def ends_with_close(self) -> bool:
        """Whether the engine ends this answer by closing its connection."""
        return isinstance(self.body, UntilClose)

    @property
    def streaming(self) -> bool:
        """Whether reads of the body go on as they are: chunked or until close, and nothing to repair."""
        return isinstance(self.body, Chunked | UntilClose) and not self.dechunk

    @property
    def client_sees_close(self) -> bool:
        """Whether the client can tell the end of this answer only by the close of its connection."""
        return self.dechunk or self.tunnel or self.ends_with_close

    def next_head(self, data: bytes) -> tuple[ResponseHead | None, bytes]:
        """Take one head, and return it with the bytes behind it; `None` while it is unfinished.

        HeadError when it can't be read or is longer than the limit.
        """
        self.untouched = False
        data = self._partial + data if self._partial else data
        self._partial = b""
        end = data.find(_HEAD_END)
        if end > self._limit or (end < 0 and len(data) > self._limit):
            raise HeadError("head_too_large", f"it is longer than {self._limit} bytes")
        if end < 0:
            self._partial = data
            return None, b""
        end += len(_HEAD_END)
        head = read_response(data[:end])
        if head.status >= 200:
            self._begin_body(head)
        elif head.status == 101:
            if not self._request.upgrade:
                raise HeadError("malformed_head", "101 without a request to switch protocols")
            self.tunnel = True
            self.status = 101
        return head, data[end:]

    def _begin_body(self, head: ResponseHead) -> None:
        self.body = head.extent(self._request.method)
        self.status = head.status
        self.keep_alive = head.keep_alive and not self.ends_with_close and not head.promises_what_it_may_not_have
        self.dechunk = self._request.http10 and isinstance(self.body, Chunked)

    def onward(self, head: ResponseHead) -> bytes:
        """Return a head for the client; empty where an HTTP/1.0 client would not know it (1xx)."""
        if self._request.http10 and head.status < 200:
            return b""
        return head.onward(without_framing=self.dechunk)
