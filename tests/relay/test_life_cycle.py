"""How exchanges end: clients that leave, engines that die, slow readers, retries, limits, the drain."""

import asyncio
import json

import pytest

from exporter.core.ending import Ending
from tests.bodies import SSE_HEAD, C, answer, chat, request, sse
from tests.fake_engine import Exchange, close, peer_ends, reset, send, wait_for
from tests.fixtures_wire import StartEngine
from tests.http_bytes import LAST_CHUNK, chunk, head
from tests.raw_client import RawClient
from tests.relay.recording import StartRelay

MS = 1_000_000


async def test_C19_engine_sees_each_client_leave_in_mid_stream(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine(default=[send(SSE_HEAD, *[chunk(C(str(n))) for n in range(3)]), peer_ends])
    relay = await start_relay(engine.port)
    clients = [await RawClient.connect(relay.port) for _ in range(100)]
    for client in clients:
        await client.send(chat())
    for number, client in enumerate(clients):
        await client.until_seen(chunk(C("2")))
        client.reset() if number % 2 else client.close()
    await relay.ended(100)
    assert {tap.ending for tap in relay.taps} == {Ending.CLIENT_LEFT}
    for connection in engine.connections:
        await connection.wire.until_ended()
    await relay.none_open()


@pytest.mark.parametrize("first", [b"", SSE_HEAD], ids=["before the head", "after the head"])
async def test_C20_engine_sees_a_client_leave_before_the_first_byte(
    start_engine: StartEngine, start_relay: StartRelay, first: bytes
) -> None:
    engine = await start_engine([send(*filter(None, [first])), peer_ends])
    relay = await start_relay(engine.port)
    client = await RawClient.connect(relay.port)
    await client.send(chat())
    exchange = await engine.exchange(0)
    if first:
        await client.until_seen(first)
    client.close()
    await exchange.wire.until_ended()
    await relay.ended(1)
    assert relay.taps[0].ending is Ending.CLIENT_LEFT


async def test_a_client_leaves_while_the_connection_is_being_made(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine(default=peer_ends)
    relay = await start_relay(engine.port)
    for _ in range(20):
        client = await RawClient.connect(relay.port)
        await client.send(chat())
        client.reset()
    await relay.ended(20)
    assert {tap.ending for tap in relay.taps} == {Ending.CLIENT_LEFT}
    await relay.none_open()


@pytest.mark.parametrize("end", [close, reset])
@pytest.mark.parametrize(
    "start",
    [SSE_HEAD + chunk(C("a")), head("HTTP/1.1 200 OK", [("Content-Length", "1000")]) + b"x" * 300],
    ids=["chunked", "length"],
)
async def test_C21_truncation_is_passed_on_as_truncation(
    start_engine: StartEngine, start_relay: StartRelay, start: bytes, end: object
) -> None:
    seen = asyncio.Event()
    engine = await start_engine([send(start), wait_for(seen), end])  # type: ignore[list-item]
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.until_seen(start)
        seen.set()
        await client.until_ended()
    assert client.received == start
    assert relay.taps[0].ending is Ending.CUT


async def test_C21_a_reset_of_a_close_delimited_answer_is_no_clean_end(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    start = head("HTTP/1.1 200 OK", [("Content-Type", "text/event-stream")]) + C("a")
    seen = asyncio.Event()
    engine = await start_engine([send(start), wait_for(seen), reset])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.until_seen(start)
        seen.set()
        assert await client.until_ended() == "rst"
    assert relay.taps[0].ending is Ending.CUT


async def test_broken_chunking_of_an_answer_cuts_it(start_engine: StartEngine, start_relay: StartRelay) -> None:
    """What came goes on as it came, the fault included; then both sides are cut, so that nobody waits."""
    seen = asyncio.Event()
    engine = await start_engine([send(SSE_HEAD + chunk(C("a"))), wait_for(seen), send(b"oops\r\n"), peer_ends])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.until_seen(C("a"))
        seen.set()
        await client.until_ended()
    assert client.received == engine.exchanges[0].written
    assert relay.taps[0].body == C("a")
    assert relay.taps[0].ending is Ending.CUT


@pytest.mark.parametrize(
    "reply",
    [[close], [reset], [send(b"HTTP/1.1 200"), close], [send(b"\x16\x03 no HTTP\r\n\r\n")], [send(b"x" * 70_000)]],
    ids=["fin", "rst", "half a head", "no HTTP", "endless head"],
)
async def test_an_engine_without_a_response_head_is_a_502(
    start_engine: StartEngine, start_relay: StartRelay, reply: list[object]
) -> None:
    engine = await start_engine(reply)  # type: ignore[arg-type]
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        got = await client.response()
    assert got.status == 502
    assert json.loads(got.body)["error"]["type"] == "stallwatch_upstream_error"
    assert relay.taps[0].ending is Ending.NO_HEAD
    assert len(engine.exchanges) == 1  # never sent twice


async def test_switching_protocols_unasked_is_a_502(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        assert (await client.response()).status == 502


async def test_no_engine_is_a_502_at_once(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine()
    relay = await start_relay(engine.port)
    engine.refuse()
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        got = await client.response()
    assert got.status == 502
    assert json.loads(got.body)["error"]["type"] == "stallwatch_connect_failed"
    assert relay.taps[0].ending is Ending.CONNECT_FAILED


async def test_C23_a_stale_connection_is_retried_once_and_unseen(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    """The engine closes its idle connection in the very moment the next request is under way."""
    engine = await start_engine(send(answer(b"{}")), [reset], send(answer(b'{"second":1}')))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.response()
        sent = request(b'{"a":1}', "POST /v1/completions HTTP/1.1")
        await client.send(sent)
        assert (await client.response()).body == b'{"second":1}'
    assert relay.figures.upstream_retries == 1
    assert bytes(engine.exchanges[2].request.raw) == sent
    assert [tap.ending for tap in relay.taps] == [Ending.COMPLETE, Ending.COMPLETE]


async def test_an_engine_that_dies_of_a_request_does_not_get_it_twice(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine(send(answer(b"{}")), [reset], [reset])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.response()
        await client.send(request())
        assert (await client.response()).status == 502
    assert len(engine.exchanges) == 3
    assert relay.figures.upstream_retries == 1


async def test_C23_idle_connections_are_closed_before_the_engine_does(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine(default=send(answer(b"{}")))
    relay = await start_relay(engine.port, upstream_idle=0.05)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.response()
        await engine.connections[0].wire.until_ended()
        await client.send(request())
        assert (await client.response()).status == 200
    assert relay.figures.upstream_retries == 0


async def test_C27_a_slow_reader_holds_the_engine_back_and_loses_nothing(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    event = C("x" * 1000)
    count = 20_000

    async def flood(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        for _ in range(count):
            await exchange.send(chunk(event))
        await exchange.send(LAST_CHUNK)

    engine = await start_engine(flood)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port, receive_buffer=4096, paused=True) as client:
        await client.send(chat())
        await relay.held()
        (downstream,) = relay.relay._context.clients
        assert downstream.unsent_bytes < 2_000_000
        client.resume()
        got = await client.response()
    assert bytes(got.raw) == engine.exchanges[0].written
    tap = relay.taps[0]
    assert tap.ending is Ending.COMPLETE
    assert [kind for kind, _ in tap.holds] == ["hold", "release"] * (len(tap.holds) // 2)
    held = sum(at if kind == "release" else -at for kind, at in tap.holds)
    assert relay.figures.held == held > 0
    assert tap.stamps == sorted(tap.stamps)
    assert tap.blocked_for >= held
    assert relay.figures.added.count >= len(tap.reads)


async def test_a_connection_that_was_held_is_reused_reading(start_engine: StartEngine, start_relay: StartRelay) -> None:
    """The answer ends in the read that fills the buffer: its connection must not go to the pool paused."""
    big = answer(b"x" * 4_000_000)
    engine = await start_engine(send(big), send(answer(b"{}")))
    relay = await start_relay(engine.port, stream_buffer=1)
    async with await RawClient.connect(relay.port, receive_buffer=4096, paused=True) as client:
        await client.send(request())
        await relay.held()
        client.resume()
        assert bytes((await client.response()).raw) == big
        await client.send(request())
        assert (await client.response()).body == b"{}"


async def test_idle_and_total_limits(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine([peer_ends], [send(SSE_HEAD + chunk(C("a"))), peer_ends])
    silent = await start_relay(engine.port, idle=0.05)
    async with await RawClient.connect(silent.port) as client:
        await client.send(chat())
        got = await client.response()
    assert got.status == 504
    assert silent.taps[0].ending is Ending.TIMEOUT
    long = await start_relay(engine.port, total=0.2)
    async with await RawClient.connect(long.port) as client:
        await client.send(chat())
        await client.until_seen(C("a"))
        await client.until_ended()
    assert long.taps[0].ending is Ending.TIMEOUT


async def test_C05_comments_keep_an_idle_limit_away(start_engine: StartEngine, start_relay: StartRelay) -> None:
    async def comments(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        for _ in range(20):
            await exchange.send(chunk(b": ping\n\n"))
            await asyncio.sleep(0.05)
        await exchange.send(LAST_CHUNK)

    engine = await start_engine(comments)
    relay = await start_relay(engine.port, idle=0.7)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.response()
    assert relay.taps[0].ending is Ending.COMPLETE


async def test_C26_a_drain_lets_streams_end_and_turns_new_requests_away(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    go = asyncio.Event()
    engine = await start_engine(default=[send(SSE_HEAD), wait_for(go), send(chunk(C("a")) + LAST_CHUNK)])
    relay = await start_relay(engine.port)
    async with (
        await RawClient.connect(relay.port) as streaming,
        await RawClient.connect(relay.port) as idle,
        await RawClient.connect(relay.port) as starting,
    ):
        await streaming.send(chat())
        await streaming.until_seen(SSE_HEAD)
        await starting.send(b"GET /")
        await asyncio.sleep(0.05)
        draining = asyncio.create_task(relay.relay.drain())
        await idle.until_ended()
        assert not relay.relay.ready
        async with await RawClient.connect(relay.port) as late:
            await late.send(chat())
            got = await late.response()
            assert (got.status, got.values(b"connection")) == (503, [b"close"])
        go.set()
        assert (await streaming.response()).body == C("a")
        assert await draining == 0
    assert [tap.ending for tap in relay.taps] == [Ending.COMPLETE, Ending.SHUTDOWN]


async def test_C26_a_drain_cuts_what_does_not_end(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(default=[send(SSE_HEAD), peer_ends])
    relay = await start_relay(engine.port, drain=0.1)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.until_seen(SSE_HEAD)
        assert await relay.relay.drain() == 1
        await client.until_ended()
    assert client.received == SSE_HEAD
    assert relay.taps[0].ending is Ending.SHUTDOWN


async def test_what_waits_for_a_look_is_seen_before_the_end(start_engine: StartEngine, start_relay: StartRelay) -> None:
    """Many streams are read in one turn: each tap sees all its reads, in order, and then the end."""
    events = [chunk(C(str(n))) for n in range(40)]
    engine = await start_engine(default=[send(SSE_HEAD, *events), peer_ends])
    relay = await start_relay(engine.port)
    clients = [await RawClient.connect(relay.port) for _ in range(30)]
    for client in clients:
        await client.send(chat())
    for client in clients:
        await client.until_seen(events[-1])
        client.close()
    await relay.ended(30)
    for tap in relay.taps:
        assert tap.body == b"".join(C(str(n)) for n in range(40))
        assert tap.stamps == sorted(tap.stamps)
    assert relay.figures.bytes_to_client == 30 * len(SSE_HEAD + b"".join(events))


async def test_a_fault_while_looking_ends_that_exchange_alone(
    start_engine: StartEngine,
    start_relay: StartRelay,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    go = asyncio.Event()
    script = [send(SSE_HEAD), wait_for(go), send(chunk(C("a"))), peer_ends]
    engine = await start_engine(script, [send(SSE_HEAD), wait_for(go), send(chunk(C("a")) + LAST_CHUNK)])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as bad, await RawClient.connect(relay.port) as good:
        await bad.send(chat())
        await bad.until_seen(SSE_HEAD)
        await good.send(chat())
        await good.until_seen(SSE_HEAD)

        def fail(data: bytes, now: int) -> None:
            raise RuntimeError("a fault of the core that got out")

        monkeypatch.setattr(relay.taps[0], "feed", fail)
        go.set()
        await bad.until_ended()
        assert (await good.response()).body == C("a")
    assert bad.received == SSE_HEAD + chunk(C("a"))
    assert [tap.ending for tap in relay.taps] == [Ending.FAULT, Ending.COMPLETE]
    assert "fault while looking at an answer" in caplog.text


async def test_C03_the_end_of_a_stream_with_crlf_lines_is_found_at_once(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    """Its events end in CR LF CR LF too, and its last chunk is cut at every place."""
    event = b'data: {"choices":[]}\r\n\r\n'
    for cut in range(1, len(LAST_CHUNK)):
        engine = await start_engine(send(SSE_HEAD, chunk(event), LAST_CHUNK[:cut], LAST_CHUNK[cut:]))
        relay = await start_relay(engine.port)
        async with await RawClient.connect(relay.port) as client:
            await client.send(chat())
            got = await client.response()
        assert bytes(got.raw) == engine.exchanges[0].written
        await relay.ended(1)
        assert relay.taps[0].ending is Ending.COMPLETE


async def test_a_fault_of_ours_ends_the_exchange_and_is_counted(
    start_engine: StartEngine, start_relay: StartRelay, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await start_engine(default=[send(sse(C("a")))])
    relay = await start_relay(engine.port)
    relay.figures.bytes_to_client = None  # type: ignore[assignment]  # what the hot path adds to
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.until_ended()
    assert relay.taps[0].ending is Ending.FAULT
    assert "fault while relaying an answer" in caplog.text
