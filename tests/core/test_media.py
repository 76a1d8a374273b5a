from typing import Any

import pytest

from exporter.core.media import Form, encoded, form


@pytest.mark.parametrize(
    ("content_type", "expected", "unexpected"),
    [
        (b"text/event-stream", Form.EVENTS, Form.EVENTS),
        (b"Text/Event-Stream;charset=utf-8", Form.EVENTS, Form.EVENTS),
        (b"application/x-ndjson", Form.LINES, Form.LINES),
        (b"application/jsonl", Form.LINES, Form.LINES),
        (b"application/json", Form.JSON, Form.JSON),
        (b"application/problem+json", Form.JSON, Form.JSON),
        (b"text/plain", Form.EVENTS, Form.UNREAD),
        (None, Form.EVENTS, Form.JSON),
        (b"", Form.EVENTS, Form.JSON),
    ],
)
def test_c17_the_content_type_decides(content_type: bytes | None, expected: Form, unexpected: Form) -> None:
    headers = [] if content_type is None else [(b"Content-TYPE", content_type)]
    assert form(headers, stream_expected=True) is expected
    assert form(headers, stream_expected=False) is unexpected


def test_an_expected_stream_of_lines() -> None:
    assert form([], stream_expected=True, lines=True) is Form.LINES


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ([], False),
        ([(b"Content-Encoding", b"identity")], False),
        ([(b"Content-Encoding", b"")], False),
        ([(b"CONTENT-ENCODING", b"GZip")], True),
        ([(b"content-encoding", b"identity, br")], True),
        ([(b"content-encoding", b"identity"), (b"content-encoding", b"gzip")], True),
    ],
)
def test_codings(headers: Any, answer: bool) -> None:
    assert encoded(headers) is answer
