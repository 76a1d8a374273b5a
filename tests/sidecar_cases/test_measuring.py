"""Cases of measurement through the whole sidecar: what the wire did, and what /metrics says of it."""

import asyncio
import time
from itertools import pairwise

import pytest

from tests.bodies import COMMENT, DONE, FIN, ROLE, SSE_HEAD, USAGE, C, answer, chat, sse
from tests.fake_engine import Exchange, peer_ends, send, wait_for
from tests.fixtures_wire import StartEngine
from tests.http_bytes import LAST_CHUNK, chunk
from tests.raw_client import RawClient
from tests.sidecar_cases.running import StartSidecar

SECOND = 1_000_000_000


async def test_C01_cut_at_every_byte_is_one_event_at_its_last_byte(
    start_engine: StartEngine, start_sidecar: StartSidecar
) -> None:
    body = ROLE + C("hello")
    clients: list[RawClient] = []

    async def byte_by_byte(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        framed = chunk(body)
        for position in range(len(framed)):
            await exchange.send(framed[position : position + 1])
            seen = len(SSE_HEAD) + position + 1
            await clients[0].until_bytes(seen)  # the sidecar has read this byte alone
        await exchange.send(chunk(FIN + DONE) + LAST_CHUNK)

    engine = await start_engine(byte_by_byte)
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        clients.append(client)
        await client.send(chat())
        got = await client.response()
    metrics = await sidecar.idle(1)
    assert bytes(got.raw) == engine.exchanges[0].written
    assert metrics.total("output_events_total") == 1
    assert metrics.total("unparsed_events_total") == 0
    # The last byte of the event (its second line feed) is written this long after the request was read.
    last = engine.exchanges[0].writes[1 + len(chunk(body)) - 3]
    request_read = engine.connections[0].wire.reads[-1].at
    ttft = metrics.total("time_to_first_token_seconds_sum") * SECOND
    assert ttft >= last.before - request_read
    assert ttft < last.after - request_read + SECOND


async def test_C02_two_events_in_one_read_are_one_arrival(
    start_engine: StartEngine, start_sidecar: StartSidecar
) -> None:
    engine = await start_engine(send(sse(ROLE, C("a"), C("b"), FIN, DONE)))
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat())
        await client.response()
    metrics = await sidecar.idle(1)
    assert metrics.total("output_events_total") == 2
    assert metrics.total("output_gap_seconds_count") == 0
    assert metrics.total("request_max_gap_seconds_count") == 0
    assert metrics.total("requests_total", outcome="ok", model="tiny", route="/v1/chat/completions") == 1


async def test_C05_C29_comments_and_roles_are_no_tokens(start_engine: StartEngine, start_sidecar: StartSidecar) -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    go = asyncio.Event()
    engine = await start_engine(
        [
            send(SSE_HEAD + chunk(COMMENT), chunk(b"data:\n\n"), chunk(ping), chunk(ROLE)),
            wait_for(go),
            send(chunk(C("a"))),
            send(chunk(FIN), chunk(USAGE(1)), chunk(DONE), LAST_CHUNK),
        ]
    )
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat())
        await client.until_seen(ROLE)
        before = await sidecar.metrics()
        assert before.total("requests_in_flight", phase="waiting") == 1
        assert before.total("streams_in_flight", phase="waiting") == 1
        assert before.total("time_to_first_token_seconds_count") == 0
        await asyncio.sleep(0.3)
        assert (await sidecar.metrics()).total("open_gap_seconds", phase="waiting") >= 0.3
        go.set()
        await client.response()
    metrics = await sidecar.idle(1)
    assert metrics.total("time_to_first_token_seconds_sum") >= 0.3
    assert metrics.total("unparsed_events_total") == 0
    assert metrics.total("output_tokens_total") == 1
    assert metrics.total("requests_without_usage_total") == 0


async def test_C29_a_stream_without_a_token_has_no_ttft(start_engine: StartEngine, start_sidecar: StartSidecar) -> None:
    engine = await start_engine(send(sse(ROLE, FIN, DONE)))
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat())
        await client.response()
    metrics = await sidecar.idle(1)
    assert metrics.total("requests_total") == 1
    assert metrics.total("streamed_requests_total") == 0
    assert metrics.total("time_to_first_token_seconds_count") == 0


async def test_C32_a_chunk_of_four_tokens_is_one_gap(start_engine: StartEngine, start_sidecar: StartSidecar) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD + chunk(C("a")))
        await asyncio.sleep(0.2)
        await exchange.send(chunk(C("b c d e")))
        await exchange.send(chunk(FIN) + chunk(USAGE(5)) + chunk(DONE) + LAST_CHUNK)

    engine = await start_engine(script)
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat())
        await client.response()
    metrics = await sidecar.idle(1)
    gap = metrics.total("output_gap_seconds_sum")
    assert metrics.total("output_gap_seconds_count") == 1
    assert gap >= 0.199
    assert metrics.total("time_per_output_token_seconds_sum") == pytest.approx(gap / 4, abs=1e-8)
    assert metrics.total("inter_token_latency_seconds_count") == 0
    assert metrics.total("stalls_total", cause="stream") == 1
    assert metrics.total("stalled_requests_total") == 1


async def test_C33_an_abort_before_any_token_has_no_ttft(
    start_engine: StartEngine, start_sidecar: StartSidecar
) -> None:
    engine = await start_engine([peer_ends])
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat())
        await engine.exchange(0)
        client.close()
    metrics = await sidecar.idle(1)
    assert metrics.total("requests_total", outcome="client_abort") == 1
    assert metrics.total("time_to_first_token_seconds_count") == 0
    assert metrics.total("request_duration_seconds_count") == 0


async def test_C33_the_silence_before_an_abort_is_no_gap_but_a_stall(
    start_engine: StartEngine, start_sidecar: StartSidecar
) -> None:
    engine = await start_engine([send(SSE_HEAD + chunk(C("a"))), peer_ends])
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat())
        await client.until_seen(C("a"))
        await asyncio.sleep(0.4)
        live = await sidecar.metrics()
        assert live.total("stalled_requests_total") == 1  # certain while it lasts
        assert live.total("open_gap_seconds", phase="streaming") >= 0.39
        client.close()
    metrics = await sidecar.idle(1)
    assert metrics.total("time_to_first_token_seconds_count") == 1
    assert metrics.total("output_gap_seconds_count") == 0
    assert metrics.total("request_max_gap_seconds_sum") >= 0.39
    assert metrics.total("stalls_total") == 1
    assert metrics.total("stall_seconds_total") >= 0.39
    assert metrics.total("stalled_requests_total") == 1


async def test_C19_C38_gauges_return_to_zero(start_engine: StartEngine, start_sidecar: StartSidecar) -> None:
    tokens = [chunk(C(str(n))) for n in range(3)]
    engine = await start_engine(default=[send(SSE_HEAD, *tokens), peer_ends])
    sidecar = await start_sidecar(engine.port)
    clients = [await RawClient.connect(sidecar.port) for _ in range(50)]
    for client in clients:
        await client.send(chat())
    for client in clients:
        await client.until_seen(tokens[-1])
    live = await sidecar.metrics()
    assert live.total("requests_in_flight", phase="streaming") == 50
    for client in clients:
        client.close()
    metrics = await sidecar.idle(50)
    assert metrics.total("requests_total", outcome="client_abort") == 50
    assert metrics.total("output_events_total") == 150
    assert metrics.total("time_to_first_token_seconds_count") == 50
    assert metrics.total("streams_in_flight") == 0


async def test_C27_a_slow_client_moves_no_stamp(start_engine: StartEngine, start_sidecar: StartSidecar) -> None:
    """The engine writes every 10 ms, the client reads nothing for a second: no gap is longer than the engine's own."""

    async def steady(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        for _ in range(120):
            await exchange.send(chunk(C("x" * 60_000)))
            await asyncio.sleep(0.01)
        await exchange.send(chunk(FIN) + chunk(DONE) + LAST_CHUNK)

    engine = await start_engine(steady)
    sidecar = await start_sidecar(engine.port, limits={"stream_buffer": "64MiB"})
    async with await RawClient.connect(sidecar.port, receive_buffer=4096, paused=True) as client:
        await client.send(chat())
        await (await engine.exchange(0)).finished.wait()
        client.resume()
        await client.response()
    metrics = await sidecar.idle(1)
    writes = engine.exchanges[0].writes[1:-1]
    longest = max(b.before - a.before for a, b in pairwise(writes)) / SECOND
    assert metrics.total("request_max_gap_seconds_sum") < longest + 0.2
    assert metrics.total("relay_held_seconds_total") == 0
    assert metrics.total("client_blocked_seconds_total") > 0.1
    assert metrics.total("output_gap_seconds_count") == 119


async def test_held_time_is_the_clients(start_engine: StartEngine, start_sidecar: StartSidecar) -> None:
    """The buffer is full for a while: what the engine could not send is no stall of the engine."""

    async def flood(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        for _ in range(3000):
            await exchange.send(chunk(C("x" * 3000)))
        await exchange.send(chunk(FIN) + chunk(DONE) + LAST_CHUNK)

    engine = await start_engine(flood)
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port, receive_buffer=4096, paused=True) as client:
        await client.send(chat())
        await engine.exchange(0)
        await asyncio.sleep(0.6)
        client.resume()
        await client.response()
    metrics = await sidecar.idle(1)
    assert metrics.total("relay_held_seconds_total") > 0.3
    assert metrics.total("stalls_total", cause="client") >= 1
    assert metrics.total("output_gap_seconds_sum") < metrics.total("relay_held_seconds_total") + 5
    assert metrics.within("output_gap_seconds", 0.1) == metrics.total("output_gap_seconds_count")


async def test_C35_a_step_of_the_wall_clock_moves_nothing(
    start_engine: StartEngine, start_sidecar: StartSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()
    engine = await start_engine(
        [send(SSE_HEAD + chunk(C("a"))), wait_for(go), send(chunk(C("b")) + chunk(FIN) + chunk(DONE) + LAST_CHUNK)]
    )
    sidecar = await start_sidecar(engine.port)
    real = time.time
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat())
        await client.until_seen(C("a"))
        monkeypatch.setattr(time, "time", lambda: real() - 3600)
        go.set()
        await client.response()
    metrics = await sidecar.idle(1)
    assert 0 <= metrics.total("output_gap_seconds_sum") < 60
    assert 0 < metrics.total("request_duration_seconds_sum") < 60


async def test_plain_answers_and_probes_are_counted_where_they_belong(
    start_engine: StartEngine, start_sidecar: StartSidecar
) -> None:
    whole = (
        b'{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":3,"completion_tokens":2}}'
    )
    engine = await start_engine(send(answer(whole)), send(answer(b"{}")), send(answer(b"{}", "404 Not Found")))
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        await client.send(chat(stream=False))
        await client.response()
        await client.send(b"GET /health?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.response()
        await client.send(b"GET /secret/path HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.response()
    metrics = await sidecar.idle(3)
    assert metrics.total("requests_total", route="/v1/chat/completions", slo_class="chat", outcome="ok") == 1
    assert metrics.total("requests_total", route="/health", slo_class="", outcome="ok") == 1
    assert metrics.total("requests_total", route="other", slo_class="", outcome="client_error") == 1
    assert metrics.total("output_tokens_total", model="tiny") == 2
    assert metrics.total("streamed_requests_total") == 0
    assert metrics.total("request_duration_seconds_count") == 1
