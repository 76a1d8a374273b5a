"""The whole demo in this process, with the real sidecar: the large budget stalls, the small one does not; failures."""

import asyncio
import socket

import aiohttp
import pytest

from exporter import names
from exporter.lab import demo
from exporter.lab.children import Child, ChildError, start
from exporter.lab.demo import Demo, Plan
from exporter.lab.load import Figures
from exporter.lab.readings import Span


class Notes:
    """A screen that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.budgets: list[int] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def show(self, live: Span, budget: int, seen: Figures | None) -> None:
        self.budgets.append(budget)


async def shown(notes: Notes) -> None:
    async with asyncio.timeout(60):
        while not notes.budgets:  # noqa: ASYNC110 - a list wakes nobody
            await asyncio.sleep(0.05)


async def test_both_budgets_are_seen_side_by_side() -> None:
    notes = Notes()
    large, small = await Demo(Plan(6.0, 8192, 512, True), notes, asyncio.Event()).run()
    assert (large.budget, small.budget) == (8192, 512)
    assert notes.budgets == sorted(notes.budgets, reverse=True)
    assert "the engine's budget max_num_batched_tokens is now 512 (was 8192)" in notes.lines
    for phase in (large, small):
        assert phase.seen is not None
        assert phase.seen.errors == 0
        assert phase.seen.chat_ttft
        assert phase.span.increase(names.OUTPUT_EVENTS) > 0
    assert large.seen is not None
    assert small.seen is not None
    # A step with 8192 prompt tokens takes 332 ms, one with 512 at most 45: far apart on any machine.
    assert large.seen.longest_gap is not None
    assert small.seen.longest_gap is not None
    assert large.seen.longest_gap > 250_000_000
    assert small.seen.longest_gap < large.seen.longest_gap
    assert large.span.increase(names.STALLED_REQUESTS) > 0
    highest = large.span.highest(names.OUTPUT_GAP)
    assert highest is not None
    assert highest[1] > 0.25


async def test_stopped_early_it_keeps_what_it_saw_and_leaves_ports_it_can_not_have() -> None:
    notes, stop = Notes(), asyncio.Event()
    taken = [socket.socket(), socket.socket()]
    for sock, port in zip(taken, (demo.LISTEN, demo.ADMIN), strict=True):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((demo.HOST, port))
            sock.listen()
        except OSError:
            pass  # taken by someone else: as good
    subject = Demo(Plan(None, 4096, 512, False), notes, stop)
    running = asyncio.create_task(subject.run())
    await shown(notes)
    stop.set()
    (phase,) = await running
    for sock in taken:
        sock.close()
    assert (phase.budget, phase.seen) == (4096, None)
    assert notes.lines[0].startswith(f"port {demo.LISTEN} is taken, using ")
    assert notes.lines[1].startswith(f"port {demo.ADMIN} is taken, using ")


async def test_a_child_that_dies_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    notes, children = Notes(), dict[str, Child]()

    async def remember(name: str, arguments: list[str], ready: str) -> Child:
        children[name] = await start(name, arguments, ready)
        return children[name]

    monkeypatch.setattr(demo, "start", remember)
    running = asyncio.create_task(Demo(Plan(60.0, 8192, 512, True), notes, asyncio.Event()).run())
    await shown(notes)
    children["sidecar"].process.kill()
    with pytest.raises(ChildError, match=r"the sidecar ended with status -9"):
        await running
    assert children["engine"].process.returncode == 0


async def test_a_sidecar_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "choose_port", lambda host, port: port and 70_000)
    with pytest.raises(ChildError, match=r"the sidecar ended with status 2: stallwatch run: "):
        await Demo(Plan(6.0, 8192, 512, True), Notes(), asyncio.Event()).run()


async def test_a_sidecar_that_is_never_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "START", 0.01)
    child = await start("sidecar", ["engine", "--port", "0"], "")
    subject = Demo(Plan(6.0, 8192, 512, True), Notes(), asyncio.Event())
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ChildError, match=r"the sidecar was not ready within 0\.01 s"):
            await subject._until_ready(session, child)
    await child.stop()


async def test_an_engine_that_refuses_the_budget() -> None:
    subject = Demo(Plan(6.0, 8192, 512, True), Notes(), asyncio.Event())
    subject._engine = "http://127.0.0.1:1"  # nobody listens there
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ChildError, match=r"no sensible answer from a child: Cannot connect"):
            await subject._first_of([subject._change_budget(session, 9)])
