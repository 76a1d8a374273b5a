"""The long prompt beside two decodes: the figures of the issue, and where other limits bind."""

import pytest

from exporter.lab.scheduler import Limits
from exporter.lab.simulate import Scene, run_chunk

MS = 1_000_000


@pytest.mark.parametrize(
    ("chunk", "rounds", "max_gap", "done"),
    [(4096, 1, 68.5, 68.5), (1024, 4, 20.5, 82.0), (256, 16, 8.5, 136.0), (1000, 5, 20.125, 86.5)],
)
def test_reference_table(chunk: int, rounds: int, max_gap: float, done: float) -> None:
    assert run_chunk(Scene(), chunk) == (chunk, rounds, max_gap * MS, done * MS)


def test_the_total_budget_binds_when_it_is_smaller() -> None:
    # 100 tokens a step, two of them decodes: 98 for the prompt, so 42 rounds.
    outcome = run_chunk(Scene(limits=Limits(max_num_batched_tokens=100)), 4096)
    assert outcome.rounds == 42
    assert outcome.prefill_done == 42 * 4.5 * MS + 64 * MS


def test_a_prompt_that_finds_no_seat_waits() -> None:
    scene = Scene(prompt=64, decode_output=3, limits=Limits(max_num_seqs=2))
    # Three decode steps until both decodes are done, then the prompt alone: no gap but the usual one.
    assert run_chunk(scene, 64) == (64, 1, 4.5 * MS, 3 * 4.5 * MS + 1.5 * MS)


def test_no_gap_when_nobody_decodes_any_more() -> None:
    scene = Scene(prompt=64, decoders=1, decode_output=1, limits=Limits(max_num_seqs=1))
    outcome = run_chunk(scene, 64)
    assert outcome.max_gap == 4.5 * MS
    assert run_chunk(Scene(prompt=64, decoders=1, decode_output=0), 64).max_gap is None


def test_a_preempted_decode_is_followed_until_it_writes_again() -> None:
    # KV for 128 tokens: two decodes and a prompt of 96 fill it, and the youngest, the prompt itself, is not the victim
    # while it prefills one token a step in its own blocks.
    scene = Scene(prompt=32, decoders=2, decode_prompt=24, decode_output=60, block_size=8, num_blocks=11)
    outcome = run_chunk(scene, 1)
    assert outcome.prefill_done > 32 * 4.5 * MS
    assert outcome.max_gap is not None
    assert outcome.max_gap > 4.5 * MS + 15_625


@pytest.mark.parametrize(
    ("scene", "chunk", "message"),
    [
        (Scene(), 0, "prefill_chunk: expected"),
        (Scene(decoders=0), 1, "decoders: expected"),
        (Scene(prompt=0), 1, "prompt: expected"),
        (Scene(num_blocks=2), 64, "KV cache, which holds 32"),
    ],
)
def test_refused(scene: Scene, chunk: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_chunk(scene, chunk)
