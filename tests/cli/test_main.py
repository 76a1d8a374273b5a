"""The command itself: version, help, and errors that belong to no sub-command."""

import subprocess
import sys

import pytest

from exporter import __version__
from exporter.cli import COMMANDS
from tests.cli.command import run


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"stallwatch {__version__}\n", "")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    ended = run(capsys, "--help")
    assert ended.status == 0
    for command in COMMANDS:
        assert f"  {command.__name__} " in ended.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "stallwatch: expected a command, see stallwatch --help\n"),
        (["nope"], "stallwatch: No such command 'nope'.\n"),
        (["simulate", "--prompt"], "stallwatch: Option '--prompt' requires an argument.\n"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(capsys, *arguments) == (2, "", message)


def test_python_m_exporter_is_the_command() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "exporter", "simulate", "--chunks", "0"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("stallwatch simulate: option --chunks: expected")
