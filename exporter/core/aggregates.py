"""The board: all counters and histograms of the core, the exchanges under way, and what is due next.

One per process, made and called on one thread. The relay opens a tap per exchange; a view reads `families`. Once idle,
the sum of `requests_total` is the number started and nothing is in flight, whatever went wrong on the way.
"""

from collections.abc import Callable, Iterator

from exporter.core.classes import SloClass
from exporter.core.config import CoreConfig
from exporter.core.deadlines import Deadlines
from exporter.core.edges import edges
from exporter.core.families import families
from exporter.core.family import Family
from exporter.core.figures import ClassFigures
from exporter.core.histogram import Histogram
from exporter.core.labels import Models
from exporter.core.outcome import OUTCOMES
from exporter.core.relay_figures import RelayFigures
from exporter.core.tap import Tap
from exporter.names import (
    GENERATING_ROUTES,
    OTHER,
    REQUEST_RECEIVE,
    RESPONSE_HEADERS,
    ROUTES,
    UPSTREAM_CONNECT,
)

# Why something could not be read: the closed label set of `unparsed_events_total`.
UNPARSED = ("json", "shape", "oversize", "encoding", "request", "choices")
# Why a token count was left out.
INVALID = ("negative", "fractional", "absurd", "type")
# In which call of the relay a fault of ours came up.
FAULTS = ("request", "upload", "received", "connected", "head", "feed", "hold", "release", "close")


class Board:
    """Everything counted since start."""

    def __init__(self, config: CoreConfig, now: int) -> None:
        """Begin at 0 with every series that is known from the configuration."""
        self.config = config
        self.born = now
        self.relay = RelayFigures()
        self.deadlines = Deadlines()
        self.models = Models(config.model_allow, config.model_cap)
        self.live: dict[int, Tap] = {}  # inference requests under way, by id
        self.started = 0
        self.requests: dict[tuple[str, str, str], dict[str, int]] = {}  # (route, model, class) to outcomes
        self.figures: dict[tuple[str, str], ClassFigures] = {}
        self.client_blocked = {slo_class.name: 0 for slo_class in config.classes}  # ns
        self.unparsed = dict.fromkeys(UNPARSED, 0)
        self.tap_faults = dict.fromkeys(FAULTS, 0)
        self.invalid_samples = dict.fromkeys(INVALID, 0)
        self.label_values_capped = 0
        self._edges = edges(config.classes)
        self.receive = Histogram(self._edges[REQUEST_RECEIVE])
        self.connect = Histogram(self._edges[UPSTREAM_CONNECT])
        self.headers = Histogram(self._edges[RESPONSE_HEADERS])
        for route in (*ROUTES, OTHER):
            self.outcomes(route, OTHER, "")
        for slo_class in config.classes:
            for model in dict.fromkeys((OTHER, *config.model_allow)):
                self.figures_of(model, slo_class)

    def open(self, arrived: int) -> Tap:
        """Begin one exchange: its head was complete at `arrived`, or it was refused."""
        self.started += 1
        return Tap(self, self.started, arrived)

    def tick(self, now: int, budget: Callable[[], bool] | None = None) -> None:
        """Count what became certain by `now`; stops early when `budget` says that the slice is used up."""
        self.deadlines.tick(now, budget)

    def families(self, now: int) -> Iterator[Family]:
        """Give every metric of names.py at this instant."""
        return families(self, now)

    def outcomes(self, route: str, model: str, slo_class: str) -> dict[str, int]:
        """Give the outcome counts of a label set; all of them exist from its first use."""
        key = (route, model, slo_class)
        counts = self.requests.get(key)
        if counts is None:
            counts = self.requests[key] = dict.fromkeys(OUTCOMES, 0)
        return counts

    def figures_of(self, model: str, slo_class: SloClass) -> ClassFigures:
        """Give the figures of a model and class; they exist from their first use, as do its outcomes on all routes."""
        key = (model, slo_class.name)
        figures = self.figures.get(key)
        if figures is None:
            figures = self.figures[key] = ClassFigures(model, slo_class, self._edges)
            for route in (*GENERATING_ROUTES, OTHER):
                self.outcomes(route, model, slo_class.name)
        return figures
