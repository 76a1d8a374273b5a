"""Keep a fault of ours from the relay: a call that fails switches its object off instead of raising."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Fallible(Protocol):
    """What can be switched off by a fault of its own."""

    off: bool  # hears nothing any more

    def fault(self, reason: str) -> None:
        """Count the fault and switch off; `reason` is the call it came up in."""


S = TypeVar("S", bound=Fallible)
P = ParamSpec("P")


def guarded(method: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """Make a method do nothing when its object is off, and never raise."""
    reason = method.__name__

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.off:
            return
        try:
            method(self, *args, **kwargs)
        except Exception:
            self.fault(reason)

    call.__doc__ = method.__doc__
    return call
