"""Request and response heads: llhttp (strict) judges them, hop-by-hop fields go, all else passes on as it came.

Pure: bytes in, values out. Lines are kept raw, so order, case, spacing and duplicates survive. RFC 9110, RFC 9112.
"""

from typing import NamedTuple

import httptools

from exporter.core.media import values
from exporter.relay.extent import Chunked, Extent, Length, UntilClose

Fields = list[tuple[bytes, bytes]]

# RFC 9110 section 7.6.1, and the older proxy fields. Transfer-Encoding and Trailer stay: framing goes on as it came.
_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"upgrade",
    )
)
# Naming one of these in `Connection` must not remove it: that would change where the message ends or whom it is for.
_NEVER_HOP = frozenset((b"content-length", b"transfer-encoding", b"host", b"trailer"))


class HeadError(Exception):
    """A head that can't be relayed. `reason` is a label of `relay_refused_total`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RequestHead(NamedTuple):
    """A request head. `target` is in origin form (or `*`); `lines` are its raw field lines."""

    method: str
    target: bytes
    http10: bool
    headers: Fields
    lines: list[bytes]
    options: frozenset[bytes]  # the tokens of `Connection`, in lower case
    upgrade: bool  # asks for a protocol we tunnel
    keep_alive: bool

    def onward(self, own_host: bytes, preserve_host: bool) -> bytes:
        """Return the head for the engine. `own_host` is used where the client gave none, or its own is not kept."""
        lines = [b"%b %b HTTP/1.1" % (self.method.encode(), self.target)]
        hosts = 0
        for (name, _), line in zip(self.headers, self.lines, strict=True):
            key = name.lower()
            if key == b"host":
                hosts += 1
                lines.append(line if preserve_host else b"Host: " + own_host)
            elif not _is_hop(key, self.options):
                lines.append(line)
        if not hosts:
            lines.append(b"Host: " + own_host)
        if self.upgrade:
            lines += _upgrade_lines(self.headers)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def extent(self) -> Extent:
        """Return where the request's body ends. HeadError for every shape two parsers could read differently."""
        lengths = values(self.headers, b"content-length")
        codings = values(self.headers, b"transfer-encoding")
        if codings:
            if lengths:
                raise HeadError("framing", "both Content-Length and Transfer-Encoding")
            if self.http10 or len(codings) > 1 or codings[0].strip(b" \t").lower() != b"chunked":
                raise HeadError("transfer_encoding", "Transfer-Encoding must be chunked, once, in HTTP/1.1")
            return Chunked()
        return Length(_length(lengths) or 0)


class ResponseHead(NamedTuple):
    """A response head; `lines` are its raw field lines, `start` its status line."""

    status: int
    start: bytes
    headers: Fields
    lines: list[bytes]
    options: frozenset[bytes]
    keep_alive: bool

    @property
    def final(self) -> bool:
        """Whether no other head of this answer follows."""
        return self.status >= 200 or self.status == 101

    @property
    def promises_what_it_may_not_have(self) -> bool:
        """Whether a 204 claims a body: what may follow would be read as the next answer."""
        lengths = [length for length in values(self.headers, b"content-length") if length != b"0"]
        return self.status == 204 and bool(lengths or values(self.headers, b"transfer-encoding"))

    def onward(self, without_framing: bool = False) -> bytes:
        """Return the head for the client; a 101 keeps its upgrade, and a 204 always goes `without_framing` fields."""
        kept = [self.start]
        for (name, _), line in zip(self.headers, self.lines, strict=True):
            key = name.lower()
            framing = key in (b"content-length", b"transfer-encoding", b"trailer")
            if not _is_hop(key, self.options) and not (framing and (without_framing or self.status == 204)):
                kept.append(line)
        if self.status == 101:
            kept += _upgrade_lines(self.headers)
        return b"\r\n".join(kept) + b"\r\n\r\n"

    def extent(self, method: str) -> Extent:
        """Return where the answer to a request of `method` ends. HeadError when that is ambiguous."""
        if method == "HEAD" or self.status in (204, 304) or self.status < 200:
            return Length(0)
        lengths = values(self.headers, b"content-length")
        codings = values(self.headers, b"transfer-encoding")
        if codings:
            if lengths:
                raise HeadError("framing", "both Content-Length and Transfer-Encoding")
            last = codings[-1].rpartition(b",")[2].strip(b" \t").lower()
            return Chunked() if last == b"chunked" else UntilClose()
        length = _length(lengths)
        return UntilClose() if length is None else Length(length)


def read_request(raw: bytes) -> RequestHead:
    """Parse a whole request head, blank line included. HeadError says what is wrong."""
    start, lines = _split(raw)
    parts = start.split(b" ")
    _check_request_line(parts)
    target = _origin_form(parts[1])
    parser = httptools.HttpRequestParser(seen := _Seen())
    _judge(parser, raw)
    options = _options(seen.headers)
    http10 = parts[2] == b"HTTP/1.0"
    hosts = len(values(seen.headers, b"host"))
    if hosts > 1 or (not hosts and not http10):
        raise HeadError("host", f"expected one Host field, got {hosts}")
    upgrades = [value.strip().lower() for value in values(seen.headers, b"upgrade")]
    return RequestHead(
        method=parts[0].decode(),
        target=target,
        http10=http10,
        headers=seen.headers,
        lines=lines,
        options=options,
        upgrade=b"upgrade" in options and len(upgrades) == 1 and upgrades[0] != b"h2c" and not http10,
        keep_alive=not http10 and b"close" not in options,
    )


def read_response(raw: bytes) -> ResponseHead:
    """Parse a whole response head, blank line included. HeadError when it is no HTTP/1.x."""
    start, lines = _split(raw)
    parser = httptools.HttpResponseParser(seen := _Seen())
    _judge(parser, raw)
    options = _options(seen.headers)
    http10 = start.startswith(b"HTTP/1.0")
    return ResponseHead(
        status=parser.get_status_code(),
        start=start,
        headers=seen.headers,
        lines=lines,
        options=options,
        keep_alive=b"close" not in options and (not http10 or b"keep-alive" in options),
    )


class _Seen:
    """What llhttp calls back with; only the fields are kept."""

    def __init__(self) -> None:
        self.headers: Fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))


def _judge(parser: httptools.HttpRequestParser | httptools.HttpResponseParser, raw: bytes) -> None:
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserInvalidMethodError as error:
        raise HeadError("method", "unknown method") from error
    except httptools.HttpParserError as error:
        raise HeadError("malformed_head", str(error)) from error


def _split(raw: bytes) -> tuple[bytes, list[bytes]]:
    """Return the start line and the raw field lines; folded lines and stray CR or LF are refused."""
    start, *lines = raw[:-4].split(b"\r\n")
    for line in (start, *lines):
        if b"\r" in line or b"\n" in line or b"\0" in line or line[:1] in (b" ", b"\t", b""):
            raise HeadError("malformed_head", "a line of the head is folded, empty, or holds a stray CR, LF or NUL")
    return start, lines


def _check_request_line(parts: list[bytes]) -> None:
    if len(parts) != 3:
        raise HeadError("malformed_head", "expected: method, one space, target, one space, version")
    if parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise HeadError("version", "expected HTTP/1.1 or HTTP/1.0")
    if parts[0] == b"CONNECT":
        raise HeadError("method", "CONNECT is not offered")
    if not all(0x21 <= byte <= 0x7E for byte in parts[1]):
        raise HeadError("target", "the target holds bytes that are not visible ASCII")


def _origin_form(target: bytes) -> bytes:
    """Return the target in origin form; an absolute one loses scheme and authority, whoever they name."""
    if target[:1] == b"/" or target == b"*":
        return target
    scheme, colon, rest = target.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https"):
        raise HeadError("target", "expected a target that starts with / or http://")
    cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    path = rest[cut:]
    return path if path[:1] == b"/" else b"/" + path


def _options(headers: Fields) -> frozenset[bytes]:
    named = b",".join(values(headers, b"connection"))
    return frozenset(token.strip(b" \t").lower() for token in named.split(b",")) if named else frozenset()


def _is_hop(key: bytes, options: frozenset[bytes]) -> bool:
    return key in _HOP_BY_HOP or (key in options and key not in _NEVER_HOP)


def _upgrade_lines(headers: Fields) -> list[bytes]:
    return [b"Connection: Upgrade"] + [b"Upgrade: " + value for value in values(headers, b"upgrade")]


def _length(lengths: list[bytes]) -> int | None:
    """Return the one stated length, `None` when there is none. HeadError when it is doubtful."""
    if not lengths:
        return None
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise HeadError("framing", "expected one Content-Length of at most 18 digits")
    return int(lengths[0])
