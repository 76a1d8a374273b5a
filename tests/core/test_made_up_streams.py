"""The core agrees with the independent derivation on streams that no engine was asked for yet.

Hypothesis makes streams: several choices, every kind of event, silences on both sides of `max_stall`, errors, and each
way to end. The derivation of the golden files works out offline, from the whole body, what the core must have measured.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.capture import Capture, Piece
from tests.core.against_golden import assert_golden
from tests.core.replayed import bodies, drive
from tests.golden.derive import MAX_STALL, derive
from tests.http_bytes import LAST_CHUNK, chunk, head

HEAD = head("HTTP/1.1 200 OK", [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
STEPS = (0, 1, 1_000_000, 20_000_000, MAX_STALL, MAX_STALL + 1, 3 * MAX_STALL)  # ns between events; 0: the same read
DONE = b"data: [DONE]\n\n"
NOISE = (b": ping\n\n", b"event: ping\ndata: {}\n\n", b"data:\n\n", b"data: null\n\n", b'data: {"choices":null}\n\n')

DELTAS: dict[str, dict[str, Any]] = {
    "content": {"content": "x"},
    "space": {"content": " "},
    "half": {"content": ""},
    "role": {"role": "assistant", "content": ""},
    "null": {"role": "assistant", "content": None},
    "reasoning": {"reasoning": "x"},
    "reasoning_content": {"reasoning_content": "x", "content": None},
    "refusal": {"refusal": "x"},
    "tool name": {"content": None, "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]},
    "tool arguments": {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
    "tool nothing": {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]},
    "function": {"function_call": {"arguments": "x"}},
}
GENERATED = [kind for kind in DELTAS if kind not in ("role", "null", "tool nothing")]
FAULTS: tuple[Any, ...] = (
    "gone",
    {"message": "m"},
    {"code": 500},
    {"code": 503},
    {"code": 429},
    {"code": 400},
    {"code": "x"},
)


def sse(value: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(value).encode()


@dataclass
class Writer:
    """Writes events of one stream and keeps the running counts that an engine would report."""

    counting: str  # none, ids, running: what each chunk tells of tokens
    tokens: dict[int, int]

    def delta(self, index: int, kind: str, tokens: int, finish: str | None = None) -> bytes:
        choice: dict[str, Any] = {"index": index, "delta": DELTAS.get(kind, {}), "finish_reason": finish}
        generated = tokens if kind in GENERATED else 0
        self.tokens[index] = self.tokens.get(index, 0) + generated
        if self.counting == "ids":
            choice["token_ids"] = list(range(generated))
        value: dict[str, Any] = {"choices": [choice]}
        if self.counting == "running":
            value["usage"] = {"prompt_tokens": 7, "completion_tokens": self.tokens[index]}
        return sse(value)

    def usage(self) -> bytes:
        return sse({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": sum(self.tokens.values())}})


@st.composite
def streams(draw: st.DrawFn) -> tuple[Capture, int | None]:
    """A stream and, where its client left, when."""
    asked = draw(st.integers(1, 3))
    writer = Writer(draw(st.sampled_from(["none", "ids", "running"])), {})
    steps = st.sampled_from(STEPS)
    events: list[tuple[int, bytes]] = []
    open_choices = list(range(asked))
    for _ in range(draw(st.integers(0, 12))):
        if draw(st.integers(0, 9)) == 0:
            events.append((draw(steps), draw(st.sampled_from(NOISE))))
            continue
        if not open_choices:
            break
        index = draw(st.sampled_from(open_choices))
        kind = draw(st.sampled_from([*DELTAS, "content", "content"]))
        finish = draw(st.sampled_from([None, None, None, None, "stop", "length", "abort"]))
        kind = draw(st.sampled_from([kind, "finish only"])) if finish else kind
        if kind == "half" and writer.counting == "ids" and not writer.tokens.get(index):
            kind = "content"  # ids of a choice that never brings output: the core takes them for unknown
        events.append((draw(steps), writer.delta(index, kind, draw(st.integers(1, 4)), finish)))
        if finish:
            open_choices.remove(index)
    if draw(st.integers(0, 4)) == 0:
        events.append((draw(steps), sse({"error": draw(st.sampled_from(FAULTS))})))
    if draw(st.booleans()):
        events.append((draw(steps), writer.usage()))
    if draw(st.booleans()):
        events.append((draw(steps), DONE))
    left = draw(st.sampled_from([None, None, *STEPS]))
    return made(asked, events, draw(steps), left)


def made(asked: int, events: Sequence[tuple[int, bytes]], tail: int, left: int | None) -> tuple[Capture, int | None]:
    """Events with the silence before each, as a capture: events with no silence between them share a read."""
    at, data, pieces = 1_000_000, HEAD, []
    for silence, body in events:
        if silence:
            pieces.append(Piece(data, at))
            at, data = at + silence, b""
        data += chunk(body)
    if left is None and not tail:
        data += LAST_CHUNK
    pieces.append(Piece(data, at))
    if left is None and tail:
        pieces.append(Piece(LAST_CHUNK, at + tail))
    body = json.dumps({"model": "m", "stream": True, "n": asked}).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    return Capture("made", "up", request, tuple(pieces)), None if left is None else at + left


@settings(deadline=None, max_examples=400)
@given(stream=streams(), ticks=st.booleans())
def test_core_and_derivation_agree(stream: tuple[Capture, int | None], ticks: bool) -> None:
    capture, left = stream
    golden = derive([(piece.at, piece.data) for piece in capture.pieces], capture.request, left)
    event(golden["outcome"])
    event("stall" if golden["stalls_ns"] else "no stall")
    assert_golden(drive(capture, list(bodies(capture)), left, ticks=ticks), golden)
