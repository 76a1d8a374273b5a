"""The demo: engine, sidecar and load together; the engine's budget changes half-way, and both halves are compared.

The engine and the sidecar are child processes, the load runs here and speaks to the sidecar. The demo knows the sidecar
only by what a user sees of it: its port and its `/metrics`.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from exporter import names
from exporter.lab.children import Child, ChildError, choose_port, start
from exporter.lab.load import Figures, Load, Mix
from exporter.lab.readings import Reading, Span, read

HOST = "127.0.0.1"
LISTEN, ADMIN = 8080, 9719  # preferred ports
# The engine of the demo: a step with a whole budget of 8192 prompt tokens takes 330 ms, one with 512 at most 45 ms, so
# the first breaks a promise of 100 ms and the second keeps it with room for a busy machine. Reading back history makes
# many small chunks dearer than few large ones: throughput goes down a little.
ENGINE = {"overhead-ms": 0.5, "decode-ms": 12, "prefill-ms": 160, "prefill-history-ms": 1}
CHANGE_AFTER = 30.0  # s until the budget changes when the demo has no end
# What is read of the sidecar; parsing the rest would hold up the load, which shares this loop.
WANTED = (
    names.TIME_TO_FIRST_TOKEN,
    names.OUTPUT_GAP,
    names.OPEN_GAP,
    names.STALLS,
    names.STALLED_REQUESTS,
    names.STREAMED_REQUESTS,
    names.OUTPUT_EVENTS,
    names.SLO_THRESHOLD,
)
TICK = 0.5  # s between two looks at the sidecar
WINDOW = 20  # ticks that the live figures look back
SETTLE = 1.0  # s left out at the start and after the change: steps and gaps that began before end in it
# How the line begins that each child writes to standard error once it listens.
READY = {"engine": "stallwatch engine: listening on ", "sidecar": "stallwatch: listening on "}
START = 30.0  # s a child may take to become ready
GRACE = 0.5  # s to learn why something failed


@dataclass(frozen=True, slots=True)
class Plan:
    """What the demo is asked to do."""

    seconds: float | None  # None: until it is stopped
    budget: int
    then: int
    load: bool


@dataclass(frozen=True, slots=True)
class Phase:
    """One budget, and what was seen under it: by the sidecar, and by the load's own stamps (None without a load)."""

    budget: int
    span: Span
    seen: Figures | None


class Screen(Protocol):
    """Where the demo tells how it goes."""

    def say(self, line: str) -> None:
        """One line for a person."""

    def show(self, live: Span, budget: int, seen: Figures | None) -> None:
        """The figures of the last seconds."""


class Demo:
    """The parts, once they run."""

    def __init__(self, plan: Plan, screen: Screen, stop: asyncio.Event) -> None:
        """`stop` ends the demo early and cleanly."""
        self.plan = plan
        self.screen = screen
        self.stop = stop
        self.phases: list[Phase] = []
        self._budget = plan.budget
        self._engine = self._listen = self._admin = ""
        self._load: Load | None = None

    async def run(self) -> list[Phase]:
        """Run to the end; the phases that were long enough to say something. ChildError when a part fails."""
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)))
            # Both at once, since each takes a second to load; they end in reverse order, so no stream is cut.
            engine = await stack.enter_async_context(_running("engine", self._engine_arguments()))
            sidecar = await stack.enter_async_context(_running("sidecar", self._sidecar_arguments()))
            await engine.ready(START)
            await self._until_ready(session, sidecar)
            self.screen.say(f"requests go to  {self._listen}/v1/chat/completions (model sim)")
            self.screen.say(f"metrics are at  {self._admin}/metrics")
            self.screen.say(f"the engine's own at {self._engine}/metrics")
            work: list[Coroutine[Any, Any, None]] = [self._phases(session), engine.died(), sidecar.died()]
            if self.plan.load:
                self._load = Load(self._listen, Mix())
                work.append(self._load.run())
            await self._first_of(work)
        return self.phases

    def _engine_arguments(self) -> list[str]:
        port = choose_port(HOST, 0)
        self._engine = f"http://{HOST}:{port}"
        costs = [text for name, value in ENGINE.items() for text in (f"--{name}", str(value))]
        budget = ["--max-num-batched-tokens", str(self.plan.budget)]
        return ["engine", "--host", HOST, "--port", str(port), *budget, *costs]

    def _sidecar_arguments(self) -> list[str]:
        listen, admin = choose_port(HOST, LISTEN), choose_port(HOST, ADMIN)
        for chosen, usual in ((listen, LISTEN), (admin, ADMIN)):
            if chosen != usual:
                self.screen.say(f"port {usual} is taken, using {chosen}")
        self._listen, self._admin = f"http://{HOST}:{listen}", f"http://{HOST}:{admin}"
        return ["run", "--upstream", self._engine, "--listen", f"{HOST}:{listen}", "--admin", f"{HOST}:{admin}"]

    async def _first_of(self, work: list[Coroutine[Any, Any, None]]) -> None:
        """Run them until the first ends, or the demo is stopped; ChildError when one of them failed."""
        tasks = [asyncio.create_task(part) for part in [*work, _wait(self.stop)]]
        try:
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if any(task.exception() for task in done):
                # A child's end is often seen first as a refused connection: give its own words a moment to come.
                done |= (await asyncio.wait(pending, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED))[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        errors = [error for error in (task.exception() for task in done) if error is not None]
        for error in sorted(errors, key=lambda error: not isinstance(error, ChildError)):
            if isinstance(error, (aiohttp.ClientError, OSError, ValueError)):
                raise ChildError(f"no sensible answer from a child: {error}") from error
            raise error

    async def _until_ready(self, session: aiohttp.ClientSession, child: Child) -> None:
        """Ask the sidecar until it says it is ready. ChildError when it ends or takes too long."""

        async def ask() -> None:
            while True:
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"{self._admin}/-/ready") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)

        try:
            async with asyncio.timeout(START):
                await self._first_of([ask(), child.died()])
        except TimeoutError:
            raise ChildError(f"the sidecar was not ready within {START:g} s") from None

    async def _phases(self, session: aiohttp.ClientSession) -> None:
        """Both budgets one after the other, each watched for half of the time but for what settles."""
        seconds = self.plan.seconds
        settle = SETTLE if seconds is None else min(SETTLE, seconds / 8)
        halves = (CHANGE_AFTER, None) if seconds is None else (seconds / 2, seconds / 2)
        for budget, half in zip((self.plan.budget, self.plan.then), halves, strict=True):
            if budget != self._budget:
                await self._change_budget(session, budget)
            await asyncio.sleep(settle)
            await self._watch(session, None if half is None else half - settle)

    async def _change_budget(self, session: aiohttp.ClientSession, budget: int) -> None:
        body = {"max_num_batched_tokens": budget}
        async with session.post(f"{self._engine}/admin/budget", json=body) as response:
            response.raise_for_status()
        self.screen.say(f"the engine's budget max_num_batched_tokens is now {budget} (was {self._budget})")
        self._budget = budget

    async def _watch(self, session: aiohttp.ClientSession, seconds: float | None) -> None:
        """One phase: show it as it goes, and keep what was seen of it even when it is cut short."""
        seen = self._load.begin_phase() if self._load else None
        first = await self._read(session)
        recent = deque([first], maxlen=WINDOW)
        end = None if seconds is None else first.at + seconds
        self.phases.append(Phase(self._budget, Span(first, first), seen))
        while end is None or time.monotonic() < end:
            pause = TICK if end is None else min(TICK, end - time.monotonic())
            await asyncio.sleep(max(0.0, pause))
            recent.append(await self._read(session))
            self.phases[-1] = Phase(self._budget, Span(first, recent[-1]), seen)
            self.screen.show(Span(recent[0], recent[-1]), self._budget, seen)

    async def _read(self, session: aiohttp.ClientSession) -> Reading:
        async with session.get(f"{self._admin}/metrics") as response:
            response.raise_for_status()
            return read(await response.text(), time.monotonic(), WANTED)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


@asynccontextmanager
async def _running(name: str, arguments: list[str]) -> AsyncIterator[Child]:
    """A child process that is stopped at the end."""
    child = await start(name, arguments, READY[name])
    try:
        yield child
    finally:
        await child.stop()
