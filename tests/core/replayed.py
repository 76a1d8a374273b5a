"""Drives the core with a capture as the relay would, and reads its figures back from what a view gets.

Nothing of the product's HTTP code is used: heads and chunk framing are taken off by tests/http_bytes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from exporter.core.aggregates import Board
from exporter.core.classes import SloClass
from exporter.core.config import CoreConfig
from exporter.core.ending import Ending
from exporter.core.family import Family
from exporter.core.histogram import Histogram
from exporter.names import Metric
from tests.capture import Capture
from tests.http_bytes import MessageReader, parse

ORIGIN = 5_000_000_000_000  # the monotonic instant of `received`; ns, arbitrary and not 0
CHAT = SloClass(name="chat", ttft=10**9, max_stall=10**8, tpot=None, duration=None, objective=0.99)
CONFIG = CoreConfig(classes=(CHAT,), model_allow=(), version="0", python="3")

Body = tuple[bytes, int]  # body bytes of one read, and its time since `received`


class Figures:
    """The families of a board at one instant, looked up by metric and labels; other labels are summed over."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = {family.metric.name: family for family in families}

    def number(self, metric: Metric, **labels: str) -> float:
        """The sum of the samples that have these label values."""
        return sum(value for value in self._values(metric, labels) if not isinstance(value, Histogram))

    def histogram(self, metric: Metric, **labels: str) -> Histogram | None:
        """The samples that have these label values as one histogram; None where there is no such series."""
        found = [value for value in self._values(metric, labels) if isinstance(value, Histogram)]
        if not found:
            return None
        joined = Histogram(found[0].edges)
        for one in found:
            joined.counts = [a + b for a, b in zip(joined.counts, one.counts, strict=True)]
            joined.total += one.total
        return joined

    def labels(self, metric: Metric, label: str) -> dict[str, float]:
        """Each value of `label` that is not at 0, with its sum."""
        sums: dict[str, float] = {}
        family = self._families[metric.name]
        place = metric.labels.index(label)
        for values, value in family.samples:
            if not isinstance(value, Histogram) and value:
                sums[values[place]] = sums.get(values[place], 0) + value
        return sums

    def _values(self, metric: Metric, labels: dict[str, str]) -> Iterator[float | Histogram]:
        for values, value in self._families[metric.name].samples:
            if labels.items() <= dict(zip(metric.labels, values, strict=True)).items():
                yield value


def bodies(capture: Capture) -> Iterator[Body]:
    """The capture's reads as body bytes, empty ones (head or framing only) included."""
    reader = MessageReader(response=True)
    seen = 0
    for piece in capture.pieces:
        reader.feed(piece.data)
        body = reader.messages[-1].body if reader.messages else b""
        yield bytes(body[seen:]), piece.at
        seen = len(body)


def head_time(capture: Capture) -> int:
    """When the answer's head was complete."""
    reader = MessageReader(response=True)
    for piece in capture.pieces:
        reader.feed(piece.data)
        if reader.messages:
            return piece.at
    raise AssertionError("no head")


def drive(capture: Capture, feeds: Sequence[Body], closed: int | None = None, *, ticks: bool = False) -> Figures:
    """One exchange: the capture's request and head, then these pieces of body, then the capture's end.

    `closed` is when it ended, ns since `received`; None: with the capture's last read. With `ticks` the board's clock
    ticks just before each piece and the end: figures must not depend on it.
    """
    request = parse(capture.request, response=False)[0]
    answer = parse(capture.raw, response=True)[-1]
    board = Board(CONFIG, ORIGIN - 10**9)
    tap = board.open(ORIGIN)
    tap.request(request.start.split(b" ")[0].decode(), request.target, request.headers)
    tap.upload(bytes(request.body))
    tap.received(ORIGIN)
    tap.connected(ORIGIN, None)
    tap.head(answer.status, answer.headers, ORIGIN + head_time(capture))
    for data, at in feeds:
        if ticks:
            board.tick(ORIGIN + at)
        tap.feed(data, ORIGIN + at)
    end = ORIGIN + (capture.pieces[-1].at if closed is None else closed)
    if ticks:
        board.tick(end)
    tap.close(end, Ending.COMPLETE if answer.complete else Ending.CLIENT_LEFT)
    return Figures(board.families(end))


def bucketed(edges: Sequence[int], samples: Iterable[int | Fraction]) -> list[int]:
    """How `samples`, exact, fall into buckets with these inclusive upper edges and one more above them."""
    counts = [0] * (len(edges) + 1)
    for sample in samples:
        counts[bisect_left(edges, sample)] += 1
    return counts
