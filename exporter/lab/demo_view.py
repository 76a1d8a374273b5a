"""How the demo looks: a small live table on a terminal, else a line every few seconds, and the summary at the end."""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from exporter import names
from exporter.lab.demo import Phase
from exporter.lab.load import Figures, nearest_rank
from exporter.lab.readings import Span

LINE_EVERY = 3.0  # s between two lines where there is no terminal
NONE = "-"


def _ms(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds * 1000:.0f}"


def _quantile(span: Span, metric: names.Metric, share: float) -> str:
    return _ms(span.quantile(metric, share))


def _share(span: Span) -> str:
    """Never above 1: a stream that began before the span may stall in it, and is in the first counter only."""
    share = span.share(names.STALLED_REQUESTS, names.STREAMED_REQUESTS)
    return NONE if share is None else f"{min(share, 1.0) * 100:.0f} %"


def _rate(span: Span) -> str:
    rate = span.rate(names.OUTPUT_EVENTS)
    return NONE if rate is None else f"{rate:.0f}"


def _limit(span: Span) -> float:
    return span.after.gauge(names.SLO_THRESHOLD, condition="max_stall") or math.inf


# The live figures: label and text, each from the sidecar's metrics of the last seconds. Quantiles are estimates.
LIVE: tuple[tuple[str, Callable[[Span], str]], ...] = (
    ("TTFT p50 ~ms", lambda span: _quantile(span, names.TIME_TO_FIRST_TOKEN, 0.5)),
    ("TTFT p95 ~ms", lambda span: _quantile(span, names.TIME_TO_FIRST_TOKEN, 0.95)),
    ("usual gap ~ms", lambda span: _quantile(span, names.OUTPUT_GAP, 0.5)),
    ("longest gap now ms", lambda span: _ms(span.after.gauge(names.OPEN_GAP, phase="streaming"))),
    ("stalled share", _share),
    ("tokens/s", _rate),
)


class LiveScreen:
    """Shows the demo on standard error: a live table on a terminal, lines elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._next_line = 0.0

    def __enter__(self) -> "LiveScreen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        """One line, above the table."""
        self._console.print(f"stallwatch demo: {line}", markup=False)

    def show(self, live: Span, budget: int, seen: Figures | None) -> None:
        """The figures of the last seconds."""
        cells = [("budget", str(budget)), *((label, text(live)) for label, text in LIVE)]
        if seen is not None and seen.errors:
            cells.append(("errors", str(seen.errors)))
        if self._live:
            table = Table(title=f"last {live.seconds:.0f} s, from the sidecar's /metrics (~ estimated from buckets)")
            for label, _ in cells:
                table.add_column(label, justify="right")
            table.add_row(*(text for _, text in cells))
            self._live.update(table, refresh=True)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY
            self.say(", ".join(f"{label} {text}" for label, text in cells))


class _Row(NamedTuple):
    label: str
    text: Callable[[Phase], str]
    source: str


def _seen(pick: Callable[[Figures], Sequence[int]]) -> Callable[[Phase], str]:
    """The p50 and p95 of the load's own samples."""

    def text(phase: Phase) -> str:
        if phase.seen is None:
            return NONE
        samples = pick(phase.seen)
        ranks = [nearest_rank(samples, share) for share in (0.5, 0.95)]
        return " / ".join(_ms(None if rank is None else rank / 1e9) for rank in ranks)

    return text


def _longest(phase: Phase) -> str:
    gap = phase.seen.longest_gap if phase.seen else None
    return NONE if gap is None else f"{gap / 1e6:.0f}"


def _bucket(phase: Phase) -> str:
    edges = phase.span.highest(names.OUTPUT_GAP)
    if edges is None:
        return NONE
    lower, upper = edges
    return f"> {lower * 1000:g}" if math.isinf(upper) else f"{lower * 1000:g} to {upper * 1000:g}"


def _promise(phase: Phase) -> str:
    if not phase.span.increase(names.STREAMED_REQUESTS):
        return NONE
    return "broken" if phase.span.increase(names.STALLS) else "kept"


def _errors(phase: Phase) -> str:
    return NONE if phase.seen is None else str(phase.seen.errors)


def summary(phases: Sequence[Phase]) -> str:
    """Both budgets side by side, as aligned text; every row says who saw it."""
    limit = min((_limit(phase.span) for phase in phases), default=math.inf)
    rows = (
        _Row("TTFT of chats p50 / p95 ms", _seen(lambda seen: tuple(seen.chat_ttft)), "client"),
        _Row("TTFT of long prompts p50 / p95 ms", _seen(lambda seen: tuple(seen.long_ttft)), "client"),
        _Row("longest gap ms", _longest, "client"),
        _Row("longest gap ms, bucket", _bucket, "sidecar"),
        _Row("usual gap ms, estimate", lambda phase: _quantile(phase.span, names.OUTPUT_GAP, 0.5), "sidecar"),
        _Row("stalled share of streams", lambda phase: _share(phase.span), "sidecar"),
        _Row(f"promise of no gap over {limit * 1000:g} ms", _promise, "sidecar"),
        _Row("tokens/s", lambda phase: _rate(phase.span), "sidecar"),
        _Row("failed requests", _errors, "client"),
    )
    head = ("max_num_batched_tokens", *(str(phase.budget) for phase in phases), "seen by")
    cells = [head, *((row.label, *map(row.text, phases), row.source) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(_line(row, widths) for row in cells)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *middle, last = row
    padded = [text.rjust(width) for text, width in zip(middle, widths[1:-1], strict=True)]
    return "  ".join([first.ljust(widths[0]), *padded, last])
