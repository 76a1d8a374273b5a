from typing import Any

import pytest

from exporter.core.ending import Ending
from exporter.core.outcome import NO_EVIDENCE, OUTCOMES, Evidence, decide, of_error
from exporter.core.signals import InBandError
from tests.core.drive import DONE, FIN, JSON, ROLE, USAGE, C, board, event, outcomes, seconds, stream, total

DONE_READ = Evidence(needs_end=True, ended=True)
OPEN = Evidence(needs_end=True)
ERROR = event('{"error":{"message":"EngineCore died","code":500}}')


@pytest.mark.parametrize(
    ("ending", "status", "evidence", "outcome"),
    [
        (Ending.COMPLETE, 200, NO_EVIDENCE, "ok"),
        (Ending.COMPLETE, 302, NO_EVIDENCE, "ok"),
        (Ending.COMPLETE, 200, DONE_READ, "ok"),
        (Ending.COMPLETE, 200, OPEN, "truncated"),
        (Ending.CUT, 200, NO_EVIDENCE, "truncated"),
        (Ending.CUT, 200, OPEN, "truncated"),
        (Ending.CUT, 200, DONE_READ, "ok"),
        (Ending.CLIENT_LEFT, 200, DONE_READ, "ok"),
        (Ending.CLIENT_LEFT, 200, OPEN, "client_abort"),
        (Ending.CLIENT_LEFT, None, NO_EVIDENCE, "client_abort"),
        (Ending.TIMEOUT, 200, DONE_READ, "ok"),
        (Ending.TIMEOUT, 200, OPEN, "timeout"),
        (Ending.TIMEOUT, None, NO_EVIDENCE, "timeout"),
        (Ending.SHUTDOWN, 200, DONE_READ, "ok"),
        (Ending.SHUTDOWN, 200, OPEN, "proxy_shutdown"),
        (Ending.SHUTDOWN, None, NO_EVIDENCE, "proxy_shutdown"),
        (Ending.FAULT, 200, DONE_READ, "proxy_error"),
        (Ending.FAULT, None, NO_EVIDENCE, "proxy_error"),
        (Ending.LIMIT, None, NO_EVIDENCE, "proxy_error"),
        (Ending.REFUSED, None, NO_EVIDENCE, "client_error"),
        (Ending.NO_HEAD, None, NO_EVIDENCE, "upstream_error"),
        (Ending.CUT, None, NO_EVIDENCE, "upstream_error"),
        (Ending.COMPLETE, None, NO_EVIDENCE, "upstream_error"),
        (Ending.CONNECT_FAILED, None, NO_EVIDENCE, "connect_failed"),
        (Ending.COMPLETE, 400, NO_EVIDENCE, "client_error"),
        (Ending.COMPLETE, 404, NO_EVIDENCE, "client_error"),
        (Ending.COMPLETE, 408, NO_EVIDENCE, "upstream_error"),
        (Ending.COMPLETE, 429, NO_EVIDENCE, "rejected"),
        (Ending.COMPLETE, 503, NO_EVIDENCE, "rejected"),
        (Ending.COMPLETE, 500, NO_EVIDENCE, "upstream_error"),
        (Ending.CLIENT_LEFT, 500, NO_EVIDENCE, "upstream_error"),
        (Ending.CUT, 101, NO_EVIDENCE, "ok"),
        (Ending.CLIENT_LEFT, 101, NO_EVIDENCE, "ok"),
        (Ending.COMPLETE, 101, NO_EVIDENCE, "ok"),
        (Ending.SHUTDOWN, 101, NO_EVIDENCE, "proxy_shutdown"),
    ],
)
def test_the_table(ending: Ending, status: int | None, evidence: Evidence, outcome: str) -> None:
    assert decide(ending, status, evidence) == outcome


def test_every_case_has_an_outcome_of_the_closed_set() -> None:
    for ending in Ending:
        for status in (None, 101, 200, 304, 400, 408, 429, 500, 503, 999):
            for evidence in (
                NO_EVIDENCE,
                OPEN,
                DONE_READ,
                Evidence(error="rejected"),
                Evidence(True, True, "rejected"),
            ):
                assert decide(ending, status, evidence) in OUTCOMES


def test_transport_failure_outranks_an_in_band_error() -> None:
    assert decide(Ending.CUT, 200, Evidence(True, False, "stream_error")) == "truncated"
    assert decide(Ending.CUT, 200, Evidence(True, True, "stream_error")) == "stream_error"


@pytest.mark.parametrize("ending", [Ending.COMPLETE, Ending.CLIENT_LEFT, Ending.TIMEOUT, Ending.SHUTDOWN])
def test_c22_what_comes_later_does_not_erase_an_in_band_error(ending: Ending) -> None:
    assert decide(ending, 200, Evidence(True, False, "stream_error")) == "stream_error"


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        (429, "rejected", "stream_error"),
        (503, "rejected", "stream_error"),
        (400, "client_error", "stream_error"),
        (408, "stream_error", "stream_error"),
        (500, "stream_error", "stream_error"),
        (None, "stream_error", "stream_error"),
        (7, "stream_error", "stream_error"),
    ],
)
def test_an_in_band_errors_code_counts_before_any_token(code: int | None, before: str, after: str) -> None:
    assert of_error(InBandError(code), after_token=False) == before
    assert of_error(InBandError(code), after_token=True) == after


def ended(*reads: bytes, ending: Ending = Ending.COMPLETE, **how: Any) -> Any:
    on = board()
    stream(on, [(1, read) for read in reads], 2, ending, **how)
    return outcomes(on)


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.COMPLETE])
def test_c21_a_stream_without_end_evidence_is_truncated(ending: Ending) -> None:
    assert ended(C("a"), C("b"), C("c"), ending=ending) == {"truncated": 1}
    assert ended(ending=ending) == {"truncated": 1}


def test_c06_a_finish_reason_without_done_is_complete() -> None:
    assert ended(C("a"), FIN()) == {"ok": 1}
    assert ended(C("a"), FIN(), ending=Ending.CUT) == {"ok": 1}


def test_every_choice_must_finish() -> None:
    assert ended(C("a", 0), C("b", 1), FIN(0)) == {"truncated": 1}
    assert ended(C("a", 0), C("b", 1), FIN(0), FIN(0)) == {"truncated": 1}
    assert ended(C("a", 0), C("b", 1), FIN(0), FIN(1)) == {"ok": 1}
    two = b'{"model":"m","stream":true,"n":2}'
    assert ended(C("a", 0), FIN(0), body=two) == {"truncated": 1}
    assert ended(C("a", 0), FIN(0), DONE, body=two) == {"ok": 1}


def test_c22_errors_in_a_200() -> None:
    assert ended(ROLE, C("a"), ERROR, DONE) == {"stream_error": 1}
    assert ended(C("a"), b'event: error\ndata: {"message":"x"}\n\n') == {"stream_error": 1}
    assert ended(C("a"), event('{"error":null,"choices":[]}'), FIN(), DONE) == {"ok": 1}
    assert ended(C('{\\"error\\":'), FIN(), DONE) == {"ok": 1}
    assert ended(C("a"), ERROR, ending=Ending.CUT) == {"truncated": 1}
    assert ended(C("a"), ERROR, DONE, ending=Ending.CLIENT_LEFT) == {"stream_error": 1}
    assert ended(C("a"), ERROR, ending=Ending.CLIENT_LEFT) == {"stream_error": 1}


def test_a_queue_limit_refuses_a_stream_with_a_code() -> None:
    refusal = event('{"error":{"message":"busy","code":503}}')
    assert ended(refusal, DONE) == {"rejected": 1}
    assert ended(event('{"error":{"code":400}}'), ERROR, DONE) == {"client_error": 1}
    assert ended(C("a"), refusal, DONE) == {"stream_error": 1}


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_finish_reason_that_means_failure(reason: str) -> None:
    assert ended(C("a"), FIN(reason=reason), USAGE(1), DONE) == {"stream_error": 1}


def test_a_client_that_leaves_after_end_evidence_closes_at_it() -> None:
    on = board()
    stream(on, [(1, C("a")), (2, FIN()), (3, USAGE(5) + DONE)], 60, Ending.CLIENT_LEFT)
    assert outcomes(on) == {"ok": 1}
    assert seconds(on, "request_duration_seconds") == 3
    assert total(on, "output_tokens_total") == 5


def test_json_answers() -> None:
    answer = b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}'
    how: dict[str, Any] = {"headers": JSON, "body": b'{"model":"m"}'}
    assert ended(answer, **how) == {"ok": 1}
    assert ended(b"{}", **how) == {"ok": 1}
    assert ended(answer.replace(b"stop", b"abort"), **how) == {"stream_error": 1}
    assert ended(b'{"error":{"code":429}}', **how) == {"rejected": 1}
    assert ended(answer, ending=Ending.CUT, **how) == {"truncated": 1}
    assert ended(answer, ending=Ending.CLIENT_LEFT, **how) == {"client_abort": 1}
