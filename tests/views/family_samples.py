"""Hand-made families for the view tests: every metric of the product once, with label sets and numbers chosen here."""

from collections.abc import Iterable, Iterator

from exporter import names
from exporter.core.family import Family
from exporter.core.histogram import Histogram
from exporter.names import Metric

MS = 1_000_000
EDGES = (20_000, 1 * MS, 100 * MS, 1000 * MS, 600_000 * MS)  # 20 us .. 10 min, in ns

METRICS = tuple(value for value in vars(names).values() if isinstance(value, Metric))


def histogram(*values: int, edges: tuple[int, ...] = EDGES) -> Histogram:
    made = Histogram(edges)
    for value in values:
        made.observe(value)
    return made


def every_metric(models: Iterable[str] = ("m1",)) -> Iterator[Family]:
    """Give every metric of names.py with one sample a model: what the board of a busy sidecar would give."""
    for metric in METRICS:
        label_sets = dict.fromkeys(
            tuple(model if label == "model" else "x" for label in metric.labels) for model in models
        )
        value = histogram(1 * MS, 100 * MS, 101 * MS) if metric.kind == "histogram" else 1_500_000_000
        yield Family(metric, [(labels, value) for labels in label_sets])
