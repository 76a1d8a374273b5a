import pytest

from exporter.core.histogram import Histogram


def test_edges_are_inclusive() -> None:
    histogram = Histogram((10, 20))
    for value in (1, 10, 11, 20, 21):
        histogram.observe(value)
    assert (histogram.counts, histogram.count, histogram.total) == ([2, 2, 1], 5, 63)


@pytest.mark.parametrize("edges", [(), (0, 1), (2, 1), (1, 1)])
def test_c36_edges_are_checked(edges: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="edges"):
        Histogram(edges)
