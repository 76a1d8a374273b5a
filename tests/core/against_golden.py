"""Compares what a board shows with what a golden timeline says, figure by figure."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

from exporter import names
from exporter.names import Metric
from tests.core.replayed import Figures, bucketed

Golden = dict[str, Any]


def assert_samples(figures: Figures, metric: Metric, samples: Sequence[int | Fraction], **labels: str) -> None:
    """Every sample in its bucket and the sum exact; fractions may be rounded to whole ns, all up or all down."""
    histogram = figures.histogram(metric, **labels)
    if histogram is None:
        assert not samples, metric.name
        return
    assert histogram.counts in [bucketed(histogram.edges, map(whole, samples)) for whole in (floor, ceil)], metric.name
    rounded = sum(1 for sample in samples if isinstance(sample, Fraction) and sample.denominator > 1)
    error = Fraction(histogram.total) - sum((Fraction(sample) for sample in samples), Fraction(0))
    assert abs(error) <= rounded, metric.name


def known(value: int | None) -> list[int]:
    return [] if value is None else [value]


def assert_cut_free(figures: Figures, golden: Golden) -> None:
    """What must not depend on where reads were cut: events, tokens, outcome, what could not be read."""
    assert figures.labels(names.REQUESTS, "outcome") == {golden["outcome"]: 1}
    assert figures.labels(names.REQUESTS, "model") == {golden["model"]: 1}
    assert figures.number(names.REQUESTS_STARTED) == 1
    assert figures.labels(names.UNPARSED_EVENTS, "reason") == golden["unparsed"]
    assert figures.number(names.TAP_FAULTS) == 0
    assert figures.number(names.INVALID_SAMPLES) == 0
    assert figures.number(names.OUTPUT_EVENTS) == golden["output_events"]
    assert figures.number(names.OUTPUT_TOKENS) == (golden["output_tokens"] or 0)
    assert figures.number(names.PROMPT_TOKENS) == (golden["prompt_tokens"] or 0)
    assert figures.number(names.STREAMED_REQUESTS) == (golden["ttft_ns"] is not None)
    assert figures.number(names.REQUESTS_IN_FLIGHT) == 0
    assert figures.number(names.STREAMS_IN_FLIGHT) == 0
    assert figures.number(names.OPEN_GAP) == 0
    has_output = golden["output_events"] > 0 or not golden["streamed"]
    uncounted = golden["outcome"] == "ok" and golden["output_tokens"] is None and has_output
    assert figures.number(names.REQUESTS_WITHOUT_USAGE) == uncounted


def assert_golden(figures: Figures, golden: Golden, *, itl: bool = True) -> None:
    """Every figure, times included; `itl` says whether those of ITL too."""
    assert_cut_free(figures, golden)
    model = golden["model"]
    gaps = [gap for choice in golden["gaps_ns"].values() for gap in choice]
    assert_samples(figures, names.RESPONSE_HEADERS, [golden["headers_ns"]])
    assert_samples(figures, names.OUTPUT_GAP, gaps)
    expected: dict[Metric, Sequence[int | Fraction]] = {
        names.TIME_TO_FIRST_TOKEN: known(golden["ttft_ns"]),
        names.TIME_TO_FIRST_ANSWER_TOKEN: known(golden["ttfa_ns"]),
        names.REQUEST_MAX_GAP: known(golden["max_gap_ns"]),
        names.REQUEST_DURATION: known(golden["duration_ns"]),
        names.INTER_TOKEN_LATENCY: [Fraction(*pair) for pair in golden["itl_ns"]],
        names.TIME_PER_OUTPUT_TOKEN: [Fraction(*golden["tpot_ns"])] if golden["tpot_ns"] else [],
    }
    if not itl:
        del expected[names.INTER_TOKEN_LATENCY]
    for metric, samples in expected.items():
        assert_samples(figures, metric, samples)
        if samples:
            assert_samples(figures, metric, samples, model=model, slo_class="chat")
    assert figures.number(names.STALLS) == len(golden["stalls_ns"])
    assert figures.number(names.STALL_SECONDS) == sum(golden["stalls_ns"])
    assert figures.number(names.STALLED_REQUESTS) == bool(golden["stalls_ns"])
