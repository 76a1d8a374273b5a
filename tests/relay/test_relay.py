"""Ordinary HTTP through the sidecar: bytes untouched both ways, keep-alive, pipelining, early answers, refusals."""

import asyncio
import json
import socket

import pytest

from exporter.core.ending import Ending
from tests.bodies import DONE, ROLE, SSE_HEAD, C, answer, chat, request, sse
from tests.fake_engine import Exchange, peer_ends, send, wait_for
from tests.fixtures_wire import StartEngine
from tests.http_bytes import LAST_CHUNK, chunk, head
from tests.raw_client import RawClient
from tests.relay.recording import StartRelay

MS = 1_000_000


async def test_a_stream_goes_through_untouched(start_engine: StartEngine, start_relay: StartRelay) -> None:
    body = sse(ROLE, C("hello"), DONE)
    engine = await start_engine(send(body))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        sent = chat()
        await client.send(sent)
        got = await client.response()
        assert bytes(got.raw) == body
    assert bytes(engine.exchanges[0].request.raw) == sent
    tap = relay.taps[0]
    assert tap.body == ROLE + C("hello") + DONE
    assert tap.ending is Ending.COMPLETE
    assert (tap.method, tap.target, tap.status) == ("POST", b"/v1/chat/completions", 200)
    assert tap.uploaded == sent[sent.index(b"\r\n\r\n") + 4 :]
    assert tap.calls[0] == "request"
    assert relay.figures.bytes_to_client == len(body)
    assert relay.figures.bytes_to_engine == len(sent)


async def test_keep_alive_on_both_sides(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(default=send(answer(b'{"ok":1}')))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        for _ in range(5):
            await client.send(request())
            assert (await client.response()).body == b'{"ok":1}'
    assert len(engine.connections) == 1
    assert [tap.connections[0] is None for tap in relay.taps] == [False, True, True, True, True]


async def test_pipelined_requests_are_answered_in_order(start_engine: StartEngine, start_relay: StartRelay) -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.send(answer(exchange.request.target))

    engine = await start_engine(default=echo)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(b"".join(request(line=f"GET /{n} HTTP/1.1") for n in range(10)))
        assert [bytes((await client.response()).body) for _ in range(10)] == [b"/%d" % n for n in range(10)]
    ends = [tap.closed_at or 0 for tap in relay.taps]
    assert all(tap.arrived >= end for tap, end in zip(relay.taps[1:], ends, strict=False))


async def test_a_request_cut_anywhere_arrives_whole(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(default=send(answer(b"{}")))
    relay = await start_relay(engine.port)
    sent = request(b"", "POST /v1/chat/completions HTTP/1.1", [("Transfer-Encoding", "chunked")])
    sent += chunk(b'{"a":') + chunk(b"1}") + b"0\r\nX-Sum: 7\r\n\r\n"
    async with await RawClient.connect(relay.port) as client:
        for position in range(0, len(sent), 3):
            await client.send(sent[position : position + 3])
            await asyncio.sleep(0)
        await client.response()
    assert bytes(engine.exchanges[0].request.raw) == sent
    assert relay.taps[0].uploaded == b'{"a":1}'


async def test_C14_a_large_body_streams_up_untouched(start_engine: StartEngine, start_relay: StartRelay) -> None:
    body = json.dumps({"model": "m", "image": "A" * 25_000_000}).encode()
    engine = await start_engine(send(answer(b"{}")))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request(body, "POST /v1/chat/completions HTTP/1.1"))
        await client.response()
    assert engine.exchanges[0].request.body == body
    tap = relay.taps[0]
    assert tap.received_at is not None
    assert tap.received_at > tap.arrived


async def test_an_upload_waits_for_a_slow_engine(start_engine: StartEngine, start_relay: StartRelay) -> None:
    """The engine reads nothing: the sidecar keeps a bounded part of the upload, and loses none of it."""
    go = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        exchange.wire.pause()
        await go.wait()
        exchange.wire.resume()
        await exchange.body()
        await exchange.send(answer(b"{}"))

    engine = await start_engine(slow, early=True)
    relay = await start_relay(engine.port)
    body = bytes(range(256)) * 100_000
    async with await RawClient.connect(relay.port) as client:
        sending = asyncio.create_task(client.send(request(body, "POST /v1/completions HTTP/1.1")))
        await engine.exchange(0)
        written = -1
        while written != relay.figures.bytes_to_engine:  # until nothing moves any more
            written = relay.figures.bytes_to_engine
            await asyncio.sleep(0.1)
        assert written < len(body) - 5_000_000
        go.set()
        await sending
        await client.response()
    assert engine.exchanges[0].request.body == body


async def test_a_client_leaves_during_an_upload_that_is_held_up(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    ended = asyncio.Event()

    async def stuck(exchange: Exchange) -> None:
        exchange.wire.pause()
        await ended.wait()

    engine = await start_engine(stuck, early=True)
    relay = await start_relay(engine.port)
    client = await RawClient.connect(relay.port)
    sending = asyncio.create_task(client.send(request(bytes(30_000_000), "POST /v1/completions HTTP/1.1")))
    exchange = await engine.exchange(0)
    await asyncio.sleep(0.2)
    sending.cancel()
    client.reset()  # a FIN would wait behind the bytes that nobody reads
    await relay.ended(1)
    assert relay.taps[0].ending is Ending.CLIENT_LEFT
    exchange.wire.resume()
    await exchange.wire.until_ended()
    ended.set()


async def test_an_early_answer_ends_the_upload(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(send(answer(b"{}", "413 Payload Too Large")), early=True)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request(b"x" * 100, "POST /v1/completions HTTP/1.1")[:-50])
        assert (await client.response()).status == 413
        assert await client.until_ended() == "fin"
    assert relay.taps[0].received_at is None
    assert relay.taps[0].ending is Ending.COMPLETE


async def test_C12_interim_answers_go_on_and_the_final_head_counts(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    final = sse(C("a"), DONE)
    engine = await start_engine(send(interim[:30], interim[30:] + final))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        assert [(await client.response()).status for _ in range(3)] == [100, 103, 200]
    assert client.received == interim + final
    assert relay.taps[0].status == 200
    assert relay.taps[0].calls.count("head") == 1


async def test_C11_answers_without_a_body_do_not_upset_the_next(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine(
        send(head("HTTP/1.1 200 OK", [("Content-Length", "15")])),
        send(head("HTTP/1.1 204 No Content", [("Transfer-Encoding", "chunked")])),
        send(head("HTTP/1.1 304 Not Modified", [("Content-Length", "5")])),
        send(answer(b'{"last":true}')),
    )
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request(line="HEAD /health HTTP/1.1"))
        assert (await client.response(bodiless=True)).values(b"content-length") == [b"15"]
        client.answers.bodiless = False
        await client.send(request())
        empty = await client.response()
        assert (empty.values(b"content-length"), empty.values(b"transfer-encoding")) == ([], [])
        await client.send(request())
        assert (await client.response()).values(b"content-length") == [b"5"]
        await client.send(request())
        assert (await client.response()).body == b'{"last":true}'


async def test_a_204_with_a_body_loses_it(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(
        send(head("HTTP/1.1 204 No Content", [("Transfer-Encoding", "chunked")]) + LAST_CHUNK), send(answer(b"{}"))
    )
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        for status in (204, 200):
            await client.send(request())
            assert (await client.response()).status == status
    assert LAST_CHUNK not in client.received
    assert len(engine.connections) == 2


async def test_bytes_beyond_an_answer_are_never_written(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(send(answer(b"{}") + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.until_ended()
    assert client.received == answer(b"{}")
    assert relay.taps[0].ending is Ending.COMPLETE


async def test_stray_bytes_on_an_idle_connection_end_it(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(default=send(answer(b"{}")))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.response()
        await engine.connections[0].wire.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await engine.connections[0].wire.until_ended()
        await client.send(request())
        assert (await client.response()).status == 200
    assert len(engine.connections) == 2


async def test_an_http10_client_gets_a_chunked_answer_without_its_chunking(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine(send(sse(C("a"), DONE)))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request(line="GET /v1/x HTTP/1.0"))
        got = await client.response()
        assert await client.until_ended() == "fin"
    assert got.body == C("a") + DONE
    assert got.values(b"transfer-encoding") == []
    assert engine.exchanges[0].request.start == b"GET /v1/x HTTP/1.1"


async def test_a_close_delimited_answer_is_relayed_to_its_end(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    async def answer_and_close(exchange: Exchange) -> None:
        await exchange.send(head("HTTP/1.0 200 OK", [("Content-Type", "text/event-stream")]) + C("a") + DONE)
        exchange.wire.close()

    engine = await start_engine(answer_and_close)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        assert (await client.response()).body == C("a") + DONE
        assert await client.until_ended() == "fin"
    assert relay.taps[0].ending is Ending.COMPLETE


async def test_connection_close_of_a_client_does_not_reach_the_engine(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine(default=send(answer(b"{}")))
    relay = await start_relay(engine.port)
    for _ in range(2):
        async with await RawClient.connect(relay.port) as client:
            await client.send(request(headers=[("Connection", "close")]))
            await client.response()
            assert await client.until_ended() == "fin"
    assert len(engine.connections) == 1


async def test_an_engine_that_closes_is_not_reused(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(default=send(answer(b"{}", headers=[("Connection", "close")])))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        for _ in range(3):
            await client.send(request())
            assert (await client.response()).values(b"connection") == []
    assert len(engine.connections) == 3


async def test_upgrade_becomes_a_tunnel(start_engine: StartEngine, start_relay: StartRelay) -> None:
    switching = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

    async def tunnel(exchange: Exchange) -> None:
        await exchange.send(switching + b"early")
        await exchange.wire.until_seen(b"ping")
        await exchange.send(b"pong")
        await exchange.wire.until_ended()

    engine = await start_engine(tunnel, early=True)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request(headers=[("Connection", "Upgrade"), ("Upgrade", "echo")]))
        await client.until_seen(b"early")
        await client.send(b"ping")
        await client.until_seen(b"pong")
    await relay.ended(1)
    assert relay.taps[0].status == 101
    assert relay.taps[0].ending is Ending.COMPLETE


@pytest.mark.parametrize(
    ("raw", "status", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "host"),
        (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "method"),
        (b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "version"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70_000, 431, "head_too_large"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "body_framing"),
    ],
)
async def test_refused_requests_get_a_json_error(
    start_engine: StartEngine, start_relay: StartRelay, raw: bytes, status: int, reason: str
) -> None:
    engine = await start_engine(default=peer_ends, early=True)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(raw)
        got = await client.response()
        assert await client.until_ended() == "fin"
    assert got.status == status
    assert got.values(b"server") == [b"stallwatch"]
    assert got.values(b"connection") == [b"close"]
    error = json.loads(got.body)["error"]
    assert (error["type"], error["code"]) == ("stallwatch_client_error", status)
    assert relay.figures.refused[reason] == 1
    assert [tap.ending for tap in relay.taps] == [Ending.REFUSED]


async def test_refusing_a_head_request_sends_no_body(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine()
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(b"HEAD / HTTP/1.1\r\n\r\n")
        await client.until_ended()
    assert client.received.endswith(b"\r\n\r\n")
    assert client.received.startswith(b"HTTP/1.1 400 ")


async def test_a_connection_without_a_complete_head_is_no_request(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    engine = await start_engine()
    relay = await start_relay(engine.port, client_head=0.05, client_idle=0.05)
    async with await RawClient.connect(relay.port) as silent, await RawClient.connect(relay.port) as slow:
        await slow.send(b"GET / HTTP/1.1\r\nHost:")
        await silent.until_ended()
        await slow.until_ended()
    assert relay.taps == []


async def test_empty_lines_before_a_request_are_passed_over(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(send(answer(b"{}")))
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(b"\r\n\r\n" + request())
        assert (await client.response()).status == 200


async def test_more_connections_than_allowed_get_503(start_engine: StartEngine, start_relay: StartRelay) -> None:
    engine = await start_engine(default=send(answer(b"{}")))
    relay = await start_relay(engine.port, connections=1)
    async with await RawClient.connect(relay.port) as first, await RawClient.connect(relay.port) as second:
        await first.send(request())
        assert (await first.response()).status == 200
        await second.send(request())
        got = await second.response()
    assert got.status == 503
    assert json.loads(got.body)["error"]["type"] == "stallwatch_proxy_error"
    assert relay.figures.accept_errors["limit"] == 1
    assert relay.taps[1].ending is Ending.LIMIT


async def test_C17_the_head_reaches_the_client_before_the_body(
    start_engine: StartEngine, start_relay: StartRelay
) -> None:
    go = asyncio.Event()
    engine = await start_engine([send(SSE_HEAD), wait_for(go), send(chunk(C("a")) + LAST_CHUNK)])
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.until_seen(SSE_HEAD)  # nothing else was written yet, and `go` is not set
        go.set()
        assert (await client.response()).body == C("a")


async def test_C18_small_events_are_not_delayed(start_engine: StartEngine, start_relay: StartRelay) -> None:
    """No 40 ms cluster from Nagle and delayed ACKs: half of the events come within 20 ms of their write."""

    async def drip(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        for _ in range(100):
            await exchange.send(chunk(b"data: 60 bytes or so of an event that is quite small .....\n\n"))
            await asyncio.sleep(0.005)
        await exchange.send(LAST_CHUNK)

    engine = await start_engine(drip)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(chat())
        await client.response()
        assert b"".join(read.data for read in client.reads) == engine.exchanges[0].written
        seen, late = 0, []
        for write in engine.exchanges[0].writes:
            seen += len(write.data)
            total, at = 0, 0
            for read in client.reads:
                total, at = total + len(read.data), read.at
                if total >= seen:
                    break
            late.append(at - write.before)
        assert sorted(late)[len(late) // 2] < 20 * MS


async def test_both_sockets_have_no_delay(
    start_engine: StartEngine, start_relay: StartRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: list[int] = []

    async def look(exchange: Exchange) -> None:
        await exchange.send(answer(b"{}"))

    engine = await start_engine(look)
    relay = await start_relay(engine.port)
    async with await RawClient.connect(relay.port) as client:
        await client.send(request())
        await client.response()
        context = relay.relay._context
        for transport in [c.transport for c in context.clients] + [u.transport for u in context.pool._idle]:
            flags.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    assert flags == [1, 1]
