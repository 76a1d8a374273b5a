"""One long prompt beside running decodes, on virtual time: what the users of the decodes feel for each prefill chunk.

`run_chunk` lets the decoding requests begin, then sends the prompt right after a step, and measures from that instant.
Durations are int nanoseconds.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from exporter.lab.cost import CostModel
from exporter.lab.scheduler import Limits, Scheduler, Step


@dataclass(frozen=True, slots=True)
class Scene:
    """What is simulated: the long prompt, the decoding requests beside it, and the engine."""

    prompt: int = 4096  # tokens
    decoders: int = 2
    decode_prompt: int = 1  # tokens of each decoding request's own prompt
    decode_output: int | None = None  # tokens each decoding request writes; None: one more than the prompt has
    limits: Limits = field(default_factory=Limits)
    cost: CostModel = field(default_factory=CostModel)
    block_size: int = 16
    num_blocks: int = 65_536


class Outcome(NamedTuple):
    """One line of the table."""

    chunk: int  # prefill cap per step, in tokens
    rounds: int  # steps that carried a part of the prompt
    max_gap: int | None  # ns; the longest silence of any decoding request; None when none of them was writing
    prefill_done: int  # ns from the prompt's arrival to its first token


def run_chunk(scene: Scene, chunk: int) -> Outcome:
    """Simulate the scene with `chunk` as the prefill cap per step.

    ValueError for a count below 1, or when a request can't fit the KV cache even alone.
    """
    if scene.decoders < 1:
        raise ValueError(f"decoders: expected a whole number of at least 1, got {scene.decoders}")
    limits = replace(scene.limits, prefill_chunk=chunk)
    scheduler = Scheduler(limits, scene.cost, block_size=scene.block_size, num_blocks=scene.num_blocks)
    output = scene.prompt + 1 if scene.decode_output is None else scene.decode_output
    return _Run(scheduler).measure(scene, output, chunk)


class _Run:
    """A scheduler with its virtual clock and the instant of each decoding request's last token."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.now = 0
        self.last: dict[int, int] = {}  # finished requests leave
        self.max_gap: int | None = None

    def measure(self, scene: Scene, output: int, chunk: int) -> Outcome:
        decoders = {self.scheduler.add(scene.decode_prompt, output + 1) for _ in range(scene.decoders)}
        while decoders:
            decoders.difference_update(self._step(decoders).tokens)
        arrived, self.max_gap = self.now, None
        prompt = self.scheduler.add(scene.prompt, 1)
        rounds = 0
        done: int | None = None
        # On until the prompt is prefilled and every gap that was open at that instant has ended.
        while done is None or any(instant < done for instant in self.last.values()):
            step = self._step(())
            rounds += any(sequence == prompt for sequence, _ in step.chunks)
            if prompt in step.tokens:
                done = self.now
        return Outcome(chunk, rounds, self.max_gap, done - arrived)

    def _step(self, first: Collection[int]) -> Step:
        """Run one step and note the gaps it ended; `first` are the sequences whose next token is their first."""
        step = self.scheduler.step()
        self.now += step.duration
        for sequence in step.tokens:
            if sequence in self.last:
                self.max_gap = max(self.max_gap or 0, self.now - self.last[sequence])
            if sequence in self.last or sequence in first:
                self.last[sequence] = self.now
        for sequence in step.finished:
            self.last.pop(sequence, None)
        return step
