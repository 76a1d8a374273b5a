"""What the OpenAI dialects have in common: usage, llama.cpp's timings, errors, finish reasons, unreadable events.

Values arrive as decoded JSON of any type; a wrong type is left out, never a fault.
"""

import json
from typing import Any, TypeVar

import msgspec

from exporter.core.signals import BAD_SHAPE, END, NOT_JSON, SILENT, InBandError, Signal, Usage

T = TypeVar("T")

# More tokens than any context holds; such a count is a fault of the engine, not a measurement.
ABSURD = 100_000_000

DONE = b"[DONE]"


class Envelope(msgspec.Struct, gc=False):
    """What a chunk may carry beside its choices; values of any type, checked where they are read."""

    usage: Any = None
    error: Any = None
    timings: Any = None  # llama.cpp
    object: Any = None
    code: Any = None


def count(value: Any, invalid: list[str]) -> int | None:
    """Read a token count; None: not reported, or reported but no count, which adds its reason to `invalid`."""
    if value is None:
        return None
    if type(value) not in (int, float):
        invalid.append("type")
    elif value < 0:
        invalid.append("negative")
    elif value > ABSURD:
        invalid.append("absurd")
    elif value != int(value):
        invalid.append("fractional")
    else:
        return int(value)
    return None


def read_usage(usage: Any, timings: Any, choices: int) -> tuple[Usage | None, tuple[str, ...]]:
    """Read `usage`, else llama.cpp's `timings`: (usage or None, why counts were invalid).

    A chunk with exactly one choice carries that choice's running count; any other the request's (semantics section 2).
    """
    prompt = output = None
    invalid: list[str] = []
    if type(usage) is dict:
        prompt = count(usage.get("prompt_tokens"), invalid)
        output = count(usage.get("completion_tokens"), invalid)
    if type(timings) is dict:
        if output is None:
            output = count(timings.get("predicted_n"), invalid)
        if prompt is None and "cache_n" in timings:
            # prompt_n leaves out what the cache held; only with cache_n is the sum the prompt.
            fresh = count(timings.get("prompt_n"), invalid)
            cached = count(timings["cache_n"], invalid)
            prompt = fresh + cached if fresh is not None and cached is not None else None
    if prompt is None and output is None:
        return None, tuple(invalid)
    return Usage(prompt, output, choices == 1), tuple(invalid)


def read_error(error: Any, named: bool, kind: Any, code: Any) -> InBandError | None:
    """Read an error: an object or a string under `error`, an event named `error`, or an object of kind `error`.

    `code` is the event's own, used where the error carries none. `"error": null` (and an empty string) is none.
    """
    if type(error) is dict:
        return InBandError(_code(error.get("code", code)))
    if (type(error) is str and error) or named or kind == "error":
        return InBandError(_code(code))
    return None


def _code(value: Any) -> int | None:
    if type(value) is str and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if type(value) is int else None


def read_finish(reason: Any) -> str | None:
    """Read a finish reason; None: not finished."""
    return reason if type(reason) is str and reason else None


def lenient(data: bytes, kind: type[T]) -> T | None:
    """Read what engines send and tolerant clients take for JSON though it is none; None when it does not fit `kind`.

    That is: raw control characters in strings, NaN and Infinity, lone surrogates, bytes that are no UTF-8.
    """
    try:
        value = json.loads(data.decode("utf-8", "replace"), strict=False)
        return msgspec.convert(value, kind) if isinstance(value, dict) else None
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def unreadable(data: bytes, named_error: bool) -> Signal:
    """Say what an event is that does not fit the dialect's shape; `data: null` and its like are no fault."""
    if named_error:
        return Signal(error=InBandError())
    if not data or data.isspace():
        return SILENT
    if data.strip() == DONE:
        return END
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return NOT_JSON
    return BAD_SHAPE if isinstance(value, dict) else SILENT
