"""The bounded copy of a request: when it may go out again, and that nothing is lost while it waits."""

from exporter.relay.extent import Length
from exporter.relay.uplink import Uplink

WINDOW = 0.1
MS = 1_000_000


def uplink(limit: int = 10) -> Uplink:
    return Uplink(b"HEAD", Length(100), limit)


def test_bytes_wait_for_the_first_connection_without_a_limit() -> None:
    up = uplink(limit=2)
    up.keep(b"abc")
    up.keep(b"def")
    assert up.waiting == 6
    assert up.begin(0, reused=False) == [b"HEAD", b"abc", b"def"]
    assert up.waiting == 0


def test_a_new_connection_is_never_repeated() -> None:
    up = uplink()
    up.begin(0, reused=False)
    up.keep(b"a")
    assert not up.may_repeat(1 * MS, WINDOW)


def test_a_stale_reused_connection_is_repeated_once_and_whole() -> None:
    up = uplink()
    up.keep(b"ab")
    assert up.begin(0, reused=True) == [b"HEAD", b"ab"]
    up.keep(b"cd")
    assert up.may_repeat(100 * MS, WINDOW)
    up.wait_again()
    up.keep(b"efghijklmnop")  # beyond the limit while waiting: kept all the same
    assert up.begin(100 * MS, reused=False) == [b"HEAD", b"ab", b"cd", b"efghijklmnop"]
    assert not up.may_repeat(101 * MS, WINDOW)


def test_too_late_or_too_large_is_not_repeated() -> None:
    late = uplink()
    late.begin(0, reused=True)
    assert not late.may_repeat(100 * MS + 1, WINDOW)
    large = uplink(limit=3)
    large.begin(0, reused=True)
    large.keep(b"abcd")
    assert not large.may_repeat(1 * MS, WINDOW)
    assert large.waiting == 0
    at_once = uplink(limit=3)
    at_once.keep(b"abcd")
    at_once.begin(0, reused=True)
    assert not at_once.may_repeat(1 * MS, WINDOW)
