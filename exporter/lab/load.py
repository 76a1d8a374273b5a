"""The mixed load of the demo: chats that stream back to back, and a long prompt now and then, with the client's stamps.

At most `chats` + 1 requests are under way. `run` goes on until it is cancelled, which closes every connection. A sample
belongs to the figures of a phase only when it both began and ended in it, so a change between phases blurs neither.
Durations are int ns of the monotonic clock, stamped when a read returns.
"""

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

KEPT = 10_000  # samples of each kind kept for percentiles; older ones go
PAUSE = 0.5  # s before a request that failed is tried again


@dataclass(frozen=True, slots=True)
class Mix:
    """What the load is made of. Ranges are drawn from evenly; tokens are 4 bytes of text each."""

    chats: int = 8  # streams at once
    chat_prompt: int = 64  # tokens
    chat_output: tuple[int, int] = (60, 140)  # tokens
    long_prompt: tuple[int, int] = (8_000, 11_000)  # tokens
    long_output: int = 4  # tokens
    long_every: float = 2.0  # s from one long prompt's start to the next; later when one takes longer
    seed: int = 1


@dataclass(slots=True)
class Figures:
    """What the client saw in one phase, which began at `since`."""

    since: int
    chat_ttft: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    long_ttft: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    longest_gap: int | None = None  # between two reads with tokens of one chat
    tokens: int = 0
    completed: int = 0
    errors: int = 0

    def note_gap(self, began: int, ended: int) -> None:
        """A silence between two tokens of a chat."""
        if began >= self.since:
            self.longest_gap = max(self.longest_gap or 0, ended - began)

    def note_ttft(self, samples: deque[int], sent: int, now: int) -> None:
        """A first token."""
        if sent >= self.since:
            samples.append(now - sent)


def nearest_rank(samples: Iterable[int], share: float) -> int | None:
    """The nearest-rank percentile: rank ceil(share * n) of the sorted samples; None without samples."""
    ordered = sorted(samples)
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]  # 0.07 * 100 is a little above 7


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    error: Any = None


_DECODER = msgspec.json.Decoder(_Event)


class StreamError(Exception):
    """An answer that is no complete stream."""


class Load:
    """The load on one target, and the figures of the phase under way."""

    def __init__(self, target: str, mix: Mix) -> None:
        """Aim at `target`, a URL without path."""
        self.mix = mix
        self.figures = Figures(since=time.monotonic_ns())
        self._url = f"{target.rstrip('/')}/v1/chat/completions"
        self._random = random.Random(mix.seed)

    def begin_phase(self) -> Figures:
        """Start new figures now; they are filled until the next call."""
        self.figures = Figures(since=time.monotonic_ns())
        return self.figures

    async def run(self) -> None:
        """Keep the load up until cancelled."""
        # Total timeouts off: a demo engine may be slow on purpose. Connections are bounded by the tasks.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session, asyncio.TaskGroup() as tasks:
            for _ in range(self.mix.chats):
                tasks.create_task(self._chats(session))
            tasks.create_task(self._long_prompts(session))

    async def _chats(self, session: aiohttp.ClientSession) -> None:
        await asyncio.sleep(self._random.random())  # not all at once
        while True:
            await self._ask(session, self.mix.chat_prompt, self._random.randint(*self.mix.chat_output), long=False)

    async def _long_prompts(self, session: aiohttp.ClientSession) -> None:
        while True:
            due = time.monotonic() + self.mix.long_every
            await self._ask(session, self._random.randint(*self.mix.long_prompt), self.mix.long_output, long=True)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _ask(self, session: aiohttp.ClientSession, prompt: int, output: int, *, long: bool) -> None:
        """One request; a failure is counted and followed by a pause."""
        text = ("wave " * (prompt * 4 // 5 + 1))[: prompt * 4]
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": output, "stream": True}
        body["stream_options"] = {"include_usage": True}
        try:
            await self._stream(session, body, long)
        except (aiohttp.ClientError, OSError, StreamError, msgspec.MsgspecError):
            self.figures.errors += 1
            await asyncio.sleep(PAUSE)
        else:
            self.figures.completed += 1

    async def _stream(self, session: aiohttp.ClientSession, body: dict[str, Any], long: bool) -> None:
        sent = time.monotonic_ns()
        async with session.post(self._url, json=body) as response:
            if response.status != 200:
                raise StreamError(f"status {response.status}")
            buffer, last, ended = b"", None, False
            async for read in response.content.iter_any():
                now = time.monotonic_ns()
                *events, buffer = (buffer + read).split(b"\n\n")
                tokens = sum(map(_tokens, events))
                ended = ended or b"data: [DONE]" in events
                if tokens:
                    self._note(sent, last, now, tokens, long)
                    last = now
        if not ended:
            raise StreamError("no [DONE]")

    def _note(self, sent: int, last: int | None, now: int, tokens: int, long: bool) -> None:
        figures = self.figures
        figures.tokens += tokens
        if last is None:
            figures.note_ttft(figures.long_ttft if long else figures.chat_ttft, sent, now)
        elif not long:
            figures.note_gap(last, now)


def _tokens(event: bytes) -> int:
    """Token-bearing choices of one event. StreamError for an error event."""
    if not event.startswith(b"data: {"):
        return 0
    decoded = _DECODER.decode(event[6:])
    if decoded.error is not None:
        raise StreamError(f"error event: {decoded.error}")
    return sum(1 for choice in decoded.choices if choice.delta is not None and choice.delta.content)
