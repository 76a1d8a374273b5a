"""An engine that replays captures: their own bytes, read boundaries and, if asked, their own times.

Each captured read is one write. Which capture answers a request: the one its `X-Capture: engine/name` header names,
else the next of those queued. The pace is `Timed`, or `LockStep`, which keeps the boundaries without waiting for any
clock: the next piece is written only when the test says that the reader has taken the one before.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.capture import Capture, load
from tests.fake_engine import Exchange, FakeEngine, Script
from tests.http_bytes import parse
from tests.raw_client import RawClient

CAPTURE_HEADER = b"x-capture"


@dataclass(frozen=True, slots=True)
class Timed:
    """Write each piece at its captured time x `factor`, counted from the request's last byte read; 0 is at once."""

    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class LockStep:
    """Write the next piece when `taken(capture, written)` returns; `written` is the answer's bytes written so far."""

    taken: Callable[[Capture, int], Awaitable[None]]


def followed_by(client: Callable[[], RawClient]) -> LockStep:
    """A pace that waits after each piece until the client has as much after the head as was written after it.

    Heads are left out because a proxy may shorten them. `client` is asked late: it dials after the engine is up.
    """

    async def taken(capture: Capture, written: int) -> None:
        body = written - len(parse(capture.raw, response=True)[-1].head)
        wire = client()

        def there() -> bool:
            _, blank, rest = wire.received.partition(b"\r\n\r\n")
            return bool(blank) and len(rest) >= body

        if body >= 0:  # part of a head shows nowhere
            await wire.until(there)

    return LockStep(taken)


class ReplayEngine(FakeEngine):
    """A FakeEngine whose scripts are captures.

    After a whole answer the connection stays open, or is closed where the captured head says so. After one that its
    client cut short the engine waits for this client to leave too.
    """

    def __init__(self, *captures: Capture, pace: Timed | LockStep | None = None) -> None:
        super().__init__()
        self.pace = pace or Timed()
        self.captures = deque(captures)

    def script_for(self, exchange: Exchange) -> Script:
        """Replay what the header names, else what is next in the queue. LookupError when there is nothing."""
        named = exchange.request.values(CAPTURE_HEADER)
        if not named and not self.captures:
            raise LookupError(f"no capture queued for {exchange.request.start!r}")
        capture = load(named[0].decode()) if named else self.captures.popleft()
        return lambda exchange: self._play(capture, exchange)

    async def _play(self, capture: Capture, exchange: Exchange) -> None:
        received = exchange.wire.reads[-1].at
        for piece, end in zip(capture.pieces, capture.ends, strict=True):
            if isinstance(self.pace, Timed):
                due = received + round(piece.at * self.pace.factor)
                await asyncio.sleep((due - time.monotonic_ns()) / 1e9)
            await exchange.send(piece.data)
            if isinstance(self.pace, LockStep):
                await self.pace.taken(capture, end)
        if not capture.complete:
            await exchange.wire.until_ended()
        elif capture.closes:
            exchange.wire.close()
