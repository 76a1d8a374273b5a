"""The foot line of the core's cost, measured or not."""

from benchmarks.core_cost import measure, text


def test_text_names_every_part() -> None:
    line = text({"json_decode": 0.371, "frame_decode_classify": 1.25, "tap_feed": 2.5})
    assert "JSON decode 0.37, frame + decode + classify 1.25, whole Tap.feed 2.50" in line


def test_text_says_when_it_was_not_measured() -> None:
    assert text(None).startswith("core: not measured")


def test_every_part_is_measured_where_the_core_is_there() -> None:
    core = measure()
    assert core is None or (len(core) == 3 and all(cost > 0 for cost in core.values()))
