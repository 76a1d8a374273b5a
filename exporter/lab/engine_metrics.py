"""The simulated engine's own metrics under vLLM's names, as its `/metrics` shows them (text format 0.0.4).

Names, labels and buckets follow vLLM 0.32.0. One thing differs: a client that leaves counts here as
`request_success_total{finished_reason="abort"}`, which vLLM was seen to leave at 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from exporter.lab.scheduler import Scheduler, Step

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
FINISHED = ("stop", "length", "abort", "error", "repetition")
_LABELS = ("engine", "model_name")


class _Counting(NamedTuple):
    name: str
    help: str


class _Spread(NamedTuple):
    name: str
    help: str
    buckets: Sequence[float]


_TTFT = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
    640,
    2560,
)
_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_REQUEST = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_TOKENS = tuple(step * 10**power for power in range(5) for step in (1, 2, 5))
_BATCH = (1, *(2**power for power in range(3, 15)))

PREEMPTIONS = _Counting("vllm:num_preemptions", "Cumulative number of preemption from the engine.")
PROMPT_TOKENS = _Counting("vllm:prompt_tokens", "Number of prefill tokens processed.")
GENERATION_TOKENS = _Counting("vllm:generation_tokens", "Number of generation tokens processed.")

ITERATION = _Spread("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", _BATCH)
TTFT = _Spread("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", _TTFT)
ITL = _Spread("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", _ITL)
E2E = _Spread("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", _REQUEST)
QUEUE = _Spread("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", _REQUEST)
REQUEST_PROMPT = _Spread("vllm:request_prompt_tokens", "Number of prefill tokens processed.", _TOKENS)
REQUEST_OUTPUT = _Spread("vllm:request_generation_tokens", "Number of generation tokens processed.", _TOKENS)


class EngineMetrics:
    """Counters and histograms of one simulated engine, in a registry of its own. Durations come in ns."""

    def __init__(self, scheduler: Scheduler, model: str) -> None:
        self._registry = CollectorRegistry()
        self._at = ("0", model)
        self._preemptions, self._prompt, self._generation = map(
            self._counter, (PREEMPTIONS, PROMPT_TOKENS, GENERATION_TOKENS)
        )
        self._iteration, self._ttft, self._itl, self._e2e, self._queue, self._prompt_size, self._output_size = map(
            self._histogram, (ITERATION, TTFT, ITL, E2E, QUEUE, REQUEST_PROMPT, REQUEST_OUTPUT)
        )
        self._success = Counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            (*_LABELS, "finished_reason"),
            registry=self._registry,
        )
        for reason in FINISHED:
            self._success.labels(*self._at, reason)
        self._gauges(scheduler)

    def submitted(self, prompt: int) -> None:
        """A sequence with `prompt` tokens came in."""
        self._prompt_size.observe(prompt)

    def admitted(self, waited: int) -> None:
        """A sequence left the queue for the first time, `waited` ns after it came in."""
        self._queue.observe(waited / 1e9)

    def stepped(self, step: Step) -> None:
        """A step is over."""
        self._iteration.observe(step.decoded + step.prefilled)
        self._prompt.inc(step.prefilled)
        self._generation.inc(len(step.tokens))
        self._preemptions.inc(len(step.preempted))

    def first_token(self, waited: int) -> None:
        """A sequence's first token, `waited` ns after it came in."""
        self._ttft.observe(waited / 1e9)

    def token(self, gap: int) -> None:
        """A later token, `gap` ns after the one before."""
        self._itl.observe(gap / 1e9)

    def finished(self, reason: str, lasted: int, output: int) -> None:
        """A sequence ended for this reason, `lasted` ns after it came in, with `output` tokens."""
        self._success.labels(*self._at, reason).inc()
        self._e2e.observe(lasted / 1e9)
        self._output_size.observe(output)

    def render(self) -> bytes:
        """All of them as text; the gauges are read from the scheduler now."""
        return generate_latest(self._registry)

    def _counter(self, counting: _Counting) -> Counter:
        return Counter(counting.name, counting.help, _LABELS, registry=self._registry).labels(*self._at)

    def _histogram(self, spread: _Spread) -> Histogram:
        histogram = Histogram(spread.name, spread.help, _LABELS, registry=self._registry, buckets=spread.buckets)
        return histogram.labels(*self._at)

    def _gauges(self, scheduler: Scheduler) -> None:
        """Gauges that ask the scheduler when they are read."""
        for name, text, read in (
            ("num_requests_running", "Number of requests in model execution batches.", lambda: scheduler.running),
            ("num_requests_waiting", "Number of requests waiting to be processed.", lambda: scheduler.waiting),
            (
                "kv_cache_usage_perc",
                "KV-cache usage. 1 means 100 percent usage.",
                lambda: 1 - scheduler.free_blocks / scheduler.num_blocks,
            ),
        ):
            Gauge(f"vllm:{name}", text, _LABELS, registry=self._registry).labels(*self._at).set_function(read)
        info = Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            ("engine", "block_size", "num_gpu_blocks"),
            registry=self._registry,
        )
        info.labels("0", str(scheduler.block_size), str(scheduler.num_blocks)).set(1)
