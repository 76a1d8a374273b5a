"""How long reading from the engine was paused for a slow client: taken out of what is judged (semantics section 2)."""


class Hold:
    """Held time of one exchange, in ns."""

    __slots__ = ("_since", "_total", "any")

    def __init__(self) -> None:
        """Begin with reading going on."""
        self.any = False  # there was some, or is now: spares the usual chunk the rest
        self._total = 0
        self._since: int | None = None

    @property
    def now(self) -> bool:
        """Whether reading is paused at this moment."""
        return self._since is not None

    def begin(self, now: int) -> None:
        """Reading pauses."""
        if self._since is None:
            self._since = now
            self.any = True

    def end(self, now: int) -> None:
        """Reading goes on."""
        self._total = self.until(now)
        self._since = None

    def until(self, now: int) -> int:
        """Held time from the beginning until `now`."""
        return self._total if self._since is None else self._total + now - self._since
