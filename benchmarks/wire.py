"""The bytes of the load: one chat request, and a stream of chat chunks as vLLM 0.32 writes them.

Each content chunk carries the instant of its writing as its text: 16 digits of `time.monotonic_ns`, which is one clock
for all processes of a machine. So the client knows the age of every chunk exactly, whatever is in between.
"""

import json
from typing import NamedTuple

PATH = "/v1/chat/completions"

# Where the write stamp begins in a chunk, how many digits it has, and where the event that holds it ends.
STAMP_MARK = b'"delta":{"content":" '
STAMP_DIGITS = 16
EVENT_END = b"\n\n"

_EVENT = b'data: {"id":"chatcmpl-a993d13f18e8cf43","object":"chat.completion.chunk","created":1795984927,"model":"mid",'
_BEFORE = _EVENT + b'"choices":[{"index":0,' + STAMP_MARK
_AFTER = b'"},"logprobs":null,"finish_reason":null,"token_ids":null}]}' + EVENT_END

EVENT_BYTES = len(_BEFORE) + STAMP_DIGITS + len(_AFTER)

_ROLE = _EVENT + b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null}]}' + EVENT_END
_FINISH = _EVENT + b'"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}' + EVENT_END
_DONE = b"data: [DONE]" + EVENT_END
_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Ask(NamedTuple):
    """What one request asks of the engine: how many content chunks, and which stream of the load it is."""

    chunks: int
    stream: int


def request_body(chunks: int, stream: int) -> bytes:
    """Return a request's body; `max_tokens` is the number of chunks and `seed` the number of the stream."""
    body = {
        "model": "mid",
        "messages": [{"role": "user", "content": "Tell me about the weather in the mountains. " * 8}],
        "max_tokens": chunks,
        "seed": stream,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(body).encode()


def request(host: str, ask: Ask) -> bytes:
    """Return one whole request."""
    raw = request_body(ask.chunks, ask.stream)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


def read_ask(body: bytes) -> Ask:
    """Read what `request_body` made; ValueError or KeyError when it is another."""
    fields = json.loads(body)
    return Ask(int(fields["max_tokens"]), int(fields["seed"]))


def _framed(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


def opening() -> bytes:
    """Return the response head and the role chunk, which is no content chunk."""
    return _HEAD + _framed(_ROLE)


def event(stamp: int) -> bytes:
    """Return the event of one content chunk, written at `stamp`."""
    return b"%b%0*d%b" % (_BEFORE, STAMP_DIGITS, stamp, _AFTER)


def content(stamp: int) -> bytes:
    """Return one content chunk as a single HTTP chunk."""
    return _framed(event(stamp))


def closing(chunks: int) -> bytes:
    """Return the finish chunk, the usage chunk, the end marker and the end of the body."""
    usage = b'"choices":[],"usage":{"prompt_tokens":80,"total_tokens":%d,"completion_tokens":%d}}' % (
        80 + chunks,
        chunks,
    )
    return _framed(_FINISH) + _framed(_EVENT + usage + EVENT_END) + _framed(_DONE) + b"0\r\n\r\n"
