"""What the timeline of one capture must be, worked out from its bytes without any code of the product.

Deliberately naive: the whole answer is joined first, then de-chunked, split into events and read with the json module,
keeping for each byte the time of the read that brought it. Rules are those of docs/semantics.md, sections 1 to 3, as
far as chat and completions need them. Time zero is the request's last byte. All times are int ns; a fraction is
[numerator, denominator]; null is "not observed".
"""

import json
from itertools import pairwise
from typing import Any, NamedTuple

from tests.golden.reads import Event, events_of, reads_of, split_head, unframed

MAX_STALL = 100_000_000  # ns, the default class
END = b"[DONE]"

Fraction = list[int]
Golden = dict[str, Any]


class Piece(NamedTuple):
    """What one event says of one choice."""

    at: int
    choice: int
    bears: bool
    answers: bool
    finish: str | None
    ids: int | None  # token ids in it
    counted: int | None  # the engine's own running count


def brings(choice: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a choice of a chunk brings the client output, and whether any of it is more than reasoning."""
    delta = choice.get("delta") or {}
    texts = [choice.get("text"), delta.get("content"), delta.get("refusal"), delta.get("audio")]
    calls = [call.get("function") for call in delta.get("tool_calls") or []] + [delta.get("function_call")]
    texts += [call.get(part) for call in calls if call for part in ("name", "arguments")]
    thoughts = [delta.get("reasoning"), delta.get("reasoning_content")]
    return any(texts + thoughts), any(texts)


def count_in(value: dict[str, Any], usage: str, timings: tuple[str, ...]) -> int | None:
    """A count the engine reports in a chunk or body: `usage`, else llama.cpp's `timings`."""
    if value.get("usage"):
        return int(value["usage"][usage])
    if value.get("timings"):
        return sum(int(value["timings"][key]) for key in timings)
    return None


def output_count(value: dict[str, Any]) -> int | None:
    """Output tokens as reported."""
    return count_in(value, "completion_tokens", ("predicted_n",))


def prompt_count(value: dict[str, Any]) -> int | None:
    """Prompt tokens as reported, cached ones included."""
    return count_in(value, "prompt_tokens", ("cache_n", "prompt_n"))


def prompt_ids(value: dict[str, Any]) -> int | None:
    """How many ids of prompt tokens a chunk lists: kept apart, for ids are no count that the engine reports."""
    listed = [holder.get("prompt_token_ids") for holder in [value, *(value.get("choices") or [])]]
    return next((len(ids) for ids in listed if ids), None)


def pieces_of(values: list[tuple[int, dict[str, Any]]]) -> list[Piece]:
    """Every choice of every chunk, in order."""
    return [
        Piece(
            at,
            choice["index"],
            *brings(choice),
            choice.get("finish_reason"),
            len(ids) if (ids := choice.get("token_ids")) is not None else None,
            output_count(value),
        )
        for at, value in values
        for choice in value.get("choices") or []
    ]


def tokens_by_arrival(mine: list[Piece], whole: list[tuple[int, int]], arrivals: list[int]) -> list[int | None]:
    """For each arrival of one choice, how many tokens had come by the end of its read; None where unknown.

    Known from token ids if every piece that bears output has them, else from the last count in that read that is no
    older than its last bearing piece. `whole` are counts of chunks without choices: (time, count).
    """
    if all(piece.ids is not None for piece in mine if piece.bears):
        return [sum(piece.ids or 0 for piece in mine if piece.at <= at) for at in arrivals]
    known: list[int | None] = []
    for at in arrivals:
        here = [piece for piece in mine if piece.at == at]
        last = max(i for i, piece in enumerate(here) if piece.bears)
        counts = [piece.counted for piece in here[last:]] + [count for when, count in whole if when == at]
        known.append(next((count for count in reversed(counts) if count is not None), None))
    return known


class Choice:
    """The timeline of one choice, offline."""

    def __init__(self, index: int, pieces: list[Piece], whole: list[tuple[int, int]], ended: int) -> None:
        mine = [piece for piece in pieces if piece.choice == index]
        finishes = [(piece.at, piece.finish) for piece in mine if piece.finish]
        self.finished_at = finishes[0][0] if finishes else None
        self.finish = finishes[0][1] if finishes else None
        self.arrivals = sorted({piece.at for piece in mine if piece.bears})
        self.gaps = [b - a for a, b in pairwise(self.arrivals)]
        self.silence = min([at for at, _ in finishes] + [ended]) - self.arrivals[-1] if self.arrivals else 0
        tokens = tokens_by_arrival(mine, whole, self.arrivals)
        self.itl: list[Fraction] = [
            [gap, later - before]
            for gap, (before, later) in zip(self.gaps, pairwise(tokens), strict=True)
            if before is not None and later is not None and later > before
        ]
        counts = [piece.counted for piece in mine if piece.counted is not None]
        ids = [piece.ids for piece in mine if piece.ids is not None]
        self.count = counts[-1] if counts else None
        self.ids = sum(ids) if ids else None

    def tpot(self, tokens: int | None) -> Fraction | None:
        """(Last token - first token) / (tokens - 1)."""
        return [self.arrivals[-1] - self.arrivals[0], tokens - 1] if self.arrivals and tokens and tokens > 1 else None


def output_tokens(choices: dict[int, Choice], whole: list[tuple[int, int]]) -> int | None:
    """The request's count if there is one, else the choices' counts, else their token ids."""
    if whole:
        return whole[-1][1]
    counts = [choice.count for choice in choices.values() if choice.count is not None]
    ids = [choice.ids for choice in choices.values() if choice.ids is not None]
    return sum(counts) if counts else sum(ids) if ids else None


def request_tpot(choices: dict[int, Choice], total: int | None) -> Fraction | None:
    """The one choice's, or the largest of several whose own counts are known."""
    if len(choices) == 1:
        return next(iter(choices.values())).tpot(total)
    counts = [(c, c.count if c.count is not None else c.ids) for c in choices.values() if c.arrivals]
    if any(count is None for _, count in counts):
        return None
    each = [fraction for choice, count in counts if (fraction := choice.tpot(count))]
    return max(each, key=lambda fraction: fraction[0] / fraction[1], default=None)


def status_outcome(status: int) -> str | None:
    """The outcome that a status, or the code of an error before any token, decides; None for 2xx and 3xx."""
    if status in (429, 503):
        return "rejected"
    if status == 408 or status >= 500:
        return "upstream_error"
    return "client_error" if status >= 400 else None


def evidence(choices: dict[int, Choice], done: list[int], asked: int) -> int | None:
    """When a stream showed that it was whole: the end marker, or the last of all choices' finish reasons."""
    finished = [choice.finished_at for choice in choices.values() if choice.finished_at is not None]
    whole = finished and len(finished) == len(choices) >= asked
    return min(done) if done else max(finished) if whole else None


def first_failure(values: list[tuple[int, dict[str, Any]]]) -> str | None:
    """The outcome that the first failure told in a stream stands for; None where none was told."""
    token = False
    for _, value in values:
        choices = value.get("choices") or []
        if error := value.get("error"):
            code = error.get("code") if isinstance(error, dict) else None
            early = status_outcome(code) if isinstance(code, int) and not token else None
            return early if early in ("rejected", "client_error") else "stream_error"
        if {"abort", "error"} & {choice.get("finish_reason") for choice in choices}:
            return "stream_error"
        token = token or any(brings(choice)[0] for choice in choices)
    return None


def stream_outcome(failure: str | None, shown: bool, complete: bool) -> str:
    """The outcome of a 2xx stream that was `complete` by its framing, or was left by its client.

    A failure that the engine told is not undone by what is missing after it (C22: some engines end so).
    """
    return failure or ("ok" if shown else "truncated" if complete else "client_abort")


def derive(pieces: list[tuple[int, bytes]], request: bytes, left: int | None = None) -> Golden:
    """The expected timeline of one capture: its reads as (time, bytes), and the request as sent.

    Where the answer is not whole its client left, at `left` or with the last read.
    """
    reads = reads_of(pieces)
    status, headers, start = split_head(reads.raw)
    body, offsets, complete = unframed(reads.raw, start, headers)
    try:
        asked: dict[str, Any] | None = json.loads(request.partition(b"\r\n\r\n")[2])
    except ValueError:
        asked = None
    golden: Golden = {
        "status": status,
        "streamed": status < 300 and headers["content-type"].startswith("text/event-stream"),
        "headers_ns": reads.time(start - 1),
        "closed_ns": reads.times[-1] if left is None else left,
        "model": asked["model"] if asked and status < 300 else "other",
        "unparsed": {} if asked else {"request": 1},
    }
    if golden["streamed"]:
        events = events_of(body, offsets, reads)
        golden |= stream(events, golden["closed_ns"], complete, (asked or {}).get("n", 1))
    else:
        golden |= plain(status, json.loads(body))
    tails, shown = golden.pop("open_tails"), golden.pop("evidence_ns")
    if not complete and golden["outcome"] == "ok":
        golden["closed_ns"] = shown
    golden["duration_ns"] = golden["closed_ns"] if golden["outcome"] == "ok" else None
    silences = [gap for gaps in golden["gaps_ns"].values() for gap in gaps] + golden["stalls_ns"]
    silences += [tail for tail in tails if tail and golden["outcome"] != "ok"]
    golden["max_gap_ns"] = max(silences, default=None)
    return golden


def stream(events: list[Event], closed: int, complete: bool, asked: int) -> Golden:
    """What an event stream says; `asked` is how many answers the request wanted."""
    done = [event.at for event in events if event.data == END]
    decoded = [(event.at, json.loads(event.data)) for event in events if event.data != END]
    values = [(at, value) for at, value in decoded if isinstance(value, dict)]
    pieces = pieces_of(values)
    whole = [(at, n) for at, v in values if not v.get("choices") and (n := output_count(v)) is not None]
    prompts = [count for _, value in values if (count := prompt_count(value)) is not None]
    errors = [at for at, value in values if value.get("error")]
    indexes = sorted({piece.choice for piece in pieces})
    lone = whole if len(indexes) == 1 else []
    last = min([*errors, *done, closed])
    choices = {index: Choice(index, pieces, lone, last) for index in indexes}
    gaps = [gap for choice in choices.values() for gap in choice.gaps]
    silences = gaps + [choice.silence for choice in choices.values()]
    total = output_tokens(choices, whole)
    shown = evidence(choices, done, asked)
    return {
        "outcome": stream_outcome(first_failure(values), shown is not None, complete),
        "ttft_ns": min((piece.at for piece in pieces if piece.bears), default=None),
        "ttfa_ns": min((piece.at for piece in pieces if piece.answers), default=None),
        "gaps_ns": {str(index): choice.gaps for index, choice in choices.items()},
        "itl_ns": [fraction for choice in choices.values() for fraction in choice.itl],
        "tpot_ns": request_tpot(choices, total),
        "stalls_ns": [silence for silence in silences if silence > MAX_STALL],
        "output_events": len([piece for piece in pieces if piece.bears]),
        "output_tokens": total,
        "prompt_tokens": prompts[-1] if prompts else None,
        "prompt_token_ids": next((ids for _, value in values if (ids := prompt_ids(value)) is not None), None),
        "finish": {str(index): choice.finish for index, choice in choices.items()},
        "open_tails": [c.silence for c in choices.values() if c.arrivals and c.finish is None and not done],
        "evidence_ns": shown,
    }


def plain(status: int, value: dict[str, Any]) -> Golden:
    """What a JSON answer says: an outcome, counts and finish reasons, and no time of any token."""
    answered = status < 300
    choices = value.get("choices") or []
    return {
        "outcome": status_outcome(status) or "ok",
        "ttft_ns": None,
        "ttfa_ns": None,
        "gaps_ns": {},
        "itl_ns": [],
        "tpot_ns": None,
        "stalls_ns": [],
        "output_events": 0,
        "output_tokens": output_count(value) if answered else None,
        "prompt_tokens": prompt_count(value) if answered else None,
        "prompt_token_ids": prompt_ids(value),
        "finish": {str(choice["index"]): choice.get("finish_reason") for choice in choices},
        "open_tails": [],
        "evidence_ns": None,
    }
