"""What is certain or visible while a silence lasts, through the board."""

from exporter.core.ending import Ending
from tests.core.drive import (
    DONE,
    FIN,
    C,
    begin,
    board,
    classes,
    event,
    ns,
    samples,
    stream,
    total,
)


def test_a_stalled_request_counts_when_it_is_certain() -> None:
    on = board()
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    on.tick(ns(1.1))
    assert total(on, "stalled_requests_total") == 0
    on.tick(ns(1.1) + 1)
    assert total(on, "stalled_requests_total") == 1
    assert total(on, "stalls_total") == 0
    tap.feed(C("b"), ns(2))
    tap.feed(C("c"), ns(3))
    assert total(on, "stalled_requests_total") == 1
    assert total(on, "stalls_total") == 2


def test_the_watch_is_armed_once_and_lazily() -> None:
    on = board()
    tap = begin(on)
    for i in range(10):
        tap.feed(C("a", 0) + C("b", 1), ns(1 + i * 0.05))
        on.tick(ns(1 + i * 0.05))
    assert len(on.deadlines) == 1
    tap.feed(FIN(0), ns(1.5))
    on.tick(ns(1.54))
    assert len(on.deadlines) == 1
    tap.feed(FIN(1), ns(1.5))
    on.tick(ns(1.6))
    assert len(on.deadlines) == 0
    assert total(on, "stalled_requests_total") == 0


def test_a_silence_with_tokens_in_the_heap_order_of_several_streams() -> None:
    on = board()
    taps = [begin(on) for _ in range(50)]
    for tap in taps:
        tap.feed(C("a"), ns(1))
    left = iter([True, False])
    on.tick(ns(2), lambda: next(left))
    assert total(on, "stalled_requests_total") == 32
    on.tick(ns(2), lambda: True)
    assert total(on, "stalled_requests_total") == 50


def test_ended_streams_leave_the_watch() -> None:
    on = board(classes=classes(max_stall=1000))
    for _ in range(500):
        stream(on, [(1, C("a")), (1, FIN())], 1)
    assert len(on.deadlines) < 200
    on.tick(ns(5000))
    assert len(on.deadlines) == 0


def test_open_gaps_in_both_phases() -> None:
    on = board()
    assert set(samples(on, "open_gap_seconds").values()) == {0}
    waiting = begin(on, at=1, head=None)
    streaming = begin(on, at=2)
    streaming.feed(C("a", 0), ns(3))
    streaming.feed(C("b", 1), ns(3.5))
    gaps = samples(on, "open_gap_seconds", 4)
    assert gaps == {("chat", "waiting"): ns(3), ("chat", "streaming"): ns(1)}
    streaming.feed(FIN(0), ns(4))
    waiting.head(200, ((b"content-type", b"text/event-stream"),), ns(5))
    gaps = samples(on, "open_gap_seconds", 6)
    assert gaps == {("chat", "waiting"): ns(5), ("chat", "streaming"): ns(2.5)}
    streaming.feed(event('{"error":"x"}'), ns(6))
    waiting.close(ns(6), Ending.CLIENT_LEFT)
    assert set(samples(on, "open_gap_seconds", 7).values()) == {0}


def test_a_second_end_marker_ends_nothing_again() -> None:
    on = board()
    stream(on, [(1, C("a")), (1.05, DONE), (2, DONE)], 2)
    assert total(on, "stalls_total") == 0
