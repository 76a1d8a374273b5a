"""The answers the sidecar makes itself: JSON errors, in the shape OpenAI clients understand. Pure."""

import json
from http import HTTPStatus

from exporter.core.ending import Ending

# What the client gets when an exchange ends before a response head: status, and the outcome its error type names.
_ANSWERS = {
    Ending.NO_HEAD: (502, "upstream_error"),
    Ending.CONNECT_FAILED: (502, "connect_failed"),
    Ending.TIMEOUT: (504, "timeout"),
    Ending.REFUSED: (400, "client_error"),
    Ending.LIMIT: (503, "proxy_error"),
    Ending.FAULT: (500, "proxy_error"),
    Ending.SHUTDOWN: (503, "proxy_shutdown"),
}
# Refusals that have a status of their own; all others are 400.
_REFUSAL_STATUS = {"head_too_large": 431, "version": 505}


def answer(ending: Ending, message: str, reason: str = "", bodiless: bool = False) -> bytes:
    """Return a whole response for `ending`; it closes the connection. `bodiless` answers a HEAD request."""
    status, outcome = _ANSWERS[ending]
    status = _REFUSAL_STATUS.get(reason, status)
    body = json.dumps({"error": {"message": message, "type": f"stallwatch_{outcome}", "code": status}}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Server: stallwatch\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bodiless else body)
