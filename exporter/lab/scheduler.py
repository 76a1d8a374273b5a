"""An iteration-level scheduler on virtual time: each step decodes first, then prefills with what the budget has left.

`step()` decides one step, advances every sequence by it and says what happened and how long it took; there is no clock
inside, so `simulate` runs it as fast as it can and the engine's server waits each duration out. The rules:

1. Every running sequence past its prefill gets one token, oldest first, while `max_num_batched_tokens` lasts.
2. What is left of it, and at most `prefill_chunk`, goes to prefills: running ones oldest first, then new ones from the
   waiting queue in order, while `max_num_seqs` and the KV blocks allow.
3. A sequence's first token comes with the step that finishes its prefill.
4. A decode that finds no free KV block preempts the sequence admitted last: its KV is freed, it goes back to the head
   of the queue and prefills its prompt and all it has written again (recomputation). Such a step admits no sequence.

A prefill reserves the blocks of all it must compute on admission, so only decodes ever preempt.
"""

from collections import deque
from dataclasses import dataclass, field

from exporter.lab.cost import Chunk, CostModel


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step. ValueError unless every count is at least 1."""

    max_num_batched_tokens: int = 8192  # the total token budget of a step; a decoding sequence takes one of it
    prefill_chunk: int | None = None  # most prompt tokens of a step, over all prefills; None: no cap but the budget
    max_num_seqs: int = 256  # most sequences running at once

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: expected a whole number of at least 1, got {value}")


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did. Ids are those given to `add`, oldest sequence first."""

    duration: int  # ns
    tokens: tuple[int, ...]  # sequences that got one output token each
    finished: tuple[int, ...]  # those of them that are complete now
    admitted: tuple[int, ...]  # sequences that left the waiting queue
    preempted: tuple[int, ...]  # sequences that lost their KV and went back to it
    decoded: int  # tokens of the budget that decodes took
    chunks: tuple[tuple[int, int], ...]  # (sequence, prompt tokens prefilled for it)

    @property
    def prefilled(self) -> int:
        """Tokens of the budget that prefills took."""
        return sum(tokens for _, tokens in self.chunks)


@dataclass(slots=True, eq=False)
class _Sequence:
    """One sequence's state; `computed` of `target` tokens are prefilled, from then on it decodes."""

    id: int
    prompt: int
    output: int
    target: int
    generated: int = 0
    computed: int = 0
    blocks: int = 0

    @property
    def decoding(self) -> bool:
        return self.computed >= self.target


@dataclass(slots=True)
class _Plan:
    """What a step has taken so far."""

    decoding: list[_Sequence] = field(default_factory=list)
    chunks: list[tuple[_Sequence, Chunk]] = field(default_factory=list)
    admitted: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)


class Scheduler:
    """The queue, the running batch and the KV blocks. `limits` may be replaced between steps."""

    def __init__(self, limits: Limits, cost: CostModel, *, block_size: int = 16, num_blocks: int = 65_536) -> None:
        """Take the limits, the cost of a step, and a KV cache of `num_blocks` blocks of `block_size` tokens."""
        for name, value in (("block_size", block_size), ("num_blocks", num_blocks)):
            if value < 1:
                raise ValueError(f"{name}: expected a whole number of at least 1, got {value}")
        self.limits = limits
        self.cost = cost
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.free_blocks = num_blocks
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []  # in order of admission
        self._next_id = 0

    @property
    def running(self) -> int:
        """Sequences admitted and not finished."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences not admitted yet, or preempted."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """True when a step would have nothing to do."""
        return not self._running and not self._waiting

    def add(self, prompt: int, output: int) -> int:
        """Queue a sequence of `prompt` tokens that will write `output` tokens; its id.

        ValueError when a count is below 1, or when it could not finish even with the whole KV cache for itself.
        """
        for name, value in (("prompt", prompt), ("output", output)):
            if value < 1:
                raise ValueError(f"{name}: expected a whole number of tokens of at least 1, got {value}")
        needed, room = prompt + output - 1, self.num_blocks * self.block_size
        if needed > room:
            raise ValueError(f"prompt and output need {needed} tokens of KV cache, which holds {room}")
        sequence = _Sequence(self._next_id, prompt, output, target=prompt)
        self._next_id += 1
        self._waiting.append(sequence)
        return sequence.id

    def cancel(self, sequence_id: int) -> bool:
        """Drop a sequence wherever it is and free its KV; False when it is unknown or finished."""
        for queue in (self._running, self._waiting):
            for sequence in queue:
                if sequence.id == sequence_id:
                    queue.remove(sequence)
                    self._release(sequence)
                    return True
        return False

    def step(self) -> Step:
        """Run one step. An idle scheduler's step does nothing and takes only the overhead."""
        plan = _Plan()
        self._plan_decodes(plan)
        self._plan_prefills(plan)
        context = sum(sequence.prompt + sequence.generated for sequence in plan.decoding)
        duration = self.cost.step(len(plan.decoding), context, [chunk for _, chunk in plan.chunks])
        for sequence, chunk in plan.chunks:
            sequence.computed += chunk.tokens
        got = [*plan.decoding, *(sequence for sequence, _ in plan.chunks if sequence.decoding)]
        for sequence in plan.decoding:
            sequence.computed += 1
        finished = self._write(got)
        return Step(
            duration=duration,
            tokens=tuple(sequence.id for sequence in got),
            finished=tuple(finished),
            admitted=tuple(plan.admitted),
            preempted=tuple(plan.preempted),
            decoded=len(plan.decoding),
            chunks=tuple((sequence.id, chunk.tokens) for sequence, chunk in plan.chunks),
        )

    def _write(self, got: list[_Sequence]) -> list[int]:
        """Give each of them its token; the ids of those that are complete and leave."""
        finished = []
        for sequence in got:
            sequence.generated += 1
            if sequence.generated == sequence.output:
                self._running.remove(sequence)
                self._release(sequence)
                finished.append(sequence.id)
        return finished

    def _plan_decodes(self, plan: _Plan) -> None:
        """Rule 1 and 4: a victim is always the last in line, so no sequence already planned is ever taken back."""
        position = 0
        while position < len(self._running) and len(plan.decoding) < self.limits.max_num_batched_tokens:
            sequence = self._running[position]
            if sequence.decoding and self._grow(sequence, plan):
                plan.decoding.append(sequence)
            position += 1

    def _grow(self, sequence: _Sequence, plan: _Plan) -> bool:
        """Make room in the KV for one more token; False when the sequence itself was the one to preempt."""
        while self._blocks(sequence.computed + 1) > sequence.blocks + self.free_blocks:
            victim = self._running.pop()
            self._release(victim)
            victim.computed, victim.target = 0, victim.prompt + victim.generated
            self._waiting.appendleft(victim)
            plan.preempted.append(victim.id)
            if victim is sequence:
                return False
        self._reserve(sequence, sequence.computed + 1)
        return True

    def _plan_prefills(self, plan: _Plan) -> None:
        """Rule 2."""
        allowance = self.limits.max_num_batched_tokens - len(plan.decoding)
        if self.limits.prefill_chunk is not None:
            allowance = min(allowance, self.limits.prefill_chunk)
        for sequence in self._running:
            if allowance and not sequence.decoding:
                allowance -= self._prefill(sequence, allowance, plan)
        while allowance and self._waiting and not plan.preempted and self.running < self.limits.max_num_seqs:
            sequence = self._waiting[0]
            if self._blocks(sequence.target) > self.free_blocks:
                break
            self._running.append(self._waiting.popleft())
            self._reserve(sequence, sequence.target)
            plan.admitted.append(sequence.id)
            allowance -= self._prefill(sequence, allowance, plan)

    def _prefill(self, sequence: _Sequence, allowance: int, plan: _Plan) -> int:
        tokens = min(allowance, sequence.target - sequence.computed)
        plan.chunks.append((sequence, Chunk(tokens, sequence.computed)))
        return tokens

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _reserve(self, sequence: _Sequence, tokens: int) -> None:
        more = self._blocks(tokens) - sequence.blocks
        if more > 0:
            sequence.blocks += more
            self.free_blocks -= more

    def _release(self, sequence: _Sequence) -> None:
        self.free_blocks += sequence.blocks
        sequence.blocks = 0
