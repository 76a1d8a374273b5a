"""What one event of a stream means: frozen values that a dialect gives and a timeline takes.

A dialect never raises: what it cannot read is a signal too (`unparsed`).
"""

import msgspec

# What an event brings the client. An event with both is ANSWER.
NOTHING = 0
REASONING = 1
ANSWER = 2


class Part(msgspec.Struct, frozen=True, gc=False):
    """What one event says of one choice."""

    index: int = 0
    token: int = NOTHING
    finish: str | None = None  # the finish reason; None: not finished by this event
    token_ids: int | None = None  # how many token ids it lists; None: it lists none


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counts as the engine reports them; None: not reported."""

    prompt: int | None = None
    output: int | None = None
    per_choice: bool = False  # `output` is the running count of the event's one choice, else of the whole request


class InBandError(msgspec.Struct, frozen=True, gc=False):
    """An error inside the body; `code` is its HTTP-like code, None when it has none."""

    code: int | None = None


class Signal(msgspec.Struct, frozen=True, gc=False):
    """The meaning of one event."""

    token: int = NOTHING  # the most that any of its parts brings
    parts: tuple[Part, ...] = ()
    usage: Usage | None = None
    error: InBandError | None = None
    end: bool = False  # the dialect's end marker
    unparsed: str | None = None  # why the event could not be read: a reason of `unparsed_events_total`
    invalid: tuple[str, ...] = ()  # why token counts are left out: reasons of `invalid_samples_total`


# By far the most common events, shared: they are frozen, and a chunk then costs no allocation.
SILENT = Signal()
END = Signal(end=True)
ANSWER_PART = Part(0, ANSWER)
ONE_ANSWER = Signal(ANSWER, (ANSWER_PART,))
ONE_REASONING = Signal(REASONING, (Part(0, REASONING),))
NOT_JSON = Signal(unparsed="json")
BAD_SHAPE = Signal(unparsed="shape")
