"""The timeline of one stream: signals and stamps in, samples of TTFT, gaps, ITL and stalls out (semantics 1 and 2).

Per choice (first token - received) + sum of gaps = last token - received. Two events of one read (the same stamp) are
one arrival. Held time (reading paused for a slow client) is taken out of what is judged; a gap that contains some is in
no gap figure but `stalls_total{cause="client"}`. All stamps are ns of one monotonic clock.
"""

from collections.abc import Callable, Iterator

from exporter.core.choice import Choice
from exporter.core.figures import ClassFigures
from exporter.core.hold import Hold
from exporter.core.signals import ANSWER, ANSWER_PART, ONE_ANSWER, Part, Signal
from exporter.core.units import NEVER

MAX_CHOICES = 128
_FOLDED = None  # the key of the one choice that all beyond MAX_CHOICES share

# Until causes have their own issue: a silence is the client's where reading was held, else the stream's.
_CLIENT = "client"
_STREAM = "stream"


class Timeline:
    """Stamps of one stream. `wake` is called when it has a silence to watch; whoever watches asks `due`."""

    __slots__ = (
        "_choices",
        "_expected",
        "_finished_at",
        "_held_ended",
        "_hold",
        "_limit",
        "_max_gap",
        "_unfinished",
        "_wake",
        "closed",
        "events",
        "figures",
        "first",
        "first_answer",
        "folded",
        "marker_at",
        "received",
        "recounted",
        "stalled",
        "watched",
    )

    def __init__(
        self, received: int, hold: Hold, figures: ClassFigures, expected: int, wake: Callable[["Timeline"], None]
    ) -> None:
        """Begin at `received`; `expected` is how many choices the request asked for, as far as known (at least 1)."""
        self.received = received
        self.figures = figures
        self.first: int | None = None
        self.first_answer: int | None = None
        self.events = 0
        self.folded = False  # choices beyond MAX_CHOICES share one
        self.marker_at: int | None = None
        self.stalled = False  # counted in stalled_requests_total
        self.watched = False  # kept by the watcher
        self.closed = False
        self._expected = expected
        self._wake = wake
        self._limit = figures.max_stall
        self._choices: dict[int | None, Choice] = {}
        self._unfinished = 0
        self._finished_at = 0
        self._max_gap = 0  # 0: neither gap nor stall yet (a gap is never 0)
        self.recounted: list[Choice] = []  # choices whose token count this read changed
        self._hold = hold
        self._held_ended = 0  # held time until the end evidence

    # What arrives

    def take(self, signal: Signal, now: int) -> None:
        """Take one event completed by the read at `now`."""
        token = signal.token
        if token:
            self.events += 1
            self.figures.output_events += 1
            if self.first_answer is None:
                self._first_token(token, now)
        for part in signal.parts:
            choice = self._choices.get(part.index)
            if choice is None:
                choice = self._admit(part.index)
            if part.token:
                if not choice.open:
                    self._open(choice, now)
                last = choice.last
                if now > last:
                    held = self._hold.until(now) if self._hold.any else 0
                    if held == choice.held_last:
                        self._gap(choice, now - last)
                    else:
                        self._held_stall(choice, now - last)
                        choice.stalled = None
                        choice.held_last = held
                        choice.counted = False
                        choice.failed = None
                        choice.last = now
                        self._watch()  # the silence before contained held time and was not watched; this one is
                    choice.last = now
            if part is ANSWER_PART:
                choice.ids_missing = True
            else:
                self._details(choice, part, now)
        if signal is not ONE_ANSWER:
            self._rare(signal, now)

    def flush(self, now: int) -> None:
        """End of the read at `now`: what its arrivals brought is known, so ITL is observed, once for each."""
        for choice in self.recounted:
            if choice.last == now and choice.first is not None:
                self._count_arrival(choice)
        self.recounted.clear()

    def resume(self) -> None:
        """Reading goes on after it was held: silences count again."""
        self._watch()

    def close(self, closed: int, ok: bool) -> None:
        """End what is open at `closed`; a silence under way then belongs to the maximum unless it ended `ok`."""
        for choice in self._choices.values():
            if choice.open:
                length = self._silence(choice, closed) if choice.failed is None else choice.failed
                if not ok:
                    self._max_gap = max(self._max_gap, length)
                choice.open = False
        self.closed = True
        if self._max_gap:
            self.figures.max_gap.observe(self._max_gap)

    # What is known at an instant

    @property
    def choices(self) -> list[Choice]:
        """The choices named so far, folded ones as one."""
        return list(self._choices.values())

    @property
    def ended_at(self) -> int | None:
        """When end evidence was read: the end marker, else the finish of the last of all choices; None: not yet."""
        if self.marker_at is not None:
            return self.marker_at
        if self._unfinished or len(self._choices) < min(self._expected, MAX_CHOICES):
            return None
        return self._finished_at

    def held(self, closed: int) -> int:
        """Held time in ns until `closed`, which is the end evidence's instant or now."""
        return self._held_ended if closed == self.ended_at else self._hold.until(closed)

    def open_gap(self, now: int) -> int:
        """Give the longest silence under way in ns, held time taken out; 0 when no choice is open."""
        held = self._hold.until(now) if self._hold.any else 0
        longest = 0
        for choice in self._choices.values():
            gap = now - choice.last - held + choice.held_last
            if gap > longest and choice.open and choice.failed is None:
                longest = gap
        return longest

    def due(self) -> int | None:
        """Give the instant after which a stall is certain; None when none is to be counted.

        A silence that contains held time will be the client's, so it makes no stalled request.
        """
        if self.stalled or self.closed or self._hold.now:
            return None
        held = self._hold.until(0) if self._hold.any else 0
        earliest: int | None = None
        for choice in self._choices.values():
            if (
                choice.open
                and choice.failed is None
                and choice.held_last == held
                and (earliest is None or choice.last < earliest)
            ):
                earliest = choice.last
        return None if earliest is None else earliest + self._limit

    def stall_is_certain(self) -> None:
        """Count this request as stalled, once; the stall itself is counted when it closes."""
        if not self.stalled:
            self.stalled = True
            self.figures.stalled_requests += 1

    # The parts of it

    def _silent(self) -> Iterator[Choice]:
        return (choice for choice in self._choices.values() if choice.open and choice.failed is None)

    def _first_token(self, token: int, now: int) -> None:
        figures = self.figures
        if self.first is None:
            self.first = now
            figures.ttft.observe(now - self.received)
            figures.streamed_requests += 1
        if token == ANSWER:
            self.first_answer = now
            figures.ttfa.observe(now - self.received)

    def _admit(self, index: int) -> Choice:
        key: int | None = index
        if len(self._choices) >= MAX_CHOICES:
            self.folded = True
            key = _FOLDED
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = Choice()
            self._unfinished += 1
        return choice

    def _open(self, choice: Choice, now: int) -> None:
        choice.open = True
        if choice.first is None:
            choice.first = choice.last = now
            choice.held_first = choice.held_last = self._hold.until(now)
        self._watch()

    def _watch(self) -> None:
        if not (self.watched or self.stalled) and self._limit != NEVER:
            self._wake(self)

    def _gap(self, choice: Choice, gap: int) -> None:
        self.figures.gap.observe(gap)
        if gap > self._limit:
            self._stall(choice, gap)
            choice.stalled = None
        elif gap > self._max_gap:
            self._max_gap = gap
        if choice.mark is not None:
            choice.pending = gap if choice.counted else 0
            choice.counted = False
        choice.failed = None

    def _held_stall(self, choice: Choice, length: int) -> None:
        """A gap or silence that contains held time: the client's where it is long, and in no other figure."""
        if length > self._limit and choice.stalled is None:
            self.figures.stalls[_CLIENT] += 1
            choice.stalled = length

    def _stall(self, choice: Choice, length: int) -> None:
        """Count a stall once: a finish or an error may end a silence, and a token that comes late ends it again."""
        figures = self.figures
        if choice.stalled is None:
            figures.stalls[_STREAM] += 1
            self.stall_is_certain()
        figures.stall_time[_STREAM] += length - (choice.stalled or 0)
        choice.stalled = length
        self._max_gap = max(self._max_gap, length)

    def _silence(self, choice: Choice, end: int) -> int:
        """Something that is no token ended the silence: a stall if it was long, else no gap.

        Gives its length in ns, 0 where it contains held time.
        """
        length = end - choice.last
        if self._hold.until(end) != choice.held_last:
            self._held_stall(choice, length)
            return 0
        if length > self._limit:
            self._stall(choice, length)
        return length

    def _details(self, choice: Choice, part: Part, now: int) -> None:
        if part.token_ids is not None:
            choice.ids += part.token_ids
            self.recounted.append(choice)
        elif part.token:
            choice.ids_missing = True
        if part.finish is not None:
            if choice.open:
                if choice.failed is None:
                    self._silence(choice, now)
                choice.open = False
            if not choice.finished:
                choice.finished = True
                self._unfinished -= 1
                self._finished_at = now
                self._held_ended = self._hold.until(now)

    def _count_arrival(self, choice: Choice) -> None:
        """Set the count of an arrival, and observe its gap per token where the arrival before was counted too."""
        tokens = choice.tokens
        if tokens is None:
            return
        if choice.pending and choice.mark is not None and tokens > choice.mark:
            # Rounded up: a value above an edge must not land on it.
            self.figures.itl.observe(-(-choice.pending // (tokens - choice.mark)))
        choice.pending = 0
        choice.mark = tokens
        choice.counted = True

    def _rare(self, signal: Signal, now: int) -> None:
        """What few events carry: a running count, an error, the end marker."""
        usage = signal.usage
        if usage is not None and usage.per_choice and usage.output is not None:
            choice = self._choices.get(signal.parts[0].index)
            if choice is not None:  # else a folded one: its count is one choice's, not theirs
                choice.usage = usage.output
                self.recounted.append(choice)
        if signal.error is not None:
            for choice in self._silent():
                choice.failed = self._silence(choice, now)
        if signal.end and self.marker_at is None:
            self.marker_at = now
            self._held_ended = self._hold.until(now)
            for choice in self._silent():
                self._silence(choice, now)
            for choice in self._choices.values():
                choice.open = False
