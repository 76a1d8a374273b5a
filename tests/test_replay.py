"""The replay engine serves captures whole, with their read boundaries, times and ends."""

import asyncio
import hashlib
from itertools import pairwise

import pytest

from tests.capture import Capture, keys, load
from tests.fixtures_wire import StartReplay
from tests.raw_client import RawClient
from tests.replay import LockStep, Timed, followed_by


def test_captures_are_whole() -> None:
    assert len(keys()) == 92
    assert [key for key in keys() if not load(key).complete] == [
        "llamacpp/chat-stream-client-abort",
        "sglang/chat-stream-client-abort",
        "vllm/chat-stream-client-abort",
    ]
    assert [key for key in keys() if load(key).closes] == [
        "llamacpp/chat-stream-bad-json",
        "llamacpp/chat-stream-bad-request",
        "llamacpp/chat-stream-too-long",
    ]
    for key in keys():
        pieces = load(key).pieces
        assert all(a.at <= b.at for a, b in pairwise(pieces))


@pytest.mark.parametrize("key", keys())
async def test_lock_step_keeps_the_read_boundaries(start_replay: StartReplay, key: str) -> None:
    capture = load(key)
    client: RawClient
    engine = await start_replay(capture, pace=followed_by(lambda: client))
    client = await RawClient.connect(engine.port)
    async with client:
        await client.send(capture.request)
        await client.until_bytes(len(capture.raw))
        assert hashlib.sha256(client.received).digest() == hashlib.sha256(capture.raw).digest()
        if len(max(capture.pieces, key=lambda piece: len(piece.data)).data) < 32768:  # more may take two reads
            assert [read.data for read in client.reads] == [piece.data for piece in capture.pieces]
        if capture.complete:
            await client.response()
        if capture.closes:
            assert await client.until_ended() == "fin"
        assert client.ended == ("fin" if capture.closes else None)
    exchange = await engine.exchange(0)
    await exchange.finished.wait()
    assert bytes(exchange.request.raw) == capture.request
    assert [write.data for write in exchange.writes] == [piece.data for piece in capture.pieces]


async def test_lock_step_waits_for_the_test(start_replay: StartReplay) -> None:
    capture = load("vllm/chat-stream-usage")
    turns: asyncio.Queue[int] = asyncio.Queue()
    go = asyncio.Event()

    async def taken(_: Capture, written: int) -> None:
        turns.put_nowait(written)
        await go.wait()

    engine = await start_replay(capture, pace=LockStep(taken))
    async with await RawClient.connect(engine.port) as client:
        await client.send(capture.request)
        assert await turns.get() == len(capture.pieces[0].data)
        await client.until_bytes(len(capture.pieces[0].data))
        exchange = await engine.exchange(0)
        assert len(exchange.writes) == 1
        go.set()
        await client.response()
    assert len(exchange.writes) == len(capture.pieces)


async def test_pieces_come_no_sooner_than_captured(start_replay: StartReplay) -> None:
    capture = load("vllm/chat-stream-usage")
    engine = await start_replay(capture, pace=Timed(2.0))
    async with await RawClient.connect(engine.port) as client:
        await client.send(capture.request)
        await client.response()
        exchange = await engine.exchange(0)
        received = exchange.wire.reads[0].at
        for piece, write in zip(capture.pieces, exchange.writes, strict=True):
            assert write.before - received >= 2 * piece.at


async def test_header_chooses_the_capture_and_the_connection_stays(start_replay: StartReplay) -> None:
    engine = await start_replay(load("vllm/chat-nonstream"), pace=Timed(0))
    async with await RawClient.connect(engine.port) as client:
        for key in ("sglang/chat-stream-usage", "llamacpp/completions-stream"):
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nX-Capture: %b\r\n\r\n" % key.encode())
            assert (await client.response()).raw == load(key).raw
        await client.send(load("vllm/chat-nonstream").request)
        assert (await client.response()).raw == load("vllm/chat-nonstream").raw
    assert len(engine.connections) == 1


async def test_after_a_client_abort_the_engine_waits_for_the_client(start_replay: StartReplay) -> None:
    capture = load("sglang/chat-stream-client-abort")
    engine = await start_replay(capture, pace=Timed(0))
    client = await RawClient.connect(engine.port)
    await client.send(capture.request)
    await client.until_bytes(len(capture.raw))
    exchange = await engine.exchange(0)
    assert not exchange.finished.is_set()
    client.reset()
    await exchange.finished.wait()
    assert exchange.wire.ended == "rst"
    assert exchange.wire.ended_at is not None
    assert exchange.wire.ended_at >= exchange.writes[-1].after
