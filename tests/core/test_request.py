import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.request import UNKNOWN, Fields, RequestTap


def read(body: bytes, limit: int = 1 << 20, complete: bool = True, piece: int = 50_000) -> Any:
    tap = RequestTap(limit)
    for at in range(0, len(body), piece):
        tap.feed(body[at : at + piece])
    assert tap.size == len(body)
    return tap.fields(complete)


def big(before: Any, after: Any, filler: str = "x" * 300_000) -> bytes:
    fields = [*before, ("messages", [{"role": "user", "content": filler, "model": "inner", "stream": False}]), *after]
    return json.dumps(dict(fields)).encode()


def test_a_body_is_decoded_whole() -> None:
    assert read(b'{"model":"m","stream":true,"n":3}') == Fields("m", True, 3, unread=False)
    assert read(b'{"model":"m"}') == Fields("m", None, 1, unread=False)


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"null", b'"x"', b'{"model":', b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_unknown(body: bytes) -> None:
    assert read(body) == UNKNOWN


@pytest.mark.parametrize("model", ["5", "null", "[1]", "{}", '""', '"%s"' % ("x" * 5000), "true"])
def test_c37_a_model_that_is_no_name_is_unknown(model: str) -> None:
    assert read(b'{"model":%s,"stream":true}' % model.encode()) == Fields(None, True, 1, unread=True)


def test_c37_odd_names_are_names() -> None:
    assert read(b'{"model":"a\\"\\n\\\\b"}').model == 'a"\n\\b'


def test_wrong_types_are_unknown() -> None:
    assert read(b'{"model":"m","stream":"yes","n":"2"}') == Fields("m", None, 1, unread=True)
    for n in (b"0", b"-1", b"1.5", b"null", b"1e99", b"true"):
        assert read(b'{"model":"m","n":%s}' % n).choices == 1


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [
        ('"text"', 1),
        ('["a","b"]', 2),
        ('[ "a" ]', 1),
        ("[1,2,3]", 1),
        ("[[1],[2],[3]]", 3),
        ("[]", 1),
        ("null", 1),
        ('["%s","b"]' % ("x" * 70_000), 1),
    ],
)
def test_a_batch_of_prompts_is_several_choices(prompt: str, choices: int) -> None:
    assert read(b'{"model":"m","prompt":%s}' % prompt.encode()).choices == choices
    assert read(b'{"model":"m","n":2,"prompt":%s}' % prompt.encode()).choices == 2 * choices


@pytest.mark.parametrize("piece", [1000, 50_000, 10_000_000])
def test_a_large_body_is_searched_at_both_ends(piece: int) -> None:
    expected = Fields("m", True, 2, unread=False)
    fields = [("model", "m"), ("stream", True), ("n", 2)]
    for split in range(4):
        assert read(big(fields[:split], fields[split:]), limit=100_000, piece=piece) == expected
    assert read(big(fields, []), limit=1000, piece=piece) == expected


def test_a_large_body_with_its_keys_in_the_middle_is_unknown() -> None:
    body = json.dumps({"a": "x" * 100_000, "model": "m", "stream": True, "b": "y" * 100_000}).encode()
    assert read(body, limit=1000) == Fields(None, None, 1, unread=True)


def test_a_large_body_that_does_not_say_stream_is_unread() -> None:
    assert read(big([("model", "m")], []), limit=1000) == Fields("m", None, 1, unread=True)


@pytest.mark.parametrize(
    "filler", ["x" * 100_000, '\\"' * 50_000, "{}[]:,1" * 20_000, "é\u2028" * 30_000, "\\" * 90_000]
)
@pytest.mark.parametrize("shift", range(3))
def test_the_tail_may_be_entered_anywhere(filler: str, shift: int) -> None:
    body = big([], [("model", "m"), ("stream", False)], filler + "y" * shift)
    assert read(body, limit=1000).model == "m"
    assert read(body, limit=1000).stream is False


def test_the_tail_may_be_entered_in_a_number_list() -> None:
    body = json.dumps({"prompt": list(range(50_000)), "model": "m", "stream": True, "n": 4}).encode()
    assert read(body, limit=1000) == Fields("m", True, 4, unread=False)


def test_inner_keys_and_odd_values_are_not_taken() -> None:
    fields = [("model", 5), ("stream", None), ("n", [1]), ("tools", [{"model": "inner", "n": 7}])]
    for body in (big(fields, []), big([], fields)):
        assert read(body, limit=1000) == Fields(None, None, 1, unread=True)
    assert read(b'{"model":"\\x","stream":{"model":"i"},"n":7.5,' + b" " * 2000, limit=1000).model is None
    assert read(b'{"model":"m","stream":true,"n":7' + b" " * 200_000, limit=1000).choices == 1


def test_a_large_body_that_is_no_json() -> None:
    assert read(b"\x00" * 300_000, limit=1000) == UNKNOWN
    assert read(b'"' * 300_000, limit=1000) == UNKNOWN


def test_readings_of_the_tail_that_disagree_tell_nothing() -> None:
    # Read as entered outside a string this says model a; as entered inside one, model b.
    tail = b'{},"model":"a",":":{"model":"b"}}' + b" "
    outcome = read(b"x" * 70_000 + b'"' + tail, limit=1000)
    assert outcome.model in (None, "a", "b")


def test_an_incomplete_body_is_searched_for_what_came() -> None:
    assert read(b'{"model":"m","stream":true,"messages":[{"con', complete=False) == Fields("m", True, 1, unread=False)
    assert read(b'{"mod', complete=False) == UNKNOWN
    assert read(big([("model", "m")], []), limit=1000, complete=False).model == "m"


@given(st.binary(max_size=300), st.booleans())
def test_it_never_raises_at_bytes(body: bytes, complete: bool) -> None:
    assert isinstance(read(body, limit=100, complete=complete), Fields)
    assert isinstance(read(b'{"model":"m",' + body, complete=complete), Fields)


@given(st.dictionaries(st.text(max_size=5), st.recursive(st.text() | st.integers(), lambda x: st.lists(x, max_size=3))))
def test_the_search_finds_what_decoding_finds(others: Any) -> None:
    body = json.dumps({**others, "model": "m", "stream": True, "n": 2}).encode()
    assert read(body, complete=False) == Fields("m", True, 2, unread=False)
    tail = RequestTap(0)
    tail.feed(body)
    assert tail.fields(True) == Fields("m", True, 2, unread=False)
