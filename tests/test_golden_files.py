"""The golden files are as derived, the derivation knows nothing of the product, and figures read by eye hold."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.capture import keys
from tests.golden import __main__ as golden_main
from tests.golden.derive import derive

FOLDER = Path(golden_main.__file__).parent


def golden(key: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FOLDER / f"{key}.json").read_text())
    return value


def test_files_are_as_derived() -> None:
    assert golden_main.main(check=True) == 0
    assert sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.json")) == keys()


def test_derivation_is_independent_of_the_product() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("exporter", "msgspec", "httptools")]


@pytest.mark.parametrize("key", keys())
def test_sums_are_kept(key: str) -> None:
    """Some choice began at the first token, and every gap lies between it and the close."""
    value = golden(key)
    spans = [sum(gaps) for gaps in value["gaps_ns"].values()]
    if value["ttft_ns"] is not None:
        assert all(value["ttft_ns"] + span <= value["closed_ns"] for span in spans)
        assert value["headers_ns"] <= value["ttft_ns"]
    if value["tpot_ns"] is not None and len(spans) == 1:
        assert value["tpot_ns"][0] == spans[0]


# Read off the captures by eye: name, then what must be in its golden file.
BY_EYE: list[tuple[str, dict[str, Any]]] = [
    # role and first token share the first read; 11 gaps for 16 events because the first read holds five
    ("vllm/chat-stream-usage", {"output_events": 16, "output_tokens": 16, "prompt_tokens": 20, "outcome": "ok"}),
    # --stream-interval 4: events bring 1, 4, 4, 4, 4, 3 tokens
    ("vllm/interval4-chat-stream-usage", {"output_events": 6, "output_tokens": 20, "stalls_ns": []}),
    # choice 1 first generated half a character (empty content), so it has one arrival fewer
    ("vllm/chat-stream-n2", {"output_events": 31, "output_tokens": 32, "tpot_ns": None}),
    # one event of two tokens, and no second arrival
    ("vllm/chat-stream-max2-usage", {"output_events": 1, "output_tokens": 2, "gaps_ns": {"0": []}, "max_gap_ns": None}),
    # the echoed prompt is output too; neither usage nor token ids of the output
    ("vllm/completions-stream-logprobs-echo", {"output_events": 4, "output_tokens": None, "prompt_token_ids": 4}),
    # comments come at 1, 2 and 3 s, the role at 3.348 s; only reasoning follows
    ("vllm/feat-chat-stream-keepalive-before-first", {"ttfa_ns": None, "output_events": 4, "output_tokens": 4}),
    ("vllm/feat-chat-stream-server-abort", {"outcome": "stream_error", "finish": {"0": "abort"}, "output_tokens": 125}),
    ("vllm/queuefull-chat-stream-200-error", {"outcome": "rejected", "ttft_ns": None, "output_events": 0}),
    # the error event and [DONE] share the last read: no choice is open at the close, and the silence was no stall
    ("vllm/enginedead-chat-stream", {"outcome": "stream_error", "duration_ns": None, "max_gap_ns": 843661}),
    ("vllm/queuefull-chat-nonstream", {"outcome": "rejected", "status": 503, "streamed": False}),
    ("vllm/chat-stream-client-abort", {"outcome": "client_abort", "finish": {"0": None}, "output_events": 35}),
    # error event of code 400 before any token, then a usage chunk: its counts still count
    ("sglang/chat-stream-tool-named", {"outcome": "client_error", "output_tokens": 1, "prompt_tokens": 1}),
    ("sglang/completions-stream-batch3", {"output_events": 24, "output_tokens": 24, "prompt_tokens": 11}),
    # each choice's last chunk has its own timings.predicted_n = 6
    ("llamacpp/chat-stream-n2", {"output_events": 12, "output_tokens": 12, "outcome": "ok"}),
    ("llamacpp/chat-stream-bad-json", {"outcome": "client_error", "unparsed": {"request": 1}, "model": "other"}),
]


@pytest.mark.parametrize(("key", "seen"), BY_EYE, ids=[key for key, _ in BY_EYE])
def test_figures_read_by_eye(key: str, seen: dict[str, Any]) -> None:
    value = golden(key)
    assert {name: value[name] for name in seen} == seen


def test_longest_silences_read_by_eye() -> None:
    """In ms, off the read times printed beside the captures."""
    silences = {
        "vllm/chat-stream-token-ids": [284.334 - 86.250],
        "vllm/preempted-completions-stream": [375.002 - 213.306, 587.633 - 463.503, 2262.496 - 587.633],
        "vllm/feat-chat-stream-queued": [1243.867 - 742.039],
        "vllm/tools-chat-stream-tool-required": [265.146 - 83.042],
    }
    for key, expected in silences.items():
        assert [ns / 1e6 for ns in golden(key)["stalls_ns"]] == pytest.approx(expected, abs=0.0015)


def test_silence_before_an_error_counts_in_full_where_no_marker_follows() -> None:
    error = b'data: {"error":{"message":"gone","code":500}}\n\n'
    bare = made((5, TOKEN), (9, TOKEN), (60, error), (61, b""))
    assert (bare["outcome"], bare["max_gap_ns"]) == ("stream_error", 51)
    marked = made((5, TOKEN), (9, TOKEN), (60, error + b"data: [DONE]\n\n"), (61, b""))
    assert (marked["outcome"], marked["max_gap_ns"]) == ("stream_error", 4)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REQUEST = b'POST /v1/chat/completions HTTP/1.1\r\n\r\n{"model": "m"}'
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


def made(*pieces: tuple[int, bytes]) -> dict[str, Any]:
    """Derive a made-up exchange: head at 1, each piece one chunk at its time."""
    chunks = [(at, b"%x\r\n%b\r\n" % (len(data), data) if data else b"0\r\n\r\n") for at, data in pieces]
    return derive([(1, HEAD), *chunks], REQUEST)


def test_silence_before_the_finish_is_a_stall_only_when_long() -> None:
    short = made((5, TOKEN), (100_000_005, END), (100_000_006, b""))
    assert (short["stalls_ns"], short["max_gap_ns"], short["gaps_ns"]) == ([], None, {"0": []})
    long = made((5, TOKEN), (100_000_006, END), (100_000_007, b""))
    assert (long["stalls_ns"], long["max_gap_ns"], long["outcome"]) == ([100_000_001], 100_000_001, "ok")


def test_silence_at_a_clean_end_without_evidence() -> None:
    cut = made((5, TOKEN), (9, TOKEN), (60, b""))
    assert (cut["outcome"], cut["max_gap_ns"], cut["gaps_ns"], cut["stalls_ns"]) == ("truncated", 51, {"0": [4]}, [])


def test_event_cut_over_two_reads_is_stamped_by_its_last_byte() -> None:
    first, last = b"%x\r\n" % len(TOKEN) + TOKEN[:-1], TOKEN[-1:] + b"\r\n"
    value = derive([(1, HEAD), (5, first), (8, last), (9, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")], REQUEST)
    assert (value["ttft_ns"], value["outcome"], value["closed_ns"]) == (8, "ok", 9)
