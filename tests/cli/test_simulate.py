"""`stallwatch simulate`: the table, its JSON, its help, and what it refuses."""

import json

import pytest

from exporter.cli.simulate import as_json, as_table
from exporter.lab.simulate import Outcome
from tests.cli.command import run

TABLE = """\
chunk  rounds  max gap ms  prefill done ms
 4096       1        68.5             68.5
 1024       4        20.5             82.0
  256      16         8.5            136.0
 1000       5      20.125             86.5
"""


def test_the_reference_table(capsys: pytest.CaptureFixture[str]) -> None:
    ended = run(capsys, "simulate", "--prompt", "4096", "--chunks", "4096,1024,256,1000")
    assert ended == (0, TABLE, "")


def test_the_default_is_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "simulate").out.splitlines() == TABLE.splitlines()[:-1]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(capsys, "simulate", "--chunks", "1000", "--format", "json").out)
    assert rows == [{"chunk": 1000, "rounds": 5, "max_gap_ms": 20.125, "prefill_done_ms": 86.5}]


def test_costs_and_limits_are_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prompt", "100", "--chunks", "100", "--overhead-ms", "1", "--decode-ms", "0", "--prefill-ms", "4096"]
    options += ["--decode-ms-per-sequence", "0.25", "--max-num-batched-tokens", "52"]
    assert run(capsys, "simulate", *options).out.split()[-4:] == ["100", "2", "51.5", "103.0"]


def test_an_option_from_the_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLWATCH_SIMULATE_CHUNKS", "1000")
    assert run(capsys, "simulate").out.split()[-4:] == ["1000", "5", "20.125", "86.5"]
    assert run(capsys, "simulate", "--chunks", "4096").out.split()[-4:] == ["4096", "1", "68.5", "68.5"]


def test_the_help_tells_cap_from_budget(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(run(capsys, "simulate", "--help").out.split())
    assert "A model on virtual time, not a benchmark" in text
    assert "--chunks caps the prompt tokens of a step." in text
    assert "--max-num-batched-tokens is another thing: the engine's total budget of a step" in text
    assert "--max-num-seqs and the KV blocks limit further." in text


WHOLE = "expected a whole number of at least 1, got"
LIST = "expected whole numbers of at least 1 separated by commas, got"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompt", "0"], f"option --prompt: {WHOLE} '0'"),
        (["--prompt", "1e3"], f"option --prompt: {WHOLE} '1e3'"),
        (["--decoders", "-2"], f"option --decoders: {WHOLE} '-2'"),
        (["--decode-prompt", "0"], f"option --decode-prompt: {WHOLE} '0'"),
        (["--max-num-batched-tokens", "0"], f"option --max-num-batched-tokens: {WHOLE} '0'"),
        (["--max-num-seqs", "0"], f"option --max-num-seqs: {WHOLE} '0'"),
        (["--block-size", "0"], f"option --block-size: {WHOLE} '0'"),
        (["--num-blocks", "x"], f"option --num-blocks: {WHOLE} 'x'"),
        (["--chunks", "a,b"], f"option --chunks: {LIST} 'a,b'"),
        (["--chunks", "64,0"], f"option --chunks: {LIST} '64,0'"),
        (["--chunks", ""], f"option --chunks: {LIST} ''"),
        (["--decode-ms", "-1"], "option --decode-ms: expected a number of milliseconds of at least 0, got '-1'"),
        (["--decode-ms", "nan"], "option --decode-ms: expected a number of milliseconds of at least 0, got 'nan'"),
        (["--num-blocks", "1"], "option --num-blocks: expected a larger KV cache: prompt and output need 4098 tokens"),
        (["--format", "xml"], "option --format: "),
        (["--nope"], "No such option: --nope"),
    ],
)
def test_usage_errors_are_one_line(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    ended = run(capsys, "simulate", *options)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"stallwatch simulate: {message}")
    assert ended.err.count("\n") == 1


def test_no_gap_is_a_dash_and_null() -> None:
    outcomes = [Outcome(chunk=64, rounds=1, max_gap=None, prefill_done=1_000_001)]
    assert as_table(outcomes).splitlines()[1].split() == ["64", "1", "-", "1.000001"]
    assert json.loads(as_json(outcomes))[0]["max_gap_ms"] is None
