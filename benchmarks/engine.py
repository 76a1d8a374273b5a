"""The load engine: a server that writes every stream's chunks on a fixed schedule, each stamped as it is written.

    python -m benchmarks.engine --streams 200 --rate 25 [--grain MS | --burst]

It prints its port, then serves until it is terminated. The streams of one run begin together, once `--streams`
requests have arrived: so the time a proxy takes to open them is in no figure. A stream's phase in the period is random,
but the same in every run (it follows from the stream's number). `--grain MS` rounds phases down to whole steps, as an
engine with coarse timers would; with `--burst` all have phase 0, as the streams of one batch have.

A chunk is written by one system call right after its stamp: a transport would keep it until the loop's turn ends.
"""

import argparse
import asyncio
import heapq
import os
import random
import socket
import time

import httptools
import uvloop

from benchmarks.ticker import Ticker
from benchmarks.wire import Ask, closing, content, opening, read_ask


class Stream:
    """One response being written: where to, and how many chunks are left."""

    def __init__(self, fd: int, ask: Ask) -> None:
        self._fd = fd
        self.ask = ask
        self._left = ask.chunks
        self.open = True

    def write(self) -> bool:
        """Write the next chunk, or the end after the last one; True while more is to come."""
        if not self.open:
            return False
        try:
            os.write(self._fd, content(time.monotonic_ns()))
            self._left -= 1
            if not self._left:
                os.write(self._fd, closing(self.ask.chunks))
        except OSError:  # the peer left, or took nothing for so long that the socket is full
            self.open = False
        return self.open and self._left > 0


class Schedule:
    """When each stream's next chunk is due."""

    def __init__(self, streams: int, rate: float, grain: int) -> None:
        """Take the streams of a run, chunks a second of each, and the step of phases in ns; 0: all have phase 0."""
        self._streams = streams
        self._period = round(1e9 / rate)
        self._grain = grain
        self._waiting: list[Stream] = []
        self._due: list[tuple[int, int, Stream]] = []
        self._ticker = Ticker()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self._ticker.fileno(), self._fire)

    def add(self, stream: Stream) -> None:
        """Take a stream in; all of a run begin when the last one is there."""
        self._waiting = [other for other in self._waiting if other.open]
        self._waiting.append(stream)
        if len(self._waiting) < self._streams:
            return
        origin = time.monotonic_ns() + self._period
        for each in self._waiting:
            heapq.heappush(self._due, (origin + self._phase(each.ask.stream), each.ask.stream, each))
        self._waiting = []
        self._ticker.arm(self._due[0][0])

    def _phase(self, number: int) -> int:
        if not self._grain:
            return 0
        return random.Random(number).randrange(self._period) // self._grain * self._grain

    def _fire(self) -> None:
        self._ticker.acknowledge()
        due = self._due
        while due and due[0][0] <= time.monotonic_ns():
            instant, number, stream = due[0]
            if stream.write():
                heapq.heapreplace(due, (instant + self._period, number, stream))
            else:
                heapq.heappop(due)
        if due:
            self._ticker.arm(due[0][0])


class Connection(asyncio.Protocol):
    """One connection: requests in, streams out, kept alive."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""
        self._fd = -1
        self._stream: Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._fd = sock.fileno()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        ask, self._body = read_ask(self._body), b""
        os.write(self._fd, opening())
        self._stream = Stream(self._fd, ask)
        self._schedule.add(self._stream)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._stream is not None:
            self._stream.open = False  # its descriptor may soon be another connection's


async def _serve(schedule: Schedule) -> None:
    loop = asyncio.get_running_loop()
    schedule.attach(loop)
    server = await loop.create_server(lambda: Connection(schedule), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine")
    parser.add_argument("--streams", type=int, required=True, help="streams of one run; they begin when all are there")
    parser.add_argument("--rate", type=float, required=True, help="chunks per second of each stream")
    phases = parser.add_mutually_exclusive_group()
    phases.add_argument(
        "--grain", type=float, default=0.0, help="ms that phases are rounded down to (default: not rounded)"
    )
    phases.add_argument("--burst", action="store_true", help="all streams write at the same instants")
    arguments = parser.parse_args()
    grain = 0 if arguments.burst else max(1, round(arguments.grain * 1e6))
    uvloop.run(_serve(Schedule(arguments.streams, arguments.rate, grain)))


if __name__ == "__main__":
    main()
