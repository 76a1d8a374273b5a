"""The bytes of requests and answers that relay tests send; the names C, ROLE, FIN, USAGE, DONE are those of the cases.

All are `bytes`. Heads are whole, with their blank line; SSE events end in a blank line.
"""

import json
from collections.abc import Iterable

from tests.http_bytes import LAST_CHUNK, chunk, head

ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
FIN = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
COMMENT = b": keep-alive\n\n"

SSE_HEAD = head("HTTP/1.1 200 OK", [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])


def C(text: str) -> bytes:
    """A content event; `text` goes in raw, not as ASCII escapes, so that odd characters reach the parser."""
    return b'data: {"choices":[{"index":0,"delta":{"content":%b}}]}\n\n' % json.dumps(text, ensure_ascii=False).encode()


def USAGE(completion_tokens: int) -> bytes:
    """The usage event that some engines send last."""
    return b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d}}\n\n' % completion_tokens


def sse(*events: bytes) -> bytes:
    """A whole chunked event-stream answer, one chunk per event."""
    return SSE_HEAD + b"".join(map(chunk, events)) + LAST_CHUNK


def answer(body: bytes, status: str = "200 OK", headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """A whole answer of known length, JSON unless `headers` name a type."""
    given = list(headers)
    if not any(name.lower() == "content-type" for name, _ in given):
        given.insert(0, ("Content-Type", "application/json"))
    return head(f"HTTP/1.1 {status}", [*given, ("Content-Length", str(len(body)))]) + body


def request(body: bytes = b"", line: str = "GET /health HTTP/1.1", headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """A whole request; a body brings its Content-Length."""
    given = [("Host", "engine.test"), *headers]
    if body:
        given.append(("Content-Length", str(len(body))))
    return head(line, given) + body


def chat(*, headers: Iterable[tuple[str, str]] = (), **fields: object) -> bytes:
    """A whole chat request, streaming and for model `tiny` unless `fields` say otherwise."""
    body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hi"}], **fields}
    return request(
        json.dumps(body).encode(),
        "POST /v1/chat/completions HTTP/1.1",
        [("Content-Type", "application/json"), *headers],
    )
