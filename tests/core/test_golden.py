"""The core measures every capture exactly as the golden files say, wherever the reads were cut."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import names
from tests.capture import Capture, keys, load
from tests.core.against_golden import Golden, assert_cut_free, assert_golden
from tests.core.replayed import Body, bodies, drive
from tests.golden import __main__ as golden_main


def golden_of(capture: Capture) -> Golden:
    value: Golden = json.loads((Path(golden_main.__file__).parent / f"{capture.key}.json").read_text())
    return value


@pytest.mark.parametrize("key", keys())
def test_every_figure_of_every_capture(key: str) -> None:
    capture = load(key)
    figures = drive(capture, list(bodies(capture)))
    assert_golden(figures, golden_of(capture))
    route = "/v1/completions" if "completions-" in capture.name else "/v1/chat/completions"
    assert figures.labels(names.REQUESTS, "route") == {route: 1}
    assert figures.labels(names.REQUESTS, "slo_class") == {"chat": 1}


@pytest.mark.parametrize("key", keys())
def test_byte_by_byte_under_the_same_stamps_nothing_changes(key: str) -> None:
    """Several feeds with one stamp are one arrival. Only ITL needs a read in one feed, as the relay gives it."""
    capture = load(key)
    feeds = [(data[i : i + 1], at) for data, at in bodies(capture) for i in range(len(data))]
    assert_golden(drive(capture, feeds), golden_of(capture), itl=False)


def recut(body: bytes, cuts: Iterable[int], start: int) -> list[Body]:
    """The body cut at these places, each piece 1 us after the one before, from `start`."""
    places = [0, *sorted(cuts), len(body)]
    return [(body[a:b], start + 1000 * i) for i, (a, b) in enumerate(pairwise(places)) if a < b]


def assert_recut(capture: Capture, cuts: Iterable[int]) -> None:
    body = b"".join(data for data, _ in bodies(capture))
    feeds = recut(body, cuts, capture.pieces[-1].at)
    last = feeds[-1][1] if feeds else None
    assert_cut_free(drive(capture, feeds, last), golden_of(capture))


@pytest.mark.parametrize("key", keys())
def test_each_byte_a_read_of_its_own(key: str) -> None:
    capture = load(key)
    assert_recut(capture, range(1, sum(len(data) for data, _ in bodies(capture))))


SMALL = [key for key in keys() if len(load(key).raw) < 50_000]


@settings(deadline=None)
@given(key=st.sampled_from(SMALL), data=st.data())
def test_cut_at_random(key: str, data: st.DataObject) -> None:
    capture = load(key)
    size = sum(len(body) for body, _ in bodies(capture))
    assert_recut(capture, data.draw(st.sets(st.integers(1, max(1, size - 1)), max_size=40)))
