"""What the core costs per chunk, without a relay around it: JSON decoding, an event's meaning, the whole of `Tap.feed`.

    python -m benchmarks.core_cost

The chunk is the load's usual one (`wire.event`). Each figure is the best of several repeats: what the code takes when
nothing disturbs it.
"""

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.wire import PATH, event, request_body

REPEATS = 7
CALLS = 20_000
_PERIOD = 40_000_000  # ns between two chunks of a stream: 25 a second, below the default class's `max_stall`


def _best(call: Callable[[], object]) -> float:
    """Return µs of one call, the best of the repeats."""
    least = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        least = min(least, time.perf_counter_ns() - began)
    return least / CALLS / 1e3


def _open_stream() -> Any:
    """Return a tap in the middle of a chat stream, as a relay would have told it."""
    config = importlib.import_module("exporter.core.config").CoreConfig(version="bench", python="bench")
    tap = importlib.import_module("exporter.core.aggregates").Board(config, 0).open(0)
    body = request_body(1, 0)
    headers: Sequence[tuple[bytes, bytes]] = [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
    ]
    tap.request("POST", PATH.encode(), headers)
    tap.upload(body)
    tap.received(0)
    tap.connected(0, None)
    tap.head(200, [(b"content-type", b"text/event-stream; charset=utf-8")], 0)
    return tap


def measure() -> dict[str, float] | None:
    """Return µs per chunk of each part; None while the core has no aggregates to open a tap of."""
    if importlib.util.find_spec("exporter.core.aggregates") is None:
        return None
    framing = importlib.import_module("exporter.core.framing")
    chat = importlib.import_module("exporter.core.dialects.openai_chat")
    chunk = event(time.monotonic_ns())
    stream = framing.EventStream(1 << 20)
    (frame,) = stream.feed(chunk)
    decode, read, data = chat._decode, chat.read, frame.data
    tap = _open_stream()
    now = 0

    def feed() -> None:
        nonlocal now
        now += _PERIOD
        tap.feed(chunk, now)

    return {
        "json_decode": _best(lambda: decode(data)),
        "frame_decode_classify": _best(lambda: [read(each) for each in stream.feed(chunk)]),
        "tap_feed": _best(feed),
    }


def text(core: Mapping[str, float] | None) -> str:
    """Return the line for the table's foot."""
    if core is None:
        return "core: not measured, exporter.core.aggregates is not there"
    return (
        f"core, µs per chunk of {len(event(0))} bytes, best of {REPEATS} x {CALLS}: "
        f"JSON decode {core['json_decode']:.2f}, frame + decode + classify {core['frame_decode_classify']:.2f}, "
        f"whole Tap.feed {core['tap_feed']:.2f}"
    )


if __name__ == "__main__":
    figures = measure()
    print(json.dumps(figures) if figures else text(figures))
