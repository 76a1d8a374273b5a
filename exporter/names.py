"""Every metric, label value and route name: literal tables, importable by all.

The words and rules behind them are in docs/semantics.md. Names here are exact: dashboards, alerts and checks use them.
"""

from typing import Literal, NamedTuple

PREFIX = "stallwatch_"

# A request's `route` label is its path if it stands here, else "other" (bounded labels).
GENERATING_ROUTES = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/api/chat",
    "/api/generate",
    "/generate",
    "/generate_stream",
    "/completion",
)
ROUTES = (*GENERATING_ROUTES, "/v1/embeddings", "/v1/models", "/health", "/metrics", "/version", "/tokenize")
OTHER = "other"

CAUSES = ("client", "proxy", "buffered", "prefill", "preemption", "engine", "stream")

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    """One metric family: its name without the prefix, its kind, its labels, its help line.

    `durations` says that values inside are int nanoseconds, which a view divides by 1e9.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    durations: bool = False


_MODEL_CLASS = ("model", "slo_class")

REQUESTS_STARTED = Metric("requests_started_total", "counter", (), "Requests whose head was complete, or refused.")
REQUESTS = Metric("requests_total", "counter", ("route", *_MODEL_CLASS, "outcome"), "Requests ended, by outcome.")
REQUESTS_IN_FLIGHT = Metric(
    "requests_in_flight",
    "gauge",
    ("phase",),
    "Inference requests under way: receiving, waiting for a token, streaming.",
)
STREAMS_IN_FLIGHT = Metric(
    "streams_in_flight", "gauge", ("slo_class", "phase"), "Those of them where a stream is expected."
)
TIME_TO_FIRST_TOKEN = Metric(
    "time_to_first_token_seconds", "histogram", _MODEL_CLASS, "Request received to first token-bearing event.", True
)
TIME_TO_FIRST_ANSWER_TOKEN = Metric(
    "time_to_first_answer_token_seconds",
    "histogram",
    _MODEL_CLASS,
    "Request received to first token-bearing event that is not reasoning.",
    True,
)
OUTPUT_GAP = Metric(
    "output_gap_seconds", "histogram", _MODEL_CLASS, "Between two successive token-bearing reads of one choice.", True
)
REQUEST_MAX_GAP = Metric(
    "request_max_gap_seconds", "histogram", _MODEL_CLASS, "The longest gap or stall of each request.", True
)
INTER_TOKEN_LATENCY = Metric(
    "inter_token_latency_seconds",
    "histogram",
    _MODEL_CLASS,
    "Gap divided by the tokens the later arrival brought, where those are known.",
    True,
)
TIME_PER_OUTPUT_TOKEN = Metric(
    "time_per_output_token_seconds",
    "histogram",
    _MODEL_CLASS,
    "(Last token - first token) / (output tokens - 1) of each request, where tokens are known.",
    True,
)
REQUEST_DURATION = Metric(
    "request_duration_seconds", "histogram", _MODEL_CLASS, "Request received to closed, outcome ok only.", True
)
REQUEST_RECEIVE = Metric("request_receive_seconds", "histogram", (), "Head arrived to last byte received.", True)
UPSTREAM_CONNECT = Metric("upstream_connect_seconds", "histogram", (), "Time to open a new upstream connection.", True)
RESPONSE_HEADERS = Metric("response_headers_seconds", "histogram", (), "Request received to final response head.", True)
STALLS = Metric(
    "stalls_total", "counter", (*_MODEL_CLASS, "cause"), "Silences after a token longer than the class's max_stall."
)
STALL_SECONDS = Metric("stall_seconds_total", "counter", (*_MODEL_CLASS, "cause"), "Length of those silences.", True)
STALLED_REQUESTS = Metric(
    "stalled_requests_total", "counter", _MODEL_CLASS, "Streamed requests with a stall not caused by the client."
)
STREAMED_REQUESTS = Metric(
    "streamed_requests_total", "counter", _MODEL_CLASS, "Streamed responses with a token-bearing event."
)
OPEN_GAP = Metric(
    "open_gap_seconds",
    "gauge",
    ("slo_class", "phase"),
    "The longest silence now under way; 0 when there is none.",
    True,
)
SLO_THRESHOLD = Metric("slo_threshold_seconds", "gauge", ("slo_class", "condition"), "The promised limits.", True)
SLO_OBJECTIVE = Metric("slo_objective_ratio", "gauge", ("slo_class",), "Target share of good requests.")
PROMPT_TOKENS = Metric("prompt_tokens_total", "counter", _MODEL_CLASS, "Prompt tokens as reported, counted at close.")
OUTPUT_TOKENS = Metric("output_tokens_total", "counter", _MODEL_CLASS, "Output tokens as reported, counted at close.")
OUTPUT_EVENTS = Metric("output_events_total", "counter", _MODEL_CLASS, "Token-bearing events.")
REQUESTS_WITHOUT_USAGE = Metric(
    "requests_without_usage_total", "counter", _MODEL_CLASS, "Requests ended ok with output but no known token count."
)
RELAY_ADDED = Metric(
    "relay_added_seconds", "histogram", (), "Read from the engine to nothing left unsent to the client.", True
)
CLIENT_BLOCKED = Metric(
    "client_blocked_seconds_total", "counter", ("slo_class",), "Time with unsent bytes for the client.", True
)
RELAY_BYTES = Metric("relay_bytes_total", "counter", ("direction",), "Bytes written, heads and framing included.")
RELAY_HELD = Metric(
    "relay_held_seconds_total", "counter", (), "Time reading from the engine was paused for a slow client.", True
)
RELAY_RETRIES = Metric(
    "relay_upstream_retries_total", "counter", (), "Requests sent again after a reused connection had closed."
)
RELAY_CONNECTIONS = Metric("relay_connections", "gauge", ("side",), "Open connections.")
RELAY_REFUSED = Metric("relay_refused_total", "counter", ("reason",), "Requests refused before anything was forwarded.")
ACCEPT_ERRORS = Metric("accept_errors_total", "counter", ("reason",), "Connections that could not be taken.")
EVENT_LOOP_LAG = Metric("event_loop_lag_seconds", "histogram", (), "How late a 20 ms timer of the sidecar fired.", True)
TAP_FAULTS = Metric(
    "tap_faults_total", "counter", ("reason",), "Faults of the core by the call they came in; measuring then stopped."
)
UNPARSED_EVENTS = Metric("unparsed_events_total", "counter", ("reason",), "What could not be read, by reason.")
INVALID_SAMPLES = Metric(
    "invalid_samples_total", "counter", ("reason",), "Token counts ignored: negative, fractional, absurd, no number."
)
LABEL_VALUES_CAPPED = Metric(
    "label_values_capped_total", "counter", ("label",), "Requests whose label value became `other` by the cap."
)
BUILD_INFO = Metric("build_info", "gauge", ("version", "python"), "Version of stallwatch and Python; always 1.")
