"""The core measures every capture exactly as the golden files say, wherever the reads were cut."""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import names
from exporter.names import Metric
from tests.capture import Capture, keys, load
from tests.core.replayed import Body, Figures, bodies, bucketed, drive
from tests.golden import __main__ as golden_main

Golden = dict[str, Any]


def golden_of(capture: Capture) -> Golden:
    value: Golden = json.loads((Path(golden_main.__file__).parent / f"{capture.key}.json").read_text())
    return value


def assert_samples(figures: Figures, metric: Metric, samples: Sequence[int | Fraction], **labels: str) -> None:
    """Every sample in its bucket and the sum exact; a fraction may be rounded to a whole ns."""
    histogram = figures.histogram(metric, **labels)
    if histogram is None:
        assert not samples, metric.name
        return
    assert histogram.counts == bucketed(histogram.edges, samples), metric.name
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
    uncounted = golden["outcome"] == "ok" and golden["output_tokens"] is None
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


@pytest.mark.parametrize("key", keys())
def test_every_figure_of_every_capture(key: str) -> None:
    capture = load(key)
    figures = drive(capture, list(bodies(capture)))
    assert_golden(figures, golden_of(capture))
    route = "/v1/completions" if "completions-" in capture.name else "/v1/chat/completions"
    assert figures.labels(names.REQUESTS, "route") == {route: 1}
    assert figures.labels(names.REQUESTS, "slo_class") == {"chat": 1}


@pytest.mark.parametrize("key", keys())
def test_byte_by_byte_under_the_same_stamps_nothing_changes(key: str) -> None:
    """Several feeds with one stamp are one arrival. Only ITL needs a read in one feed, as the relay gives it."""
    capture = load(key)
    feeds = [(data[i : i + 1], at) for data, at in bodies(capture) for i in range(len(data))]
    assert_golden(drive(capture, feeds), golden_of(capture), itl=False)


def recut(body: bytes, cuts: Iterable[int], start: int) -> list[Body]:
    """The body cut at these places, each piece 1 us after the one before, from `start`."""
    places = [0, *sorted(cuts), len(body)]
    return [(body[a:b], start + 1000 * i) for i, (a, b) in enumerate(pairwise(places)) if a < b]


def assert_recut(capture: Capture, cuts: Iterable[int]) -> None:
    body = b"".join(data for data, _ in bodies(capture))
    feeds = recut(body, cuts, capture.pieces[-1].at)
    last = feeds[-1][1] if feeds else None
    assert_cut_free(drive(capture, feeds, last), golden_of(capture))


@pytest.mark.parametrize("key", keys())
def test_each_byte_a_read_of_its_own(key: str) -> None:
    capture = load(key)
    assert_recut(capture, range(1, sum(len(data) for data, _ in bodies(capture))))


SMALL = [key for key in keys() if len(load(key).raw) < 50_000]


@settings(deadline=None)
@given(key=st.sampled_from(SMALL), data=st.data())
def test_cut_at_random(key: str, data: st.DataObject) -> None:
    capture = load(key)
    size = sum(len(body) for body, _ in bodies(capture))
    assert_recut(capture, data.draw(st.sets(st.integers(1, max(1, size - 1)), max_size=40)))
