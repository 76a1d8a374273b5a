"""Semantics sections 1 and 2, sentence by sentence, through the tap."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.aggregates import Board
from exporter.core.ending import Ending
from exporter.core.histogram import Histogram
from exporter.core.timeline import MAX_CHOICES
from tests.core.drive import (
    DONE,
    FIN,
    JSON,
    ROLE,
    USAGE,
    C,
    begin,
    board,
    classes,
    delta,
    event,
    ids,
    ns,
    outcomes,
    running,
    samples,
    seconds,
    stream,
    total,
)

TTFT = "time_to_first_token_seconds"
TTFA = "time_to_first_answer_token_seconds"
GAP = "output_gap_seconds"
MAX_GAP = "request_max_gap_seconds"
ITL = "inter_token_latency_seconds"
TPOT = "time_per_output_token_seconds"
DURATION = "request_duration_seconds"


def _plain(values: Any) -> Any:
    return [(key, (value.counts, value.total) if isinstance(value, Histogram) else value) for key, value in values]


def test_c01_an_event_cut_anywhere_is_stamped_by_the_read_that_completes_it() -> None:
    body = C("hello")
    for cut in range(1, len(body)):
        on = board()
        stream(on, [(0.1, body[:cut]), (0.2, body[cut:]), (0.2, DONE)], 0.2)
        assert (total(on, TTFT), seconds(on, TTFT)) == (1, 0.2)
        assert total(on, "output_events_total") == 1
        assert total(on, "unparsed_events_total") == 0
    on = board()
    reads = [(0.001 * (i + 1), body[i : i + 1]) for i in range(len(body))]
    stream(on, [*reads, (1, DONE)], 1)
    assert seconds(on, TTFT) == pytest.approx(0.001 * len(body))


def test_c02_events_of_one_read_are_one_arrival() -> None:
    on = board()
    stream(on, [(0.5, ROLE + C("a") + C("b") + FIN() + DONE)], 0.5)
    assert seconds(on, TTFT) == 0.5
    assert total(on, "output_events_total") == 2
    assert total(on, GAP) == total(on, MAX_GAP) == total(on, "stalls_total") == 0
    assert outcomes(on) == {"ok": 1}


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_c03_line_ends_move_no_stamp(newline: bytes) -> None:
    on = board()
    reads = [(when, data.replace(b"\n", newline)) for when, data in [(0.5, C("a")), (0.7, C("b")), (0.8, FIN())]]
    stream(on, [*reads, (0.9, DONE)], 0.9)
    assert (seconds(on, TTFT), seconds(on, GAP)) == (0.5, 0.2)
    assert total(on, "output_events_total") == 2
    assert outcomes(on) == {"ok": 1}


def test_c04_odd_line_separators_in_content() -> None:
    on = board()
    content = "a\u2028b\u2029c\u0085d"
    last = event(
        f'{{"choices":[{{"index":0,"delta":{{"content":"{content}"}},"finish_reason":"stop"}}],'
        '"usage":{"prompt_tokens":10,"completion_tokens":2}}'
    )
    stream(on, [(0.5, C(content)), (0.6, last)], 0.6)
    assert total(on, "output_events_total") == 2
    assert total(on, "output_tokens_total") == 2
    assert outcomes(on) == {"ok": 1}


def test_c05_keepalives_are_no_tokens() -> None:
    on = board()
    keepalives = [(0.5 * i, b": OPENROUTER PROCESSING\n\n") for i in range(1, 6)]
    pings = [(2.8, b"data:\n\n"), (2.9, b'event: ping\ndata: {"type":"ping"}\n\n')]
    stream(on, [*keepalives, *pings, (3.0, C("a")), (3.1, FIN())], 3.1)
    assert seconds(on, TTFT) == 3.0
    assert total(on, "unparsed_events_total") == 0
    assert outcomes(on) == {"ok": 1}


@pytest.mark.parametrize("end", [b"\n\n", b"\n", b""])
def test_c07_the_last_event_counts_after_a_clean_end_only(end: bytes) -> None:
    on = board()
    reads = [(0.5, C("a") + FIN()), (0.6, USAGE(1).rstrip(b"\n") + end)]
    stream(on, reads, 0.7)
    assert total(on, "output_tokens_total") == 1
    assert outcomes(on) == {"ok": 1}


def test_c07_a_cut_flushes_nothing() -> None:
    on = board()
    stream(on, [(0.5, C("a")), (0.6, b'data: {"choices":[{"ind')], 0.7, Ending.CUT)
    assert total(on, "unparsed_events_total") == 0
    assert outcomes(on) == {"truncated": 1}


def test_c08_empty_choices_are_no_tokens_and_usage_makes_no_gap() -> None:
    on = board()
    reads = [
        (0.1, event('{"choices":[],"prompt_filter_results":[]}')),
        (0.2, event('{"choices":null}') + event("{}") + event('{"choices":[{"index":0}]}')),
        (0.3, delta('"content":null')),
        (0.6, C("a")),
        (0.7, USAGE(1)),
        (0.7, FIN() + DONE),
    ]
    stream(on, reads, 0.7)
    assert seconds(on, TTFT) == 0.6
    assert total(on, "output_tokens_total") == 1
    assert total(on, GAP) == total(on, "unparsed_events_total") == total(on, "tap_faults_total") == 0


def test_c29_ttft_is_the_first_token_not_the_head_ping_role_or_usage() -> None:
    on = board()
    tap = begin(on, head=None)
    tap.head(200, ((b"content-type", b"text/event-stream"),), ns(0.05))
    for when, data in [(0.08, b": ping\n\n"), (0.1, ROLE), (0.6, C("a")), (0.7, FIN()), (0.71, USAGE(1))]:
        tap.feed(data, ns(when))
    tap.close(ns(0.72), Ending.COMPLETE)
    assert seconds(on, TTFT) == 0.6
    assert seconds(on, "response_headers_seconds") == 0.05


def test_c29_a_stream_without_a_token() -> None:
    on = board()
    stream(on, [(0.1, ROLE), (0.2, FIN() + DONE)], 0.2)
    assert total(on, TTFT) == total(on, "streamed_requests_total") == total(on, MAX_GAP) == 0
    assert outcomes(on) == {"ok": 1}


def test_c30_reasoning_is_a_token_but_no_answer() -> None:
    for field in ("reasoning", "reasoning_content"):
        on = board()
        stream(on, [(0.3, delta(f'"{field}":"hm"')), (0.4, delta(f'"{field}":"hm"')), (8, C("a") + FIN())], 8)
        assert (seconds(on, TTFT), seconds(on, TTFA)) == (0.3, 8)
    on = board()
    stream(on, [(0.3, delta('"reasoning":"hm"') + FIN())], 1)
    assert (total(on, TTFT), total(on, TTFA)) == (1, 0)


def test_c31_tool_calls_are_tokens() -> None:
    on = board()
    name = delta('"tool_calls":[{"index":0,"function":{"name":"f"}}]')
    arguments = delta('"tool_calls":[{"index":0,"function":{"arguments":"{"}}]')
    stream(on, [(0.1, ROLE), (0.5, name), (0.6, arguments), (0.7, FIN(reason="tool_calls"))], 0.7)
    assert seconds(on, TTFT) == seconds(on, TTFA) == 0.5
    assert total(on, "output_events_total") == 2


def test_c32_a_gap_is_no_token_latency() -> None:
    on = board()
    stream(on, [(0.5, C("a")), (0.9, C("four tokens")), (0.9, USAGE(5) + FIN() + DONE)], 0.9)
    assert (total(on, GAP), seconds(on, GAP)) == (1, 0.4)
    assert (total(on, TPOT), seconds(on, TPOT)) == (1, 0.1)
    assert total(on, ITL) == 0
    on = board()
    stream(on, [(0.5, C("a")), (0.9, C("four tokens")), (0.9, FIN() + DONE)], 0.9)
    assert total(on, TPOT) == 0
    assert total(on, "requests_without_usage_total") == 1


def test_c33_an_abort_before_any_token() -> None:
    on = board()
    stream(on, [], 60, Ending.CLIENT_LEFT)
    assert total(on, TTFT) == total(on, MAX_GAP) == total(on, "stalls_total") == 0
    assert outcomes(on) == {"client_abort": 1}


def test_c33_an_abort_after_a_silence() -> None:
    on = board()
    stream(on, [(0.5, C("a"))], 5.5, Ending.CLIENT_LEFT)
    assert (total(on, TTFT), total(on, GAP)) == (1, 0)
    assert (total(on, MAX_GAP), seconds(on, MAX_GAP)) == (1, 5)
    assert total(on, "stalls_total", cause="stream") == 1
    assert seconds(on, "stall_seconds_total") == 5
    assert outcomes(on) == {"client_abort": 1}


def test_c53_tpot_runs_to_the_last_token_and_needs_two() -> None:
    on = board()
    stream(on, [(1 + i / 10, C("a")) for i in range(4)] + [(1.5, FIN() + USAGE(4) + DONE)], 1.5)
    assert total(on, GAP) == 3
    assert seconds(on, GAP) == pytest.approx(0.3)
    assert seconds(on, TPOT) == 0.1
    on = board()
    stream(on, [(1, C("a")), (1.5, FIN() + USAGE(1))], 1.5)
    assert total(on, TPOT) == 0


def test_c35_only_differences_of_stamps_matter() -> None:
    boards = [board() for _ in range(2)]
    for on, at in zip(boards, (0.0, 3_600_000.0), strict=True):
        stream(on, [(0.5, C("a")), (0.9, C("b")), (1.0, FIN() + USAGE(2))], 1.1, at=at)
    early, late = ([(family.metric.name, _plain(family.samples)) for family in on.families(0)] for on in boards)
    assert early == late


# Gaps and stalls


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


# Tokens


def test_itl_from_token_ids_once_per_arrival() -> None:
    on = board()
    reads = [(1, ids("a", 1)), (1.1, ids("b", 2) + ids("c", 3, 4)), (1.2, ids("d", 5)), (1.2, FIN() + DONE)]
    stream(on, reads, 1.2)
    assert total(on, ITL) == 2
    assert seconds(on, ITL) == pytest.approx(0.1 / 3 + 0.1)
    assert total(on, "output_tokens_total") == 5
    assert seconds(on, TPOT) == 0.05


def test_itl_from_running_usage() -> None:
    on = board()
    role = event('{"choices":[{"index":0,"delta":{"role":"assistant"}}],"usage":{"completion_tokens":0}}')
    reads = [(1, role), (1, running("a", 1)), (1.1, running("b", 3)), (1.15, running("", 4)), (1.2, running("c", 5))]
    stream(on, [*reads, (1.2, FIN() + USAGE(5) + DONE)], 1.2)
    assert total(on, ITL) == 2
    assert seconds(on, ITL) == pytest.approx(0.1 / 2 + 0.1 / 2)
    assert total(on, "prompt_tokens_total") == 10
    assert total(on, "output_tokens_total") == 5


def test_itl_is_not_guessed_over_an_arrival_without_a_count() -> None:
    on = board()
    reads = [
        (1, running("a", 1)),
        (1.1, C("b")),
        (1.2, running("c", 3)),
        (1.3, running("d", 4)),
        (1.4, running("e", 4)),
    ]
    stream(on, [*reads, (1.4, FIN())], 1.4)
    assert (total(on, ITL), seconds(on, ITL)) == (1, 0.1)


def test_token_ids_that_are_missing_once_are_no_count() -> None:
    on = board()
    stream(on, [(1, ids("a", 1)), (1.1, C("b")), (1.2, ids("c", 3)), (1.2, FIN())], 1.2)
    assert total(on, "output_tokens_total") == total(on, TPOT) == 0
    assert total(on, "requests_without_usage_total") == 1


def test_the_last_count_wins_and_the_requests_overrides() -> None:
    on = board()
    reads = [(1, running("a", 1)), (1.1, running("b", 2)), (1.1, USAGE(3) + USAGE(7) + FIN() + DONE)]
    stream(on, reads, 1.1)
    assert total(on, "output_tokens_total") == 7


def test_per_choice_counts_are_summed_and_the_largest_tpot_counts() -> None:
    on = board()
    reads = [(1, running("a", 1, 0) + running("x", 1, 1)), (1.1, running("b", 2, 0)), (1.3, running("y", 3, 1))]
    stream(on, [*reads, (1.3, FIN(0) + FIN(1))], 1.3)
    assert total(on, "output_tokens_total") == 5
    assert (total(on, TPOT), seconds(on, TPOT)) == (1, 0.15)


def test_several_choices_with_one_count_for_all_have_no_tpot() -> None:
    on = board()
    reads = [(1, C("a", 0) + C("x", 1)), (1.1, C("b", 0) + C("y", 1)), (1.1, FIN(0) + FIN(1) + USAGE(4))]
    stream(on, reads, 1.1)
    assert (total(on, TPOT), total(on, "output_tokens_total")) == (0, 4)
    on = board()
    stream(on, [(1, running("a", 1, 0) + running("x", 1, 1)), (1.1, FIN(0) + FIN(1))], 1.1)
    assert (total(on, TPOT), total(on, "output_tokens_total")) == (0, 2)
    on = board()
    stream(on, [(1, running("a", 1, 0) + C("x", 1)), (1.1, FIN(0) + FIN(1))], 1.1)
    assert (total(on, TPOT), total(on, "output_tokens_total")) == (0, 0)


def test_usage_without_a_token_is_still_usage() -> None:
    on = board()
    stream(on, [(1, ROLE + FIN() + USAGE(1))], 1.1)
    assert (total(on, "output_tokens_total"), total(on, TPOT)) == (1, 0)


def test_a_count_after_an_error_counts() -> None:
    on = board()
    stream(on, [(1, C("a") + event('{"error":"x"}') + USAGE(1) + DONE)], 1.1)
    assert (total(on, "prompt_tokens_total"), total(on, "output_tokens_total")) == (10, 1)


def test_invalid_counts_are_ignored_and_counted() -> None:
    on = board()
    stream(on, [(1, C("a") + FIN() + USAGE(2) + USAGE(-1) + USAGE(1.5))], 1.1)
    assert total(on, "output_tokens_total") == 2
    assert total(on, "invalid_samples_total", reason="negative") == 1
    assert total(on, "invalid_samples_total", reason="fractional") == 1


# Held time


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


def test_a_gap_that_is_long_without_its_held_time_stalls_the_request() -> None:
    on = held([(1, C("a")), (2, C("b")), (2, FIN())], 1.01, 1.02, 2)
    assert total(on, "stalls_total", cause="client") == 1
    assert total(on, "stalled_requests_total") == 1


@pytest.mark.parametrize("release", [2, None])
def test_a_held_silence_before_an_abort(release: float | None) -> None:
    on = held([(1, C("a"))], 1.01, release, 2.01, Ending.CLIENT_LEFT)
    assert total(on, "stalls_total", cause="client") == total(on, "stalls_total") == 1
    assert total(on, MAX_GAP) == total(on, "stalled_requests_total") == 0


def test_a_held_silence_is_not_certain_until_it_is_long_without_its_held_time() -> None:
    reads = [(1, C("a")), (3.5, C("b"))]
    assert total(held(reads, 1.05, 3, 4, tick=2.5), "stalled_requests_total") == 1  # 0.55 s of it were the engine's
    on = board()
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    tap.hold(ns(1.05))
    on.tick(ns(2))
    assert (total(on, "stalled_requests_total"), len(on.deadlines)) == (0, 0)
    assert seconds(on, "open_gap_seconds", 2) == pytest.approx(0.05)
    tap.release(ns(3))
    on.tick(ns(3.05))
    assert (total(on, "stalled_requests_total"), len(on.deadlines)) == (0, 1)
    on.tick(ns(3.051))
    assert (total(on, "stalled_requests_total"), len(on.deadlines)) == (1, 0)
    tap.hold(ns(4))
    tap.release(ns(5))
    assert len(on.deadlines) == 0


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


def test_a_token_during_a_hold_is_watched_after_it() -> None:
    on = board()
    tap = begin(on)
    tap.hold(ns(0.5))
    tap.feed(C("a"), ns(1))
    assert len(on.deadlines) == 0
    tap.release(ns(1.5))
    assert len(on.deadlines) == 1
    on.tick(ns(1.6))
    assert total(on, "stalled_requests_total") == 0
    on.tick(ns(1.7))
    assert total(on, "stalled_requests_total") == 1


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


# While it lasts


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
