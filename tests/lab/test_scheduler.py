"""The scheduler's rules on virtual time, and what holds for any load."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.lab.cost import CostModel
from exporter.lab.scheduler import Limits, Scheduler, Step

COST = CostModel()


def scheduler(*, block_size: int = 16, num_blocks: int = 4096, **limits: int) -> Scheduler:
    return Scheduler(Limits(**limits), COST, block_size=block_size, num_blocks=num_blocks)


def drain(engine: Scheduler) -> list[Step]:
    steps = []
    while not engine.idle:
        steps.append(engine.step())
    return steps


def test_first_token_comes_with_the_last_prefill_chunk() -> None:
    engine = scheduler(max_num_batched_tokens=100)
    one = engine.add(250, 2)
    steps = drain(engine)
    assert [step.prefilled for step in steps] == [100, 100, 50, 0]
    assert [step.tokens for step in steps] == [(), (), (one,), (one,)]
    assert [step.finished for step in steps] == [(), (), (), (one,)]
    assert steps[0].duration == 500_000 + 100 * 15_625
    assert steps[3].duration == 4_500_000


def test_decodes_come_first_and_share_the_budget() -> None:
    engine = scheduler(max_num_batched_tokens=10)
    for _ in range(4):
        engine.add(1, 50)
    engine.step()
    long = engine.add(12, 1)
    step = engine.step()
    assert (step.decoded, step.prefilled) == (4, 6)
    assert step.duration == 500_000 + 4_000_000 + 6 * 15_625
    assert engine.step().finished == (long,)


def test_the_prefill_cap_is_not_the_budget() -> None:
    engine = scheduler(max_num_batched_tokens=100, prefill_chunk=8)
    engine.add(5, 9)
    engine.add(30, 1)
    first, second = engine.step(), engine.step()
    assert (first.decoded, first.chunks) == (0, ((0, 5), (1, 3)))
    assert (second.decoded, second.chunks) == (1, ((1, 8),))


def test_a_budget_below_the_decodes_serves_the_oldest() -> None:
    engine = scheduler()
    ids = [engine.add(1, 3) for _ in range(3)]
    engine.step()
    engine.limits = Limits(max_num_batched_tokens=2)
    assert engine.step().tokens == (ids[0], ids[1])
    assert engine.step().finished == (ids[0], ids[1])
    assert engine.step().tokens == (ids[2],)


def test_max_num_seqs_keeps_the_rest_waiting() -> None:
    engine = scheduler(max_num_seqs=2)
    ids = [engine.add(4, 1 + n) for n in range(3)]
    assert engine.step().admitted == (ids[0], ids[1])
    assert (engine.running, engine.waiting) == (1, 1)
    assert engine.step().admitted == (ids[2],)


def test_preemption_recomputes_prompt_and_output() -> None:
    engine = scheduler(block_size=4, num_blocks=4)  # room for 16 tokens
    old, young = engine.add(4, 8), engine.add(4, 8)
    steps = [engine.step() for _ in range(5)]
    assert engine.free_blocks == 0  # both hold 4 + 4 tokens
    steps.append(engine.step())
    assert steps[-1].preempted == (young,)
    assert steps[-1].tokens == (old,)
    assert (engine.running, engine.waiting) == (1, 1)
    rest = drain(engine)
    readmission = next(step for step in rest if step.admitted == (young,))
    assert readmission.chunks == ((young, 4 + 5),)
    given_tokens = [sequence for step in steps + rest for sequence in step.tokens]
    assert given_tokens.count(old) == given_tokens.count(young) == 8
    assert engine.free_blocks == 4


def test_the_latest_may_have_to_preempt_itself() -> None:
    engine = scheduler(block_size=1, num_blocks=10, prefill_chunk=2)
    engine.add(1, 9)
    engine.step()
    long, latest = engine.add(6, 1), engine.add(1, 9)
    # The long prompt holds 6 blocks from its admission; the latest one is the first in need of a free block.
    preempted = [sequence for step in drain(engine) for sequence in step.preempted]
    assert long not in preempted
    assert latest in preempted


def test_no_admission_in_a_step_that_preempted() -> None:
    engine = scheduler(block_size=4, num_blocks=4)
    engine.add(4, 8)
    engine.add(4, 8)
    for _ in range(5):
        engine.step()
    engine.add(1, 1)
    step = engine.step()
    assert step.preempted
    assert not step.admitted


def test_cancel_frees_the_kv_wherever_the_sequence_is() -> None:
    engine = scheduler(max_num_seqs=1)
    running, waiting = engine.add(40, 9), engine.add(40, 9)
    engine.step()
    assert engine.cancel(waiting)
    assert engine.cancel(running)
    assert not engine.cancel(running)
    assert engine.idle
    assert engine.free_blocks == engine.num_blocks


def test_an_idle_step_does_nothing() -> None:
    step = scheduler().step()
    assert (step.tokens, step.prefilled, step.duration) == ((), 0, COST.overhead)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Limits(max_num_batched_tokens=0), "max_num_batched_tokens: expected .* at least 1, got 0"),
        (lambda: Limits(prefill_chunk=0), "prefill_chunk: expected .* at least 1, got 0"),
        (lambda: Limits(max_num_seqs=-1), "max_num_seqs: expected .* at least 1, got -1"),
        (lambda: scheduler(block_size=0), "block_size: expected .* at least 1, got 0"),
        (lambda: scheduler(num_blocks=0), "num_blocks: expected .* at least 1, got 0"),
        (lambda: scheduler().add(0, 1), "prompt: expected .* at least 1, got 0"),
        (lambda: scheduler().add(1, 0), "output: expected .* at least 1, got 0"),
        (lambda: scheduler(block_size=4, num_blocks=2).add(8, 2), "need 9 tokens of KV cache, which holds 8"),
    ],
)
def test_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


Load = tuple[Scheduler, list[tuple[int, int, int]], set[int]]


@st.composite
def loads(draw: st.DrawFn) -> Load:
    block_size = draw(st.integers(1, 8))
    num_blocks = draw(st.integers(8, 24))
    room = block_size * num_blocks
    limits = Limits(
        max_num_batched_tokens=draw(st.integers(1, 40)),
        prefill_chunk=draw(st.none() | st.integers(1, 20)),
        max_num_seqs=draw(st.integers(1, 6)),
    )
    engine = Scheduler(limits, COST, block_size=block_size, num_blocks=num_blocks)
    sizes = st.integers(1, room // 2)
    arrivals = draw(st.lists(st.tuples(st.integers(0, 10), sizes, sizes), min_size=1, max_size=8))
    cancels = draw(st.sets(st.integers(0, 7), max_size=2))
    return engine, arrivals, cancels


@given(loads())
def test_any_load_is_served_whole_within_its_limits(load: Load) -> None:
    engine, arrivals, cancels = load
    wanted: dict[int, int] = {}
    got: dict[int, int] = {}
    held: dict[int, int] = {}
    prompts: dict[int, int] = {}
    pending = sorted(arrivals, key=lambda arrival: arrival[0])
    for number in range(20_000):
        while pending and pending[0][0] <= number:
            _, prompt, output = pending.pop(0)
            sequence = engine.add(prompt, output)
            wanted[sequence], got[sequence] = output, 0
            held[sequence], prompts[sequence] = 0, prompt
        if number == 5:
            for sequence in cancels & set(wanted):
                engine.cancel(sequence)
                wanted[sequence] = got[sequence]
        if engine.idle:
            if not pending:
                break
            continue
        step = engine.step()
        check(engine, step)
        for sequence in step.preempted:
            held[sequence] = 0  # all of its KV is gone
        for sequence, tokens in step.chunks:
            held[sequence] += tokens
            assert held[sequence] <= prompts[sequence] + got[sequence], "never more prefilled than there is to compute"
        for sequence in step.tokens:
            prefilling = sequence in dict(step.chunks)
            if prefilling:
                assert held[sequence] == prompts[sequence] + got[sequence], "a token before the prefill was done"
            else:
                held[sequence] += 1
            got[sequence] += 1
    assert engine.idle, "the load did not end"
    assert got == wanted
    assert engine.free_blocks == engine.num_blocks


def check(engine: Scheduler, step: Step) -> None:
    limits = engine.limits
    assert 0 <= engine.free_blocks <= engine.num_blocks
    assert engine.running <= limits.max_num_seqs
    assert step.decoded + step.prefilled <= limits.max_num_batched_tokens
    assert step.prefilled <= (limits.prefill_chunk or step.prefilled)
    assert step.decoded + step.prefilled + len(step.preempted) > 0, "a step with work must do some"
    assert len(set(step.tokens)) == len(step.tokens)
    assert set(step.finished) <= set(step.tokens)
