"""What the engine reports of a whole request: token counts, and the TPOT that follows from them (semantics section 2).

The last reported value wins; a request-level count overrides per-choice ones, which are summed. Unknown is None.
"""

from collections.abc import Sequence

from exporter.core.choice import Choice
from exporter.core.figures import ClassFigures
from exporter.core.signals import Usage


class Tally:
    """Token counts of one exchange."""

    __slots__ = ("output", "prompt")

    def __init__(self) -> None:
        """Begin with nothing reported."""
        self.prompt: int | None = None
        self.output: int | None = None  # of the whole request

    def take(self, usage: Usage, whole: bool) -> None:
        """Take a report; `whole`: the body is one document, so its count is the request's whatever its choices."""
        if usage.prompt is not None:
            self.prompt = usage.prompt
        if usage.output is not None and (whole or not usage.per_choice):
            self.output = usage.output


def count_tokens(figures: ClassFigures, tally: Tally, choices: Sequence[Choice], expected: bool) -> None:
    """Count the tokens of an exchange at its end; `expected`: it ended well with output, so a count should be known."""
    if tally.prompt is not None:
        figures.prompt_tokens += tally.prompt
    output = output_tokens(tally.output, choices)
    if output is not None:
        figures.output_tokens += output
    elif expected:
        figures.without_usage += 1
    tpot = time_per_output_token(tally.output, choices)
    if tpot is not None:
        figures.tpot.observe(tpot)


def output_tokens(reported: int | None, choices: Sequence[Choice]) -> int | None:
    """Give the output tokens of a request: as reported for it, else the sum over its choices, where all are known."""
    if reported is not None:
        return reported
    counts = [choice.tokens for choice in choices if choice.first is not None or choice.tokens is not None]
    known = [tokens for tokens in counts if tokens is not None]
    return sum(known) if known and len(known) == len(counts) else None


def time_per_output_token(reported: int | None, choices: Sequence[Choice]) -> int | None:
    """(last token - first token) / (output tokens - 1) in ns, held time taken out.

    None below 2 tokens and when unknown; of several choices the largest, where each one's own count is known.
    """
    timed = [choice for choice in choices if choice.first is not None]
    if len(choices) == 1:
        tokens = output_tokens(reported, choices)
        return _tpot(choices[0], tokens) if timed else None
    counts = [choice.tokens for choice in timed]
    if None in counts:
        return None
    each = [_tpot(choice, tokens) for choice, tokens in zip(timed, counts, strict=True)]
    return max((tpot for tpot in each if tpot is not None), default=None)


def _tpot(choice: Choice, tokens: int | None) -> int | None:
    if tokens is None or tokens < 2 or choice.first is None:
        return None
    took = choice.last - choice.first - choice.held_last + choice.held_first
    return -(-took // (tokens - 1))  # rounded up: a value above an edge must not land on it
