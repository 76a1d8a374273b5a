"""The cost of a step: every parameter, one at a time, by hand-worked numbers."""

import pytest

from exporter.lab.cost import Chunk, CostModel

FREE = CostModel(overhead=0, decode=0, prefill=0)


@pytest.mark.parametrize(
    ("cost", "decoding", "context", "chunks", "expected"),
    [
        (CostModel(), 0, 0, [], 500_000),
        (CostModel(), 1, 9, [], 4_500_000),
        (CostModel(), 2, 0, [Chunk(4096, 0)], 68_500_000),
        (CostModel(), 0, 0, [Chunk(1000, 0), Chunk(24, 7)], 16_500_000),
        (CostModel(overhead=0, decode=0, prefill=0, decode_per_sequence=7), 3, 0, [], 21),
        (CostModel(overhead=0, decode=0, prefill=0, decode_history=5), 2, 3072, [], 15),
        (CostModel(overhead=0, decode=0, prefill=0, prefill_history=3), 0, 0, [Chunk(1, 1024), Chunk(1, 1024)], 6),
        # 1024 new tokens over 1536 old ones: 1024 * 1536 + 1024 * 1025 / 2 = 2_097_664 pairs, 2.0005 * 2**20
        (CostModel(overhead=0, decode=0, prefill=0, prefill_attention=1000), 0, 0, [Chunk(1024, 1536)], 2000),
    ],
)
def test_step(cost: CostModel, decoding: int, context: int, chunks: list[Chunk], expected: int) -> None:
    assert cost.step(decoding, context, chunks) == expected


def test_the_quadratic_part_does_not_depend_on_the_cut() -> None:
    cost = CostModel(overhead=0, decode=0, prefill=0, prefill_attention=2**20)
    whole = cost.step(0, 0, [Chunk(1000, 0)])
    assert whole == cost.step(0, 0, [Chunk(300, 0)]) + cost.step(0, 0, [Chunk(700, 300)])


def test_negative_costs_are_refused() -> None:
    with pytest.raises(ValueError, match="decode_history: expected 0 ns or more, got -1"):
        CostModel(decode_history=-1)
