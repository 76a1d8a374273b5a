"""The POST guard as a pure function: who is let in, and every way in that has been tried on ports of this kind."""

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.views.guard import allows, peer_of

HOST = "127.0.0.1:9719"


def local(*, peer: str | None = "127.0.0.1", hosts: tuple[str, ...] = (HOST,), origins: tuple[str, ...] = ()) -> bool:
    return allows(peer, hosts, origins, [], None)


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", None])
def test_loopback_and_unix_peers_may(peer: str | None) -> None:
    assert local(peer=peer)


@pytest.mark.parametrize(
    "peer", ["10.0.0.1", "192.168.1.7", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1%eth0", "gone", ""]
)
def test_other_peers_may_not(peer: str) -> None:
    assert not local(peer=peer)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost", "localhost:9719", "127.0.0.1", "127.0.0.1:9719", "[::1]", "[::1]:9719", "10.1.2.3:80"],
)
def test_an_address_or_localhost_as_host_may(host: str) -> None:
    assert local(hosts=(host,))


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:9719",
        "localhost.evil.com",
        "localhost.evil.com:9719",
        "127.0.0.1.evil.com",
        "127.0.0.1.nip.io:9719",
        "localhost.",
        "local host",
        "localhost:",
        "localhost:port",
        "localhost:9719:80",
        "localhost:123456",
        "evil.com@localhost",
        "localhost@evil.com",
        "localhost/evil.com",
        "localhost#.evil.com",
        "[::1].evil.com",
        "[::1]:9719.evil.com",
        "[::1",
        "::1",
        "[localhost]",
        "[evil]",
        "2130706433",
        "0x7f.0.0.1",
        "127.1",
        "",
        " ",
        "localhost\n",
        "localhost,evil.com",
    ],
)
def test_another_name_as_host_may_not(host: str) -> None:
    assert not local(hosts=(host,))


def test_no_host_and_two_hosts_may_not() -> None:
    assert not local(hosts=())
    assert not local(hosts=(HOST, HOST))
    assert not local(hosts=("localhost", "evil.com"))


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (HOST, "http://127.0.0.1:9719"),
        ("LOCALHOST:9719", "http://localhost:9719"),
        ("localhost:9719", "HTTP://LOCALHOST:9719"),
        ("[::1]:9719", "http://[::1]:9719"),
        ("localhost:80", "http://localhost"),
        ("localhost", "http://localhost:80"),
    ],
)
def test_the_own_origin_may(host: str, origin: str) -> None:
    assert local(hosts=(host,), origins=(origin,))


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.com",
        "http://evil.com:9719",
        "http://localhost.evil.com:9719",
        "http://127.0.0.1",
        "http://127.0.0.1:3000",
        "http://localhost:9719",
        "https://127.0.0.1:9719",
        "file://127.0.0.1:9719",
        "127.0.0.1:9719",
        "http://127.0.0.1:9719/",
        "http://127.0.0.1:9719 http://evil.com",
    ],
)
def test_a_foreign_origin_may_not(origin: str) -> None:
    assert not local(origins=(origin,))


def test_two_origins_may_not() -> None:
    own = f"http://{HOST}"
    assert not local(origins=(own, own))
    assert not local(origins=(own, "http://evil.com"))


REMOTE = ("10.0.0.1", ("stallwatch.example",), ("http://evil.com",))


@pytest.mark.parametrize("authorization", ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "])
def test_the_token_opens_from_anywhere(authorization: str) -> None:
    assert allows(*REMOTE, [authorization], "s3cret")


@pytest.mark.parametrize(
    "authorizations",
    [
        [],
        ["Bearer"],
        ["Bearer "],
        ["Bearer s3cre"],
        ["Bearer s3crett"],
        ["Bearer S3CRET"],
        ["Basic s3cret"],
        ["s3cret"],
        ["Bearer s3cret", "Bearer s3cret"],
        ["Bearer \udcff"],
    ],
)
def test_another_authorization_does_not(authorizations: list[str]) -> None:
    assert not allows(*REMOTE, authorizations, "s3cret")


def test_without_a_configured_token_none_opens() -> None:
    assert not allows(*REMOTE, ["Bearer "], None)
    assert not allows(*REMOTE, ["Bearer None"], None)


def test_a_wrong_token_takes_nothing_from_a_local_client() -> None:
    assert allows("127.0.0.1", [HOST], [], ["Bearer wrong"], "s3cret")


@given(
    peer=st.none() | st.text(max_size=20),
    hosts=st.lists(st.text(max_size=20), max_size=2),
    origins=st.lists(st.text(max_size=20), max_size=2),
    authorizations=st.lists(st.text(st.characters(exclude_categories=()), max_size=20), max_size=2),
)
def test_rubbish_never_raises_and_never_opens(
    peer: str | None, hosts: list[str], origins: list[str], authorizations: list[str]
) -> None:
    assert not allows(peer, [*hosts, "x.example"], origins, authorizations, "a longer token than any of these")


def test_peer_of_a_transport() -> None:
    with socket.socket(socket.AF_INET) as tcp, socket.socket(socket.AF_UNIX) as unix:
        assert peer_of(asyncio.Transport({"socket": tcp, "peername": ("10.0.0.1", 4711)})) == "10.0.0.1"
        assert peer_of(asyncio.Transport({"socket": unix, "peername": ""})) is None


def test_a_client_that_reset_at_once_is_no_unix_peer() -> None:
    with socket.socket(socket.AF_INET) as tcp:
        for transport in (None, asyncio.Transport(), asyncio.Transport({"socket": tcp, "peername": None})):
            assert not local(peer=peer_of(transport))
