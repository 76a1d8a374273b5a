"""The benchmark end to end on a tiny load: every stream whole, a table of the right shape; no figure is judged."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.processor import places, used
from benchmarks.proxies import PROXIES, StartError, nginx_program, running
from benchmarks.report import REFERENCE, rows, table
from benchmarks.rounds import DIRECT, Bench, Run, Shape

SHAPE = Shape(streams=5, rate=25.0, seconds=1.0, grain=0.0, burst=False)
NAMES = ["aiohttp", *(["nginx"] if nginx_program() else [])]


def test_every_stream_arrives_whole(tmp_path: Path) -> None:
    with Bench(SHAPE._replace(burst=True), places(), tmp_path) as bench:
        done = {name: bench.run(name) for name in (DIRECT, *NAMES)}
    for name, run in done.items():
        # The count of the interval alone may be off on a busy machine; streams that are not whole never are its fault.
        assert not [fault for fault in run.faults if "were due" not in fault], run
        assert 0 < run.chunks <= SHAPE.streams * SHAPE.chunks
        assert run.p50 is not None
        assert run.p99 is not None
        assert 0 < run.p50 <= run.p99
        assert (run.cpu is None) == (name == DIRECT)
        assert run.cpu is None or run.cpu > 0
        assert (run.waited is None) == (name == DIRECT)


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--streams", "5", "--seconds", "0.5", "--rounds", "2", "--only", ",".join(NAMES), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [row["proxy"] for row in told["rows"]] == [DIRECT, *NAMES]
    assert {row["rounds"] for row in told["rows"]} == {2}
    assert told["streams"] == 5


def _run(proxy: str, cpu: int | None, p50: int, faults: tuple[str, ...] = ()) -> Run:
    return Run(proxy, 1000, 2.0, cpu, None if cpu is None else 20_000_000, 1_000_000_000, p50, 2 * p50, faults)


def test_table_of_two_rounds() -> None:
    rounds = [
        {
            DIRECT: _run(DIRECT, None, 50_000),
            REFERENCE: _run(REFERENCE, 10_000_000 * scale, 150_000),
            "aiohttp": _run("aiohttp", 30_000_000 * scale, 350_000),
        }
        for scale in (1, 2)
    ]
    lines = table(rows(rounds)).splitlines()
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == [
        "aiohttp",
        "500",
        "45.0 (30.0-60.0)",
        "3.00",
        "300",
        "3.00",
        "600",
        "3.00",
    ]
    assert len({len(line) for line in lines[:4]}) == 1
    assert "direct latency µs: p50 50, p99 100" in lines
    assert "other processes kept a proxy from running for at most 1.0% of the time" in lines
    assert "engine and client together used at most 50% of a processor" in lines


def test_a_faulty_row_shows_no_figures() -> None:
    fault = "2 of 5 streams did not bring 50 chunks"
    done = {DIRECT: _run(DIRECT, None, 50_000), "aiohttp": _run("aiohttp", 30_000_000, 350_000, (fault,))}
    text = table(rows([done]))
    assert "| aiohttp INVALID | -" in text
    assert f"aiohttp is invalid: round 1: {fault}" in text


def test_a_proxy_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PROXIES["aiohttp"](1, 2, tmp_path)
    broken = plan._replace(command=[plan.command[0], "-m", "benchmarks.absent"])
    monkeypatch.setitem(PROXIES, "aiohttp", lambda *_: broken)
    with (
        pytest.raises(StartError, match=r"aiohttp did not start \(exit code 1\): .*benchmarks.absent"),
        running("aiohttp", 1, None, tmp_path),
    ):
        pass


def test_without_nginx_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.__main__.nginx_program", lambda: None)
    assert main(["--only", "nginx"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("benchmarks: nginx is not installed")
    assert said.err.count("\n") == 1


def test_unknown_proxy_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--only", "squid"])
    assert stopped.value.code == 2
    assert "'squid' is none of nginx, aiohttp, stallwatch" in capsys.readouterr().err


def test_processor_time_of_a_process_that_is_gone() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        used(2**22 + 1)  # above the highest pid of Linux
