"""`stallwatch demo` as a process: it ends by itself or by a signal, with a summary and no child left."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.lab.children import ChildError
from tests.cli.command import run


def demo(*options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "exporter", "demo", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_ends_by_itself_with_a_summary() -> None:
    process = demo("--for", "1", "--no-load")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    head, *rows = out.splitlines()
    assert head.split() == ["max_num_batched_tokens", "8192", "512", "seen", "by"]
    assert len(rows) == 9
    assert "requests go to" in err


def test_ctrl_c_ends_it_and_its_children_with_what_was_seen() -> None:
    process = demo("--no-load")
    assert process.stderr
    while "budget 8192" not in process.stderr.readline():
        assert process.poll() is None
    pids = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    watched = [os.pidfd_open(pid) for pid in pids]
    assert len(watched) == 2
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.splitlines()[0].split() == ["max_num_batched_tokens", "8192", "seen", "by"]
    for watch in watched:
        assert select.select([watch], [], [], 0)[0], "a child is still there"
        os.close(watch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--for", "0"], "option --for: expected a number of seconds above 0, got '0'"),
        (["--for", "soon"], "option --for: expected a number of seconds above 0, got 'soon'"),
        (["--budget", "0"], "option --budget: expected a whole number of at least 1, got '0'"),
        (["--then", "-1"], "option --then: expected a whole number of at least 1, got '-1'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run(capsys, "demo", *options) == (2, "", f"stallwatch demo: {message}\n")


def test_a_failure_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_port(host: str, preferred: int) -> int:
        raise ChildError(f"no free port on {host}")

    monkeypatch.setattr("exporter.lab.demo.choose_port", no_port)
    assert run(capsys, "demo", "--for", "1") == (1, "", "stallwatch demo: no free port on 127.0.0.1\n")
