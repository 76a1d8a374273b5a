"""What the core is told once, at start: classes, label values, bounds, and its own version."""

from dataclasses import dataclass

from exporter.core.classes import DEFAULT_CLASS, SloClass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Frozen settings of the core. The last class is the default; bounds are bytes."""

    classes: tuple[SloClass, ...] = (DEFAULT_CLASS,)
    model_allow: tuple[str, ...] = ()  # label values of `model` from the start
    model_cap: int = 20  # how many names `model` may take beside `other`, the allow-list included
    event_limit: int = MIB  # one event, or one whole JSON answer, is kept up to this
    request_tap: int = MIB  # a request body is kept up to this
    version: str = ""
    python: str = ""

    @property
    def default_class(self) -> SloClass:
        """The class of a request that no rule matches."""
        return self.classes[-1]
