"""What two scrapes of the sidecar tell: increases, rates, estimates from buckets. Every number worked out by hand."""

import pytest

from exporter import names
from exporter.lab.readings import Reading, Span, read

WANTED = (names.OUTPUT_GAP, names.OUTPUT_EVENTS, names.STALLED_REQUESTS, names.STREAMED_REQUESTS, names.OPEN_GAP)


def exposition(chat: tuple[int, int, int], events: int, waiting: float = 0.0, streaming: float = 0.0) -> str:
    """Cumulative gap counts at 0.1, 0.2 and +Inf for one model, 10 for another; and a family nobody wants."""
    lines = ["# HELP stallwatch_output_gap_seconds x", "# TYPE stallwatch_output_gap_seconds histogram"]
    for edge, count in zip(("0.1", "0.2", "+Inf"), chat, strict=True):
        lines.append(f'stallwatch_output_gap_seconds_bucket{{model="a",le="{edge}"}} {count}')
        lines.append(f'stallwatch_output_gap_seconds_bucket{{model="b",le="{edge}"}} 10')
    lines.append("# TYPE stallwatch_output_events_total counter")
    lines.append(f'stallwatch_output_events_total{{model="a"}} {events}')
    lines.append('stallwatch_output_events_total{model="b"} 1')
    lines.append("# TYPE stallwatch_open_gap_seconds gauge")
    for name, value in (("waiting", waiting), ("streaming", streaming)):
        lines.append(f'stallwatch_open_gap_seconds{{slo_class="chat",phase="{name}"}} {value}')
        lines.append(f'stallwatch_open_gap_seconds{{slo_class="batch",phase="{name}"}} 0.01')
    lines.append("rubbish that is not wanted {")
    return "\n".join(lines) + "\n"


def reading(text: str, at: float = 0.0) -> Reading:
    return read(text, at, WANTED)


def span(before: tuple[int, int, int], after: tuple[int, int, int]) -> Span:
    return Span(reading(exposition(before, 5), 1.0), reading(exposition(after, 25), 5.0))


def test_increase_and_rate_sum_over_labels() -> None:
    both = span((0, 0, 0), (0, 0, 0))
    assert both.increase(names.OUTPUT_EVENTS) == 20
    assert both.rate(names.OUTPUT_EVENTS) == 5.0
    assert both.increase(names.STALLED_REQUESTS) == 0
    assert Span(both.before, both.before).rate(names.OUTPUT_EVENTS) is None


def test_share() -> None:
    both = span((0, 0, 0), (0, 0, 0))
    assert both.share(names.OUTPUT_EVENTS, names.OUTPUT_EVENTS) == 1
    assert both.share(names.OUTPUT_EVENTS, names.STREAMED_REQUESTS) is None


@pytest.mark.parametrize(
    ("after", "quantile", "expected"),
    [
        ((4, 8, 8), 0.25, 0.05),  # rank 2 of 4 in 0..0.1
        ((4, 8, 8), 0.75, 0.15),  # rank 2 of 4 in 0.1..0.2
        ((0, 4, 4), 0.5, 0.15),
        ((0, 0, 4), 0.5, 0.2),  # beyond the last finite edge
        ((0, 0, 0), 0.5, None),
    ],
)
def test_quantile_is_interpolated(after: tuple[int, int, int], quantile: float, expected: float | None) -> None:
    assert span((0, 0, 0), after).quantile(names.OUTPUT_GAP, quantile) == pytest.approx(expected)


def test_only_the_difference_counts() -> None:
    assert span((4, 8, 8), (6, 10, 10)).quantile(names.OUTPUT_GAP, 1.0) == pytest.approx(0.1)
    assert span((4, 8, 8), (6, 10, 10)).highest(names.OUTPUT_GAP) == (0.0, 0.1)


def test_highest_bucket() -> None:
    assert span((0, 0, 0), (1, 2, 2)).highest(names.OUTPUT_GAP) == (0.1, 0.2)
    assert span((0, 0, 0), (1, 2, 3)).highest(names.OUTPUT_GAP) == (0.2, float("inf"))
    assert span((0, 0, 0), (0, 0, 0)).highest(names.OUTPUT_GAP) is None
    assert span((0, 0, 0), (0, 0, 0)).highest(names.TIME_TO_FIRST_TOKEN) is None


def test_gauge_is_the_largest_with_these_labels() -> None:
    now = reading(exposition((0, 0, 0), 0, waiting=3.0, streaming=0.5))
    assert now.gauge(names.OPEN_GAP, phase="streaming") == 0.5
    assert now.gauge(names.OPEN_GAP) == 3.0
    assert now.gauge(names.OPEN_GAP, slo_class="batch") == 0.01
    assert now.gauge(names.SLO_THRESHOLD) is None


def test_what_is_no_exposition() -> None:
    with pytest.raises(ValueError, match="could not convert string to float"):
        reading("stallwatch_output_events_total x\n")
