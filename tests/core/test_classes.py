from exporter.core.classes import DEFAULT_CLASS, SloClass
from exporter.core.config import CoreConfig


def test_the_default_class() -> None:
    assert DEFAULT_CLASS.name == "chat"
    assert dict(DEFAULT_CLASS.thresholds()) == {"ttft": 1_000_000_000, "max_stall": 100_000_000}
    assert DEFAULT_CLASS.objective == 0.99


def test_all_thresholds() -> None:
    slo = SloClass("x", ttft=1, max_stall=2, tpot=3, duration=4)
    assert dict(slo.thresholds()) == {"ttft": 1, "max_stall": 2, "tpot": 3, "duration": 4}


def test_the_last_class_is_the_default() -> None:
    assert CoreConfig(classes=(SloClass("a"), SloClass("b"))).default_class.name == "b"
