"""The cases of the field that concern what is measured, by their names, through the tap."""

from typing import Any

import pytest

from exporter.core.ending import Ending
from exporter.core.histogram import Histogram
from tests.core.drive import (
    DONE,
    FIN,
    ROLE,
    USAGE,
    C,
    begin,
    board,
    delta,
    event,
    ns,
    outcomes,
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
