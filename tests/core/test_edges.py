from exporter.core.classes import SloClass
from exporter.core.edges import edges
from exporter.names import OUTPUT_GAP
from tests.core.drive import ns


def test_c36_thresholds_are_exact_edges_and_the_ends_are_wide() -> None:
    table = edges((SloClass("a", ttft=ns(0.33)), SloClass("b", max_stall=ns(0.123), tpot=ns(0.017), duration=ns(77))))
    for metric, line in table.items():
        assert {ns(0.33), ns(0.123), ns(0.017), ns(77)} <= set(line)
        assert list(line) == sorted(set(line))
        assert line[-1] > ns(600)
        assert metric.kind == "histogram"
        assert metric.durations
    assert table[OUTPUT_GAP][0] == ns(0.001)
