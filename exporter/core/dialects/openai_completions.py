"""`/v1/completions`: what one chunk, or one whole answer, means. Text is output, an echoed prompt too."""

from typing import Any

import msgspec

from exporter.core.dialects.openai_parts import DONE, Envelope, lenient, read_error, read_finish, read_usage, unreadable
from exporter.core.framing import Frame
from exporter.core.signals import ANSWER, END, NOTHING, ONE_ANSWER, Part, Signal


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    text: Any = None
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
    named_error = frame.event == b"error"
    try:
        chunk = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        read_anyway = lenient(data, _Chunk)
        if read_anyway is None:
            return unreadable(data, named_error)
        chunk = read_anyway
    choices = chunk.choices or ()
    if len(choices) == 1 and _is_plain(chunk, choices[0]) and not frame.event:
        return ONE_ANSWER
    parts = tuple(map(_part, choices))
    usage, invalid = read_usage(chunk.usage, chunk.timings, len(parts))
    error = read_error(chunk.error, named_error, chunk.object, chunk.code)
    return Signal(max((part.token for part in parts), default=NOTHING), parts, usage, error, invalid=invalid)


def _is_plain(chunk: _Chunk, choice: _Choice) -> bool:
    """Whether an event brings text for choice 0 and says nothing else."""
    return (
        choice.index == 0
        and type(choice.text) is str
        and choice.text != ""
        and choice.finish_reason is None
        and choice.token_ids is None
        and chunk.usage is None
        and chunk.error is None
        and chunk.timings is None
        and chunk.object != "error"
    )


def _part(choice: _Choice) -> Part:
    text, ids = choice.text, choice.token_ids
    token = ANSWER if type(text) is str and text else NOTHING
    return Part(choice.index or 0, token, read_finish(choice.finish_reason), len(ids) if type(ids) is list else None)
