"""Which dialect an answer is in: one literal table from path and body form.

A dialect is a framing and a reader of its frames. What stands in no row is `other`: relayed, its tokens unknown, its
outcome told by the transport alone. A new API is one file here and its rows below.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from exporter.core.dialects import openai_chat, openai_completions
from exporter.core.framing import Document, EventStream, Frame
from exporter.core.media import Form
from exporter.core.signals import Signal


class Framing(Protocol):
    """Cuts a body into frames; counts the events it had to drop for their size."""

    oversized: int

    def feed(self, data: bytes) -> Sequence[Frame]:
        """Give the frames that this read completes."""

    def finish(self, clean: bool) -> Sequence[Frame]:
        """Give what the end of the body completes."""


class Dialect(NamedTuple):
    """How one API's answers are read: `framing(limit)` makes the reader of one body."""

    framing: Callable[[int], Framing]
    read: Callable[[Frame], Signal]


DIALECTS: dict[tuple[str, Form], Dialect] = {
    ("/v1/chat/completions", Form.EVENTS): Dialect(EventStream, openai_chat.read),
    ("/v1/chat/completions", Form.JSON): Dialect(Document, openai_chat.read),
    ("/v1/completions", Form.EVENTS): Dialect(EventStream, openai_completions.read),
    ("/v1/completions", Form.JSON): Dialect(Document, openai_completions.read),
}
