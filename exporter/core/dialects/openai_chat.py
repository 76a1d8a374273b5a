"""`/v1/chat/completions`: what one chunk, or one whole answer, means.

Fields as vLLM, SGLang and llama.cpp send them (docs of the OpenAI API; captures in shared/captures). Only fields that
are needed are named, and their values are checked here, so that one odd value does not cost the event.
"""

from typing import Any

import msgspec

from exporter.core.dialects.openai_parts import DONE, Envelope, lenient, read_error, read_finish, read_usage, unreadable
from exporter.core.framing import Frame
from exporter.core.signals import ANSWER, END, NOTHING, ONE_ANSWER, ONE_REASONING, REASONING, Part, Signal


class _Delta(msgspec.Struct, gc=False):
    content: Any = None
    reasoning: Any = None  # vLLM
    reasoning_content: Any = None  # SGLang, llama.cpp
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None
    audio: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: _Delta | None = None
    message: _Delta | None = None  # of a whole answer
    finish_reason: Any = None
    token_ids: Any = None


class _Chunk(Envelope, gc=False):
    choices: list[_Choice] | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read(frame: Frame) -> Signal:
    """Say what an event means; never raises."""
    data = frame.data
    if data == DONE:
        return END
    try:
        chunk = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        read_anyway = lenient(data, _Chunk)
        if read_anyway is None:
            return unreadable(data, frame.event == b"error")
        chunk = read_anyway
    choices = chunk.choices
    if (
        choices is None
        or len(choices) != 1
        or chunk.usage is not None
        or chunk.error is not None
        or chunk.timings is not None
        or frame.event
        or chunk.object == "error"
    ):
        return _signal(chunk, frame.event == b"error")
    choice = choices[0]
    token = _bearing(choice.delta or choice.message)
    if not token or choice.index != 0 or choice.finish_reason is not None or choice.token_ids is not None:
        return Signal(token, (_part(choice, token),))
    return ONE_ANSWER if token == ANSWER else ONE_REASONING


def _signal(chunk: _Chunk, named_error: bool) -> Signal:
    choices = chunk.choices or ()
    parts = tuple(_part(choice, _bearing(choice.delta or choice.message)) for choice in choices)
    usage, invalid = read_usage(chunk.usage, chunk.timings, len(parts))
    return Signal(
        token=max((part.token for part in parts), default=NOTHING),
        parts=parts,
        usage=usage,
        error=read_error(chunk.error, named_error, chunk.object, chunk.code),
        invalid=invalid,
    )


def _part(choice: _Choice, token: int) -> Part:
    ids = choice.token_ids
    return Part(choice.index or 0, token, read_finish(choice.finish_reason), len(ids) if type(ids) is list else None)


def _bearing(delta: _Delta | None) -> int:
    """Say what a delta brings the client (semantics section 1, token-bearing event)."""
    if delta is None:
        return NOTHING
    content = delta.content
    if type(content) is str and content:
        return ANSWER
    of_parts = _content_parts(content) if type(content) is list else NOTHING
    if (
        of_parts == ANSWER
        or _text(delta.refusal)
        or _calls(delta.tool_calls)
        or _named(delta.function_call)
        or _audio(delta.audio)
    ):
        return ANSWER
    if of_parts or _text(delta.reasoning) or _text(delta.reasoning_content):
        return REASONING
    return NOTHING


def _text(value: Any) -> bool:
    return type(value) is str and value != ""


def _content_parts(parts: list[Any]) -> int:
    """Content as a list of parts: `text` is answer, `thinking` is reasoning (Mistral's form)."""
    token = NOTHING
    for part in parts:
        if type(part) is dict:
            if _text(part.get("text")):
                return ANSWER
            if part.get("thinking"):
                token = REASONING
    return token


def _calls(calls: Any) -> bool:
    return type(calls) is list and any(
        type(call) is dict and (_named(call.get("function")) or _named(call.get("custom"))) for call in calls
    )


def _named(call: Any) -> bool:
    """Whether a call brings a piece of its name, its arguments, or a custom tool's input."""
    return type(call) is dict and (_text(call.get("name")) or _text(call.get("arguments")) or _text(call.get("input")))


def _audio(audio: Any) -> bool:
    return type(audio) is dict and (_text(audio.get("data")) or _text(audio.get("transcript")))
