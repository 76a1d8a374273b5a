"""One choice of a stream: its stamps and its own token count. Written by the timeline only.

Token counts are those the engine reports for this choice: running usage, else the token ids listed so far.
"""


class Choice:
    """Stamps in ns of the exchange's clock; None: not observed."""

    __slots__ = (
        "counted",
        "failed",
        "finished",
        "first",
        "held_first",
        "held_last",
        "ids",
        "ids_missing",
        "last",
        "mark",
        "open",
        "pending",
        "stalled",
        "usage",
    )

    def __init__(self) -> None:
        """Begin a choice that was named but has brought no token."""
        self.first: int | None = None
        self.last = 0  # the last token-bearing read; meaningless before `first`
        self.held_first = 0  # held time of the exchange until `first`, and until `last`
        self.held_last = 0
        self.open = False  # has a token, and neither finish nor end marker since
        self.finished = False  # a finish reason was read
        self.failed: int | None = None  # an error ended the silence after `last`: its length, 0 if it held held time
        self.stalled: int | None = None  # what was counted of the silence after `last`, before a token ended it
        self.ids = 0
        self.ids_missing = False  # a token-bearing event came without ids: their sum is no count
        self.usage: int | None = None
        self.mark: int | None = None  # the count at the last arrival
        self.counted = False  # `mark` is that of the very last arrival, none lies between
        self.pending = 0  # the gap of the arrival under way, until its tokens are known

    @property
    def tokens(self) -> int | None:
        """Output tokens of this choice; None: unknown."""
        if self.usage is not None:
            return self.usage
        if self.ids and not self.ids_missing:
            return self.ids
        return None
