"""One request and its answer on their way through the sidecar: the client's bytes up, the engine's bytes down.

The contract: bytes are written on before anything looks at them; the tap is told each stamp once; whatever ends the
exchange, `tap.close` is called once and neither connection is left in doubt. Nothing here knows what a token is.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from exporter.core.ending import Ending
from exporter.relay.answers import answer
from exporter.relay.clock import now
from exporter.relay.deadline import Deadline
from exporter.relay.extent import Extent, FramingError, may_end
from exporter.relay.head import HeadError, RequestHead
from exporter.relay.look_queue import NOT_YET
from exporter.relay.pool import ConnectError
from exporter.relay.reply import Reply
from exporter.relay.uplink import Uplink

if TYPE_CHECKING:
    from exporter.core.tap import Tap
    from exporter.relay.context import Context
    from exporter.relay.downstream import Downstream
    from exporter.relay.upstream import Upstream

log = logging.getLogger(__name__)

_LARGE_REQUEST = 64 * 1024


class Exchange:
    """Relays one exchange between a client connection and an engine connection."""

    __slots__ = (
        "_client",
        "_connecting",
        "_context",
        "_deadline",
        "_figures",
        "_held_since",
        "_last_read",
        "_looks",
        "_reply",
        "_request",
        "_streaming",
        "_uplink",
        "_upstream",
        "ended",
        "tap",
    )

    def __init__(self, context: Context, client: Downstream, request: RequestHead, body: Extent, tap: Tap) -> None:
        self._context = context
        self._figures = context.figures
        self._client = client
        self._request = request
        self.tap = tap
        limits = context.limits
        self._uplink = Uplink(request.onward(context.host, context.preserve_host), body, limits.retry_body)
        self._reply = Reply(request, limits.head)
        self._upstream: Upstream | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._held_since: int | None = None
        self._deadline: Deadline | None = None
        if limits.idle is not None or limits.total is not None:
            self._deadline = Deadline(context.loop, limits.idle, limits.total, self._expire)
        self._looks = context.looks
        self._streaming = False  # the answer's head is through, and its reads may be looked at later
        self._last_read = 0  # stamp of the engine's last read; at most 20 ms behind
        self.ended = False

    # --- towards the engine -------------------------------------------------------------------------------------

    @property
    def takes_bytes(self) -> bool:
        """Whether what the client sends now belongs to this exchange."""
        return self._reply.tunnel or not self._uplink.body.done

    def start(self, stamp: int) -> None:
        """Find an engine connection and send the head; a request without a body is received at `stamp`."""
        if self._uplink.body.done:
            self.tap.received(stamp)
        upstream = self._context.pool.take()
        if upstream is not None:
            self._use(upstream, None)
        else:
            self._connecting = self._context.loop.create_task(self._connect())

    def from_client(self, data: bytes, stamp: int) -> int:
        """Hand on request bytes; return how many belong to this request. FramingError when its chunking is broken."""
        if self._reply.tunnel:
            self._send(data)
            return len(data)
        body = self._uplink.body
        payload = body.feed(data)
        used = body.used
        self._send(data if used == len(data) else data[:used])
        if payload:
            self.tap.upload(payload)
        if body.done:
            self.tap.received(stamp)
        return used

    def _send(self, data: bytes) -> None:
        self._uplink.keep(data)
        if self._deadline is not None:
            self._deadline.touched = now()  # an engine that waits for the rest of a request is not silent
        if self._upstream is not None:
            self._write_up(self._upstream, data)
        elif self._uplink.waiting > self._context.limits.upload_buffer:
            self._client.pause()

    def _write_up(self, upstream: Upstream, data: bytes) -> None:
        upstream.transport.write(data)
        self._figures.bytes_to_engine += len(data)
        if upstream.transport.get_write_buffer_size() > self._context.limits.upload_buffer:
            self._client.pause()

    def engine_drained(self) -> None:
        """The engine took the waiting request bytes: the client may send on."""
        self._client.resume()

    async def _connect(self) -> None:
        started = now()
        try:
            upstream = await self._context.pool.connect()
            self._connecting = None
            if self.ended:  # in the very tick in which the connection was made
                upstream.close()
            else:
                self._use(upstream, now() - started)
        except ConnectError as error:
            self._connecting = None
            self.fail(error.ending, str(error))
        except Exception:
            self._connecting = None
            log.exception("fault while sending a request")
            self.fault()

    def _use(self, upstream: Upstream, took: int | None) -> None:
        stamp = now()
        self._upstream = upstream
        upstream.exchange = self
        self.tap.connected(stamp, took)
        self._client.resume()
        for piece in self._uplink.begin(stamp, upstream.reused):
            self._write_up(upstream, piece)

    # --- towards the client -------------------------------------------------------------------------------------

    def from_engine(self, data: bytes, stamp: int) -> None:
        """Hand on what one read brought; `stamp` was taken before anything else. The hot path.

        A read of a stream that can't hold its end is written on as it is, and looked at later with others.
        """
        if self._streaming and not may_end(data):
            if self._deadline is not None:
                self._deadline.touched = stamp
            client = self._client
            client.transport.write(data)
            if client.blocked:
                client.unsent.append(stamp)
                self._looks.put((self, data, stamp, NOT_YET))
                self._hold_if_full()
            else:
                self._looks.put((self, data, stamp, now() - stamp))
        else:
            self._looks.settle(self)
            if not self.ended:
                self._from_engine(data, stamp)
                self._hold_if_full()

    def look(self, data: bytes, stamp: int) -> None:
        """Look at a read that was relayed before: take its framing off, and let the tap see the rest."""
        body = self._reply.body
        if body is None or self.ended:
            return
        self._last_read = stamp
        try:
            payload = body.feed(data)
        except FramingError as error:
            self.fail(Ending.CUT, str(error), stamp)
            return
        if payload:
            self.tap.feed(payload, stamp)

    def _from_engine(self, data: bytes, stamp: int) -> None:
        """Hand on a read that may hold heads, or the end."""
        if self._deadline is not None:
            self._deadline.touched = stamp
        reply = self._reply
        self._last_read = stamp
        if not reply.begun:
            data = self._take_heads(data, stamp)
        body = reply.body
        if body is None:
            if reply.tunnel and data:
                self._write_down(data, stamp)
            return
        if not data and not body.done:
            return
        try:
            payload = body.feed(data)
        except FramingError as error:
            self.fail(Ending.CUT, str(error), stamp)
            return
        wire = payload if reply.dechunk else data[: body.used]
        if wire:
            self._write_down(wire, stamp)
        if payload:
            self.tap.feed(payload, stamp)
        if body.done:
            self._complete(stamp, beyond=body.used != len(data))

    def _write_down(self, data: bytes, stamp: int) -> None:
        self._client.transport.write(data)
        self._figures.bytes_to_client += len(data)
        if self._client.blocked:
            self._client.unsent.append(stamp)
        else:
            self._figures.added.observe(now() - stamp)

    def _take_heads(self, data: bytes, stamp: int) -> bytes:
        """Take response heads, 1xx ones too; return the bytes behind the final one."""
        reply = self._reply
        self._uplink.forget()
        while not reply.begun:
            try:
                head, data = reply.next_head(data)
            except HeadError as error:
                self.fail(Ending.NO_HEAD, f"the engine's response head can't be read: {error}", stamp)
                return b""
            if head is None:
                return b""
            if onward := reply.onward(head):
                self._write_down(onward, stamp)
            if head.final:
                self._streaming = reply.streaming
                self.tap.head(head.status, head.headers, stamp)
                if reply.tunnel:
                    self._client.enter_tunnel()
        return data

    def _hold_if_full(self) -> None:
        """Stop reading from the engine when the client's buffer is full, after the tap saw what was read before."""
        if (
            self._upstream is None
            or self._held_since is not None
            or self._client.unsent_bytes <= self._context.limits.stream_buffer
        ):
            return
        self._looks.flush()
        if self.ended:  # by what was looked at
            return
        self._held_since = now()
        if self._deadline is not None:
            self._deadline.touched = None
        self._upstream.transport.pause_reading()
        self.tap.hold(self._held_since)

    def count_held(self, stamp: int) -> None:
        """Count held time up to `stamp`, also while it lasts."""
        if self._held_since is not None:
            self._figures.held += stamp - self._held_since
            self._held_since = stamp

    def client_drained(self, stamp: int) -> None:
        """The client took everything: read on from the engine."""
        if self._held_since is None:
            return
        self._looks.flush()
        self.count_held(stamp)
        self._held_since = None
        if self._deadline is not None:
            self._deadline.touched = stamp
        self.tap.release(stamp)
        if self._upstream is not None:
            self._upstream.transport.resume_reading()

    # --- endings ------------------------------------------------------------------------------------------------

    def _complete(self, stamp: int, beyond: bool) -> None:
        """The answer is whole. Bytes `beyond` its end were not written, and end both connections."""
        self._end(stamp, Ending.COMPLETE)
        upstream = self._release_upstream()
        sent = self._uplink.body.done
        if upstream is not None:
            if self._reply.keep_alive and self._engine_took_it(upstream) and not beyond:
                self._context.pool.give_back(upstream)
            else:
                upstream.close()
        stray = beyond and self._reply.status != 204  # a 204 loses its body, and is clean without it
        keep_alive = self._request.keep_alive and sent and not stray and not self._reply.client_sees_close
        self._client.exchange_done(keep_alive)

    def _engine_took_it(self, upstream: Upstream) -> bool:
        """Whether the engine has read the whole request, as far as that shows: else the next would wait behind it.

        An error answer to a large request may have come before its body was read; what the kernel holds does not show.
        """
        uplink = self._uplink
        refused = (self._reply.status or 0) >= 400 and uplink.size > _LARGE_REQUEST
        return uplink.body.done and not refused and upstream.transport.get_write_buffer_size() == 0

    def engine_ended(self, stamp: int, clean: bool) -> None:
        """The engine closed its connection (`clean`: with a FIN)."""
        upstream = self._release_upstream()
        if self.ended or upstream is None:
            return
        if self._reply.tunnel or (clean and self._reply.ends_with_close):
            self._looks.flush()
            self._end(stamp if self._reply.tunnel else self._last_read, Ending.COMPLETE)
            self._client.exchange_done(keep_alive=False)
        elif self._reply.begun:
            self.fail(Ending.CUT, "the engine ended the connection before its answer was complete", stamp)
        elif (
            upstream.reused
            and self._reply.untouched
            and self._uplink.may_repeat(stamp, self._context.limits.retry_window)
        ):
            self._figures.upstream_retries += 1
            self._uplink.wait_again()
            self._connecting = self._context.loop.create_task(self._connect())
        else:
            self.fail(Ending.NO_HEAD, "the engine closed the connection before a response head", stamp)

    def client_left(self, stamp: int) -> None:
        """The client closed before the answer was complete: close the engine's connection at once."""
        self._end(stamp, Ending.COMPLETE if self._reply.tunnel else Ending.CLIENT_LEFT)
        self._drop_upstream()

    def fault(self) -> None:
        """End both connections because our own code failed, and say so."""
        self.fail(Ending.FAULT, "a fault of the sidecar; see its log")

    def _expire(self, message: str) -> None:
        self.fail(Ending.TIMEOUT, message)

    def fail(self, ending: Ending, message: str, stamp: int | None = None) -> None:
        """End the exchange for `ending`: an error answer where none has begun, else a visible truncation."""
        if self.ended:
            return
        self._end(now() if stamp is None else stamp, ending)
        self._drop_upstream()
        if self._reply.begun:
            self._client.cut(reset=self._reply.client_sees_close)
        else:
            self._client.write_last(answer(ending, message, bodiless=self._request.method == "HEAD"))

    def _end(self, stamp: int, ending: Ending) -> None:
        self._looks.flush()
        self.ended = True
        self.client_drained(stamp)
        if self._deadline is not None:
            self._deadline.cancel()
        self.tap.close(stamp, ending)

    def _release_upstream(self) -> Upstream | None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.exchange = None
        return upstream

    def _drop_upstream(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        upstream = self._release_upstream()
        if upstream is not None:
            upstream.close()
