"""Where a message ends: every framing, whole, byte by byte and cut at random, with bytes behind the end."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.relay.extent import Chunked, Extent, FramingError, Length, UntilClose, chunk_size, may_end
from tests.http_bytes import LAST_CHUNK, chunk


def walk(extent: Extent, reads: list[bytes]) -> tuple[bytes, int]:
    """Feed reads until done; return the payload and how many bytes were used."""
    payload, used = b"", 0
    for read in reads:
        if extent.done:
            break
        payload += extent.feed(read)
        used += extent.used
    return payload, used


def cuts(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(at), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a < b]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_chunked_ends_in_the_same_place_however_it_is_cut(pieces: list[bytes], data: st.DataObject) -> None:
    body = b"".join(map(chunk, pieces)) + LAST_CHUNK
    wire = body + b"HTTP/1.1 200 OK\r\n"
    at = data.draw(st.lists(st.integers(0, len(wire)), max_size=8))
    extent = Chunked()
    assert walk(extent, cuts(wire, at)) == (b"".join(pieces), len(body))
    assert extent.done


def test_chunked_byte_by_byte_with_extension_and_trailers() -> None:
    body = b'5;name="a b"\r\nhello\r\n000A\r\n0123456789\r\n0;x\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n'
    extent = Chunked()
    assert walk(extent, [body[i : i + 1] for i in range(len(body))]) == (b"hello0123456789", len(body))
    assert extent.done


@pytest.mark.parametrize(
    "wire",
    [
        b"\r\n",
        b"g\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"1_0\r\n",
        b" 5\r\nhello\r\n",
        b"5 \r\nhello\r\n",
        b"-1\r\n",
        b"5\nhello\r\n",
        b"5\r\nhelloXY",
        b"5\r\nhello!!5\r\n",
        b"5\r\nhello\n\n",
        b"5\r\r\nhello\r\n",
        b"1234567890abcdef\r\n",
        b"5;" + b"x" * 5000,
        b"0\r\n" + b"X: " + b"y" * 4000 + b"\r\n" + (b"A: " + b"y" * 4000 + b"\r\n") * 20,
        b"0\r\nX: 1\n\r\n",
        b"3;\nxx\r\nabc\r\n",
        b"3;a\rb\r\nabc\r\n",
        b"3;a=\x00\r\nabc\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\n: 1\r\n\r\n",
        b"0\r\nX: 1\r\n folded\r\n\r\n",
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_broken_chunking_is_refused_however_it_is_cut(wire: bytes, step: int) -> None:
    extent = Chunked()
    with pytest.raises(FramingError):
        walk(extent, [wire[i : i + step] for i in range(0, len(wire), step)])


def test_usual_chunk_that_does_not_end_in_crlf_is_refused() -> None:
    with pytest.raises(FramingError):
        Chunked().feed(b"5\r\nhelloab")


def test_length_takes_no_byte_too_many() -> None:
    extent = Length(5)
    assert walk(extent, [b"he", b"llo, world"]) == (b"hello", 5)
    assert extent.done
    assert extent.used == 3


def test_no_body_is_done_at_once_and_uses_nothing() -> None:
    extent = Length(0)
    assert extent.done
    assert extent.feed(b"abc") == b""
    assert extent.used == 0


def test_until_close_is_never_done() -> None:
    extent = UntilClose()
    assert walk(extent, [b"a", b"bc"]) == (b"abc", 3)
    assert not extent.done


@given(
    st.lists(st.binary(min_size=1, max_size=20) | st.sampled_from([b"\r\n\r\n", b"\n", b"\r"]), max_size=5),
    st.sampled_from([b"", b"X: 1\r\n", b"X: 1\r\nY: 2\r\n"]),
    st.data(),
)
def test_a_read_that_may_not_end_a_message_never_does(
    pieces: list[bytes], trailers: bytes, data: st.DataObject
) -> None:
    wire = b"".join(map(chunk, pieces)) + b"0\r\n" + trailers + b"\r\n"
    extent = Chunked()
    for read in cuts(wire, data.draw(st.lists(st.integers(0, len(wire)), max_size=12))):
        extent.feed(read)
        assert may_end(read) or not extent.done
    assert extent.done


@given(st.binary(max_size=12))
def test_chunk_size_agrees_with_strict_hexadecimal(line: bytes) -> None:
    digits = line.partition(b";")[0]
    plain = not any((byte < 32 and byte != 9) or byte == 127 for byte in line)
    valid = plain and bool(digits) and all(byte in b"0123456789abcdefABCDEF" for byte in digits)
    if valid:
        assert chunk_size(line) == int(digits, 16)
    else:
        with pytest.raises(FramingError):
            chunk_size(line)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes_give_payload_or_a_framing_error(data: bytes, at: list[int]) -> None:
    extent = Chunked()
    try:
        payload, used = walk(extent, cuts(data, [min(i, len(data)) for i in at]))
    except FramingError:
        return
    assert len(payload) <= used <= len(data)
