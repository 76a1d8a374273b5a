"""The fake engine reads requests whole, keeps connections open, and answers each by its script."""

import asyncio

import pytest

from tests.bodies import answer, chat, request
from tests.fake_engine import Exchange, FakeEngine, close, send, wait, wait_for
from tests.fixtures_wire import StartEngine
from tests.http_bytes import LAST_CHUNK, chunk
from tests.raw_client import RawClient


async def test_requests_are_kept_raw_and_connections_alive(start_engine: StartEngine) -> None:
    chunked = (
        b"POST /a HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"he") + chunk(b"llo") + LAST_CHUNK
    )
    engine = await start_engine(default=send(answer(b"{}")))
    sent = [chat(n=2), chunked, request()]
    async with await RawClient.connect(engine.port) as client:
        for bytes_sent in sent:
            await client.send(bytes_sent)
            await client.response()
    assert len(engine.connections) == 1
    assert [bytes(exchange.request.raw) for exchange in engine.exchanges] == sent
    assert engine.exchanges[1].request.body == b"hello"
    assert [exchange.written for exchange in engine.exchanges] == [answer(b"{}")] * 3


async def test_pipelined_requests_are_answered_in_order(start_engine: StartEngine) -> None:
    engine = await start_engine(send(answer(b"1")), send(answer(b"2")))
    async with await RawClient.connect(engine.port) as client:
        await client.send(request() + request())
        assert (await client.response()).body == b"1"
        assert (await client.response()).body == b"2"


async def test_scripts_go_to_requests_in_order_of_arrival(start_engine: StartEngine) -> None:
    free = asyncio.Event()
    engine = await start_engine([wait_for(free), send(answer(b"slow"))])
    engine.queue([wait(0.001), send(answer(b"quick"))])
    async with await RawClient.connect(engine.port) as one, await RawClient.connect(engine.port) as two:
        await one.send(request())
        await engine.exchange(0)
        await two.send(request())
        assert (await two.response()).body == b"quick"
        assert not one.reads
        free.set()
        assert (await one.response()).body == b"slow"
    assert len(engine.connections) == 2


async def test_early_script_runs_while_the_body_comes(start_engine: StartEngine) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await exchange.body()
        await exchange.send(answer(body))

    engine = await start_engine(script, early=True)
    async with await RawClient.connect(engine.port) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await client.response()).status == 100
        await client.send(b"ok")
        assert (await client.response()).body == b"ok"


async def test_early_body_that_never_comes_breaks_the_script(start_engine: StartEngine) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.body()

    engine = await start_engine(script, early=True)
    async with await RawClient.connect(engine.port) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
        exchange = await engine.exchange(0)
    await exchange.finished.wait()
    assert isinstance(exchange.broken, ConnectionResetError)


async def provoke(engine: FakeEngine, *requests: bytes) -> None:
    """Run the engine, send each request on its own connection, and wait until the engine ends each."""
    async with engine:
        for bytes_sent in requests:
            async with await RawClient.connect(engine.port) as client:
                await client.send(bytes_sent)
                await client.until_ended()


async def test_a_faulty_script_fails_the_test() -> None:
    async def script(_: Exchange) -> None:
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match="wrong"):
        await provoke(FakeEngine(script), request())


async def test_a_request_without_script_fails_the_test() -> None:
    with pytest.raises(LookupError, match="no script"):
        await provoke(FakeEngine([send(answer(b"")), close]), request(), request())


async def test_bytes_that_are_no_request_fail_the_test() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await provoke(FakeEngine(), b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
