"""What the text of an option means: each reader returns the value, or says in one phrase what was expected.

A reader is also given the option's default, which already is a value.
"""

import re
from decimal import Decimal, InvalidOperation

import typer

_WHOLE = re.compile(r"[0-9]{1,15}")


def count(text: str | int) -> int:
    """A whole number of at least 1."""
    value = _whole(text)
    if value is None or value < 1:
        raise typer.BadParameter(f"expected a whole number of at least 1, got {text!r}")
    return value


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers of at least 1, separated by commas."""
    try:
        return tuple(count(part) for part in text.split(","))
    except typer.BadParameter:
        expected = "whole numbers of at least 1 separated by commas"
        raise typer.BadParameter(f"expected {expected}, got {text!r}") from None


def count_list(text: str) -> str:
    """The text itself, once `counts` can read it."""
    counts(text)
    return text


def port(text: str | int) -> int:
    """A TCP port from 0 to 65535; 0 lets the system choose."""
    value = _whole(text)
    if value is None or value > 65_535:
        raise typer.BadParameter(f"expected a port from 0 to 65535, got {text!r}")
    return value


def milliseconds(text: str | float) -> float:
    """A number of milliseconds of at least 0."""
    value = _number(text)
    if value is None or not 0 <= value <= 10**9:
        raise typer.BadParameter(f"expected a number of milliseconds of at least 0, got {text!r}")
    return float(value)


def seconds(text: str | float) -> float:
    """A number of seconds above 0."""
    value = _number(text)
    if value is None or not 0 < value <= 10**9:
        raise typer.BadParameter(f"expected a number of seconds above 0, got {text!r}")
    return float(value)


def nanoseconds(ms: float) -> int:
    """Milliseconds as int ns, the unit inside."""
    return round(ms * 1_000_000)


def _whole(text: str | int) -> int | None:
    text = str(text).strip()
    return int(text) if _WHOLE.fullmatch(text) else None


def _number(text: str | float) -> Decimal | None:
    try:
        value = Decimal(str(text).strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
