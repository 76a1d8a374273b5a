"""Run the command `stallwatch` inside this process, as a user would, and keep what it printed."""

from typing import NamedTuple

import pytest

from exporter.cli import main


class Run(NamedTuple):
    status: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Run:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    captured = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return Run(end.value.code, captured.out, captured.err)
