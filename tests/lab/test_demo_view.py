"""The demo's table and lines from made-up readings."""

import io

import pytest

from exporter import names
from exporter.lab import demo_view
from exporter.lab.demo import WANTED, Phase
from exporter.lab.demo_view import LiveScreen, summary
from exporter.lab.load import Figures
from exporter.lab.readings import Span, read

MS = 1_000_000


def span(streams: int, stalled: int, gaps: tuple[int, int, int], events: int = 0) -> Span:
    """Ten seconds in which this happened; gaps at most 0.05 s, at most 0.5 s, and all."""
    prefix = names.PREFIX
    lines = [f"# TYPE {prefix}output_gap_seconds histogram"]
    edges = zip(("0.05", "0.5", "+Inf"), gaps, strict=True)
    lines += [f'{prefix}output_gap_seconds_bucket{{le="{edge}"}} {count}' for edge, count in edges]
    for name, value in (("streamed_requests", streams), ("stalled_requests", stalled), ("stalls", stalled)):
        lines += [f"# TYPE {prefix}{name}_total counter", f"{prefix}{name}_total {value}"]
    lines += [f"# TYPE {prefix}output_events_total counter", f"{prefix}output_events_total {events}"]
    lines += [f"# TYPE {prefix}slo_threshold_seconds gauge"]
    lines += [f'{prefix}slo_threshold_seconds{{condition="max_stall"}} 0.1']
    return Span(read("", 0.0, WANTED), read("\n".join(lines) + "\n", 10.0, WANTED))


def figures(chat: int, long: int, gap: int) -> Figures:
    seen = Figures(since=0, longest_gap=gap * MS)
    seen.chat_ttft.append(chat * MS)
    seen.long_ttft.append(long * MS)
    return seen


def test_summary() -> None:
    before = Phase(8192, span(10, 6, (90, 100, 100), 5000), figures(30, 500, 340))
    after = Phase(512, span(12, 0, (200, 200, 200), 4800), figures(28, 800, 44))
    assert summary([before, after]).splitlines() == [
        "max_num_batched_tokens                  8192        512  seen by",
        "TTFT of chats p50 / p95 ms           30 / 30    28 / 28  client",
        "TTFT of long prompts p50 / p95 ms  500 / 500  800 / 800  client",
        "longest gap ms                           340         44  client",
        "longest gap ms, bucket             50 to 500    0 to 50  sidecar",
        "usual gap ms, estimate                    28         25  sidecar",
        "stalled share of streams                60 %        0 %  sidecar",
        "promise of no gap over 100 ms         broken       kept  sidecar",
        "tokens/s                                 500        480  sidecar",
        "failed requests                            0          0  client",
    ]


def test_summary_without_load_or_traffic() -> None:
    rows = summary([Phase(8192, span(0, 0, (0, 0, 0)), None)]).splitlines()
    assert [row.split()[-2] for row in rows[1:]] == ["-"] * 7 + ["0", "-"]


def test_shares_above_one_and_gaps_above_all_edges() -> None:
    rows = summary([Phase(1, span(2, 3, (0, 0, 1)), None)])
    assert "100 %" in rows
    assert "> 500" in rows


def test_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with LiveScreen(stream) as screen:
        screen.say("hello [world]")
        screen.show(span(10, 5, (10, 10, 10), 100), 512, figures(1, 1, 1))
        screen.show(span(10, 5, (10, 10, 10), 100), 512, None)  # too soon for another line
    hello, line = stream.getvalue().splitlines()
    assert hello == "stallwatch demo: hello [world]"
    assert line.startswith("stallwatch demo: budget 512, TTFT p50 ~ms -, ")
    assert line.endswith("stalled share 50 %, tokens/s 10")


def test_failed_requests_show_while_they_happen() -> None:
    stream, seen = io.StringIO(), figures(1, 1, 1)
    seen.errors = 3
    with LiveScreen(stream) as screen:
        screen.show(span(0, 0, (0, 0, 0)), 512, seen)
    assert stream.getvalue().endswith(", errors 3\n")


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    with LiveScreen(stream) as screen:
        screen.show(span(10, 5, (10, 10, 10), 100), 512, None)
    text = stream.getvalue()
    assert "last 10 s, from the sidecar's /metrics" in text
    for label, _ in demo_view.LIVE:
        assert label.split()[0] in text
