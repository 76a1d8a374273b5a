"""The wire keeps true reads, writes and ends; the client built on it reads answers."""

import asyncio

import pytest

from tests.bodies import DONE, FIN, ROLE, SSE_HEAD, C, answer, request, sse
from tests.fake_engine import Exchange, Step, close, half_close, peer_ends, reset, send
from tests.fixtures_wire import StartEngine
from tests.http_bytes import LAST_CHUNK, MessageReader, chunk, parse
from tests.raw_client import RawClient
from tests.wire import WireEnded


async def test_each_write_and_read_is_kept_with_true_stamps(start_engine: StartEngine) -> None:
    go = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(SSE_HEAD)
        await go.wait()
        await exchange.send(chunk(DONE) + LAST_CHUNK)

    engine = await start_engine(script)
    async with await RawClient.connect(engine.port) as client:
        await client.send(request())
        await client.head()
        go.set()
        body = (await client.response()).body
    exchange = await engine.exchange(0)
    assert body == DONE
    assert [read.data for read in client.reads] == [write.data for write in exchange.writes]
    for write, read in zip(exchange.writes, client.reads, strict=True):
        assert write.before <= write.after
        assert write.before <= read.at
    assert client.reads[0].at < exchange.writes[1].before


@pytest.mark.parametrize(("ending", "seen"), [(close, "fin"), (half_close, "fin"), (reset, "rst")])
async def test_engines_end_is_seen_by_the_client(start_engine: StartEngine, ending: Step, seen: str) -> None:
    engine = await start_engine([send(SSE_HEAD), ending])
    async with await RawClient.connect(engine.port) as client:
        await client.send(request())
        assert await client.until_ended() == seen
        assert client.ended_at is not None
        with pytest.raises(WireEnded):
            await client.response()


@pytest.mark.parametrize("seen", ["fin", "rst"])
async def test_clients_end_is_seen_by_the_engine(start_engine: StartEngine, seen: str) -> None:
    engine = await start_engine([send(SSE_HEAD), peer_ends])
    client = await RawClient.connect(engine.port)
    await client.send(request())
    await client.head()
    if seen == "fin":
        client.close()
    else:
        client.reset()
    exchange = await engine.exchange(0)
    await exchange.finished.wait()
    assert exchange.wire.ended == seen
    assert exchange.wire.ended_at is not None
    assert exchange.wire.ended_at > exchange.writes[-1].after


async def test_half_closed_client_still_gets_its_answer(start_engine: StartEngine) -> None:
    engine = await start_engine([peer_ends, send(answer(b"{}"))])
    async with await RawClient.connect(engine.port) as client:
        await client.send(request())
        client.half_close()
        assert (await client.response()).body == b"{}"


async def test_paused_client_holds_the_engine_up(start_engine: StartEngine) -> None:
    flood = bytes(32 << 20)
    engine = await start_engine([send(answer(flood)), close])
    async with await RawClient.connect(engine.port, receive_buffer=16384, paused=True) as client:
        await client.send(request())
        exchange = await engine.exchange(0)
        for _ in range(20):  # let everything run that can: the write must still not be through
            await asyncio.sleep(0)
        assert not exchange.writes
        assert not client.reads
        client.resume()
        assert (await client.response()).body == flood
        await exchange.finished.wait()
        assert len(exchange.writes) == 1


async def test_reset_frees_a_writer_that_waits(start_engine: StartEngine) -> None:
    engine = await start_engine(send(bytes(32 << 20)))
    client = await RawClient.connect(engine.port, receive_buffer=16384, paused=True)
    await client.send(request())
    exchange = await engine.exchange(0)
    client.reset()
    await exchange.finished.wait()
    assert isinstance(exchange.broken, ConnectionError)


async def test_own_close_frees_a_writer_that_waits(start_engine: StartEngine) -> None:
    engine = await start_engine(send(bytes(32 << 20)))
    async with await RawClient.connect(engine.port, receive_buffer=16384, paused=True) as client:
        await client.send(request())
        exchange = await engine.exchange(0)
        exchange.wire.reset()
        await exchange.finished.wait()
        assert isinstance(exchange.broken, WireEnded)


async def test_refused_connection_raises(start_engine: StartEngine) -> None:
    engine = await start_engine()
    engine.refuse()
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(engine.port)


async def test_answer_delimited_by_close_ends_with_fin_only(start_engine: StartEngine) -> None:
    raw = b"HTTP/1.1 200 OK\r\n\r\nabc"
    engine = await start_engine([send(raw), close], [send(raw), reset])
    async with await RawClient.connect(engine.port) as client:
        await client.send(request())
        assert (await client.response()).body == b"abc"
    async with await RawClient.connect(engine.port) as client:
        await client.send(request())
        with pytest.raises(WireEnded):
            await client.response()


async def test_head_answer_has_no_body(start_engine: StartEngine) -> None:
    engine = await start_engine(send(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n"), send(answer(b"[]")))
    async with await RawClient.connect(engine.port) as client:
        await client.send(request(line="HEAD /health HTTP/1.1"))
        assert (await client.response(bodiless=True)).body == b""
        await client.send(request())
        assert (await client.response()).body == b"[]"


STREAM = sse(ROLE, C("é\u2028"), FIN, DONE)
MANY = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    + STREAM
    + b"HTTP/1.1 204 No Content\r\n\r\n"
    + answer(b"")
    + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0\r\nT: v\r\n\r\n"
    + answer(b"xyz")
)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, len(MANY)])
def test_messages_do_not_depend_on_cuts(step: int) -> None:
    reader = MessageReader(response=True)
    for start in range(0, len(MANY), step):
        reader.feed(MANY[start : start + step])
    assert [(m.status, bytes(m.body), m.complete) for m in reader.messages] == [
        (100, b"", True),
        (200, ROLE + C("é\u2028") + FIN + DONE, True),
        (204, b"", True),
        (200, b"", True),
        (200, b"ab", True),
        (200, b"xyz", True),
    ]
    assert b"".join(bytes(m.raw) for m in reader.messages) == MANY


def test_incomplete_and_bad_messages_are_told_apart() -> None:
    assert not parse(STREAM[:-1], response=True)[-1].complete
    assert not parse(answer(b"abc")[:-1], response=True)[-1].complete
    assert parse(request(b"abc", "POST / HTTP/1.1"), response=False)[0].body == b"abc"
    with pytest.raises(ValueError, match="chunk longer"):
        parse(SSE_HEAD + b"1\r\nab\r\n", response=True)
