"""The board as metric families: every metric of names.py with its samples at one instant. Reads, decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from exporter import names
from exporter.core.family import Family
from exporter.core.figures import ClassFigures
from exporter.core.histogram import Histogram
from exporter.names import Metric

if TYPE_CHECKING:
    from exporter.core.aggregates import Board

_Samples = list[tuple[tuple[str, ...], float | Histogram]]

# Metrics with the labels (model, slo_class) and the attribute of ClassFigures behind each.
_PER_CLASS: tuple[tuple[Metric, Callable[[ClassFigures], float | Histogram]], ...] = (
    (names.TIME_TO_FIRST_TOKEN, lambda figures: figures.ttft),
    (names.TIME_TO_FIRST_ANSWER_TOKEN, lambda figures: figures.ttfa),
    (names.OUTPUT_GAP, lambda figures: figures.gap),
    (names.REQUEST_MAX_GAP, lambda figures: figures.max_gap),
    (names.INTER_TOKEN_LATENCY, lambda figures: figures.itl),
    (names.TIME_PER_OUTPUT_TOKEN, lambda figures: figures.tpot),
    (names.REQUEST_DURATION, lambda figures: figures.duration),
    (names.STALLED_REQUESTS, lambda figures: figures.stalled_requests),
    (names.STREAMED_REQUESTS, lambda figures: figures.streamed_requests),
    (names.PROMPT_TOKENS, lambda figures: figures.prompt_tokens),
    (names.OUTPUT_TOKENS, lambda figures: figures.output_tokens),
    (names.OUTPUT_EVENTS, lambda figures: figures.output_events),
    (names.REQUESTS_WITHOUT_USAGE, lambda figures: figures.without_usage),
)


def families(board: Board, now: int) -> Iterator[Family]:
    """Give every metric of names.py at `now`."""
    yield from _requests(board)
    yield from _live(board, now)
    yield from _per_class(board)
    yield from _transfers(board)
    yield from _promises(board)
    yield from _relay(board)
    yield from _faults(board)


def _requests(board: Board) -> Iterator[Family]:
    yield _single(names.REQUESTS_STARTED, board.started)
    yield Family(
        names.REQUESTS,
        [((*key, outcome), count) for key, counts in board.requests.items() for outcome, count in counts.items()],
    )


def _live(board: Board, now: int) -> Iterator[Family]:
    classes = [slo_class.name for slo_class in board.config.classes]
    phases = dict.fromkeys(("receiving", "waiting", "streaming"), 0)
    streams = {(name, phase): 0 for name in classes for phase in ("waiting", "streaming")}
    gaps = dict.fromkeys(streams, 0)
    for tap in board.live.values():
        phase = tap.phase
        phases[phase] += 1
        key = (tap.slo_class, phase)
        if tap.stream_expected and key in streams:
            streams[key] += 1
            gaps[key] = max(gaps[key], tap.open_gap(now))
    yield Family(names.REQUESTS_IN_FLIGHT, [((phase,), count) for phase, count in phases.items()])
    yield Family(names.STREAMS_IN_FLIGHT, list(streams.items()))
    yield Family(names.OPEN_GAP, list(gaps.items()))


def _per_class(board: Board) -> Iterator[Family]:
    for metric, value in _PER_CLASS:
        yield Family(metric, [(key, value(figures)) for key, figures in board.figures.items()])
    stalls: _Samples = []
    seconds: _Samples = []
    for key, figures in board.figures.items():
        stalls.extend(((*key, cause), count) for cause, count in figures.stalls.items())
        seconds.extend(((*key, cause), length) for cause, length in figures.stall_time.items())
    yield Family(names.STALLS, stalls)
    yield Family(names.STALL_SECONDS, seconds)


def _transfers(board: Board) -> Iterator[Family]:
    yield _single(names.REQUEST_RECEIVE, board.receive)
    yield _single(names.UPSTREAM_CONNECT, board.connect)
    yield _single(names.RESPONSE_HEADERS, board.headers)


def _promises(board: Board) -> Iterator[Family]:
    classes = board.config.classes
    yield Family(
        names.SLO_THRESHOLD,
        [((slo_class.name, condition), limit) for slo_class in classes for condition, limit in slo_class.thresholds()],
    )
    yield Family(names.SLO_OBJECTIVE, [((slo_class.name,), slo_class.objective) for slo_class in classes])


def _relay(board: Board) -> Iterator[Family]:
    relay = board.relay
    yield _single(names.RELAY_ADDED, relay.added)
    yield _by_label(names.CLIENT_BLOCKED, board.client_blocked)
    yield _by_label(names.RELAY_BYTES, {"to_client": relay.bytes_to_client, "to_engine": relay.bytes_to_engine})
    yield _single(names.RELAY_HELD, relay.held)
    yield _single(names.RELAY_RETRIES, relay.upstream_retries)
    yield _by_label(names.RELAY_CONNECTIONS, {"client": relay.client_connections, "engine": relay.engine_connections})
    yield _by_label(names.RELAY_REFUSED, relay.refused)
    yield _by_label(names.ACCEPT_ERRORS, relay.accept_errors)
    yield _single(names.EVENT_LOOP_LAG, relay.loop_lag)


def _faults(board: Board) -> Iterator[Family]:
    yield _by_label(names.TAP_FAULTS, board.tap_faults)
    yield _by_label(names.UNPARSED_EVENTS, board.unparsed)
    yield _by_label(names.INVALID_SAMPLES, board.invalid_samples)
    yield _by_label(names.LABEL_VALUES_CAPPED, {"model": board.label_values_capped})
    yield Family(names.BUILD_INFO, [((board.config.version, board.config.python), 1)])


def _single(metric: Metric, value: float | Histogram) -> Family:
    return Family(metric, [((), value)])


def _by_label(metric: Metric, values: dict[str, int]) -> Family:
    return Family(metric, [((label,), value) for label, value in values.items()])
