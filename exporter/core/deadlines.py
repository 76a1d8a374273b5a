"""Who becomes overdue next: a heap with at most one entry per stream, re-armed lazily.

A token does not touch the heap. An entry that comes up asks its stream when it is really due and goes back for that
instant, so the cost is one step of the heap per stream and `max_stall`, whatever the rate of tokens.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace

from exporter.core.timeline import Timeline

# The budget asks a clock; one question per so many entries keeps a slice within its 1 ms.
_PER_SLICE = 16
# So many entries of ended streams are not worth a sweep.
_SLACK = 64


class Deadlines:
    """The silences that are being watched."""

    __slots__ = ("_closed", "_heap", "_next")

    def __init__(self) -> None:
        """Begin with none."""
        self._heap: list[tuple[int, int, Timeline]] = []  # the second breaks ties: timelines have no order
        self._next = 0
        self._closed = 0  # entries whose stream has ended

    def __len__(self) -> int:
        """How many streams are watched."""
        return len(self._heap)

    def watch(self, timeline: Timeline) -> None:
        """Watch a stream; it is watched at most once."""
        due = timeline.due()
        if due is not None:
            timeline.watched = True
            self._next += 1
            heappush(self._heap, (due, self._next, timeline))

    def forget(self, timeline: Timeline) -> None:
        """A stream has ended. Its entry stays until it comes up, or until most entries are of that kind."""
        if timeline.watched:
            self._closed += 1
            if self._closed > _SLACK + len(self._heap) // 2:
                self._heap[:] = [entry for entry in self._heap if not entry[2].closed]
                heapify(self._heap)
                self._closed = 0

    def tick(self, now: int, budget: Callable[[], bool] | None = None) -> None:
        """Count what is certain before `now`; stop early when the budget is used up."""
        heap, done = self._heap, 0
        while heap and heap[0][0] < now:
            _, order, timeline = heap[0]
            due = timeline.due()
            if due is not None and due >= now:
                heapreplace(heap, (due, order, timeline))
            else:
                heappop(heap)
                timeline.watched = False
                if timeline.closed and self._closed:
                    self._closed -= 1
                if due is not None:
                    timeline.stall_is_certain()
            done += 1
            if budget is not None and done % _PER_SLICE == 0 and not budget():
                return
