import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.framing import Document, EventStream, Frame

LIMIT = 1 << 20


def frames(reads: Any, limit: int = LIMIT, clean: bool = True) -> Any:
    machine = EventStream(limit)
    found = [frame for read in reads for frame in machine.feed(read)]
    return found + machine.finish(clean), machine.oversized


def datas(body: bytes, **how: Any) -> Any:
    return [frame.data for frame in frames([body], **how)[0]]


def bytewise(body: bytes) -> Any:
    return [body[i : i + 1] for i in range(len(body))]


def test_one_event_in_one_read() -> None:
    assert EventStream(LIMIT).feed(b'data: {"a":1}\n\n') == [Frame(b'{"a":1}')]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_c03_all_line_ends_give_the_same_events(newline: bytes) -> None:
    body = b"data: one\n\nevent: error\ndata: two\n\n: c\n\n".replace(b"\n", newline)
    expected = [Frame(b"one"), Frame(b"two", b"error")]
    assert frames([body])[0] == expected
    assert frames(bytewise(body))[0] == expected


def test_c03_mixed_line_ends() -> None:
    assert datas(b"data: a\r\n\ndata: b\r\r\ndata: c\n\r") == [b"a", b"b", b"c"]


def test_c03_a_lone_cr_at_the_end_of_a_read_completes_the_event() -> None:
    machine = EventStream(LIMIT)
    assert machine.feed(b"data: a\r\r") == [Frame(b"a")]
    assert machine.feed(b"data: b\r\n\r") == [Frame(b"b")]
    assert machine.feed(b"\ndata: c\n\n") == [Frame(b"c")]


def test_c03_a_crlf_cut_in_two_is_one_line_end() -> None:
    machine = EventStream(LIMIT)
    assert machine.feed(b"data: a\r") == []
    assert machine.feed(b"\n") == []
    assert machine.feed(b"data: b\r") == []
    assert machine.feed(b"\n\r") == [Frame(b"a\nb")]
    assert machine.feed(b"\n") == []


def test_an_empty_read_changes_nothing() -> None:
    machine = EventStream(LIMIT)
    assert machine.feed(b"data: a\r") == []
    assert machine.feed(b"") == []
    assert machine.feed(b"\n\n") == [Frame(b"a")]


def test_c04_only_cr_and_lf_end_lines() -> None:
    odd = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei".encode()
    assert datas(b"data: " + odd + b"\n\n") == [odd]


def test_c05_comments_empty_data_and_named_events() -> None:
    assert datas(b": OPENROUTER PROCESSING\n\n") == []
    assert datas(b"data:\n\n") == [b""]
    assert frames([b'event: ping\ndata: {"type":"ping"}\n\n'])[0] == [Frame(b'{"type":"ping"}', b"ping")]


def test_fields() -> None:
    assert datas(b"data\ndata\n\n") == [b"\n"]
    assert datas(b"data:  two\n\n") == [b" two"]
    assert datas(b"data:x\n\n") == [b"x"]
    assert datas(b"data : no field\nid: 1\nretry: 5\nDATA: x\ndatas: x\n\n") == []
    assert frames([b"event: error\nevent\ndata: x\n\n"])[0] == [Frame(b"x")]
    assert frames([b"event:error\ndata: x\n\ndata: y\n\n"])[0] == [Frame(b"x", b"error"), Frame(b"y")]


def test_an_event_type_without_data_is_no_event_and_names_no_other() -> None:
    assert frames([b"event: error\n\ndata: x\n\n"])[0] == [Frame(b"x")]
    assert frames([b"event: error\n", b"data: x\n\n"])[0] == [Frame(b"x", b"error")]


def test_a_bom_opens_the_body_only() -> None:
    assert datas(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a"]
    assert frames(bytewise(b"\xef\xbb\xbfdata: a\n\n"))[0] == [Frame(b"a")]
    assert frames([b"data: a\n\n", b"\xef\xbb\xbfdata: b\n\n"])[0] == [Frame(b"a")]


@pytest.mark.parametrize("end", [b"\n\n", b"\n", b"", b"\r", b"\r\n"])
def test_c07_a_pending_event_counts_after_a_clean_end_only(end: bytes) -> None:
    body = b"data: a\n\ndata: last" + end
    assert datas(body) == [b"a", b"last"]
    assert datas(body, clean=False) == ([b"a", b"last"] if end == b"\n\n" else [b"a"])


def test_c10_an_oversized_event_is_dropped_and_reading_goes_on_after_the_blank_line() -> None:
    body = b"data: a\n\ndata: " + b"x" * 300 + b"\ndata: more\n\ndata: b\n\n"
    for reads in ([body], bytewise(body)):
        assert frames(reads, limit=200) == ([Frame(b"a"), Frame(b"b")], 1)


def test_c10_many_lines_of_one_event_are_bounded_together() -> None:
    body = b"data: 0123456789\n" * 20 + b"\ndata: b\n\n"
    assert frames([body], limit=200) == ([Frame(b"b")], 1)
    assert frames([b"data:\n" * 100 + b"\ndata: b\n\n"], limit=200) == ([Frame(b"b")], 1)


def test_c10_memory_stays_flat_on_an_endless_line() -> None:
    machine = EventStream(1000)
    for _ in range(500):
        assert machine.feed(b"x" * 4096) == []
        assert len(machine._partial) <= 1000
    assert machine.oversized == 1
    assert machine.feed(b"\n\ndata: a\n\n") == [Frame(b"a")]


def test_c10_comments_and_unknown_fields_are_not_kept() -> None:
    machine = EventStream(100)
    for _ in range(100):
        machine.feed(b": a comment without a blank line\nid: 1\n")
    assert machine.feed(b"data: a\n\n") == [Frame(b"a")]
    assert machine.oversized == 0


LINES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b'{"a":1}',
        b": c",
        b"event: error",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\xef\xbb\xbf",
        "\u2028é".encode(),
        b"x" * 40,
        b"id: 1",
    ]
)


@given(st.lists(LINES, max_size=30).map(b"".join), st.integers(0, 2**32), st.booleans())
def test_cuts_do_not_matter(body: bytes, seed: int, clean: bool) -> None:
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(len(body) + 1), min(len(body), rng.randrange(8))))
    reads = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    for limit in (LIMIT, 60):
        whole = frames([body], limit, clean)
        assert frames(reads, limit, clean) == whole
        assert frames(bytewise(body), limit, clean) == whole


def test_a_document_is_one_frame_at_its_clean_end() -> None:
    machine = Document(100)
    assert machine.feed(b'{"a"') == []
    assert machine.feed(b":1}") == []
    assert machine.finish(True) == [Frame(b'{"a":1}')]
    assert machine.finish(False) == []
    assert Document(100).finish(True) == []


def test_a_document_beyond_its_limit_is_dropped() -> None:
    machine = Document(100)
    for _ in range(5):
        machine.feed(b"x" * 60)
    assert machine.oversized == 1
    assert machine.finish(True) == []
