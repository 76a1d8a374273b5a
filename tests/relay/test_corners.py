"""What a fresh reviewer found: each fault once, on real sockets."""

import asyncio
import contextlib
import errno
import socket
import time
from pathlib import Path

import pytest

from exporter.core.ending import Ending
from exporter.core.histogram import Histogram
from exporter.core.relay_figures import LAG_EDGES
from exporter.relay.heartbeat import Heartbeat
from exporter.relay.look_queue import LookQueue
from exporter.relay.pool import Address
from tests.bodies import SSE_HEAD, C, answer, chat, request
from tests.fake_engine import Exchange, close, peer_ends, send, wait_for
from tests.fixtures_wire import StartEngine
from tests.http_bytes import LAST_CHUNK, chunk, head
from tests.raw_client import RawClient
from tests.relay.recording import StartRelay, eventually

POST = "POST /v1/completions HTTP/1.1"


async def test_an_early_answer_before_a_close_is_not_lost(start_engine: StartEngine, start_relay: StartRelay) -> None:
    """The engine answers from the head and closes on an upload; a write that fails must not lose its answer."""
    refusal = answer(b"{}", "413 Payload Too Large", headers=[("Connection", "close")])
    engine = await start_engine(default=[send(refusal), close], early=True)
    relay = await start_relay(engine.port)
    for _ in range(10):
        async with await RawClient.connect(relay.port) as client:
            upload = asyncio.create_task(client.send(request(bytes(3_000_000), POST)))
            assert (await client.response()).status == 413
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)


async def test_an_idle_limit_sees_every_read(start_engine: StartEngine, start_relay: StartRelay) -> None:
    async def slow(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        for _ in range(5):
            await asyncio.sleep(0.55)
            await exchange.send(chunk(C("a")))
        await exchange.send(LAST_CHUNK)

    engine = await start_engine(slow)
    relay = await start_relay(engine.port, idle=1.0)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.response()
    assert relay.taps[0].ending is Ending.COMPLETE


async def test_a_slow_upload_is_no_idle_engine(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(send(answer(b"{}")))
    relay = await start_relay(engine.port, idle=0.5)
    sent = request(b"0123456789", POST)
    async with await RawClient.connect(relay.port) as client:
        await client.send(sent[:-4])
        for byte in sent[-4:]:
            await asyncio.sleep(0.25)
            await client.send(bytes([byte]))
        assert (await client.response()).status == 200


async def test_a_client_that_half_closes_without_reading_is_let_go(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine([send(SSE_HEAD + chunk(b"x" * 8_000_000)), peer_ends])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port, receive_buffer=4096, paused=True) as client:
        await client.send(chat())
        await relay.held()
        client.half_close()
        await relay.none_open()
    assert relay.taps[0].ending is Ending.CLIENT_LEFT


async def test_a_whole_answer_waits_for_a_slow_client(start_engine: StartEngine, start_relay: StartRelay) -> None:
    big = answer(b"x" * 6_000_000)
    engine = await start_engine(send(big))
    relay = await start_relay(engine.port, client_idle=0.1, linger=0.1, stream_buffer=64_000_000)
    async with await RawClient.connect(relay.port, receive_buffer=4096, paused=True) as client:
        await client.send(request())
        await relay.ended(1)
        await asyncio.sleep(0.4)  # longer than every limit on silent clients
        client.resume()
        assert bytes((await client.response()).raw) == big


async def test_a_request_is_not_repeated_after_an_interim_answer(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    engine = await start_engine(send(answer(b"{}")), [send(interim), close])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.response()
        await client.send(request(b"{}", POST))
        assert [(await client.response()).status for _ in range(2)] == [100, 502]
    assert len(engine.exchanges) == 2


async def test_a_connection_with_an_unread_request_is_not_reused(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    async def refuse_unread(exchange: Exchange) -> None:
        exchange.wire.pause()
        await exchange.send(answer(b"{}", "401 Unauthorized"))
        await asyncio.sleep(0.2)
        exchange.wire.resume()

    engine = await start_engine(refuse_unread, send(answer(b'{"ok":1}')), early=True)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request(bytes(300_000), POST))
        assert (await client.response()).status == 401
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        assert (await client.response()).body == b'{"ok":1}'
    assert len(engine.connections) == 2


async def test_a_late_body_of_a_204_reaches_nobody(start_engine: StartEngine, start_relay: StartRelay) -> None:
    empty = head("HTTP/1.1 204 No Content", [("Transfer-Encoding", "chunked")])
    engine = await start_engine([send(empty), peer_ends], send(answer(b"{}")))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        for status in (204, 200):
            await client.send(request())
            assert (await client.response()).status == status
    assert len(engine.connections) == 2


async def test_what_a_client_sends_before_the_switch_goes_through_the_tunnel(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    switching = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
    go = asyncio.Event()

    async def tunnel(exchange: Exchange) -> None:
        await go.wait()
        await exchange.send(switching)
        await exchange.wire.until_seen(b"LATE")
        await exchange.send(b"bye")

    engine = await start_engine(tunnel, early=True)
    relay = await start_relay(engine.port)
    upgrade = request(headers=[("Connection", "Upgrade"), ("Upgrade", "echo")])
    async with await RawClient.connect(relay.port) as client:
        await client.send(upgrade + b"E" * 100_000)
        await engine.exchange(0)
        go.set()
        await client.until_seen(switching)
        await client.send(b"LATE")
        await client.until_seen(b"bye")
    assert engine.connections[0].wire.received.endswith(b"\r\n\r\n" + b"E" * 100_000 + b"LATE")


async def test_a_name_that_is_none_is_a_502(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine()
    relay = await start_relay(engine.port)
    relay.relay._context.pool._address = Address("a..\u00e9", 80)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        assert (await client.response()).status == 502
    assert relay.taps[0].ending is Ending.CONNECT_FAILED


async def test_our_own_work_shows_in_the_lag() -> None:
    loop = asyncio.get_running_loop()
    lag = Histogram(LAG_EDGES)

    class Slow(LookQueue):
        def __init__(self) -> None:
            """Nothing waits here."""

        def flush(self) -> None:
            time.sleep(0.06)  # the sidecar itself is busy for three beats

    heart = Heartbeat(loop, lag, Slow(), lambda: None)
    await eventually(lambda: lag.count >= 4)
    heart.stop()
    assert lag.total > 2 * 35_000_000


async def test_unix_sockets_on_both_sides(tmp_path: Path, start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(default=send(answer(b"{}")))
    path = str(tmp_path / "sidecar.sock")
    inner = await start_relay(engine.port, path=path)
    with pytest.raises(OSError, match="in use") as refused:
        await start_relay(engine.port, path=path)
    assert refused.value.errno == errno.EADDRINUSE
    outer = await start_relay(engine.port)
    outer.relay._context.pool._address = Address(path=path)
    async with await RawClient.connect(outer.port) as client:
        await client.send(request())
        assert (await client.response()).status == 200
    await inner.relay.close()
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(FileNotFoundError):
        late.connect(path)


async def test_a_unix_client_that_leaves_a_paused_upload_is_seen(
    tmp_path: Path, start_engine: StartEngine, start_relay: StartRelay
) -> None:
    done = asyncio.Event()

    async def stuck(exchange: Exchange) -> None:
        exchange.wire.pause()
        await done.wait()

    engine = await start_engine(stuck, early=True)
    path = str(tmp_path / "sidecar.sock")
    relay = await start_relay(engine.port, path=path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.setblocking(False)
        rest = memoryview(request(bytes(30_000_000), POST))
        for _ in range(20):  # until every buffer on the way is full
            with contextlib.suppress(BlockingIOError):
                rest = rest[client.send(rest) :]
            await asyncio.sleep(0.02)
        assert rest
    await relay.ended(1)
    assert relay.taps[0].ending is Ending.CLIENT_LEFT
    done.set()


async def test_a_request_is_not_kept_once_it_is_answered(start_engine: StartEngine, start_relay: StartRelay) -> None:
    go = asyncio.Event()
    engine = await start_engine(send(answer(b"{}")), [send(SSE_HEAD), wait_for(go), send(LAST_CHUNK)])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.response()
        await client.send(request(bytes(900_000), POST))
        await client.until_seen(SSE_HEAD)
        (downstream,) = relay.relay._context.clients
        assert downstream.exchange is not None
        assert downstream.exchange._uplink.waiting == 0
        go.set()
        await client.response()


async def test_empty_lines_do_not_prolong_a_heads_time(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine()
    relay = await start_relay(engine.port, client_head=0.3)
    async with await RawClient.connect(relay.port) as client:
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                await client.send(b"\r\n")
                await asyncio.sleep(0.05)
                if client.ended is not None:
                    break
        assert client.ended is not None
    assert relay.taps == []


async def test_half_a_head_during_a_drain_gets_its_503(start_engine: StartEngine, start_relay: StartRelay) -> None:
    go = asyncio.Event()
    engine = await start_engine([send(SSE_HEAD), wait_for(go), send(LAST_CHUNK)])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as streaming, await RawClient.connect(relay.port) as starting:
        await streaming.send(chat())
        await streaming.until_seen(SSE_HEAD)
        await starting.send(request()[:10])
        await eventually(lambda: any(client._heading for client in relay.relay._context.clients))
        draining = asyncio.create_task(relay.relay.drain())
        await eventually(lambda: not relay.relay.ready)
        await starting.send(request()[10:])
        assert (await starting.response()).status == 503
        go.set()
        await streaming.response()
        await draining


async def test_an_answer_delimited_by_close_is_closed_at_its_last_byte(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    start = head("HTTP/1.1 200 OK", [("Content-Type", "text/event-stream")]) + C("a")
    go = asyncio.Event()
    engine = await start_engine([send(start), wait_for(go), close])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.until_seen(C("a"))
        await asyncio.sleep(0.2)
        go.set()
        await client.response()
    tap = relay.taps[0]
    assert tap.closed_at == tap.reads[-1][0]
