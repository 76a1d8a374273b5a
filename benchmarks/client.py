"""The load client: opens the streams, and notes for each chunk when the engine wrote it and when it arrived here.

    python -m benchmarks.client --port P --streams 200 --chunks 150 --timeout 60 --out FILE

It prints `live` once every stream has brought a chunk, and at the end one JSON object: `counts` (content chunks of each
stream) and `faults` (what went wrong, one line each; streams still open at the time limit are one). FILE then holds
pairs of 64-bit integers: the write stamp and the arrival, ns of `time.monotonic_ns`. A chunk arrives when the read that
completes its event returns.
"""

import argparse
import array
import asyncio
import json
import time

import httptools
import uvloop

from benchmarks.wire import EVENT_END, STAMP_DIGITS, STAMP_MARK, Ask, request


class Load:
    """What all streams of a run bring."""

    def __init__(self, streams: int) -> None:
        self.pairs = array.array("q")
        self.counts = [0] * streams
        self.faults: list[str] = []
        self._silent = streams
        self._open = streams
        self.ended = asyncio.Event()

    def began(self) -> None:
        """Note a stream's first chunk."""
        self._silent -= 1
        if not self._silent:
            print("live", flush=True)

    def close(self, fault: str | None) -> None:
        """Note a stream's end; `fault` says what was wrong with it, None when nothing was."""
        if fault is not None:
            self.faults.append(fault)
        self._open -= 1
        if not self._open:
            self.ended.set()


class StreamClient(asyncio.Protocol):
    """One request and its response."""

    def __init__(self, load: Load, number: int) -> None:
        self._load = load
        self._number = number
        self._parser = httptools.HttpResponseParser(self)
        self._now = 0
        self._rest = b""
        self._closed = False

    def data_received(self, data: bytes) -> None:
        self._now = time.monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._close(f"not HTTP: {error}")

    def on_body(self, body: bytes) -> None:
        if self._rest:
            body = self._rest + body
        start = 0
        while (mark := body.find(STAMP_MARK, start)) >= 0:
            end = body.find(EVENT_END, mark)
            if end < 0:
                break
            digits = mark + len(STAMP_MARK)
            self._chunk(int(body[digits : digits + STAMP_DIGITS]))
            start = end + len(EVENT_END)
        # An event that is cut waits for its other part; nearly always the rest is empty.
        last = body.rfind(EVENT_END, start)
        self._rest = body[start:] if last < 0 else body[last + len(EVENT_END) :]

    def _chunk(self, written: int) -> None:
        load = self._load
        load.pairs.append(written)
        load.pairs.append(self._now)
        if not load.counts[self._number]:
            load.began()
        load.counts[self._number] += 1

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self._close(None if status == 200 else f"status {status}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._close(f"cut: {exc or 'closed before the end'}")

    def _close(self, fault: str | None) -> None:
        if not self._closed:
            self._closed = True
            self._load.close(None if fault is None else f"stream {self._number}: {fault}")


async def _run(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    load = Load(arguments.streams)
    opened: list[asyncio.Transport] = []
    for number in range(arguments.streams):
        transport, _ = await loop.create_connection(
            lambda number=number: StreamClient(load, number),  # type: ignore[misc]
            "127.0.0.1",
            arguments.port,
        )
        transport.write(request(f"127.0.0.1:{arguments.port}", Ask(arguments.chunks, number)))
        opened.append(transport)
    try:
        await asyncio.wait_for(load.ended.wait(), arguments.timeout)
    except TimeoutError:
        load.faults.append(f"streams still open after {arguments.timeout:g} s")
    for transport in opened:
        transport.close()
    with open(arguments.out, "wb") as file:  # noqa: ASYNC230 - the run is over
        load.pairs.tofile(file)
    print(json.dumps({"counts": load.counts, "faults": load.faults}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client")
    parser.add_argument("--port", type=int, required=True, help="where the streams are asked for")
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--chunks", type=int, required=True, help="content chunks of each stream")
    parser.add_argument("--timeout", type=float, required=True, help="seconds until the run is given up")
    parser.add_argument("--out", required=True, help="file for the stamps")
    uvloop.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
