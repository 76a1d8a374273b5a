from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.aggregates import Board
from exporter.core.ending import Ending
from tests.core.drive import (
    ASK,
    DONE,
    FIN,
    JSON,
    ROLE,
    SSE,
    USAGE,
    C,
    begin,
    board,
    ns,
    outcomes,
    samples,
    seconds,
    stream,
    total,
)

INFERENCE_ONLY = (
    "request_receive_seconds",
    "upstream_connect_seconds",
    "response_headers_seconds",
    "request_duration_seconds",
    "client_blocked_seconds_total",
    "unparsed_events_total",
)


def phases(on: Board) -> Any:
    return {key[0]: value for key, value in samples(on, "requests_in_flight").items() if value}


def streams(on: Board) -> Any:
    return {key[1]: value for key, value in samples(on, "streams_in_flight").items() if value}


def test_phases_of_a_stream() -> None:
    on = board()
    tap = on.open(ns(1))
    assert phases(on) == {}
    tap.request("POST", b"/v1/chat/completions?x", [])
    tap.upload(ASK)
    assert (phases(on), streams(on)) == ({"receiving": 1}, {})
    tap.received(ns(2))
    assert (phases(on), streams(on)) == ({"waiting": 1}, {"waiting": 1})
    tap.connected(ns(2.1), ns(0.1))
    tap.head(200, SSE, ns(3))
    tap.feed(ROLE, ns(3.1))
    assert (phases(on), streams(on)) == ({"waiting": 1}, {"waiting": 1})
    tap.feed(C("a"), ns(3.5))
    assert (phases(on), streams(on)) == ({"streaming": 1}, {"streaming": 1})
    tap.feed(FIN() + DONE, ns(4))
    tap.close(ns(4.5), Ending.COMPLETE)
    assert (phases(on), streams(on)) == ({}, {})
    assert seconds(on, "request_receive_seconds") == 1
    assert seconds(on, "upstream_connect_seconds") == 0.1
    assert seconds(on, "response_headers_seconds") == 1
    assert seconds(on, "time_to_first_token_seconds") == 1.5
    assert seconds(on, "request_duration_seconds") == 2.5


def test_a_reused_connection_has_no_connect_time() -> None:
    on = board()
    begin(on)
    assert total(on, "upstream_connect_seconds") == 0


def test_a_head_that_comes_before_the_request_is_complete_is_received() -> None:
    on = board()
    tap = on.open(0)
    tap.request("POST", b"/v1/chat/completions", [])
    tap.upload(b'{"model":"m","stream":true,"mess')
    tap.head(200, SSE, ns(1))
    tap.upload(b'ages":[]}')
    tap.received(ns(5))
    tap.feed(C("a") + DONE, ns(1.5))
    tap.close(ns(6), Ending.COMPLETE)
    assert seconds(on, "time_to_first_token_seconds") == 0.5
    assert seconds(on, "request_receive_seconds") == 1
    assert total(on, "response_headers_seconds") == 1
    assert total(on, "requests_total", model="m", outcome="ok") == 1


def test_an_upload_that_ends_early_has_the_default_class_and_no_stamps() -> None:
    on = board()
    tap = on.open(0)
    tap.request("POST", b"/v1/chat/completions", [])
    tap.upload(b'{"model"')
    tap.close(ns(3), Ending.CLIENT_LEFT)
    assert total(on, "requests_total", slo_class="chat", model="other", outcome="client_abort") == 1
    assert total(on, "request_receive_seconds") == total(on, "request_duration_seconds") == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", b"/health"), ("GET", b"/v1/chat/completions"), ("POST", b"/v1/embeddings"), ("OPTIONS", b"/v1/messages")],
)
def test_what_is_no_inference_is_in_requests_total_and_nowhere_else(method: str, path: bytes) -> None:
    on = board()
    tap = begin(on, method=method, path=path, head=None)
    assert phases(on) == {}
    tap.connected(0, 5)
    tap.head(200, SSE, ns(1))
    tap.feed(C("a") + USAGE(1), ns(2))
    tap.blocked(5)
    tap.close(ns(3), Ending.COMPLETE)
    assert total(on, "requests_total", slo_class="", model="other", outcome="ok") == 1
    assert total(on, "requests_total") == 1
    for name in INFERENCE_ONLY:
        assert total(on, name) == 0


def test_a_refused_request_has_an_outcome_too() -> None:
    on = board()
    on.open(0).close(1, Ending.REFUSED)
    assert total(on, "requests_total", route="other", slo_class="", outcome="client_error") == 1


def test_an_unknown_path_is_inference_when_its_answer_is_a_stream() -> None:
    on = board()
    tap = begin(on, path=b"/proxy/v1/chat", head=None)
    tap.connected(0, 5)
    assert phases(on) == {}
    tap.head(200, SSE, ns(1))
    assert (phases(on), streams(on)) == ({"waiting": 1}, {"waiting": 1})
    tap.feed(C("a"), ns(2))
    assert set(samples(on, "open_gap_seconds", 3).values()) == {0}
    tap.close(ns(3), Ending.COMPLETE)
    assert total(on, "requests_total", route="other", model="m", slo_class="chat", outcome="ok") == 1
    assert total(on, "upstream_connect_seconds") == total(on, "request_receive_seconds") == 1
    assert total(on, "output_events_total") == total(on, "unparsed_events_total") == 0
    stream(on, [], 1, path=b"/proxy/v1/chat")
    assert total(on, "upstream_connect_seconds") == 1


def test_an_unknown_path_with_any_other_answer_is_not() -> None:
    on = board()
    stream(on, [], 1, path=b"/x", headers=JSON)
    stream(on, [], 1, path=b"/x", head=404)
    assert total(on, "requests_total", slo_class="") == 2


def test_triton_is_inference() -> None:
    on = board()
    begin(on, path=b"/v2/models/llama/generate_stream", head=None)
    assert streams(on) == {"waiting": 1}


def test_a_dialect_that_is_not_read_has_an_outcome_by_its_transport() -> None:
    on = board()
    stream(on, [(1, C("a"))], 2, path=b"/v1/responses")
    stream(on, [(1, C("a"))], 2, Ending.CUT, path=b"/v1/responses")
    assert outcomes(on) == {"ok": 1, "truncated": 1}
    assert total(on, "time_to_first_token_seconds") == total(on, "requests_without_usage_total") == 0
    assert total(on, "request_duration_seconds") == 1


def test_ollama_streams_by_default() -> None:
    on = board()
    begin(on, path=b"/api/chat", body=b'{"model":"m"}', head=None)
    assert streams(on) == {"waiting": 1}
    begin(on, path=b"/v1/chat/completions", body=b'{"model":"m"}', head=None)
    assert streams(on) == {"waiting": 1}


def test_c17_a_json_answer_to_an_expected_stream_is_no_stream() -> None:
    on = board()
    tap = begin(on, headers=JSON)
    assert streams(on) == {}
    tap.feed(b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_', ns(1))
    tap.feed(b'tokens":4,"completion_tokens":3}}', ns(2))
    tap.close(ns(2), Ending.COMPLETE)
    assert (total(on, "prompt_tokens_total"), total(on, "output_tokens_total")) == (4, 3)
    assert total(on, "streamed_requests_total") == total(on, "time_to_first_token_seconds") == 0
    assert total(on, "output_events_total") == 0
    assert total(on, "request_duration_seconds") == 1
    assert outcomes(on) == {"ok": 1}


def test_a_whole_answer_without_usage() -> None:
    on = board()
    stream(on, [(1, b'{"choices":[{"message":{"content":"a"}}]}')], 1, headers=JSON)
    stream(on, [(1, b'{"choices":[]}')], 1, headers=JSON)
    assert total(on, "requests_without_usage_total") == 1


def test_events_and_answers_beyond_the_limit_are_counted() -> None:
    on = board(event_limit=100)
    stream(on, [(1, C("x" * 200)), (1.5, C("a")), (1.6, b"data: " + b"x" * 200)], 2)
    assert total(on, "unparsed_events_total", reason="oversize") == 2
    assert total(on, "output_events_total") == 1
    stream(on, [(1, b'{"a":"%s"}' % (b"x" * 200))], 1, headers=JSON)
    assert total(on, "unparsed_events_total", reason="oversize") == 3


def test_an_endless_line_is_counted_while_it_lasts() -> None:
    on = board(event_limit=100)
    begin(on).feed(b"x" * 200, 1)
    assert total(on, "unparsed_events_total", reason="oversize") == 1


@pytest.mark.parametrize("coding", [b"gzip", b"br"])
def test_c09_a_coding_that_is_not_read_is_counted_and_never_guessed(coding: bytes) -> None:
    on = board()
    stream(on, [(1, C("a"))], 2, headers=[*SSE, (b"Content-Encoding", coding)])
    assert total(on, "unparsed_events_total", reason="encoding") == 1
    assert total(on, "time_to_first_token_seconds") == 0
    assert outcomes(on) == {"ok": 1}


def test_c09_an_encoded_request_body_is_unknown() -> None:
    on = board()
    tap = on.open(0)
    tap.request("POST", b"/v1/chat/completions", [(b"Content-Encoding", b"gzip")])
    tap.upload(ASK)
    tap.received(1)
    assert total(on, "unparsed_events_total", reason="request") == 1
    assert streams(on) == {}
    tap.head(200, SSE, 2)
    assert streams(on) == {"waiting": 1}


def test_unreadable_events_are_counted_by_reason() -> None:
    on = board()
    stream(on, [(1, b"data: {\n\ndata: null\n\n" + C("a")), (1, b'data: {"choices":3}\n\n' + FIN())], 1)
    assert total(on, "unparsed_events_total", reason="json") == 1
    assert total(on, "unparsed_events_total", reason="shape") == 1
    assert total(on, "output_events_total") == 1
    assert outcomes(on) == {"ok": 1}


def test_a_models_label_is_fixed_at_the_head() -> None:
    on = board()
    stream(on, [], 1, head=503)
    stream(on, [(1, DONE)], 1)
    stream(on, [], 1, head=503)
    assert total(on, "requests_total", model="other", outcome="rejected") == 1
    assert total(on, "requests_total", model="m", outcome="ok") == 1
    assert total(on, "requests_total", model="m", outcome="rejected") == 1


def test_a_known_model_without_a_head_keeps_its_label() -> None:
    on = board(model_allow=("m",))
    stream(on, [], 1, Ending.CONNECT_FAILED, head=None)
    assert total(on, "requests_total", model="m", outcome="connect_failed") == 1


def test_an_upgrade() -> None:
    on = board()
    tap = begin(on, method="GET", path=b"/ws", body=b"", head=101)
    tap.feed(b"anything", 5)
    tap.close(9, Ending.CLIENT_LEFT)
    assert outcomes(on) == {"ok": 1}


def test_time_with_unsent_bytes_is_by_class() -> None:
    on = board()
    tap = begin(on)
    tap.blocked(ns(2))
    assert samples(on, "client_blocked_seconds_total") == {("chat",): ns(2)}


def test_the_first_end_wins_and_nothing_is_heard_after_it() -> None:
    on = board()
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    tap.close(ns(1), Ending.CLIENT_LEFT)
    tap.close(ns(2), Ending.COMPLETE)
    tap.feed(C("b"), ns(3))
    tap.head(200, SSE, ns(3))
    tap.hold(ns(3))
    tap.release(ns(4))
    assert outcomes(on) == {"client_abort": 1}
    assert total(on, "output_events_total") == 1


def test_a_fault_in_feed_switches_the_tap_off_and_costs_no_more() -> None:
    on = board()
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    tap.feed(cast("bytes", None), ns(2))
    assert total(on, "tap_faults_total", reason="feed") == total(on, "tap_faults_total") == 1
    assert phases(on) == {"streaming": 1}
    assert set(samples(on, "open_gap_seconds", 9).values()) == {0}
    on.tick(ns(9))
    tap.feed(C("b"), ns(9))
    tap.close(ns(9), Ending.COMPLETE)
    assert outcomes(on) == {"ok": 1}
    assert total(on, "tap_faults_total") == total(on, "output_events_total") == 1
    assert total(on, "stalled_requests_total") == 0
    assert phases(on) == {}


def test_a_fault_while_waiting_shows_no_gap() -> None:
    on = board()
    begin(on).feed(cast("bytes", None), ns(2))
    assert set(samples(on, "open_gap_seconds", 9).values()) == {0}


def test_a_fault_in_another_call() -> None:
    on = board()
    tap = on.open(0)
    tap.request("POST", b"/v1/chat/completions", [])
    tap.upload(cast("bytes", 5))
    tap.received(1)
    tap.close(2, Ending.COMPLETE)
    assert total(on, "tap_faults_total", reason="upload") == 1
    assert outcomes(on) == {"upstream_error": 1}


def test_a_fault_at_the_end() -> None:
    on = board()
    tap = begin(on)
    tap.feed(C("a"), ns(1))
    tap.close(cast("int", None), Ending.COMPLETE)
    assert total(on, "tap_faults_total", reason="close") == 1
    assert outcomes(on) == {"ok": 1}
    assert phases(on) == {}


def test_calls_out_of_order_do_no_harm() -> None:
    on = board()
    tap = on.open(0)
    tap.feed(C("a"), 1)
    tap.upload(b"x")
    tap.received(1)
    tap.received(2)
    tap.close(3, Ending.NO_HEAD)
    assert total(on, "tap_faults_total") == 0
    assert outcomes(on) == {"upstream_error": 1}


@given(st.lists(st.binary(max_size=60), max_size=8), st.sampled_from([SSE, JSON]), st.sampled_from(list(Ending)))
def test_no_bytes_of_a_body_are_a_fault(reads: Any, headers: Any, ending: Ending) -> None:
    on = board(event_limit=100)
    stream(on, [(i, data) for i, data in enumerate(reads)], 100, ending, headers=headers)
    assert total(on, "tap_faults_total") == 0
    assert sum(outcomes(on).values()) == 1


@given(
    st.text(max_size=10), st.binary(max_size=10), st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20)))
)
def test_no_head_is_a_fault(method: str, target: bytes, headers: Any) -> None:
    on = board()
    tap = on.open(0)
    tap.request(method, target, headers)
    tap.received(1)
    tap.head(200, headers, 2)
    tap.close(3, Ending.COMPLETE)
    assert total(on, "tap_faults_total") == 0
