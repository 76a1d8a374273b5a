"""The counters and histograms of one (model, class): plain attributes, so that a chunk costs no look-up.

They exist at 0 from the moment the pair is known. Durations in ns.
"""

from collections.abc import Mapping

from exporter.core.classes import SloClass
from exporter.core.histogram import Histogram
from exporter.core.units import NEVER
from exporter.names import (
    CAUSES,
    INTER_TOKEN_LATENCY,
    OUTPUT_GAP,
    REQUEST_DURATION,
    REQUEST_MAX_GAP,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_ANSWER_TOKEN,
    TIME_TO_FIRST_TOKEN,
    Metric,
)


class ClassFigures:
    """Everything counted per model and class."""

    __slots__ = (
        "duration",
        "gap",
        "itl",
        "max_gap",
        "max_stall",
        "model",
        "output_events",
        "output_tokens",
        "prompt_tokens",
        "slo_class",
        "stall_time",
        "stalled_requests",
        "stalls",
        "streamed_requests",
        "tpot",
        "ttfa",
        "ttft",
        "without_usage",
    )

    def __init__(self, model: str, slo_class: SloClass, edges: Mapping[Metric, tuple[int, ...]]) -> None:
        """Begin at 0."""
        self.model = model
        self.slo_class = slo_class.name
        self.max_stall = NEVER if slo_class.max_stall is None else slo_class.max_stall
        self.ttft = Histogram(edges[TIME_TO_FIRST_TOKEN])
        self.ttfa = Histogram(edges[TIME_TO_FIRST_ANSWER_TOKEN])
        self.gap = Histogram(edges[OUTPUT_GAP])
        self.max_gap = Histogram(edges[REQUEST_MAX_GAP])
        self.itl = Histogram(edges[INTER_TOKEN_LATENCY])
        self.tpot = Histogram(edges[TIME_PER_OUTPUT_TOKEN])
        self.duration = Histogram(edges[REQUEST_DURATION])
        self.stalls = dict.fromkeys(CAUSES, 0)
        self.stall_time = dict.fromkeys(CAUSES, 0)
        self.stalled_requests = 0
        self.streamed_requests = 0
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.output_events = 0
        self.without_usage = 0
