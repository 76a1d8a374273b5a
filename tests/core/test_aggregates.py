import random
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from exporter import names
from exporter.core.ending import Ending
from exporter.core.histogram import Histogram
from exporter.core.outcome import OUTCOMES
from exporter.names import GENERATING_ROUTES, OTHER, Metric
from tests.core.drive import (
    DONE,
    FIN,
    JSON,
    ROLE,
    SSE,
    C,
    begin,
    board,
    classes,
    event,
    ns,
    outcomes,
    samples,
    stream,
    total,
)

ALL = [value for value in vars(names).values() if isinstance(value, Metric)]


def test_every_metric_of_the_table_is_given_once() -> None:
    on = board(version="1", python="3.11")
    given_ = [family.metric for family in on.families(0)]
    assert sorted(metric.name for metric in given_) == sorted(metric.name for metric in ALL)


def test_samples_fit_their_metric() -> None:
    on = board(version="1", python="3.11")
    stream(on, [(1, C("a")), (2, C("b") + FIN())], 2)
    for family in on.families(ns(3)):
        keys = [key for key, _ in family.samples]
        assert keys
        assert len(set(keys)) == len(keys)
        for key, value in family.samples:
            assert len(key) == len(family.metric.labels)
            assert all(type(label) is str for label in key)
            assert isinstance(value, Histogram) == (family.metric.kind == "histogram")
    assert samples(on, "build_info") == {("1", "3.11"): 1}


def test_c45_known_series_exist_at_0_from_the_start() -> None:
    on = board(model_allow=("a",))
    requests = samples(on, "requests_total")
    for model in ("a", "other"):
        for outcome in OUTCOMES:
            assert requests["/v1/chat/completions", model, "chat", outcome] == 0
        assert samples(on, "stalls_total")[model, "chat", "client"] == 0
        assert total(on, "time_to_first_token_seconds", model=model) == 0
    assert requests["/health", "other", "", "ok"] == 0
    assert set(samples(on, "unparsed_events_total").values()) == {0}


def test_a_models_series_exist_from_its_head() -> None:
    on = board()
    tap = begin(on)
    assert samples(on, "requests_total")["/v1/chat/completions", "m", "chat", "truncated"] == 0
    tap.close(ns(1), Ending.CUT)
    assert samples(on, "requests_total")["/v1/chat/completions", "m", "chat", "truncated"] == 1


def test_c37_random_models_and_paths_add_no_series() -> None:
    on = board(model_cap=5)
    for i in range(200):
        stream(on, [(1, DONE)], 1, body=b'{"model":"m%d","stream":true}' % i, path=b"/v1/chat/completions?%d" % i)
        stream(on, [(1, DONE)], 1, path=b"/v1/x%d" % i)
    assert {key[0] for key in samples(on, "streamed_requests_total")} == {"other", "m", "m0", "m1", "m2", "m3"}
    assert total(on, "label_values_capped_total") > 0
    assert {key[0] for key in samples(on, "requests_total")} == {*names.ROUTES, "other"}


def test_promises() -> None:
    on = board()
    assert samples(on, "slo_threshold_seconds") == {("chat", "ttft"): ns(1), ("chat", "max_stall"): ns(0.1)}
    assert samples(on, "slo_objective_ratio") == {("chat",): 0.99}


def test_relay_figures_pass_through() -> None:
    on = board()
    on.relay.bytes_to_client = 5
    on.relay.held = 7
    on.relay.refused["host"] = 2
    assert samples(on, "relay_bytes_total") == {("to_client",): 5, ("to_engine",): 0}
    assert samples(on, "relay_held_seconds_total") == {(): 7}
    assert samples(on, "relay_refused_total")[("host",)] == 2


def test_several_classes_share_edges() -> None:
    on = board(classes=classes(ttft=0.33) + classes(max_stall=0.123))
    assert total(on, "slo_threshold_seconds") == ns(0.33) + ns(0.123)


BODIES = [ROLE, C("a"), C("b", 1), FIN(), DONE, event('{"error":{"code":503}}'), b"\xff\n\n", b"data: {\n\n", b""]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from(list(Ending)), st.integers(0, 8)), max_size=15))
def test_c34_c38_counts_reconcile_and_gauges_return_to_0(runs: Any) -> None:
    on = board()
    now = 0
    for seed, ending, phase in runs:
        rng = random.Random(seed)
        now += rng.randrange(10**9)
        tap = on.open(now)
        path = rng.choice([b"/v1/chat/completions", b"/x", b"/api/chat"])
        steps: list[Callable[[], None]] = [
            partial(tap.request, rng.choice(["POST", "POST", "GET"]), path, []),
            partial(tap.upload, rng.choice([b'{"model":"m","stream":true}', b'{"stream":false}', b"x"])),
            partial(tap.received, now),
            partial(tap.connected, now, 5),
            partial(tap.head, rng.choice([200, 200, 503, 101, 404]), rng.choice([SSE, JSON]), now),
        ]
        steps += [partial(tap.feed, rng.choice(BODIES), now + i * 10**8) for i in range(3)]
        for step in steps[:phase]:
            if rng.random() < 0.95:
                step()
        on.tick(now + 10**9)
        tap.close(now + 10**9, ending)
        tap.close(now + 10**9, Ending.FAULT)
    assert sum(outcomes(on).values()) == on.started == len(runs)
    assert total(on, "requests_in_flight", now=now) == total(on, "streams_in_flight", now=now) == 0
    assert total(on, "tap_faults_total") == 0
    assert total(on, "time_to_first_token_seconds") == total(on, "streamed_requests_total")


def test_C45_a_learnt_model_has_its_series_on_every_generating_route() -> None:
    on = board()
    tap = begin(on)
    tap.close(ns(9), Ending.COMPLETE)
    routes = {key[0] for key in samples(on, "requests_total") if key[1] not in ("", OTHER)}
    assert routes >= {*GENERATING_ROUTES, OTHER}
