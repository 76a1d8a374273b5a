"""One exchange as the relay tells it: from its head to its end, in order. Nothing here ever raises at the relay.

A fault of ours switches the tap off for that exchange and is counted; the exchange still leaves the in-flight gauges
and gets an outcome, from the facts of the transport alone. `feed` is the hot path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.core import media
from exporter.core.body import Body
from exporter.core.dialects import DIALECTS
from exporter.core.ending import Ending
from exporter.core.guard import guarded
from exporter.core.hold import Hold
from exporter.core.labels import generates, path_of, route_of, speaks_lines, streams_by_default
from exporter.core.media import Form, Headers
from exporter.core.outcome import NO_EVIDENCE, OK, decide
from exporter.core.request import UNKNOWN, Fields, RequestTap
from exporter.core.tally import count_tokens
from exporter.core.timeline import Timeline
from exporter.names import OTHER

if TYPE_CHECKING:
    from exporter.core.aggregates import Board
    from exporter.core.figures import ClassFigures


class Tap:
    """The measurement of one exchange. Stamps are ns of the relay's monotonic clock; None: not observed."""

    __slots__ = (
        "_arrived",
        "_board",
        "_body",
        "_closed",
        "_complete",
        "_connect_took",
        "_fields",
        "_figures",
        "_hold",
        "_inference",
        "_late",
        "_path",
        "_received",
        "_request",
        "_route",
        "_slo_class",
        "_status",
        "_timeline",
        "id",
        "off",
        "stream_expected",
    )

    def __init__(self, board: Board, ident: int, arrived: int) -> None:
        """Begin; `arrived` is when the request head was complete."""
        self.id = ident
        self.off = False  # after a fault, and after the end
        self.stream_expected = False
        self._board = board
        self._arrived = arrived
        self._path = b""
        self._route = OTHER
        self._inference = False
        self._late = False  # a POST to an unknown path: inference if its answer turns out to be a stream
        self._slo_class = board.config.default_class  # rules that choose have their own issue
        self._request: RequestTap | None = None
        self._fields: Fields = UNKNOWN
        self._figures: ClassFigures | None = None  # None: labels are not fixed yet
        self._received: int | None = None
        self._complete = False  # the whole request body is here
        self._hold = Hold()
        self._connect_took: int | None = None
        self._status: int | None = None
        self._body: Body | None = None
        self._timeline: Timeline | None = None  # of a stream whose dialect is read
        self._closed = False

    # What the relay tells

    @guarded
    def request(self, method: str, target: bytes, headers: Headers) -> None:
        """The request head; header names in their original case."""
        self._path = path = path_of(target)
        self._route = route_of(path)
        if method != "POST":
            return
        self._inference = generates(path)
        self._late = not self._inference and self._route == OTHER
        if self._inference:
            self._board.live[self.id] = self
        if (self._inference or self._late) and not media.encoded(headers):
            self._request = RequestTap(self._board.config.request_tap)

    @guarded
    def upload(self, data: bytes) -> None:
        """A piece of the request body, transfer framing removed."""
        if self._request is not None:
            self._request.feed(data)

    @guarded
    def received(self, now: int) -> None:
        """The last byte of the request was read."""
        self._receive(now, complete=True)

    @guarded
    def connected(self, now: int, took: int | None) -> None:  # noqa: ARG002 - the stamp itself is for the journal
        """An upstream connection is ready; `took` ns to open it, None when it was reused."""
        self._connect_took = took
        if took is not None and self._inference:
            self._board.connect.observe(took)

    @guarded
    def head(self, status: int, headers: Headers, now: int) -> None:
        """The final response head is complete (101 too)."""
        self._status = status
        answered = 200 <= status < 300
        if self._received is None:
            self._receive(now, complete=False)
        bodiless = not answered or status in (204, 205)
        form = Form.UNREAD if bodiless else media.form(headers, self.stream_expected, speaks_lines(self._path))
        streamed = form in media.STREAMS
        if self._late and streamed:
            self._become_inference()
        self.stream_expected = self._inference and streamed
        if not self._inference:
            self._request = None
            return
        self._board.headers.observe(now - (self._received or 0))
        self._fix_labels(answered)
        if not bodiless:
            self._begin_body(form, streamed, media.encoded(headers))

    def feed(self, data: bytes, now: int) -> None:
        """Body bytes of one read, transfer framing removed."""
        body = self._body
        if body is None:
            return
        try:
            body.feed(data, now)
        except Exception:
            self.fault("feed")

    @guarded
    def hold(self, now: int) -> None:
        """Reading from the engine pauses: the client is slow and its buffer full."""
        self._hold.begin(now)

    @guarded
    def release(self, now: int) -> None:
        """Reading goes on."""
        self._hold.end(now)
        if self._timeline is not None:
            self._timeline.resume()

    def blocked(self, duration: int) -> None:
        """There were unsent bytes for the client during `duration` ns; often known only after the end."""
        if self._inference:
            self._board.client_blocked[self._slo_class.name] += duration

    def close(self, now: int, ending: Ending) -> None:
        """The exchange is over; the first call wins."""
        if self._closed:
            return
        self._closed = True
        outcome = None
        try:
            if not self.off:
                outcome = self._conclude(now, ending)
        except Exception:
            self.fault("close")
        if outcome is None:
            outcome = decide(ending, self._status, NO_EVIDENCE)
        self._leave(outcome)

    def fault(self, reason: str) -> None:
        """Switch off: something here went wrong. Silences already open are watched no more."""
        self._board.tap_faults[reason] += 1
        self._switch_off()

    # What a view asks

    @property
    def slo_class(self) -> str:
        """The class; empty for what is no inference request."""
        return self._slo_class.name if self._inference else ""

    @property
    def phase(self) -> str:
        """`receiving` the request, `waiting` for a token, or `streaming`."""
        if self._received is None:
            return "receiving"
        return "streaming" if self._timeline is not None and self._timeline.first is not None else "waiting"

    def open_gap(self, now: int) -> int:
        """The silence under way in ns; 0 where there is none, or where a dialect is not read."""
        timeline = self._timeline
        if timeline is not None and timeline.first is not None:
            return 0 if self.off else timeline.open_gap(now)
        if self._received is None or (self._status is not None and timeline is None) or self.off:
            return 0
        return now - self._received - self._hold.until(now)

    # The parts of it

    def _receive(self, now: int, complete: bool) -> None:
        if self._received is not None:
            return
        self._received = now
        self._complete = complete
        if not self._inference:
            return
        self._board.receive.observe(now - self._arrived)
        self._read_request()
        stream = self._fields.stream
        self.stream_expected = streams_by_default(self._path) if stream is None else stream

    def _read_request(self) -> None:
        if self._request is not None:
            self._fields = self._request.fields(self._complete)
            self._request = None
        if self._fields.unread:
            self._board.unparsed["request"] += 1

    def _become_inference(self) -> None:
        """A POST to an unknown path turned out to be answered by a stream."""
        self._inference = True
        self._board.live[self.id] = self
        received = self._received or 0
        self._board.receive.observe(received - self._arrived)
        if self._connect_took is not None:
            self._board.connect.observe(self._connect_took)
        self._read_request()

    def _fix_labels(self, answered: bool) -> ClassFigures:
        """Fix the model label, once: at the response head, or at the end where there was none."""
        if self._figures is None:
            label, capped = self._board.models.label(self._fields.model, answered)
            self._board.label_values_capped += capped
            self._figures = self._board.figures_of(label, self._slo_class)
            self._board.outcomes(self._route, label, self._slo_class.name)
        return self._figures

    def _begin_body(self, form: Form, streamed: bool, encoded: bool) -> None:
        if encoded:
            # A coding that is not read: no token stamps, and said so (decoding has its own issue).
            self._board.unparsed["encoding"] += 1
            return
        dialect = DIALECTS.get((self._route, form))
        if dialect is None or self._figures is None or self._received is None:
            return
        if streamed:
            self._timeline = Timeline(
                self._received, self._hold, self._figures, self._fields.choices, self._board.deadlines.watch
            )
        self._body = Body(dialect, self._board.config.event_limit, self._timeline, self._board)

    def _conclude(self, now: int, ending: Ending) -> str:
        """Take the last events, decide the outcome, and count what is counted at the end."""
        body, timeline = self._body, self._timeline
        if body is not None:
            body.finish(ending is Ending.COMPLETE, now)
        evidence = body.evidence() if body is not None else NO_EVIDENCE
        outcome = decide(ending, self._status, evidence)
        if not self._inference:
            return outcome
        figures = self._fix_labels(answered=False)
        ended_at = timeline.ended_at if timeline is not None else None
        # What ended the transfer after end evidence is no part of the answer.
        closed = ended_at if outcome == OK and ending is not Ending.COMPLETE and ended_at is not None else now
        held = self._hold.until(closed)
        if timeline is not None:
            held = timeline.held(closed)
            timeline.close(closed, outcome == OK)
        if outcome == OK and self._received is not None:
            figures.duration.observe(closed - self._received - held)
        if body is not None:
            choices = timeline.choices if timeline is not None else []
            count_tokens(figures, body.tally, choices, expected=outcome == OK and body.has_output)
        return outcome

    def _switch_off(self) -> None:
        self.off = True
        self._body = None
        self._request = None
        timeline = self._timeline
        if timeline is not None:
            timeline.closed = True

    def _leave(self, outcome: str) -> None:
        """Out of the gauges, into `requests_total`."""
        self._board.live.pop(self.id, None)
        self._switch_off()
        if self._timeline is not None:
            self._board.deadlines.forget(self._timeline)
        model = self._figures.model if self._figures is not None else OTHER
        self._board.outcomes(self._route, model, self.slo_class)[outcome] += 1
