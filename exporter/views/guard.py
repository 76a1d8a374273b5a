"""Decides who may POST to the admin port: functions over the peer, the headers and the token.

A web page that someone on this machine looks at can make their browser send a POST here, directly or after binding a
name of its own to 127.0.0.1. So a POST needs three things: a loopback peer, a Host that is an IP address or `localhost`
(a rebound name is neither), and no Origin but our own. Or it needs the admin token as a bearer, from anywhere.
"""

import hmac
import re
import socket
from asyncio import BaseTransport
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address

# [address]:port or name:port; the port is optional, and is digits.
_AUTHORITY = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:/?#@\s]+))(?::(?P<port>[0-9]{1,5}))?")


def allows(
    peer: str | None,
    hosts: Sequence[str],
    origins: Sequence[str],
    authorizations: Sequence[str],
    token: str | None,
) -> bool:
    """Say whether a POST may go on.

    `peer` is the client's IP address, None for a unix socket, which only this machine can reach. The others are all
    values of the headers Host, Origin and Authorization, in order. `token` is None when none is configured.
    """
    if token is not None and _is_bearer(authorizations, token):
        return True
    return _is_loopback(peer) and _is_own_host(hosts) and _is_own_origin(origins, hosts)


def peer_of(transport: BaseTransport | None) -> str | None:
    """Give the client's IP address for `allows`, None for a unix socket; `gone` when it has left: no rule allows that.

    The socket's family decides, not a missing address: a TCP client that resets at once has no address any more
    either, and what it sent can still be read.
    """
    listener = transport.get_extra_info("socket") if transport is not None else None
    if transport is None or listener is None:
        return "gone"
    if listener.family == socket.AF_UNIX:
        return None
    name = transport.get_extra_info("peername")
    return str(name[0]) if name else "gone"


def _is_bearer(authorizations: Sequence[str], token: str) -> bool:
    """Compare in constant time. Two Authorization headers are no bearer."""
    if len(authorizations) != 1:
        return False
    scheme, _, given = authorizations[0].partition(" ")
    same = hmac.compare_digest(given.strip().encode(errors="surrogateescape"), token.encode(errors="surrogateescape"))
    return scheme.lower() == "bearer" and same


def _is_loopback(peer: str | None) -> bool:
    if peer is None:
        return True
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _authority(text: str) -> tuple[str, int] | None:
    """Read `host[:port]` of a plain-HTTP URL: host in lower case and port (80 when absent); None when it is neither."""
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return None
    host = match["six"] or match["name"]
    return host.lower(), int(match["port"] or 80)


def _is_own_host(hosts: Sequence[str]) -> bool:
    """Exactly one Host, and it is an IP address or `localhost`, with or without a port."""
    authority = _authority(hosts[0]) if len(hosts) == 1 else None
    if authority is None:
        return False
    name = authority[0]
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_own_origin(origins: Sequence[str], hosts: Sequence[str]) -> bool:
    """No Origin, or the one of the page that this Host serves. `null` (a sandboxed or local page) is foreign."""
    if not origins:
        return True
    scheme, _, rest = origins[0].partition("://")
    own = _authority(hosts[0])
    return len(origins) == 1 and scheme.lower() == "http" and own is not None and _authority(rest) == own
