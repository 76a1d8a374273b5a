"""`make bench`: arguments, the order of the rounds, the table.

    python -m benchmarks [--streams 200] [--rate 25] [--seconds 5] [--rounds 3]
                         [--grain MS | --burst] [--only nginx,aiohttp] [--json]

Each round runs the load directly and then through every proxy in turn, so that a change of the machine's mood falls on
all of them. Results go to standard output, progress to standard error. Exit code 0 when every row is valid, 1 when one
is not or a proxy did not start, 2 for a wrong argument or a missing nginx.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks import core_cost
from benchmarks.processor import pinned, places
from benchmarks.proxies import PROXIES, StartError, nginx_program
from benchmarks.report import DEFINITIONS, as_json, rows, table
from benchmarks.rounds import DIRECT, Bench, Run, Shape
from benchmarks.wire import EVENT_BYTES


def _proxies(text: str) -> list[str]:
    names = [name for name in text.split(",") if name and name != DIRECT]
    for name in names:
        if name not in PROXIES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PROXIES)}")
    return names


def _count(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _positive(text: str) -> float:
    if not 0 < (value := float(text)) < 1e6:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="What a relayed chunk costs, side by side."
    )
    parser.add_argument("--streams", type=_count, default=200, help="streams at a time (default 200)")
    parser.add_argument("--rate", type=_positive, default=25.0, help="chunks per second of each stream (default 25)")
    parser.add_argument("--seconds", type=_positive, default=5.0, help="measured interval of each run (default 5)")
    parser.add_argument("--rounds", type=_count, default=3, help="rounds (default 3)")
    phases = parser.add_mutually_exclusive_group()
    phases.add_argument(
        "--grain", type=_positive, default=0.0, help="ms that phases are rounded to (default: not rounded)"
    )
    phases.add_argument(
        "--burst", action="store_true", help="all streams write at the same instants, as one batch does"
    )
    parser.add_argument("--only", type=_proxies, default=list(PROXIES), help="proxies to run, separated by commas")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    return parser.parse_args(argv)


def _measure(shape: Shape, names: Sequence[str], count: int) -> list[dict[str, Run]]:
    where = places()
    _say(f"{where}")
    done: list[dict[str, Run]] = []
    with (
        tempfile.TemporaryDirectory(prefix="stallwatch-bench-") as folder,
        pinned(where.client),
        Bench(shape, where, Path(folder)) as bench,
    ):
        for number in range(1, count + 1):
            done.append({})
            for name in (DIRECT, *names):
                _say(f"round {number} of {count}: {name}")
                done[-1][name] = bench.run(name)
    return done


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _facts(shape: Shape, count: int) -> dict[str, object]:
    return {
        **shape._asdict(),
        "rounds": count,
        "event_bytes": EVENT_BYTES,
        "pinning": str(places()),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "aiohttp": version("aiohttp"),
        "uvloop": version("uvloop"),
    }


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    if "nginx" in arguments.only and nginx_program() is None:
        _say("benchmarks: nginx is not installed (apt-get install nginx-light); without it: --only aiohttp,stallwatch")
        return 2
    shape = Shape(arguments.streams, arguments.rate, arguments.seconds, arguments.grain, arguments.burst)
    began = time.monotonic()
    core = core_cost.measure()
    try:
        done = _measure(shape, arguments.only, arguments.rounds)
    except StartError as error:
        _say(f"benchmarks: {error}")
        return 1
    lines = rows(done)
    facts = _facts(shape, arguments.rounds)
    if arguments.json:
        print(as_json(facts, lines, core))
    else:
        print(f"{shape}; {arguments.rounds} rounds of {shape.seconds:g} s; {facts['pinning']}\n")
        print(table(lines))
        print(f"\n{DEFINITIONS}\n\n{core_cost.text(core)}")
    _say(f"took {time.monotonic() - began:.0f} s")
    return 1 if any(row.faults for row in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
