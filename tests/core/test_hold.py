"""Held time: taken out of what is judged (semantics section 2), through the tap."""

from collections.abc import Callable
from functools import partial

import pytest

from exporter.core.aggregates import Board
from exporter.core.ending import Ending
from tests.core.drive import (
    DONE,
    FIN,
    JSON,
    C,
    begin,
    board,
    event,
    ns,
    running,
    seconds,
    total,
)

GAP = "output_gap_seconds"
MAX_GAP = "request_max_gap_seconds"
ITL = "inter_token_latency_seconds"
TPOT = "time_per_output_token_seconds"
DURATION = "request_duration_seconds"


def held(
    reads: list[tuple[float, bytes]],
    hold: float,
    release: float | None,
    closed: float,
    ending: Ending = Ending.COMPLETE,
    tick: float | None = None,
) -> Board:
    on = board()
    tap = begin(on)
    steps: list[tuple[float, Callable[[], None]]] = [(when, partial(tap.feed, data, ns(when))) for when, data in reads]
    steps += [(hold, partial(tap.hold, ns(hold)))] * 2
    if release is not None:
        steps.append((release, partial(tap.release, ns(release))))
    if tick is not None:
        steps.append((tick, partial(on.tick, ns(tick))))
    for _, step in sorted(steps, key=lambda pair: pair[0]):
        step()
    tap.close(ns(closed), ending)
    return on


def test_a_long_gap_with_held_time_is_the_clients_and_in_no_other_figure() -> None:
    on = held([(1, running("a", 1)), (3, running("b", 2)), (3.05, running("c", 3)), (3.05, FIN())], 1.01, 3, 3.05)
    assert total(on, "stalls_total", cause="client") == total(on, "stalls_total") == 1
    assert total(on, "stall_seconds_total") == total(on, "stalled_requests_total") == 0
    assert seconds(on, GAP) == seconds(on, ITL) == seconds(on, MAX_GAP) == pytest.approx(0.05)
    assert total(on, GAP) == total(on, ITL) == 1
    assert seconds(on, TPOT) == pytest.approx((2.05 - 1.99) / 2)
    assert seconds(on, DURATION) == pytest.approx(3.05 - 1.99)


def test_a_short_gap_with_held_time_is_in_no_figure() -> None:
    on = held([(1, C("a")), (1.05, C("b")), (1.05, FIN())], 1.01, 1.02, 1.05)
    assert total(on, GAP) == total(on, MAX_GAP) == total(on, "stalls_total") == 0


def test_a_gap_with_held_time_never_stalls_the_request() -> None:
    on = held([(1, C("a")), (2, C("b")), (2, FIN())], 1.01, 1.02, 2)
    assert total(on, "stalls_total", cause="client") == total(on, "stalls_total") == 1
    assert total(on, "stalled_requests_total") == 0


@pytest.mark.parametrize("release", [2, None])
def test_a_held_silence_before_an_abort(release: float | None) -> None:
    on = held([(1, C("a"))], 1.01, release, 2.01, Ending.CLIENT_LEFT)
    assert total(on, "stalls_total", cause="client") == total(on, "stalls_total") == 1
    assert total(on, MAX_GAP) == total(on, "stalled_requests_total") == 0


def test_a_held_silence_will_be_the_clients_and_is_not_watched() -> None:
    on = board()
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    tap.hold(ns(1.05))
    on.tick(ns(2))
    assert (total(on, "stalled_requests_total"), len(on.deadlines)) == (0, 0)
    assert seconds(on, "open_gap_seconds", 2) == pytest.approx(0.05)
    tap.release(ns(3))
    on.tick(ns(9))
    assert (total(on, "stalled_requests_total"), len(on.deadlines)) == (0, 0)
    tap.feed(C("b"), ns(9))  # the next silence holds none
    assert len(on.deadlines) == 1
    on.tick(ns(9.2))
    assert total(on, "stalled_requests_total") == 1


def test_a_silence_after_a_held_one_is_watched() -> None:
    on = board()
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    tap.hold(ns(1.01))
    tap.release(ns(1.02))
    tap.feed(C("b"), ns(1.05))
    on.tick(ns(1.2))
    assert total(on, "stalled_requests_total") == 1


def test_a_hold_without_a_silence_watches_nothing() -> None:
    on = board()
    tap = begin(on)
    tap.feed(C("a") + FIN(), ns(1))
    on.tick(ns(5))
    tap.hold(ns(6))
    tap.release(ns(7))
    assert len(on.deadlines) == 0


def test_held_time_shortens_the_duration_of_a_plain_answer_too() -> None:
    on = board()
    tap = begin(on, headers=JSON)
    tap.hold(ns(1))
    tap.release(ns(3))
    tap.close(ns(4), Ending.COMPLETE)
    assert seconds(on, DURATION) == 2


def test_a_token_during_a_hold_begins_a_silence_that_holds_some() -> None:
    on = board()
    tap = begin(on)
    tap.hold(ns(0.5))
    tap.feed(C("a"), ns(1))
    tap.release(ns(1.5))
    assert len(on.deadlines) == 0
    tap.feed(C("b"), ns(1.6))
    assert len(on.deadlines) == 1


def test_time_held_after_an_error_is_no_matter() -> None:
    error = event('{"error":"died"}')
    on = held([(1, C("a")), (1.05, error)], 1.2, None, 9)
    assert seconds(on, MAX_GAP) == pytest.approx(0.05)
    on = held([(1, C("a")), (1.4, error)], 1.2, 1.3, 9)
    assert total(on, MAX_GAP) == 0
    assert total(on, "stalls_total", cause="client") == total(on, "stalls_total") == 1


def test_held_time_after_end_evidence_shortens_no_duration() -> None:
    on = held([(1, C("a") + FIN())], 1.5, 2, 3, Ending.CLIENT_LEFT)
    assert seconds(on, DURATION) == 1
    on = held([(1, C("a") + DONE)], 0.5, 0.75, 3, Ending.CLIENT_LEFT)
    assert seconds(on, DURATION) == 0.75
