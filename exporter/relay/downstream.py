"""One client connection: reads requests one after the other, and watches the client from the first instant.

A FIN before the answer is complete means the client has left. Pipelined requests wait, at most 64 KiB of them, until
the answer before them is complete. Reading of the client goes on during an answer, or its leaving would go unseen.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import struct
from typing import TYPE_CHECKING, cast

from exporter.core.ending import Ending
from exporter.relay.answers import answer
from exporter.relay.clock import now
from exporter.relay.exchange import Exchange
from exporter.relay.extent import FramingError
from exporter.relay.head import HeadError, read_request
from exporter.relay.upstream import keep_alive, no_delay

if TYPE_CHECKING:
    from exporter.relay.context import Context

log = logging.getLogger(__name__)

# The peer closed its sending side (Linux), or the connection is gone.
_HANG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class Downstream(asyncio.Protocol):
    """A client connection and the exchange under way on it."""

    __slots__ = (
        "_blocked_exchange",
        "_blocked_since",
        "_buffer",
        "_closing",
        "_context",
        "_figures",
        "_heading",
        "_over_limit",
        "_paused",
        "_timer",
        "blocked",
        "exchange",
        "transport",
        "unsent",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        self._figures = context.figures
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)  # set by connection_made
        self._buffer = b""  # an unfinished head, or pipelined requests
        self.exchange: Exchange | None = None
        self._over_limit = False
        self._heading = False  # a request head has begun, and has its time
        self._closing = False  # the last answer is written; what the client still sends is not read
        self._paused = False  # reading from the client
        self._timer: asyncio.TimerHandle | None = None
        self.blocked = False  # bytes for the client are unsent
        self._blocked_since = 0
        self._blocked_exchange: Exchange | None = None
        self.unsent: list[int] = []  # stamps of the reads whose bytes are not all sent

    # --- the transport ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new client; it has a limited time for its first head."""
        self.transport = cast(asyncio.Transport, transport)
        # 0: uvloop writes at once, and tells us of the first byte it could not send and of the last.
        self.transport.set_write_buffer_limits(high=0, low=0)
        no_delay(transport)
        keep_alive(transport)
        self._context.clients.add(self)
        self._figures.client_connections += 1
        self._over_limit = self._figures.client_connections > self._context.limits.connections
        if self._over_limit:
            self._figures.accept_errors["limit"] += 1
        self._set_timer(self._context.limits.client_idle)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent: request bytes, or requests that have to wait."""
        stamp = now()
        try:
            self._take(data, stamp)
        except Exception:
            log.exception("fault while relaying a request")
            if self.exchange is not None:
                self.exchange.fault()
            self.transport.close()

    def _take(self, data: bytes, stamp: int) -> None:
        exchange = self.exchange
        if self._closing:
            return
        if exchange is None:
            self._expect_head()
            self._buffer += data
            self._next_request(stamp)
        elif exchange.takes_bytes:
            self._upload(exchange, data, stamp)
        else:
            self._buffer += data
            if len(self._buffer) > self._context.limits.pipelined:
                self.pause()

    def _upload(self, exchange: Exchange, data: bytes, stamp: int) -> None:
        try:
            used = exchange.from_client(data, stamp)
        except FramingError as error:
            self._figures.refused["body_framing"] += 1
            exchange.fail(Ending.REFUSED, str(error), stamp)
            return
        if used < len(data):
            self._buffer = data[used:]

    def eof_received(self) -> bool:
        """Take the client's FIN: it has left. What is unsent of a whole answer it may still read."""
        if self.exchange is not None:
            self._left(now())
            self.transport.abort()
        self._closing = True
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        """Forget the client."""
        stamp = now()
        self._left(stamp)
        self.count_blocked(stamp)
        self._cancel_timer()
        self._context.clients.discard(self)
        self._figures.client_connections -= 1

    def _left(self, stamp: int) -> None:
        exchange, self.exchange = self.exchange, None
        self._closing = True
        if exchange is not None:
            exchange.client_left(stamp)

    def pause_writing(self) -> None:
        """Note that bytes are unsent."""
        self.blocked = True
        self._blocked_since = now()
        self._blocked_exchange = self.exchange

    def resume_writing(self) -> None:
        """Note that the client took everything; read on from the engine if that was held."""
        stamp = now()
        self.count_blocked(stamp)
        self.blocked = False
        self._blocked_exchange = None
        for read in self.unsent:
            self._figures.added.observe(stamp - read)
        self.unsent.clear()
        if self.exchange is not None:
            self.exchange.client_drained(stamp)
        else:
            self._wait_for_client()

    def count_blocked(self, stamp: int) -> None:
        """Count the time with unsent bytes up to `stamp`, also while it lasts, and held time with it."""
        if self.blocked and self._blocked_exchange is not None:
            self._blocked_exchange.tap.blocked(stamp - self._blocked_since)
            self._blocked_since = stamp
        if self.exchange is not None:
            self.exchange.count_held(stamp)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait for the client in this process."""
        return self.transport.get_write_buffer_size()

    @property
    def busy(self) -> bool:
        """Whether an exchange is under way, or the last one's answer is not all sent."""
        return self.exchange is not None or self.blocked

    # --- requests -----------------------------------------------------------------------------------------------

    def _next_request(self, stamp: int) -> None:
        """Begin the next exchange if its head is complete in the buffer."""
        self._buffer = self._buffer.lstrip(b"\r\n") if self._buffer[:1] in (b"\r", b"\n") else self._buffer
        end = self._buffer.find(b"\r\n\r\n")
        limit = self._context.limits.head
        if end > limit or (end < 0 and len(self._buffer) > limit):
            self._refuse(stamp, HeadError("head_too_large", f"the request head is longer than {limit} bytes"))
            return
        if end < 0:
            return
        raw, rest = self._buffer[: end + 4], self._buffer[end + 4 :]
        self._buffer = b""
        try:
            head = read_request(raw)
            body = head.extent()
        except HeadError as error:
            self._refuse(stamp, error, raw[:5] == b"HEAD ")
            return
        self._cancel_timer()
        self._heading = False
        tap = self._context.open_tap(stamp)
        tap.request(head.method, head.target, head.headers)
        exchange = self.exchange = Exchange(self._context, self, head, body, tap)
        if self._over_limit or self._context.draining:
            self._turn_away(exchange)
            return
        exchange.start(stamp)
        if rest and not body.done and self.exchange is exchange:
            self._upload(exchange, rest, stamp)
        else:
            self._buffer = rest

    def _turn_away(self, exchange: Exchange) -> None:
        if self._context.draining:
            exchange.fail(Ending.SHUTDOWN, "the sidecar is shutting down")
        else:
            exchange.fail(Ending.LIMIT, f"more than {self._context.limits.connections} connections")

    def _refuse(self, stamp: int, error: HeadError, bodiless: bool = False) -> None:
        self._figures.refused[error.reason] += 1
        self._context.open_tap(stamp).close(stamp, Ending.REFUSED)
        self.write_last(answer(Ending.REFUSED, str(error), error.reason, bodiless))

    # --- what the exchange asks for -----------------------------------------------------------------------------

    def exchange_done(self, keep_alive: bool) -> None:
        """Go on to the next request, or close once everything is sent."""
        self.exchange = None
        if not keep_alive or self._context.draining or self._closing:
            self._close_gently()
            return
        self.resume()
        self._wait_for_client()
        if self._buffer:
            self._expect_head()
            self._next_request(now())

    def enter_tunnel(self) -> None:
        """Hand on what came between the request and the answer that switched protocols."""
        early, self._buffer = self._buffer, b""
        if early and self.exchange is not None:
            self.exchange.from_client(early, now())
        self.resume()

    def write_last(self, data: bytes) -> None:
        """Write the sidecar's own answer and close."""
        self.exchange = None
        if not self.transport.is_closing():
            self.transport.write(data)
            self._figures.bytes_to_client += len(data)
        self._close_gently()

    def cut(self, reset: bool) -> None:
        """End the answer visibly incomplete; with a reset where a FIN would look like its proper end."""
        self.exchange = None
        self._closing = True
        self._wait_for_client()
        sock = self.transport.get_extra_info("socket")
        if reset and sock is not None and not self.transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.close()

    def close_idle(self) -> None:
        """Close the connection if nothing is under way on it, not even the head of a request."""
        if not self.busy and not self._heading:
            self.transport.close()

    def _close_gently(self) -> None:
        """Send a FIN, then take in what the client still sends for a while: closing on unread bytes would reset.

        A reset could destroy the answer on its way (RFC 9112 section 9.6).
        """
        self._closing = True
        self._buffer = b""
        if self.transport.is_closing():
            return
        self.resume()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._wait_for_client()
        else:
            self.transport.close()

    # --- flow control and time ----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Read nothing more from the client until `resume`."""
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read from the client again."""
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def check_left(self) -> None:
        """See a client leave whose bytes are not being read just now: its socket says that the peer hung up.

        A FIN that waits in the peer's kernel behind bytes we do not take can't be seen by anybody.
        """
        sock = self.transport.get_extra_info("socket")
        if not self._paused or sock is None:
            return
        poll = select.poll()
        poll.register(sock.fileno(), _HANG_UP)
        if poll.poll(0):
            self._left(now())
            self.transport.abort()

    def _expect_head(self) -> None:
        """Give a request head its time, from its first byte."""
        if not self._heading:
            self._heading = True
            self._set_timer(self._context.limits.client_head)

    def _wait_for_client(self) -> None:
        """Give a silent client its time. While bytes are unsent there is none: it may read as slowly as it likes."""
        self._cancel_timer()
        if not self.blocked:
            limits = self._context.limits
            self._set_timer(limits.linger if self._closing else limits.client_idle)

    def _set_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self._context.loop.call_later(seconds, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
