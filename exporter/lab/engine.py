"""The simulated engine in real time: it waits out every step of the scheduler and hands the tokens to those who asked.

Steps don't drift: one begins at the instant the one before was planned to end, or now when the engine was idle or is
late by more than `LATE`. All tokens of a step are handed over at its end, together. Who cancels leaves the scheduler
at once, so the next step runs without it.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from exporter.lab.engine_metrics import EngineMetrics
from exporter.lab.openai_api import Delta, Generation
from exporter.lab.scheduler import Scheduler, Step

LATE = 5_000_000  # ns; a loop that lags more than this does not make up for it by shorter steps


class Answer:
    """The tokens of one request as they come."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.choices = len(generation.prompts) * generation.n
        self._ready = asyncio.Event()
        self._deltas: list[Delta] = []

    async def take(self) -> Sequence[Delta]:
        """Wait for the end of a step that wrote for this request; all that has come since the last call."""
        await self._ready.wait()
        self._ready.clear()
        taken, self._deltas = self._deltas, []
        return taken

    def put(self, delta: Delta) -> None:
        """Hand over one token."""
        self._deltas.append(delta)
        self._ready.set()


@dataclass(slots=True, eq=False)
class _Seat:
    """One sequence of an answer."""

    answer: Answer
    choice: int
    submitted: int
    last: int  # instant of its last token; of its submission before the first
    queued: bool = True
    generated: int = 0


class Engine:
    """A scheduler in real time. `run` must be running for anything to happen."""

    def __init__(self, scheduler: Scheduler, *, model: str = "sim", max_model_len: int = 131_072) -> None:
        """Serve `model`; a prompt and its output may have `max_model_len` tokens together."""
        self.scheduler = scheduler
        self.model = model
        self.max_model_len = max_model_len
        self.metrics = EngineMetrics(scheduler, model)
        self._seats: dict[int, _Seat] = {}
        self._work = asyncio.Event()

    @property
    def fingerprint(self) -> str:
        """What `system_fingerprint` says: as vLLM's it changes with the budget (and the seats), and names neither."""
        limits = self.scheduler.limits
        text = f"{self.model} {limits.max_num_batched_tokens} {limits.max_num_seqs}"
        return f"vllm-sim-{sha256(text.encode()).hexdigest()[:8]}"

    def submit(self, generation: Generation) -> Answer:
        """Queue every sequence of a request. ValueError when one of them can never fit."""
        answer = Answer(generation)
        now = time.monotonic_ns()
        prompts = [prompt for prompt in generation.prompts for _ in range(generation.n)]
        for prompt in prompts:
            if prompt + generation.output > self.max_model_len:
                raise ValueError(
                    f"This model's maximum context length is {self.max_model_len} tokens. However, you requested "
                    f"{generation.output} output tokens and your prompt contains {prompt} input tokens."
                )
        try:
            for choice, prompt in enumerate(prompts):
                seat = _Seat(answer, choice, now, now)
                self._seats[self.scheduler.add(prompt, generation.output)] = seat
                self.metrics.submitted(prompt)
        except ValueError:
            self.cancel(answer)
            raise
        self._work.set()
        return answer

    def cancel(self, answer: Answer) -> None:
        """Drop what is left of a request; nothing when it is complete."""
        now = time.monotonic_ns()
        for sequence in [number for number, seat in self._seats.items() if seat.answer is answer]:
            seat = self._seats.pop(sequence)
            self.scheduler.cancel(sequence)
            self.metrics.finished("abort", now - seat.submitted, seat.generated)

    async def run(self) -> None:
        """Step for ever, in real time."""
        end = 0
        while True:
            now = time.monotonic_ns()
            if self.scheduler.idle:
                self._work.clear()
                await self._work.wait()
                now = end = time.monotonic_ns()
            start = end if now - end <= LATE else now
            step = self.scheduler.step()
            self._admit(step, start)
            end = start + step.duration
            await _until(end)
            self._deliver(step)
            await asyncio.sleep(0)  # let the answers be written even when the next step takes no time

    def _admit(self, step: Step, start: int) -> None:
        for sequence in step.admitted:
            seat = self._seats[sequence]
            if seat.queued:
                seat.queued = False
                self.metrics.admitted(max(0, start - seat.submitted))

    def _deliver(self, step: Step) -> None:
        """Hand over a step's tokens; sequences cancelled during the step have no seat any more."""
        now = time.monotonic_ns()
        self.metrics.stepped(step)
        for sequence in step.tokens:
            seat = self._seats.get(sequence)
            if seat is None:
                continue
            last = sequence in step.finished
            seat.answer.put(Delta(seat.choice, seat.generated, last))
            if seat.generated:
                self.metrics.token(now - seat.last)
            else:
                self.metrics.first_token(now - seat.submitted)
            seat.generated += 1
            seat.last = now
            if last:
                del self._seats[sequence]
                reason = seat.answer.generation.finish_reason
                self.metrics.finished(reason, now - seat.submitted, seat.generated)


async def _until(instant: int) -> None:
    """Sleep to an instant of the monotonic clock in ns; a loop's timer may fire up to 1 ms early."""
    left = instant - time.monotonic_ns()
    while left > 0:
        await asyncio.sleep(left / 1e9)
        left = instant - time.monotonic_ns()
