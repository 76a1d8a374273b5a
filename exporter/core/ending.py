"""How the relay says that an exchange's transfer ended: facts of the transport, not yet an outcome.

The core turns an ending, the status and what the stream said into one outcome of the closed set (semantics section 3).
"""

from enum import Enum


class Ending(Enum):
    """The transport fact that ended an exchange; the first one wins."""

    COMPLETE = (
        "complete"  # the answer ended where its framing said (or at EOF when delimited by close; or a tunnel closed)
    )
    CUT = "cut"  # the engine's connection ended after a response head, before the answer's framing said so
    CLIENT_LEFT = "client_left"  # FIN or RST from the client before the answer was complete
    NO_HEAD = "no_head"  # the engine closed, or sent what is no HTTP, before a final response head (client got 502)
    CONNECT_FAILED = "connect_failed"  # refused, unreachable, name not found (client got 502)
    TIMEOUT = "timeout"  # connecting, head, idle or total limit (client got 504, or the transfer was cut)
    REFUSED = "refused"  # the sidecar refused the request as malformed or too large in its head (client got 4xx)
    LIMIT = "limit"  # the sidecar's own limit on connections (client got 503)
    FAULT = "fault"  # the sidecar's own mistake
    SHUTDOWN = "shutdown"  # cut at the end of the drain, or a new request during it (client got 503)
