"""What a request asks for: model, stream, how many choices; read once from a bounded copy of its body.

A body up to the limit is decoded whole, once. Of a larger one (and of one that is not complete yet) the first and last
64 KiB are searched for top-level keys. What is not found is None; `unread` says that something was not.
Nothing of a prompt is kept.
"""

import re
from typing import Any

import msgspec

from exporter.core.labels import MODEL_NAME_LIMIT

WINDOW = 64 * 1024
_BATCH_LIMIT = 64 * 1024  # a longer list of prompts is not counted: that would decode it twice
_CHOICES_LIMIT = 100_000


class Fields(msgspec.Struct, frozen=True):
    """What a request says of itself; None: unknown."""

    model: str | None = None
    stream: bool | None = None
    choices: int = 1  # how many answers it asks for, as far as known
    unread: bool = True  # the body was unreadable or names no model


UNKNOWN = Fields()


class _Body(msgspec.Struct, gc=False):
    model: Any = None
    stream: Any = None
    n: Any = None
    prompt: msgspec.Raw = msgspec.Raw(b"")


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class RequestTap:
    """A bounded copy of one request body."""

    __slots__ = ("_head", "_limit", "_tail", "size")

    def __init__(self, limit: int) -> None:
        """Keep a body of up to `limit` bytes whole."""
        self._limit = limit
        self._head = bytearray()
        self._tail: bytes | None = None  # None: the whole body is in `_head`
        self.size = 0  # bytes of the whole body

    def feed(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self.size += len(data)
        if self._tail is not None:
            self._tail = (self._tail + data[-WINDOW:])[-WINDOW:]
            return
        if self.size <= self._limit:
            self._head += data
            return
        self._tail = bytes((self._head[-WINDOW:] + data[-WINDOW:])[-WINDOW:])
        self._head += data[:WINDOW]
        del self._head[WINDOW:]

    def fields(self, complete: bool) -> Fields:
        """Read the fields; `complete`: the body's last byte is here."""
        if self._tail is None and complete:
            return _whole(bytes(self._head))
        found = _search(bytes(self._head[:WINDOW]))
        if complete and self._tail is not None:
            found |= _search_tail(self._tail)
        model, stream = _model(found.get("model")), found.get("stream")
        return Fields(
            model=model,
            stream=stream if type(stream) is bool else None,
            choices=_count(found.get("n")),
            unread=model is None or type(stream) is not bool,
        )


def _whole(body: bytes) -> Fields:
    try:
        fields = _decode_body(body)
    except (msgspec.DecodeError, RecursionError):
        return UNKNOWN
    model = _model(fields.model)
    stream = fields.stream if type(fields.stream) is bool else None
    return Fields(
        model=model,
        stream=stream,
        choices=_count(fields.n) * _prompts(bytes(fields.prompt)),
        unread=model is None or (stream is None and fields.stream is not None),
    )


def _model(value: Any) -> str | None:
    if type(value) is not str or not 0 < len(value) <= MODEL_NAME_LIMIT:
        return None
    return value


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value <= _CHOICES_LIMIT else 1


def _prompts(raw: bytes) -> int:
    """How many prompts `prompt` holds: a list of texts or of token lists is a batch, a list of token ids is one."""
    inner = raw.lstrip()[1:].lstrip()[:1]
    if not raw.lstrip().startswith(b"[") or inner not in (b'"', b"[") or len(raw) > _BATCH_LIMIT:
        return 1
    return len(_decode_list(raw))


# Strings, with the colon that makes one a key; brackets; literals; runs of all that matters to nobody.
_TOKEN = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?|([{\[])|([}\]])|(true|false|null)|[\s,0-9.eE+-]+', re.DOTALL)
_NUMBER = re.compile(rb"\s*([0-9]{1,9})\s*[,}]")
_LITERALS: dict[bytes, bool | None] = {b"true": True, b"false": False, b"null": None}
_KEYS = frozenset((b"model", b"stream", b"n"))
_STARTS_IN_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STARTS_IN_WORD = re.compile(rb"[a-z0-9.eE+-]*:?")


def _tokens(text: bytes, start: int) -> tuple[list[tuple[int, bytes, Any]], int, bool]:
    """Walk JSON from `start`: ((depth, key, value) of wanted keys, the depth at its end, whether all of it is JSON)."""
    found: list[tuple[int, bytes, Any]] = []
    depth, key, at = 0, b"", start
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return found, depth, False
        at = token.end()
        string, colon, opens, closes, literal = token.groups()
        if colon is not None:
            key = string if string in _KEYS else b""
            number = _NUMBER.match(text, at)
            if key and number:
                found.append((depth, key, int(number[1])))
            continue
        if key and string is not None:
            found.append((depth, key, _text(string)))
        elif key and literal is not None:
            found.append((depth, key, _LITERALS[literal]))
        if string is not None or literal is not None or opens is not None:
            key = b""
        depth += (opens is not None) - (closes is not None)
    return found, depth, True


def _text(string: bytes) -> str | None:
    try:
        return msgspec.json.decode(b'"' + string + b'"', type=str)
    except msgspec.DecodeError:
        return None


def _search(text: bytes) -> dict[str, Any]:
    """Find top-level keys in the beginning of a body; it may break off anywhere."""
    found, _, _ = _tokens(text, 0)
    return {key.decode(): value for depth, key, value in found if depth == 1}


def _search_tail(text: bytes) -> dict[str, Any]:
    """Find top-level keys in the end of a body that was entered anywhere.

    Whether it begins inside a string is not known: each way is tried, and one that leads to something that is no JSON
    is wrong. Depth counts back from the last brace. Ways that disagree tell nothing.
    """
    in_word = _STARTS_IN_WORD.match(text)
    starts = [in_word.end() if in_word else 0]
    starts += [string.end() for skip in (0, 1) if (string := _STARTS_IN_STRING.match(text, skip))]
    answers: list[dict[str, Any]] = []
    for start in starts:
        found, depth, sound = _tokens(text, start)
        if sound and text.rstrip().endswith(b"}"):
            answer = {key.decode(): value for at, key, value in found if at - depth == 1}
            if answer not in answers:
                answers.append(answer)
    return answers[0] if len(answers) == 1 else {}
