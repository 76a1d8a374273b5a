"""One metric family with its samples at one instant: what the core hands to a view."""

from collections.abc import Sequence
from typing import NamedTuple

from exporter.core.histogram import Histogram
from exporter.names import Metric


class Family(NamedTuple):
    """A metric and its samples: (label values in the metric's order, value).

    A value is a number, or a Histogram for kind `histogram`. Where `metric.durations` holds, numbers are int ns.
    """

    metric: Metric
    samples: Sequence[tuple[tuple[str, ...], float | Histogram]]
