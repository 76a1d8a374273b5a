"""The closed set of outcomes and the decision between them (semantics section 3). Pure.

The first cause wins, with two exceptions that are written there: a transfer cut short outranks an in-band error, and
after end evidence nothing that ends the transfer matters any more.
"""

import msgspec

from exporter.core.ending import Ending
from exporter.core.signals import InBandError

OK = "ok"
OUTCOMES = (
    OK,
    "client_error",
    "rejected",
    "upstream_error",
    "connect_failed",
    "timeout",
    "truncated",
    "stream_error",
    "client_abort",
    "proxy_error",
    "proxy_shutdown",
)

# What a transport fact means during a 2xx or 3xx answer when the body shows nothing else.
BY_ENDING: dict[Ending, str] = {
    Ending.COMPLETE: OK,
    Ending.CUT: "truncated",
    Ending.CLIENT_LEFT: "client_abort",
    Ending.NO_HEAD: "upstream_error",
    Ending.CONNECT_FAILED: "connect_failed",
    Ending.TIMEOUT: "timeout",
    Ending.REFUSED: "client_error",
    Ending.LIMIT: "proxy_error",
    Ending.FAULT: "proxy_error",
    Ending.SHUTDOWN: "proxy_shutdown",
}
# Before a response head there is no transfer that could be complete or cut.
_HEADLESS = {**BY_ENDING, Ending.COMPLETE: "upstream_error", Ending.CUT: "upstream_error"}
# A tunnel has no end of its own: whoever closes it, it is done.
_TUNNEL = {**BY_ENDING, Ending.CUT: OK, Ending.CLIENT_LEFT: OK}
# Endings that change nothing once end evidence was read.
_HARMLESS = frozenset((Ending.COMPLETE, Ending.CUT, Ending.CLIENT_LEFT, Ending.TIMEOUT, Ending.SHUTDOWN))

FAILED_FINISHES = frozenset(("abort", "error"))


class Evidence(msgspec.Struct, frozen=True):
    """What the body of an answer showed."""

    needs_end: bool = False  # a stream whose dialect is read: a clean end of the transfer is not enough
    ended: bool = False  # end evidence was read
    error: str | None = None  # the outcome its first in-band error stands for


NO_EVIDENCE = Evidence()


def decide(ending: Ending, status: int | None, evidence: Evidence) -> str:
    """Give the outcome; `status` is None when there was no final response head."""
    if status is None:
        return _HEADLESS[ending]
    if status == 101:
        return _TUNNEL[ending]
    if status >= 400:
        return of_status(status)
    if evidence.error is not None:
        return "truncated" if ending is Ending.CUT and not evidence.ended else evidence.error
    if evidence.ended and ending in _HARMLESS:
        return OK
    if evidence.needs_end and ending is Ending.COMPLETE:
        return "truncated"
    return BY_ENDING[ending]


def of_status(status: int) -> str:
    """Give the outcome of a status of 400 and above."""
    if status in (429, 503):
        return "rejected"
    return "client_error" if status < 500 and status != 408 else "upstream_error"


def of_error(error: InBandError, after_token: bool) -> str:
    """Give the outcome of an in-band error: engines refuse streams with a code, before any token."""
    code = error.code
    if after_token or code is None or not 400 <= code < 600:
        return "stream_error"
    outcome = of_status(code)
    return outcome if outcome != "upstream_error" else "stream_error"
