"""Bucket edges of the core's histograms: one literal table, in ns, per metric.

Gaps start at 1 ms; every top is above 10 minutes. The thresholds of all classes go in as exact, inclusive edges, the
same for every label set of a metric, so that the share of samples within a threshold is exact.
"""

from collections.abc import Iterable

from exporter.core.classes import SloClass
from exporter.core.units import MILLISECOND
from exporter.names import (
    INTER_TOKEN_LATENCY,
    OUTPUT_GAP,
    REQUEST_DURATION,
    REQUEST_MAX_GAP,
    REQUEST_RECEIVE,
    RESPONSE_HEADERS,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_ANSWER_TOKEN,
    TIME_TO_FIRST_TOKEN,
    UPSTREAM_CONNECT,
    Metric,
)

_LONG = (1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 900_000)
_GAP = (1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, *_LONG)
_FIRST = (5, 10, 20, 50, 75, 100, 150, 200, 300, 500, 750, *_LONG)
_PER_TOKEN = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500, 750, *_LONG)
_WHOLE = (10, 50, 100, 250, 500, *_LONG, 1_800_000, 3_600_000)
_TRANSFER = (1, 2, 5, 10, 20, 50, 100, 200, 500, *_LONG)

# Milliseconds here, for the eye.
_EDGES_MS: dict[Metric, tuple[int, ...]] = {
    TIME_TO_FIRST_TOKEN: _FIRST,
    TIME_TO_FIRST_ANSWER_TOKEN: _FIRST,
    OUTPUT_GAP: _GAP,
    REQUEST_MAX_GAP: _GAP,
    INTER_TOKEN_LATENCY: _PER_TOKEN,
    TIME_PER_OUTPUT_TOKEN: _PER_TOKEN,
    REQUEST_DURATION: _WHOLE,
    REQUEST_RECEIVE: _TRANSFER,
    UPSTREAM_CONNECT: _TRANSFER,
    RESPONSE_HEADERS: _FIRST,
}


def edges(classes: Iterable[SloClass]) -> dict[Metric, tuple[int, ...]]:
    """Give each histogram's edges in ns, with every class's thresholds among them."""
    thresholds = {limit for slo_class in classes for _, limit in slo_class.thresholds()}
    return {
        metric: tuple(sorted(thresholds | {edge * MILLISECOND for edge in base})) for metric, base in _EDGES_MS.items()
    }
