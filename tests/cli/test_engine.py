"""`stallwatch engine` as a process: its ready line, its clean end, and what it refuses."""

import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.command import run


@contextmanager
def engine(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "exporter", "engine", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        line = process.stderr.readline()
        prefix = "stallwatch engine: listening on "
        assert line.startswith(f"{prefix}http://127.0.0.1:")
        yield process, line.removeprefix(prefix).split(",")[0]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_cleanly(number: signal.Signals) -> None:
    with engine("--model", "toy") as (process, address):
        body = b'{"model": "toy", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}'
        with urllib.request.urlopen(f"{address}/v1/chat/completions", data=body, timeout=30) as response:
            assert b"the sea" in response.read()
        stream = urllib.request.urlopen(
            f"{address}/v1/completions", data=b'{"prompt": "x", "max_tokens": 90000, "stream": true}', timeout=30
        )
        with stream:
            assert stream.readline().startswith(b"data: ")
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run(capsys, "engine", "--port", str(port))
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"stallwatch engine: option --port: expected an address that is free, 127.0.0.1:{port}")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "70000"], "option --port: expected a port from 0 to 65535, got '70000'"),
        (["--max-num-batched-tokens", "0"], "option --max-num-batched-tokens: expected a whole number of at least 1"),
        (["--prefill-chunk", "x"], "option --prefill-chunk: expected a whole number of at least 1, got 'x'"),
        (["--prefill-ms", "-1"], "option --prefill-ms: expected a number of milliseconds of at least 0, got '-1'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    ended = run(capsys, "engine", *options)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"stallwatch engine: {message}")


def test_an_option_from_the_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLWATCH_ENGINE_PORT", "x")
    assert "option --port: expected a port from 0 to 65535, got 'x'" in run(capsys, "engine").err


def test_the_help_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(run(capsys, "engine", "--help").out.split())
    assert "A model, not a benchmark" in text
    assert "POST /admin/budget" in text
    assert "not the total budget" in text
    assert "STALLWATCH_ENGINE_MAX_NUM_BATCHED_TOKENS" in text
