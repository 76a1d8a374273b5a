"""Read the sidecar's `/metrics` text as a user would, and compare two readings.

Whatever comes off a histogram is an estimate: a quantile is interpolated inside its bucket, and the longest value is
known to the bucket only. Seconds, as in the text. What was not observed is None.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from exporter.names import PREFIX, Metric


@dataclass(frozen=True, slots=True)
class Reading:
    """One scrape: for each sample name the sum and the largest over its label sets, and each histogram's buckets."""

    at: float  # s of the monotonic clock
    sums: dict[str, float]
    largest: dict[str, float]
    buckets: dict[str, dict[float, float]]  # family -> upper edge -> cumulative count

    def gauge(self, metric: Metric, **labels: str) -> float | None:
        """The largest value of a gauge over the label sets that have these labels; None when it is not there."""
        return self.largest.get(_key(PREFIX + metric.name, labels))


def _key(name: str, labels: dict[str, str]) -> str:
    return " ".join([name, *(f"{label}={value}" for label, value in sorted(labels.items()))])


def read(text: str, at: float, wanted: Sequence[Metric]) -> Reading:
    """Read these metrics from an exposition in text format 0.0.4. ValueError when it is none."""
    starts = tuple(f"{before}{PREFIX}{metric.name}" for metric in wanted for before in ("", "# HELP ", "# TYPE "))
    text = "\n".join(line for line in text.splitlines() if line.startswith(starts)) + "\n"
    sums: defaultdict[str, float] = defaultdict(float)
    largest: dict[str, float] = {}
    buckets: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("_bucket") and family.type == "histogram":
                buckets[family.name][float(sample.labels["le"])] += sample.value
                continue
            sums[sample.name] += sample.value
            if family.type == "gauge":
                for key in {sample.name, *(_key(sample.name, {k: v}) for k, v in sample.labels.items())}:
                    largest[key] = max(largest.get(key, -math.inf), sample.value)
    return Reading(at, dict(sums), largest, {name: dict(edges) for name, edges in buckets.items()})


@dataclass(frozen=True, slots=True)
class Span:
    """What happened between two readings of one sidecar."""

    before: Reading
    after: Reading

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.after.at - self.before.at

    def increase(self, metric: Metric) -> float:
        """How much a counter grew, over all its label sets."""
        name = PREFIX + metric.name
        return self.after.sums.get(name, 0.0) - self.before.sums.get(name, 0.0)

    def rate(self, metric: Metric) -> float | None:
        """A counter's growth per second; None for a span without length."""
        return self.increase(metric) / self.seconds if self.seconds > 0 else None

    def share(self, part: Metric, whole: Metric) -> float | None:
        """One counter's growth over another's; None when the other did not grow."""
        total = self.increase(whole)
        return self.increase(part) / total if total else None

    def quantile(self, metric: Metric, share: float) -> float | None:
        """An estimate of the quantile, interpolated inside its bucket; the last finite edge when it is beyond."""
        counts = self._counts(metric)
        total = sum(count for _, _, count in counts)
        if not total:
            return None
        rank = share * total
        for lower, upper, count in counts:
            if count and rank <= count:
                return lower if math.isinf(upper) else lower + (upper - lower) * rank / count
            rank -= count
        return counts[-1][0]

    def highest(self, metric: Metric) -> tuple[float, float] | None:
        """The edges of the highest bucket that got a value: it lies above the first and at most at the second."""
        filled = [(lower, upper) for lower, upper, count in self._counts(metric) if count]
        return filled[-1] if filled else None

    def _counts(self, metric: Metric) -> list[tuple[float, float, float]]:
        """(lower edge, upper edge, values between) of each bucket."""
        name = PREFIX + metric.name
        before, after = self.before.buckets.get(name, {}), self.after.buckets.get(name, {})
        edges = [(edge, after[edge] - before.get(edge, 0.0)) for edge in sorted(after)]
        return [(low, high, at - below) for (low, below), (high, at) in pairwise([(0.0, 0.0), *edges])]
