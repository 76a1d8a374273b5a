"""`/v1/completions`: what one chunk, or one whole answer, means. Text is output, an echoed prompt too."""

from typing import Any

import msgspec

from exporter.core.dialects.openai_parts import DONE, read_error, read_finish, read_usage, unreadable
from exporter.core.framing import Frame
from exporter.core.signals import ANSWER, END, NOTHING, ONE_ANSWER, Part, Signal


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    text: Any = None
    finish_reason: Any = None
    token_ids: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    timings: Any = None  # llama.cpp
    object: Any = None
    code: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read(frame: Frame) -> Signal:
    """Say what an event means; never raises."""
    data = frame.data
    if data == DONE:
        return END
    named_error = frame.event == b"error"
    try:
        chunk = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        return unreadable(data, named_error)
    parts = tuple(map(_part, chunk.choices or ()))
    usage, invalid = read_usage(chunk.usage, chunk.timings, len(parts))
    error = read_error(chunk.error, named_error, chunk.object, chunk.code)
    if usage is None and error is None and not invalid and parts == ONE_ANSWER.parts:
        return ONE_ANSWER
    return Signal(max((part.token for part in parts), default=NOTHING), parts, usage, error, invalid=invalid)


def _part(choice: _Choice) -> Part:
    text, ids = choice.text, choice.token_ids
    token = ANSWER if type(text) is str and text else NOTHING
    return Part(choice.index or 0, token, read_finish(choice.finish_reason), len(ids) if type(ids) is list else None)
