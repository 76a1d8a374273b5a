"""What one step of the simulated engine costs in time: overhead + decode + prefill + attention over history.

All parameters and results are int nanoseconds. The defaults are the reference settings of `stallwatch simulate`: round
numbers for a model, not a measurement of any machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_MS = 1_000_000


class Chunk(NamedTuple):
    """Prompt tokens one sequence prefills in one step, and the tokens of it already in the KV cache before."""

    tokens: int
    history: int


@dataclass(frozen=True, slots=True)
class CostModel:
    """The parameters of a step's duration, in ns. The last four are 0 by default: the model without them is linear."""

    overhead: int = _MS // 2  # every step: scheduling, launching kernels, sampling
    decode: int = 4 * _MS  # a step with at least one decoding sequence: reading the weights once
    prefill: int = 64 * _MS  # per 4096 prompt tokens
    decode_per_sequence: int = 0  # per decoding sequence
    decode_history: int = 0  # per 1024 tokens of context that the decoding sequences attend to
    prefill_history: int = 0  # per 1024 tokens of history that a chunk reads back: what small chunks pay for
    prefill_attention: int = 0  # per 2**20 pairs of (new token, token it attends to): the quadratic part

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ValueError(f"cost {name}: expected 0 ns or more, got {getattr(self, name)}")

    def step(self, decoding: int, context: int, chunks: Sequence[Chunk]) -> int:
        """Duration of one step in ns: `decoding` sequences over `context` tokens in all, beside these chunks."""
        duration = self.overhead + self.decode_per_sequence * decoding + self.decode_history * context // 1024
        if decoding:
            duration += self.decode
        tokens = sum(chunk.tokens for chunk in chunks)
        history = sum(chunk.history for chunk in chunks)
        pairs = sum(c.tokens * c.history + c.tokens * (c.tokens + 1) // 2 for c in chunks)
        duration += self.prefill * tokens // 4096 + self.prefill_history * history // 1024
        return duration + (self.prefill_attention * pairs >> 20)
