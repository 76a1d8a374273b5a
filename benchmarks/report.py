"""The table of a benchmark, and the same as JSON: medians over the rounds, with the least and the most of them."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.rounds import DIRECT, Run

REFERENCE = "nginx"

DEFINITIONS = """\
CPU/chunk: processor time (user and system) of the proxy process in the measured interval / chunks that arrived in it.
Latency of a chunk: its arrival at the client - its write stamp, taken by the engine right before its system call.
Added p50 and p99: that percentile (nearest rank, all chunks of the interval) - the same of the round's direct run.
Figures are medians over the rounds (least-most); ratios to nginx are formed within each round."""


class Figure(NamedTuple):
    """One figure over the rounds."""

    median: float
    least: float
    most: float


class Row(NamedTuple):
    """One proxy's line: µs and ratios; None where there is no such figure. `faults` make the line invalid.

    `waited` is the share of time that other processes kept the proxy from running; `load_busy` is the share of one
    processor that engine and client used together.
    """

    proxy: str
    rounds: int
    chunks_per_second: Figure | None
    cpu: Figure | None
    cpu_ratio: Figure | None
    waited: Figure | None
    load_busy: Figure | None
    latency_p50: Figure | None
    latency_p99: Figure | None
    added_p50: Figure | None
    added_p50_ratio: Figure | None
    added_p99: Figure | None
    added_p99_ratio: Figure | None
    faults: tuple[str, ...]


Round = Mapping[str, Run]
Measure = Callable[[Round], float | None]


def _figure(rounds: Sequence[Round], measure: Measure) -> Figure | None:
    values = [value for value in map(measure, rounds) if value is not None]
    return Figure(statistics.median(values), min(values), max(values)) if values else None


def _cpu(proxy: str) -> Measure:
    def measure(done: Round) -> float | None:
        run = done[proxy]
        return run.cpu / run.chunks / 1e3 if run.cpu is not None and run.chunks else None

    return measure


def _waited(proxy: str) -> Measure:
    def measure(done: Round) -> float | None:
        run = done[proxy]
        return run.waited / run.seconds / 1e9 if run.waited is not None and run.seconds else None

    return measure


def _latency(proxy: str, name: str) -> Measure:
    def measure(done: Round) -> float | None:
        value: int | None = getattr(done[proxy], name)
        return None if value is None else value / 1e3

    return measure


def _added(proxy: str, name: str) -> Measure:
    def measure(done: Round) -> float | None:
        if proxy == DIRECT:
            return None
        through, direct = _latency(proxy, name)(done), _latency(DIRECT, name)(done)
        return None if through is None or direct is None else through - direct

    return measure


def _ratio(proxy: str, measure_of: Callable[[str], Measure]) -> Measure:
    """Compare within one round; None when the reference was not run, or showed nothing to divide by."""

    def measure(done: Round) -> float | None:
        if REFERENCE not in done:
            return None
        own, reference = measure_of(proxy)(done), measure_of(REFERENCE)(done)
        return None if own is None or reference is None or reference <= 0 else own / reference

    return measure


def rows(rounds: Sequence[Round]) -> list[Row]:
    """Return one row per proxy, in the order of the runs."""
    return [_row(proxy, rounds) for proxy in rounds[0]]


def _row(proxy: str, rounds: Sequence[Round]) -> Row:
    def figure(measure: Measure) -> Figure | None:
        return _figure(rounds, measure)

    return Row(
        proxy=proxy,
        rounds=len(rounds),
        chunks_per_second=figure(
            lambda done: done[proxy].chunks / done[proxy].seconds if done[proxy].seconds else None
        ),
        cpu=figure(_cpu(proxy)),
        cpu_ratio=figure(_ratio(proxy, _cpu)),
        waited=figure(_waited(proxy)),
        load_busy=figure(
            lambda done: done[proxy].load_cpu / done[proxy].seconds / 1e9 if done[proxy].seconds else None
        ),
        latency_p50=figure(_latency(proxy, "p50")),
        latency_p99=figure(_latency(proxy, "p99")),
        added_p50=figure(_added(proxy, "p50")),
        added_p50_ratio=figure(_ratio(proxy, lambda name: _added(name, "p50"))),
        added_p99=figure(_added(proxy, "p99")),
        added_p99_ratio=figure(_ratio(proxy, lambda name: _added(name, "p99"))),
        faults=tuple(
            f"round {number}: {fault}" for number, done in enumerate(rounds, 1) for fault in done[proxy].faults
        ),
    )


def _text(figure: Figure | None, digits: int) -> str:
    if figure is None:
        return "-"
    if figure.least == figure.most:
        return f"{figure.median:.{digits}f}"
    return f"{figure.median:.{digits}f} ({figure.least:.{digits}f}-{figure.most:.{digits}f})"


_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("proxy", lambda row: row.proxy),
    ("chunks/s", lambda row: "-" if row.chunks_per_second is None else f"{row.chunks_per_second.median:.0f}"),
    ("CPU/chunk µs", lambda row: _text(row.cpu, 1)),
    ("x nginx", lambda row: _text(row.cpu_ratio, 2)),
    ("added p50 µs", lambda row: _text(row.added_p50, 0)),
    ("x nginx", lambda row: _text(row.added_p50_ratio, 2)),
    ("added p99 µs", lambda row: _text(row.added_p99, 0)),
    ("x nginx", lambda row: _text(row.added_p99_ratio, 2)),
)


def table(lines: Sequence[Row]) -> str:
    """Return the Markdown table of all proxies, then the direct latency, then what is wrong with which row."""
    cells = [[title for title, _ in _COLUMNS]]
    for row in lines:
        if row.proxy == DIRECT:
            continue
        texts = [text(row) for _, text in _COLUMNS]
        cells.append([f"{row.proxy} INVALID", *["-"] * (len(texts) - 1)] if row.faults else texts)
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    drawn = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    drawn.append("")
    for row in lines:
        if row.proxy == DIRECT:
            drawn.append(f"direct latency µs: p50 {_text(row.latency_p50, 0)}, p99 {_text(row.latency_p99, 0)}")
            busy = [each.load_busy.median for each in lines if each.load_busy]
            drawn.append(f"engine and client together used at most {max(busy, default=0):.0%} of a processor")
            kept = [each.waited.most for each in lines if each.waited]
            drawn.append(
                f"other processes kept a proxy from running for at most {max(kept, default=0):.1%} of the time"
            )
        drawn += [f"{row.proxy} is invalid: {fault}" for fault in row.faults[:3]]
        if len(row.faults) > 3:
            drawn.append(f"{row.proxy} is invalid: and {len(row.faults) - 3} faults more")
    return "\n".join(drawn)


def as_json(facts: Mapping[str, object], lines: Sequence[Row], core: Mapping[str, float] | None) -> str:
    """Return the same as JSON; durations in µs, `core` the cost of the core's parts, null when it was not measured."""
    told: list[dict[str, Any]] = []
    for row in lines:
        plain: dict[str, Any] = row._asdict()
        told.append({name: value._asdict() if isinstance(value, Figure) else value for name, value in plain.items()})
    return json.dumps({**facts, "rows": told, "core": core}, indent=2)
