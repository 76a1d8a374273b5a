"""Frames, signals and every figure but stamps depend on a body, never on where its reads were cut."""

import random

from hypothesis import given
from hypothesis import strategies as st

from exporter.core.dialects import DIALECTS
from exporter.core.media import Form
from exporter.core.signals import Signal
from tests.core.drive import (
    COMPLETIONS,
    DONE,
    FIN,
    ROLE,
    USAGE,
    C,
    board,
    delta,
    event,
    ids,
    ns,
    outcomes,
    running,
    samples,
    stream,
)

EVENTS = [
    ROLE,
    C("a"),
    C("\u2028é", 1),
    delta('"reasoning":"r"'),
    ids("x", 1, 2),
    running("y", 3),
    FIN(),
    FIN(1),
    USAGE(4),
    DONE,
    event('{"choices":[{"index":0,"text":"t","finish_reason":null}]}'),
    event('{"error":{"code":503}}'),
    b": ping\n\n",
    b"data:\n\n",
    b"event: error\ndata: x\n\n",
    b"data: {\n\n",
    b"data: null\n\n",
]
BODIES = st.lists(st.sampled_from(EVENTS), max_size=12).map(b"".join)
NEWLINES = st.sampled_from([b"\n", b"\r\n", b"\r"])


def recut(body: bytes, rng: random.Random) -> list[bytes]:
    cuts = sorted(rng.sample(range(len(body) + 1), min(len(body), rng.randrange(12))))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def signals(path: str, reads: list[bytes]) -> list[Signal]:
    dialect = DIALECTS[path, Form.EVENTS]
    framing = dialect.framing(1000)
    frames = [frame for read in reads for frame in framing.feed(read)]
    return [dialect.read(frame) for frame in [*frames, *framing.finish(True)]]


@given(BODIES, NEWLINES, st.randoms(use_true_random=False))
def test_frames_and_signals(body: bytes, newline: bytes, rng: random.Random) -> None:
    body = body.replace(b"\n", newline)
    for path in ("/v1/chat/completions", "/v1/completions"):
        whole = signals(path, [body])
        assert signals(path, recut(body, rng)) == whole
        assert signals(path, [body[i : i + 1] for i in range(len(body))]) == whole


@given(BODIES, st.sampled_from([b"/v1/chat/completions", COMPLETIONS]), st.randoms(use_true_random=False))
def test_figures_that_are_no_stamps(body: bytes, path: bytes, rng: random.Random) -> None:
    counted = []
    for reads in ([body], recut(body, rng)):
        on = board()
        stream(on, [(1, read) for read in reads], 1, path=path)
        names = ("output_events_total", "output_tokens_total", "prompt_tokens_total", "unparsed_events_total")
        counted.append((outcomes(on), [samples(on, name, ns(1)) for name in names]))
    assert counted[0] == counted[1]
