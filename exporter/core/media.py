"""What a head says of its body: form (stream or document) and coding. Header names match in any case."""

from collections.abc import Sequence
from enum import Enum

Headers = Sequence[tuple[bytes, bytes]]


class Form(Enum):
    """How a body is to be read."""

    EVENTS = "text/event-stream"
    LINES = "application/x-ndjson"
    JSON = "application/json"
    UNREAD = ""  # any other type


_FORMS = {
    b"text/event-stream": Form.EVENTS,
    b"application/x-ndjson": Form.LINES,
    b"application/ndjson": Form.LINES,
    b"application/jsonl": Form.LINES,
    b"application/x-jsonlines": Form.LINES,
    b"application/json": Form.JSON,
}
STREAMS = (Form.EVENTS, Form.LINES)


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Give the values of a header in order; `name` is lower case."""
    return [value for key, value in headers if key.lower() == name]


def form(headers: Headers, stream_expected: bool, lines: bool = False) -> Form:
    """Say how the body of a 2xx answer is to be read.

    A listed content type decides. Any other, or none, leaves it at what was expected: a stream (of `lines`, else of
    events), or without a content type a JSON document.
    """
    types = values(headers, b"content-type")
    media = types[-1].partition(b";")[0].strip().lower() if types else b""
    known = _FORMS.get(media)
    if known is not None:
        return known
    if media.endswith(b"+json"):
        return Form.JSON
    if stream_expected:
        return Form.LINES if lines else Form.EVENTS
    return Form.UNREAD if media else Form.JSON


def encoded(headers: Headers) -> bool:
    """Whether the body is under a content coding that is not read here."""
    codings = b",".join(values(headers, b"content-encoding")).split(b",")
    return any(coding.strip().lower() not in {b"", b"identity"} for coding in codings)
