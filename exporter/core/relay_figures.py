"""What the relay counts about itself: bytes, refusals, held time, and its own error (added latency, loop lag).

Plain numbers that the relay adds to and a view reads; durations in ns.
"""

from dataclasses import dataclass, field

from exporter.core.histogram import Histogram

_US = 1_000
_MS = 1_000_000
# What the sidecar itself adds: from 20 us (a relayed chunk costs about that) to 10 s (a client that reads nothing).
ADDED_EDGES = tuple(
    [20 * _US, 50 * _US, 100 * _US, 200 * _US, 500 * _US]
    + [n * _MS for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)]
)
LAG_EDGES = tuple([100 * _US, 500 * _US] + [n * _MS for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)])

# Why the relay refuses a request (400, 431, 501, 505): the closed label set of `relay_refused_total`.
REFUSALS = (
    "malformed_head",
    "head_too_large",
    "host",
    "target",
    "method",
    "framing",
    "transfer_encoding",
    "body_framing",
    "version",
)


@dataclass(slots=True)
class RelayFigures:
    """Counters and histograms of the data plane since start."""

    added: Histogram = field(default_factory=lambda: Histogram(ADDED_EDGES))
    loop_lag: Histogram = field(default_factory=lambda: Histogram(LAG_EDGES))
    bytes_to_client: int = 0
    bytes_to_engine: int = 0
    held: int = 0  # ns during which reading from the engine was paused for a slow client
    upstream_retries: int = 0
    client_connections: int = 0  # open now
    engine_connections: int = 0  # open now, idle ones included
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REFUSALS, 0))
    accept_errors: dict[str, int] = field(default_factory=lambda: {"limit": 0})
