"""The mixed load against the simulated engine and against servers that fail, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from exporter.lab.cost import CostModel
from exporter.lab.engine import Engine
from exporter.lab.load import Figures, Load, Mix, nearest_rank
from exporter.lab.scheduler import Limits, Scheduler
from exporter.lab.serve import serving

SMALL = Mix(chats=2, chat_prompt=4, chat_output=(5, 9), long_prompt=(900, 1100), long_output=2, long_every=0.05)
QUICK = CostModel(overhead=100_000, decode=900_000, prefill=4_000_000)


@asynccontextmanager
async def running(load: Load) -> AsyncIterator[None]:
    task = asyncio.create_task(load.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the load's figures are plain numbers
            await asyncio.sleep(0.005)


async def test_chats_and_long_prompts_stream_and_stop() -> None:
    subject = Engine(Scheduler(Limits(), QUICK))
    async with serving(subject, "127.0.0.1", 0) as address:
        load = Load(address, SMALL)
        async with running(load):
            await reached(lambda: len(load.figures.chat_ttft) > 3 and len(load.figures.long_ttft) > 1)
            assert subject.scheduler.running + subject.scheduler.waiting <= 3
        await reached(lambda: subject.scheduler.idle)
        seen = load.figures
    assert seen.errors == 0
    assert seen.completed >= 4
    assert seen.tokens >= 4 * 5
    assert seen.longest_gap is not None
    assert seen.longest_gap > 0
    assert min(seen.long_ttft) > 0


async def test_a_new_phase_starts_with_nothing() -> None:
    async with serving(Engine(Scheduler(Limits(), QUICK)), "127.0.0.1", 0) as address:
        load = Load(address, SMALL)
        async with running(load):
            await reached(lambda: load.figures.completed > 1)
            first, second = load.figures, load.begin_phase()
            kept = first.completed
            await reached(lambda: second.completed > 1)
            assert first.completed == kept


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"{}"),
        (200, b'data: {"error": {"message": "no", "code": 503}}\n\ndata: [DONE]\n\n'),
        (200, b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'),
        (200, b"data: {nonsense}\n\n"),
    ],
)
async def test_failures_are_counted_and_do_not_end_it(status: int, body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    load = Load(f"http://127.0.0.1:{runner.addresses[0][1]}/", SMALL)
    async with running(load):
        await reached(lambda: load.figures.errors > 3)
    await runner.cleanup()
    assert load.figures.completed == 0


async def test_a_target_that_is_not_there_is_an_error() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    load = Load(f"http://127.0.0.1:{port}", SMALL)
    async with server, running(load):
        await reached(lambda: load.figures.errors > 0)


def test_a_sample_belongs_to_a_phase_only_when_it_began_in_it() -> None:
    figures = Figures(since=100)
    figures.note_gap(99, 500)
    figures.note_ttft(figures.chat_ttft, 99, 500)
    assert (figures.longest_gap or 0, list(figures.chat_ttft)) == (0, [])
    figures.note_gap(100, 110)
    figures.note_gap(120, 125)
    figures.note_ttft(figures.chat_ttft, 100, 104)
    assert (figures.longest_gap, list(figures.chat_ttft)) == (10, [4])


@pytest.mark.parametrize(
    ("samples", "share", "expected"),
    [
        ([], 0.5, None),
        ([7], 0.5, 7),
        ([3, 1, 2], 0.5, 2),
        ([*[10] * 99, 500], 0.99, 10),
        ([*[10] * 99, 500], 1.0, 500),
        (list(range(100)), 0.07, 6),
    ],
)
def test_nearest_rank(samples: list[int], share: float, expected: int | None) -> None:
    assert nearest_rank(samples, share) == expected
