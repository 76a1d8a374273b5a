"""One run: the load through one proxy (or none), and what it cost. The README beside this file defines the figures."""

import array
import json
import math
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.processor import Places, used, waited
from benchmarks.proxies import Running, process, running
from benchmarks.wire import EVENT_BYTES

DIRECT = "direct"
WARM_SECONDS = 0.5
TAIL_SECONDS = 0.5  # the streams outlast the measured interval by this much
SPARE_SECONDS = 30.0  # what opening the streams may take before a run is given up
RATE_TOLERANCE = 0.05


class Shape(NamedTuple):
    """The load, and how long it is measured; `grain` is the step of the streams' phases in ms, 0: any instant."""

    streams: int
    rate: float
    seconds: float
    grain: float
    burst: bool

    def __str__(self) -> str:
        phases = f"at random phases in steps of {self.grain:g} ms" if self.grain else "at random phases"
        how = "all at the same instants" if self.burst else phases
        return f"{self.streams} streams x {self.rate:g} chunks/s of {EVENT_BYTES} bytes, {how}"

    @property
    def chunks(self) -> int:
        """Content chunks of each stream."""
        return math.ceil(self.rate * (WARM_SECONDS + self.seconds + TAIL_SECONDS))


@dataclass(frozen=True)
class Run:
    """What one run showed. Times are ns.

    `cpu` and `waited` are None where there is no proxy, the latencies when nothing arrived.

    `load_cpu` is the processor time of engine and client together: near the measured time, they are what is measured.
    """

    proxy: str
    chunks: int
    seconds: float
    cpu: int | None
    waited: int | None
    load_cpu: int
    p50: int | None
    p99: int | None
    faults: tuple[str, ...]


class _Interval(NamedTuple):
    """The measured interval, and the processor time in it: of the proxy, of engine and client together; all ns."""

    begin: int
    end: int
    cpu: int | None
    waited: int | None
    load_cpu: int


def nearest_rank(ordered: list[int], share: float) -> int | None:
    """Return the nearest-rank percentile of an ordered sample; None of an empty one."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


class Bench:
    """The engine, and runs against it one after the other."""

    def __init__(self, shape: Shape, places: Places, folder: Path) -> None:
        self._shape = shape
        self._places = places
        self._folder = folder
        self._stack = ExitStack()
        self._engine = Running(0, 0)

    def __enter__(self) -> "Bench":
        shape = self._shape
        options = ["--streams", str(shape.streams), "--rate", str(shape.rate)]
        options += ["--burst"] if shape.burst else ["--grain", str(shape.grain)]
        command = [sys.executable, "-m", "benchmarks.engine", *options]
        child = self._stack.enter_context(process(command, self._places.engine, self._folder / "engine.log"))
        assert child.stdout is not None
        port = child.stdout.readline()
        if not port:
            self._stack.close()
            raise RuntimeError(f"the load engine did not start: {(self._folder / 'engine.log').read_text()[-500:]}")
        self._engine = Running(child.pid, int(port))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, proxy: str) -> Run:
        """Drive the load through a freshly started proxy, or straight to the engine for `direct`."""
        if proxy == DIRECT:
            return self._drive(proxy, self._engine.port, None)
        with running(proxy, self._engine.port, self._places.proxy, self._folder) as ready:
            return self._drive(proxy, ready.port, ready.pid)

    def _drive(self, proxy: str, port: int, pid: int | None) -> Run:
        shape, stamps = self._shape, self._folder / "stamps"
        limit = SPARE_SECONDS + WARM_SECONDS + shape.seconds + TAIL_SECONDS
        options = {"port": port, "streams": shape.streams, "chunks": shape.chunks, "timeout": limit, "out": stamps}
        command = [sys.executable, "-m", "benchmarks.client"]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        with process(command, self._places.client, self._folder / "client.log") as client:
            assert client.stdout is not None
            line = client.stdout.readline()
            interval = _Interval(0, 0, None, None, 0)
            if line == "live\n":
                try:
                    interval = self._watch(pid, client.pid)
                except OSError as error:
                    return _failed(proxy, f"a process ended while it was measured: {error}")
                line = client.stdout.readline()
        if not line:
            log = (self._folder / "client.log").read_text().strip()
            return _failed(proxy, f"the client failed: {log[-300:]}")
        return _judged(proxy, shape, interval, json.loads(line), stamps)

    def _watch(self, pid: int | None, client: int) -> _Interval:
        time.sleep(WARM_SECONDS)
        cpu, wait = (used(pid), waited(pid)) if pid else (0, 0)
        load = used(client) + used(self._engine.pid)
        begin = time.monotonic_ns()
        time.sleep(self._shape.seconds)
        end = time.monotonic_ns()
        load = used(client) + used(self._engine.pid) - load
        if pid is None:
            return _Interval(begin, end, None, None, load)
        return _Interval(begin, end, used(pid) - cpu, waited(pid) - wait, load)


def _failed(proxy: str, fault: str) -> Run:
    return Run(proxy, 0, 0.0, None, None, 0, None, None, (fault,))


def _judged(proxy: str, shape: Shape, interval: _Interval, told: dict[str, list[int]], stamps: Path) -> Run:
    pairs = array.array("q", stamps.read_bytes())
    ages = sorted(
        arrived - written
        for written, arrived in zip(pairs[::2], pairs[1::2], strict=True)
        if interval.begin <= arrived < interval.end
    )
    seconds = (interval.end - interval.begin) / 1e9
    faults = [str(fault) for fault in told["faults"]]
    wrong = sum(count != shape.chunks for count in told["counts"])
    if wrong:
        faults.append(f"{wrong} of {shape.streams} streams did not bring {shape.chunks} chunks")
    wanted = shape.streams * shape.rate * seconds
    if not faults and abs(len(ages) - wanted) > RATE_TOLERANCE * wanted:
        faults.append(f"{len(ages)} chunks arrived in the measured interval, {wanted:.0f} were due")
    p50, p99 = nearest_rank(ages, 0.50), nearest_rank(ages, 0.99)
    return Run(proxy, len(ages), seconds, interval.cpu, interval.waited, interval.load_cpu, p50, p99, tuple(faults))
