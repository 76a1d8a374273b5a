"""The client's reading of a response: chunks are found and counted wherever the reads were cut."""

import asyncio

import pytest

from benchmarks.client import Load, StreamClient
from benchmarks.wire import closing, content, opening

STAMPS = [1_000_000_000_001, 2_000_000_000_002, 3_000_000_000_003]
RESPONSE = opening() + b"".join(map(content, STAMPS)) + closing(len(STAMPS))


async def _read(pieces: list[bytes]) -> Load:
    load = Load(1)
    client = StreamClient(load, 0)
    for piece in pieces:
        client.data_received(piece)
    client.connection_lost(None)
    return load


@pytest.mark.parametrize("size", [1, 7, 64, 229, 1000, len(RESPONSE)])
async def test_cuts_do_not_matter(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    load = await _read([RESPONSE[at : at + size] for at in range(0, len(RESPONSE), size)])
    assert load.pairs[::2].tolist() == STAMPS
    assert load.counts == [3]
    assert load.faults == []
    assert load.ended.is_set()
    assert capsys.readouterr().out == "live\n"


async def test_a_cut_response_is_a_fault() -> None:
    load = await _read([RESPONSE[:-5]])
    assert load.faults == ["stream 0: cut: closed before the end"]


async def test_an_error_answer_is_a_fault() -> None:
    load = await _read([b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"])
    assert load.faults == ["stream 0: status 502"]
    assert load.counts == [0]


async def test_what_is_not_http_is_a_fault() -> None:
    load = await _read([b"hello\r\n\r\n"])
    assert load.faults[0].startswith("stream 0: not HTTP")
    await asyncio.wait_for(load.ended.wait(), 1)
