"""A tap that writes down what the relay tells it, and the fixture that runs a relay before an engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import cast

import pytest

from exporter.core.ending import Ending
from exporter.core.relay_figures import RelayFigures
from exporter.core.tap import Tap
from exporter.relay.limits import Limits
from exporter.relay.pool import Address
from exporter.relay.server import Relay

Fields = list[tuple[bytes, bytes]]


class Recording:
    """Everything the relay told the tap of one exchange."""

    def __init__(self, arrived: int) -> None:
        self.arrived = arrived
        self.calls: list[str] = []
        self.method = ""
        self.target = b""
        self.uploaded = b""
        self.received_at: int | None = None
        self.connections: list[int | None] = []
        self.status: int | None = None
        self.headers: Fields = []
        self.reads: list[tuple[int, bytes]] = []
        self.holds: list[tuple[str, int]] = []
        self.stamps: list[int] = []  # of reads, holds, releases and the end, in the order they were told
        self.blocked_for = 0
        self.ending: Ending | None = None
        self.closed_at: int | None = None

    def request(self, method: str, target: bytes, headers: Fields) -> None:
        self.calls.append("request")
        self.method, self.target, _ = method, target, headers

    def upload(self, data: bytes) -> None:
        self.calls.append("upload")
        self.uploaded += data

    def received(self, now: int) -> None:
        self.calls.append("received")
        self.received_at = now

    def connected(self, now: int, took: int | None) -> None:
        self.calls.append("connected")
        self.connections.append(took)

    def head(self, status: int, headers: Fields, now: int) -> None:
        self.calls.append("head")
        self.status, self.headers = status, headers

    def feed(self, data: bytes, now: int) -> None:
        self.calls.append("feed")
        self.reads.append((now, data))
        self.stamps.append(now)

    def hold(self, now: int) -> None:
        self.holds.append(("hold", now))
        self.stamps.append(now)

    def release(self, now: int) -> None:
        self.holds.append(("release", now))
        self.stamps.append(now)

    def blocked(self, duration: int) -> None:
        self.blocked_for += duration

    def close(self, now: int, ending: Ending) -> None:
        assert self.ending is None, "closed twice"
        self.ending, self.closed_at = ending, now
        self.stamps.append(now)

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.reads)


@dataclass
class RunningRelay:
    """A relay under test, its figures, and what it told its taps."""

    relay: Relay
    figures: RelayFigures
    taps: list[Recording]
    port: int

    async def ended(self, count: int) -> None:
        """Wait until `count` exchanges have ended."""
        await eventually(lambda: sum(tap.ending is not None for tap in self.taps) >= count)

    async def held(self) -> None:
        """Wait until the engine of the first exchange was held."""
        await eventually(lambda: self.taps and self.taps[0].holds)

    async def none_open(self) -> None:
        """Wait until no connection is open."""
        await eventually(lambda: not (self.figures.engine_connections or self.figures.client_connections))


async def eventually(true: Callable[[], object]) -> None:
    """Wait until `true()`: for what the relay does inside and tells nobody."""
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - nothing sets an event at the changes of a counter
            await asyncio.sleep(0.002)


StartRelay = Callable[..., Awaitable[RunningRelay]]


@pytest.fixture
async def start_relay() -> AsyncIterator[StartRelay]:
    """Starts relays before an engine's port, with the limits given by name; each is closed at the test's end."""
    async with AsyncExitStack() as stack:

        async def start(
            engine_port: int, preserve_host: bool = True, path: str | None = None, **limits: float
        ) -> RunningRelay:
            taps: list[Recording] = []

            def open_tap(arrived: int) -> Tap:
                taps.append(Recording(arrived))
                return cast(Tap, taps[-1])

            figures = RelayFigures()
            relay = Relay(
                Address("127.0.0.1", engine_port),
                Limits(**limits),  # type: ignore[arg-type]  # sizes are ints, times floats: as the test says
                figures,
                open_tap,
                preserve_host=preserve_host,
            )
            bound = await relay.listen(Address("127.0.0.1", 0, path))
            stack.push_async_callback(relay.close)
            return RunningRelay(relay, figures, taps, bound.port)

        yield start
