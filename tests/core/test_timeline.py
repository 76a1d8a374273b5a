"""Gaps, stalls and choices: semantics section 2, sentence by sentence, through the tap."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.ending import Ending
from exporter.core.timeline import MAX_CHOICES
from tests.core.drive import (
    DONE,
    FIN,
    C,
    begin,
    board,
    classes,
    delta,
    event,
    ns,
    outcomes,
    running,
    seconds,
    stream,
    total,
)

TTFT = "time_to_first_token_seconds"
GAP = "output_gap_seconds"
MAX_GAP = "request_max_gap_seconds"


def test_a_stall_is_strictly_longer_than_max_stall() -> None:
    on = board()
    stream(on, [(1, C("a")), (1.1, C("b")), (1.1, FIN())], 1.1)
    assert total(on, "stalls_total") == 0
    stream(on, [(1, C("a")), (1.100000001, C("b")), (1.2, FIN())], 1.2)
    assert total(on, "stalls_total", cause="stream") == total(on, "stalled_requests_total") == 1
    assert seconds(on, "stall_seconds_total") == 0.100000001


@pytest.mark.parametrize("end", [FIN(), DONE, event('{"error":"died"}')])
def test_a_long_silence_before_a_finish_an_end_or_an_error_is_a_stall_but_no_gap(end: bytes) -> None:
    on = board()
    stream(on, [(1, C("a")), (1.5, end)], 2)
    assert total(on, GAP) == 0
    assert total(on, "stalls_total") == 1
    assert seconds(on, "stall_seconds_total") == seconds(on, MAX_GAP) == 0.5


@pytest.mark.parametrize("end", [FIN(), DONE])
def test_a_short_silence_before_a_finish_is_nothing(end: bytes) -> None:
    on = board()
    stream(on, [(1, C("a")), (1.05, end)], 2)
    assert total(on, GAP) == total(on, MAX_GAP) == total(on, "stalls_total") == 0


def test_the_open_gap_at_a_bad_end_belongs_to_the_maximum() -> None:
    on = board()
    stream(on, [(1, C("a")), (1.03, C("b"))], 1.08, Ending.CUT)
    assert seconds(on, MAX_GAP) == 0.05
    assert total(on, "stalls_total") == 0
    on = board()
    stream(on, [(1, C("a")), (1.03, event('{"error":"died"}'))], 5)
    assert seconds(on, MAX_GAP) == 0.03
    on = board()
    stream(on, [(1, C("a") + event('{"error":"died"}'))], 5)
    assert total(on, MAX_GAP) == 0


def test_tokens_after_an_error_go_on() -> None:
    on = board()
    stream(on, [(1, C("a")), (1.05, event('{"error":"x"}')), (1.08, C("b")), (1.3, DONE)], 1.3)
    assert total(on, GAP) == 1
    assert total(on, "stalls_total") == 1
    assert outcomes(on) == {"stream_error": 1}


def test_a_finish_after_an_error_closes_the_choice() -> None:
    on = board()
    stream(on, [(1, C("a")), (1.05, event('{"error":"x"}')), (1.06, FIN())], 9)
    assert total(on, MAX_GAP) == total(on, "stalls_total") == 0


def test_tokens_after_a_finish_go_on() -> None:
    on = board()
    stream(on, [(1, C("a") + FIN()), (1.05, C("b")), (1.06, FIN())], 1.3)
    assert seconds(on, GAP) == 0.05
    assert outcomes(on) == {"ok": 1}
    on = board()
    stream(on, [(1, C("a") + FIN()), (1.05, C("b"))], 1.1)
    assert seconds(on, MAX_GAP) == 0.05
    assert outcomes(on) == {"ok": 1}


def test_the_wait_for_the_first_token_is_no_stall() -> None:
    on = board()
    stream(on, [(50, C("a") + FIN())], 50)
    assert total(on, "stalls_total") == total(on, GAP) == 0


def test_a_class_without_max_stall_has_no_stalls() -> None:
    on = board(classes=classes(ttft=1))
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    on.tick(ns(1000))
    assert len(on.deadlines) == 0
    tap.feed(C("b") + FIN(), ns(2000))
    tap.close(ns(2000), Ending.COMPLETE)
    assert total(on, "stalls_total") == total(on, "stalled_requests_total") == 0
    assert total(on, GAP) == 1


def test_gaps_are_per_choice() -> None:
    on = board()
    reads = [(1, C("a", 0)), (1.05, C("x", 1)), (1.2, C("b", 0)), (1.21, C("y", 1)), (1.3, FIN(0) + FIN(1) + DONE)]
    stream(on, reads, 1.3)
    assert total(on, GAP) == 2
    assert seconds(on, GAP) == pytest.approx(0.36)
    assert total(on, "stalls_total") == 2
    assert total(on, MAX_GAP) == total(on, "stalled_requests_total") == 1
    assert seconds(on, MAX_GAP) == 0.2


def test_choices_beyond_the_cap_are_folded_and_counted() -> None:
    on = board()
    names = b"".join(C("a", index) for index in range(MAX_CHOICES + 2))
    reads = [(1, names), (1.05, C("b", MAX_CHOICES)), (1.07, C("b", MAX_CHOICES + 1)), (1.08, running("c", 4, 500))]
    stream(on, [*reads, (1.2, DONE)], 1.2)
    assert total(on, "unparsed_events_total", reason="choices") == 1
    assert total(on, GAP) == 3
    assert seconds(on, GAP) == pytest.approx(0.08)
    assert total(on, "output_tokens_total") == 0
    assert total(on, "requests_without_usage_total") == 1
    assert total(on, "output_events_total") == MAX_CHOICES + 5
    assert total(on, "requests_total", outcome="ok") == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=3)), max_size=25
    )
)
def test_sums_are_kept_per_choice(steps: Any) -> None:
    on = board()
    tap = begin(on)
    now = 0
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for wait, parts in steps:
        now += wait * 1_000_000
        for index, _ in parts:
            first.setdefault(index, now)
            last[index] = now
        tap.feed(b"".join(C("a", index) if answer else delta('"reasoning":"r"', index) for index, answer in parts), now)
    tap.feed(DONE, now)
    tap.close(now, Ending.COMPLETE)
    spans = sum(last[index] - first[index] for index in first)
    assert seconds(on, GAP) == pytest.approx(spans / 1e9)
    assert seconds(on, TTFT) == pytest.approx(min(first.values(), default=0) / 1e9)


@pytest.mark.parametrize("ending", [event('{"error":"died"}'), FIN(), DONE], ids=["error", "finish", "marker"])
def test_a_silence_is_one_stall_however_often_it_ends(ending: bytes) -> None:
    """An error, a finish or the marker ends it, then a late token again: one stall, as long as the whole silence."""
    on = board()
    tap = begin(on)
    for when, data in ((1.0, C("a")), (1.3, ending), (1.31, C("b"))):
        tap.feed(data, ns(when))
    tap.close(ns(1.32), Ending.COMPLETE)
    assert total(on, "stalls_total") == 1
    assert seconds(on, "stall_seconds_total") == pytest.approx(0.31)
    assert total(on, "stalled_requests_total") == 1
