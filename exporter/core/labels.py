"""Bounded label values: the route of a path, and which model names are let in (semantics section 6).

A client chooses paths and model names, so neither may become a label unbounded. A view escapes what stands here.
"""

import re
from collections.abc import Iterable

from exporter.names import GENERATING_ROUTES, OTHER, ROUTES

# Longer names are no model ids; they would only fill a scrape.
MODEL_NAME_LIMIT = 256

_ROUTES = {route.encode(): route for route in ROUTES}
_ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_TRITON = re.compile(rb"/v2/models/.+/generate(_stream)?")


def path_of(target: bytes) -> bytes:
    """Give the path of a request target, without query; that of an absolute-form target too."""
    absolute = _ABSOLUTE.match(target)
    return (target[absolute.end() :] if absolute else target).partition(b"?")[0]


def route_of(path: bytes) -> str:
    """Give the `route` label."""
    return _ROUTES.get(path, OTHER)


def generates(path: bytes) -> bool:
    """Whether a POST to this path asks for inference."""
    return route_of(path) in GENERATING_ROUTES or _TRITON.fullmatch(path) is not None


def streams_by_default(path: bytes) -> bool:
    """Whether an answer is a stream when the request does not say (semantics section 4)."""
    return path in (b"/api/chat", b"/api/generate") or path.endswith(b"_stream")


def speaks_lines(path: bytes) -> bool:
    """Whether the streams of this path are lines of JSON (Ollama), not events."""
    return path in (b"/api/chat", b"/api/generate")


class Models:
    """The values of the `model` label: the allow-list from the start, then the first names answered 2xx."""

    __slots__ = ("_cap", "_known")

    def __init__(self, allow: Iterable[str], cap: int) -> None:
        """Know the allow-list; let names in until `cap` are known. `other` is always one more."""
        self._known = set(allow)
        self._cap = cap

    def label(self, name: str | None, answered: bool) -> tuple[str, bool]:
        """Give the label of a request and whether the cap made it `other`; `answered`: with a 2xx head."""
        if name is None:
            return OTHER, False
        if name in self._known or name == OTHER:
            return name, False
        if not answered:
            return OTHER, False
        if len(self._known) >= self._cap:
            return OTHER, True
        self._known.add(name)
        return name, False
