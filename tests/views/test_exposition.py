"""The two exposition formats: exact text, the client library as oracle, promtool, and a real Prometheus' parser."""

import math
import subprocess
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric as ReadFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter import names
from exporter.core.family import Family
from exporter.names import Metric
from exporter.views.exposition import OPENMETRICS, TEXT, Format, choose, render
from tests.views.family_samples import METRICS, MS, every_metric, histogram

COUNTER = Metric("stall_seconds_total", "counter", ("model", "cause"), "Length of stalls.", True)
PLAIN_COUNTER = Metric("requests_started_total", "counter", (), "Requests started.")
GAUGE = Metric("good_ratio", "gauge", ("slo_class",), "Good over judged.")
DURATIONS = Metric("output_gap_seconds", "histogram", ("model",), "Gaps.", True)
NO_LABELS = Metric("event_loop_lag_seconds", "histogram", (), "Lag.", True)
SIZES = Metric("batch_tokens", "histogram", (), "A histogram of plain numbers.")

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def text(*families: Family) -> str:
    return render(families, TEXT).decode()


def openmetrics(*families: Family) -> str:
    return render(families, OPENMETRICS).decode()


def read(body: str, form: Format) -> list[ReadFamily]:
    return list(read_openmetrics(body) if form.openmetrics else read_text(body))  # type: ignore[no-untyped-call]  # the library's gap


def values(family: ReadFamily) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in family.samples}


def test_text_of_a_counter() -> None:
    family = Family(COUNTER, [(("m1", "client"), 1_500_000_000), (("m1", "engine"), 0)])
    assert text(family) == (
        "# HELP stallwatch_stall_seconds_total Length of stalls.\n"
        "# TYPE stallwatch_stall_seconds_total counter\n"
        'stallwatch_stall_seconds_total{model="m1",cause="client"} 1.5\n'
        'stallwatch_stall_seconds_total{model="m1",cause="engine"} 0.0\n'
    )


def test_openmetrics_of_a_counter_names_the_family_without_total() -> None:
    assert openmetrics(Family(COUNTER, [(("m1", "client"), 1_500_000_000)])) == (
        "# HELP stallwatch_stall_seconds Length of stalls.\n"
        "# TYPE stallwatch_stall_seconds counter\n"
        "# UNIT stallwatch_stall_seconds seconds\n"
        'stallwatch_stall_seconds_total{model="m1",cause="client"} 1.5\n'
        "# EOF\n"
    )


def test_a_sample_without_labels_has_no_braces() -> None:
    assert text(Family(PLAIN_COUNTER, [((), 7)])).splitlines()[-1] == "stallwatch_requests_started_total 7"


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS])
def test_a_histogram_is_cumulative_with_inclusive_edges_in_seconds(form: Format) -> None:
    gaps = histogram(20_000, 100 * MS, 100 * MS + 1, 700_000 * MS)
    lines = render([Family(DURATIONS, [(("m1",), gaps)])], form).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'stallwatch_output_gap_seconds_bucket{model="m1",le="2e-05"} 1',
        'stallwatch_output_gap_seconds_bucket{model="m1",le="0.001"} 1',
        'stallwatch_output_gap_seconds_bucket{model="m1",le="0.1"} 2',
        'stallwatch_output_gap_seconds_bucket{model="m1",le="1.0"} 3',
        'stallwatch_output_gap_seconds_bucket{model="m1",le="600.0"} 3',
        'stallwatch_output_gap_seconds_bucket{model="m1",le="+Inf"} 4',
        'stallwatch_output_gap_seconds_count{model="m1"} 4',
        'stallwatch_output_gap_seconds_sum{model="m1"} 700.200020001',
    ]


def test_a_histogram_without_labels() -> None:
    lines = text(Family(NO_LABELS, [((), histogram(edges=(MS,)))])).splitlines()
    assert lines[2:] == [
        'stallwatch_event_loop_lag_seconds_bucket{le="0.001"} 0',
        'stallwatch_event_loop_lag_seconds_bucket{le="+Inf"} 0',
        "stallwatch_event_loop_lag_seconds_count 0",
        "stallwatch_event_loop_lag_seconds_sum 0.0",
    ]


def test_a_histogram_of_plain_numbers_is_not_divided() -> None:
    lines = text(Family(SIZES, [((), histogram(3, edges=(4, 8)))])).splitlines()
    assert lines[2:] == [
        'stallwatch_batch_tokens_bucket{le="4.0"} 1',
        'stallwatch_batch_tokens_bucket{le="8.0"} 1',
        'stallwatch_batch_tokens_bucket{le="+Inf"} 1',
        "stallwatch_batch_tokens_count 1",
        "stallwatch_batch_tokens_sum 3",
    ]


def test_each_label_set_has_its_own_edges_where_they_differ() -> None:
    body = text(
        Family(DURATIONS, [(("a",), histogram(1, edges=(MS,))), (("b",), histogram(1, edges=(2 * MS,)))]),
    )
    assert '{model="a",le="0.001"} 1' in body
    assert '{model="b",le="0.002"} 1' in body


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.1 + 0.2, "0.30000000000000004"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (2**63, "9223372036854775808"),
        (1e21, "1e+21"),
    ],
)
def test_numbers_are_written_exactly(value: float, written: str) -> None:
    assert text(Family(GAUGE, [(("chat",), value)])).splitlines()[-1].endswith(f"}} {written}")


def test_a_family_without_samples_keeps_its_help() -> None:
    assert text(Family(GAUGE, [])).splitlines() == [
        "# HELP stallwatch_good_ratio Good over judged.",
        "# TYPE stallwatch_good_ratio gauge",
    ]


def test_help_is_escaped_as_each_format_says() -> None:
    odd = Family(Metric("odd", "gauge", (), 'a "b"\n\\c'), [])
    assert text(odd).splitlines()[0] == '# HELP stallwatch_odd a "b"\\n\\\\c'
    assert openmetrics(odd).splitlines()[0] == '# HELP stallwatch_odd a \\"b\\"\\n\\\\c'
    assert read(text(odd), TEXT)[0].documentation == 'a "b"\n\\c'
    assert read(openmetrics(odd), OPENMETRICS)[0].documentation == 'a "b"\n\\c'


def test_a_lone_surrogate_costs_a_character_and_no_scrape() -> None:
    assert 'slo_class="a?b"' in text(Family(GAUGE, [(("a\ud800b",), 1)]))


@pytest.mark.parametrize(
    "family",
    [
        Family(GAUGE, [(("chat",), histogram(1))]),
        Family(DURATIONS, [(("m1",), 1)]),
    ],
)
def test_a_value_of_the_wrong_kind_is_our_mistake(family: Family) -> None:
    with pytest.raises(TypeError, match=family.metric.name):
        text(family)


def test_a_wrong_number_of_labels_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        text(Family(COUNTER, [(("m1",), 1)]))


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, TEXT),
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("text/plain;version=1.0.0", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;version=2.0.0", OPENMETRICS),
        ("application/openmetrics-text;version=rubbish", TEXT),
        (";;;,=,", TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
    ],
)
def test_the_accept_header_chooses_the_format(accept: str | None, form: Format) -> None:
    assert choose(accept) is form


def test_content_types_say_the_version_written() -> None:
    assert TEXT.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert OPENMETRICS.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS])
def test_the_library_reads_every_metric_back_with_its_type(form: Format) -> None:
    families = read(render(every_metric(), form).decode(), form)
    # The library's text parser, too, names a counter's family without `_total`.
    assert [family.name for family in families] == [
        names.PREFIX + (metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name)
        for metric in METRICS
    ]
    for family, metric in zip(families, METRICS, strict=True):
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        if form.openmetrics:
            assert family.unit == ("seconds" if metric.durations else "")
        if metric.kind == "histogram":
            buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
            assert [(sample.labels["le"], sample.value) for sample in buckets] == [
                ("2e-05", 0),
                ("0.001", 1),
                ("0.1", 2),
                ("1.0", 3),
                ("600.0", 3),
                ("+Inf", 3),
            ]
        else:
            assert [sample.value for sample in family.samples] == [1.5 if metric.durations else 1.5e9]


LABEL_TEXT = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.text(st.sampled_from('\\"%\n\r{},= \u2028\x85é🙂n'), max_size=12),
)


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS])
@given(labels=st.lists(st.tuples(LABEL_TEXT, LABEL_TEXT), max_size=4, unique=True), number=st.integers(0, 2**60))
def test_label_values_survive(form: Format, labels: list[tuple[str, str]], number: int) -> None:
    body = render([Family(COUNTER, [(pair, number) for pair in labels])], form).decode()
    (family,) = read(body, form)
    expected = {
        ("stallwatch_stall_seconds_total", (("cause", cause), ("model", model))): number / 10**9
        for model, cause in labels
    }
    assert values(family) == expected


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS])
@given(
    edges=st.lists(st.integers(1, 10**15), min_size=1, max_size=12, unique=True).map(
        lambda edges: tuple(sorted(edges))
    ),
    samples=st.lists(st.integers(0, 10**16), max_size=20),
)
def test_histograms_survive(form: Format, edges: tuple[int, ...], samples: list[int]) -> None:
    body = render([Family(DURATIONS, [(("m1",), histogram(*samples, edges=edges))])], form).decode()
    (family,) = read(body, form)
    buckets = {float(sample.labels["le"]): sample.value for sample in family.samples if sample.name.endswith("_bucket")}
    assert buckets == {
        **{edge / 10**9: sum(sample <= edge for sample in samples) for edge in edges},
        math.inf: len(samples),
    }
    rest = {sample.name.rsplit("_", 1)[1]: sample.value for sample in family.samples if "le" not in sample.labels}
    assert rest == {"count": len(samples), "sum": sum(samples) / 10**9}


@given(value=st.one_of(st.floats(), st.integers(-(2**70), 2**70)), kind=st.sampled_from(["gauge", "counter"]))
def test_numbers_survive(value: float, kind: Literal["gauge", "counter"]) -> None:
    metric = Metric("odd_total", kind, (), "Odd.")
    (family,) = read(text(Family(metric, [((), value)])), TEXT)
    (read_back,) = (sample.value for sample in family.samples)
    assert float(read_back) == float(value) or (math.isnan(read_back) and math.isnan(value))


def test_promtool_finds_nothing_to_say(program: Callable[[str], str]) -> None:
    body = render(every_metric(["m1", 'odd "\\\n model é']), TEXT)
    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=body, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_promtool_would_say_something(program: Callable[[str], str]) -> None:
    body = text(Family(Metric("waiting_milliseconds", "counter", (), ""), [((), 1)])).encode()
    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=body, capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0
