"""The body of one 2xx answer under way: frames, then signals, then the timeline and the tally.

Kept apart from the tap so that a read of the usual kind passes through one short loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exporter.core.dialects import Dialect
from exporter.core.framing import Frame
from exporter.core.outcome import FAILED_FINISHES, Evidence, of_error
from exporter.core.signals import ONE_ANSWER, Signal
from exporter.core.tally import Tally
from exporter.core.timeline import Timeline

if TYPE_CHECKING:
    from exporter.core.aggregates import Board


class Body:
    """The reader of one body. `timeline` is None for a whole document, which has no token stamps."""

    __slots__ = ("_board", "_error", "_fed_at", "_framing", "_output", "_read", "_timeline", "tally")

    def __init__(self, dialect: Dialect, limit: int, timeline: Timeline | None, board: Board) -> None:
        """Begin; at most `limit` bytes of one event are kept."""
        self.tally = Tally()
        self._output = False  # an event other than the plainest brought a token
        self._framing = dialect.framing(limit)
        self._read = dialect.read
        self._timeline = timeline
        self._board = board
        self._error: str | None = None  # the outcome its first error stands for
        self._fed_at: int | None = None

    def feed(self, data: bytes, now: int) -> None:
        """Take one read."""
        self._fed_at = now
        frames = self._framing.feed(data)
        if frames:
            self._take(frames, now)
        elif self._framing.oversized:
            self._count_oversized()

    def finish(self, clean: bool, now: int) -> None:
        """End of the body. An event that only the end completes had its last byte in the last read."""
        self._take(self._framing.finish(clean), now if self._fed_at is None else self._fed_at)
        self._count_oversized()
        self._board.unparsed["choices"] += self._timeline is not None and self._timeline.folded

    @property
    def has_output(self) -> bool:
        """Whether it brought the client any token."""
        return self._output or (self._timeline is not None and self._timeline.events > 0)

    def evidence(self) -> Evidence:
        """Say what the body showed."""
        timeline = self._timeline
        ended = timeline is not None and timeline.ended_at is not None
        return Evidence(needs_end=timeline is not None, ended=ended, error=self._error)

    def _count_oversized(self) -> None:
        self._board.unparsed["oversize"] += self._framing.oversized
        self._framing.oversized = 0

    def _take(self, frames: Sequence[Frame], now: int) -> None:
        timeline = self._timeline
        for frame in frames:
            signal = self._read(frame)
            if timeline is None:
                self._note(signal)
            else:
                timeline.take(signal, now)
                if signal is not ONE_ANSWER:  # the plainest says no more than that
                    self._note(signal)
        if timeline is not None and timeline.recounted:
            timeline.flush(now)

    def _note(self, signal: Signal) -> None:
        """Note what few events carry: counts, errors, failed finishes, and what could not be read."""
        if signal.token:
            self._output = True
        if signal.usage is not None:
            self.tally.take(signal.usage, whole=self._timeline is None)
        if self._error is None:
            if signal.error is not None:
                self._error = of_error(signal.error, after_token=self.has_output)
            elif any(part.finish in FAILED_FINISHES for part in signal.parts):
                self._error = "stream_error"
        if signal.unparsed is not None:
            self._board.unparsed[signal.unparsed] += 1
        for reason in signal.invalid:
            self._board.invalid_samples[reason] += 1
