"""Drives the core by hand: stamps are chosen here, in seconds, and every figure is read off `Board.families`."""

from collections.abc import Iterable, Sequence
from typing import Any

from exporter.core.aggregates import Board
from exporter.core.classes import SloClass
from exporter.core.config import CoreConfig
from exporter.core.ending import Ending
from exporter.core.histogram import Histogram
from exporter.core.tap import Tap

SSE = ((b"Content-Type", b"text/event-stream; charset=utf-8"),)
JSON = ((b"content-type", b"application/json"),)
CHAT = b"/v1/chat/completions"
COMPLETIONS = b"/v1/completions"
ASK = b'{"model":"m","stream":true,"messages":[]}'


def event(text: str) -> bytes:
    return b"data: " + text.encode() + b"\n\n"


def delta(fields: str, index: int = 0, more: str = "") -> bytes:
    return event(f'{{"choices":[{{"index":{index},"delta":{{{fields}}}{more}}}]}}')


def C(text: str, index: int = 0) -> bytes:
    return delta(f'"content":"{text}"', index)


def ids(text: str, *token_ids: int) -> bytes:
    return delta(f'"content":"{text}"', more=f',"token_ids":{list(token_ids)}')


def running(text: str, count: int, index: int = 0) -> bytes:
    """A chunk that carries its choice's running count."""
    choice = f'{{"index":{index},"delta":{{"content":"{text}"}}}}'
    return event(f'{{"choices":[{choice}],"usage":{{"prompt_tokens":10,"completion_tokens":{count}}}}}')


def FIN(index: int = 0, reason: str = "stop") -> bytes:
    return delta("", index, f',"finish_reason":"{reason}"')


def USAGE(n: Any) -> bytes:
    return event(f'{{"choices":[],"usage":{{"prompt_tokens":10,"completion_tokens":{n}}}}}')


ROLE = delta('"role":"assistant","content":""')
DONE = event("[DONE]")


def ns(seconds: float) -> int:
    return round(seconds * 1_000_000_000)


def board(**settings: Any) -> Board:
    return Board(CoreConfig(**settings), 0)


def classes(**limits: Any) -> tuple[SloClass, ...]:
    return (SloClass("chat", **{key: ns(limit) for key, limit in limits.items()}),)


def begin(
    on: Board,
    at: float = 0.0,
    path: bytes = CHAT,
    body: bytes = ASK,
    head: int | None = 200,
    headers: Sequence[tuple[bytes, bytes]] = SSE,
    method: str = "POST",
) -> Tap:
    """One exchange up to its response head, all at one instant; `head` None: no head yet."""
    tap = on.open(ns(at))
    tap.request(method, path, [(b"Host", b"x"), (b"Content-Type", b"application/json")])
    if body:
        tap.upload(body)
    tap.received(ns(at))
    tap.connected(ns(at), None)
    if head is not None:
        tap.head(head, headers, ns(at))
    return tap


def stream(
    on: Board,
    reads: Iterable[tuple[float, bytes]],
    closed: float,
    ending: Ending = Ending.COMPLETE,
    at: float = 0.0,
    **how: Any,
) -> Tap:
    """One whole exchange; times are seconds after `at`."""
    tap = begin(on, at, **how)
    for when, data in reads:
        tap.feed(data, ns(at + when))
    tap.close(ns(at + closed), ending)
    return tap


def samples(on: Board, name: str, now: float = 0.0) -> dict[tuple[str, ...], float | Histogram]:
    for family in on.families(ns(now)):
        if family.metric.name == name:
            return dict(family.samples)
    raise AssertionError(f"no metric {name}")


def total(on: Board, name: str, now: float = 0.0, **labels: str) -> float:
    """Sum of the samples that carry these labels; of a histogram how many were observed."""
    for family in on.families(ns(now)):
        if family.metric.name == name:
            keys = family.metric.labels
            assert set(labels) <= set(keys)
            found = [
                value.count if isinstance(value, Histogram) else value
                for key, value in family.samples
                if all(dict(zip(keys, key, strict=True))[label] == wanted for label, wanted in labels.items())
            ]
            return sum(found)
    raise AssertionError(f"no metric {name}")


def seconds(on: Board, name: str, now: float = 0.0) -> float:
    """The sum of a histogram over its label sets (or of a counter of durations), in seconds."""
    values = samples(on, name, now).values()
    return sum(value.total if isinstance(value, Histogram) else value for value in values) / 1e9


def outcomes(on: Board) -> dict[str, int]:
    """Outcome counts over all label sets, those that are not 0."""
    found: dict[str, int] = {}
    for key, value in samples(on, "requests_total").items():
        assert not isinstance(value, Histogram)
        if value:
            found[key[-1]] = found.get(key[-1], 0) + int(value)
    return found
