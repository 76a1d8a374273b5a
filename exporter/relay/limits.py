"""The relay's limits and time-outs: one frozen value, made by app from the settings."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds; a time of `None` means no limit."""

    head: int = 64 * KIB  # a request or response head
    pipelined: int = 64 * KIB  # bytes of later requests that wait for the answer before them
    stream_buffer: int = MIB  # unsent bytes for one slow client; beyond it reading from the engine pauses
    upload_buffer: int = 256 * KIB  # unsent request bytes; beyond it reading from the client pauses
    retry_body: int = MIB  # a request is kept whole up to this size for one retry
    connections: int = 10_000
    connect: float = 5.0
    client_head: float = 30.0  # a request head has this long from its first byte
    client_idle: float = 75.0  # a kept-alive client connection between requests
    upstream_idle: float = 3.0  # a kept-alive engine connection; uvicorn closes its own after 5 s
    idle: float | None = None  # silence of the engine, in bytes, comments included
    total: float | None = None  # a whole exchange
    drain: float | None = 600.0
    retry_window: float = 0.1  # a reused connection that closed sooner than this after the request was stale
    linger: float = 2.0  # how long unread request bytes are taken in after an early answer
