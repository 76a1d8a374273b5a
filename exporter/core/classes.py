"""A class of requests and what it promises: thresholds and an objective (semantics section 4)."""

from collections.abc import Iterator
from dataclasses import dataclass

from exporter.core.units import MILLISECOND, SECOND


@dataclass(frozen=True, slots=True)
class SloClass:
    """Thresholds in ns (None: not promised) and the target share of good requests (0-1)."""

    name: str
    ttft: int | None = None
    max_stall: int | None = None
    tpot: int | None = None
    duration: int | None = None
    objective: float = 0.99

    def thresholds(self) -> Iterator[tuple[str, int]]:
        """Give (condition, ns) for each threshold that is promised."""
        pairs = (
            ("ttft", self.ttft),
            ("max_stall", self.max_stall),
            ("tpot", self.tpot),
            ("duration", self.duration),
        )
        for condition, limit in pairs:
            if limit is not None:
                yield condition, limit


# What applies when nothing is configured (semantics section 8).
DEFAULT_CLASS = SloClass("chat", ttft=SECOND, max_stall=100 * MILLISECOND, objective=0.99)
