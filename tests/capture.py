"""The captures of real engines as values: request, reads with their times, and how the exchange ended.

See tests/captures/README.md for what the files hold.
"""

import base64
import json
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tests.http_bytes import parse

FOLDER = Path(__file__).parent / "captures"


@dataclass(frozen=True, slots=True)
class Piece:
    """One read of the capture: its bytes and when it came, ns after the request's last byte was written."""

    data: bytes
    at: int


@dataclass(frozen=True, slots=True)
class Capture:
    """One recorded exchange."""

    engine: str
    name: str
    request: bytes
    pieces: tuple[Piece, ...]

    @property
    def key(self) -> str:
        """`engine/name`: how tests and the replay engine call it."""
        return f"{self.engine}/{self.name}"

    @property
    def raw(self) -> bytes:
        """The whole answer as it came."""
        return b"".join(piece.data for piece in self.pieces)

    @property
    def ends(self) -> tuple[int, ...]:
        """For each piece, how many bytes of the answer had come by its end."""
        return tuple(accumulate(len(piece.data) for piece in self.pieces))

    @property
    def complete(self) -> bool:
        """Whether the answer is whole by its framing; if not, the client left."""
        return parse(self.raw, response=True)[-1].complete

    @property
    def closes(self) -> bool:
        """Whether the engine said that it would close the connection after the answer."""
        return b"close" in parse(self.raw, response=True)[-1].values(b"connection")


def load(key: str) -> Capture:
    """The capture `engine/name`. FileNotFoundError if there is none."""
    engine, name = key.split("/")
    reads = json.loads((FOLDER / engine / f"{name}.json").read_text())
    pieces = tuple(Piece(base64.b64decode(read["data_base64"], validate=True), read["t_ns"]) for read in reads)
    return Capture(engine, name, (FOLDER / engine / f"{name}.request").read_bytes(), pieces)


def keys() -> list[str]:
    """All captures, as `engine/name`, sorted."""
    return sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.json"))
