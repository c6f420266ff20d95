"""What was seen of one answer, whatever its framing: the facts of it that every way of looking leaves."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass, Exchange, Timeline, Traffic, Usage
from sidecar.inspection.dialects import Dialect
from sidecar.inspection.events import Reading
from sidecar.inspection.stamper import Stamper

FINISHES: Final = 8
"""Finish reasons kept of one answer: of real ones there are one or two, however many choices it has."""
NO_USAGE: Final = Usage()
_NOTHING_TOLD: Final = Reading(EventClass.ERROR)


class Seen:
    """The facts of one answer. Times are offsets from the exchange's anchor.

    terminal_seq: number of the event that marked the end in band. error: the reading of the first error event;
    refusal: that of a body of the status 400 or more.
    wasted_count: events that came after the reader had left. failure_count: times that looking failed, 0 or 1.
    has_id: an id is in force, which readers keep. has_reader_closed: the reader said in band that it is through.
    finish_reasons, usage: as the answer has them; of counts that come again, the last. request_alias: the upstream's
    own id of the request, as an event said it. is_mark_unsure: the event that marks the end may be missing for a good
    reason. is_blind: nothing is looked at any more, bytes are only counted. sent: the events of the other direction,
    from the reader to the upstream, None where there is none.
    """

    __slots__ = (
        "comment_count",
        "dataless_count",
        "dialect",
        "error",
        "failure_count",
        "finish_reasons",
        "framing",
        "has_id",
        "has_reader_closed",
        "has_tail",
        "is_blind",
        "is_mark_unsure",
        "is_stream",
        "model",
        "progress_ns",
        "refusal",
        "request_alias",
        "response_id",
        "sent",
        "size_bytes",
        "stamper",
        "terminal_seq",
        "usage",
        "wasted_count",
    )

    def __init__(
        self,
        *,
        framing: str,
        dialect: Dialect,
        is_stream: bool,
        stamper: Stamper | None = None,
        sent: Stamper | None = None,
    ) -> None:
        self.framing = framing
        self.dialect = dialect
        self.is_stream = is_stream
        self.is_blind = False
        self.is_mark_unsure = False
        self.stamper = Stamper() if stamper is None else stamper
        self.sent = sent
        self.size_bytes = 0
        self.comment_count = 0
        self.dataless_count = 0
        self.wasted_count = 0
        self.has_tail = False
        self.has_id = False
        self.has_reader_closed = False
        self.model: str | None = None
        self.response_id: str | None = None
        self.request_alias: str | None = None
        self.finish_reasons: tuple[str, ...] = ()
        self.usage = NO_USAGE
        self.error: Reading | None = None
        self.refusal: Reading | None = None
        self.terminal_seq: int | None = None
        self.progress_ns: int | None = None
        self.failure_count = 0

    @property
    def has_terminal_rule(self) -> bool:
        """The end is marked in band, and we have seen everything that could be the mark."""
        return self.dialect.has_terminal_rule and not (self.is_blind or self.is_mark_unsure)

    @property
    def lacks_mark(self) -> bool:
        """The end is marked in band, and neither the mark has come nor an error, after which none need come."""
        return self.has_terminal_rule and not self.is_over

    @property
    def counts(self) -> tuple[int, int]:
        """Events so far, towards the reader and from it."""
        return self.stamper.count, 0 if self.sent is None else self.sent.count

    @property
    def has_begun(self) -> bool:
        """Events came, or bytes of which nothing is known."""
        return any(self.counts) or (self.is_blind and self.size_bytes > 0)

    @property
    def has_event(self) -> bool:
        """An event came that is no mere sign of life, while somebody was there for it; or bytes came unseen."""
        return self.progress_ns is not None or (self.is_blind and self.size_bytes > 0)

    @property
    def is_over(self) -> bool:
        """The end was marked in band, or an error was told, after which nothing need come."""
        return self.terminal_seq is not None or self.error is not None

    @property
    def seems_over(self) -> bool:
        """It is over, or what may be the end has come last."""
        return self.is_over

    @property
    def is_at_boundary(self) -> bool:
        """Bytes of ours may stand behind what came, as far as the framing goes; an event of ours is read as one."""
        return False

    @property
    def failure(self) -> Reading | None:
        """What the answer says of its failing, in an event or as a whole."""
        return self.error or self.refusal

    def arrived(self, data: bytes, at_ns: int, *, is_wasted: bool) -> None:
        """The next bytes as they were on the wire, with the time of the read that brought them. Never raises."""
        raise NotImplementedError

    def ended(self, *, is_clean: bool = True) -> None:
        """No more will come. is_clean: HTTP's framing of the body came to its end."""

    def mute(self) -> None:
        """Look at nothing any more."""
        self.is_blind = True

    def sent_since(self, seq: int) -> Timeline | None:
        """The events of the other direction from that number on."""
        sent = self.sent
        if sent is None:
            return None
        return Timeline(unit_ns=1, quantum=1, stamps=sent.stamps(since=seq), is_cut_short=sent.is_cut_short)

    def exchange(self, asked: Exchange) -> Exchange:
        """What was asked, with what was answered."""
        told = self.failure or _NOTHING_TOLD
        return Exchange(  # a `replace` would take three times as long
            method=asked.method,
            path=asked.path,
            status=asked.status,
            framing=self.framing,
            dialect=self.dialect.name,
            model=asked.model or self.model,
            response_model=self.model,
            response_id=self.response_id,
            request_is_stream=asked.request_is_stream,
            prompt_bucket=asked.prompt_bucket,
            is_stream=self.is_stream,
            has_terminal_rule=self.has_terminal_rule,
            error_type=self.error.error_type if self.error else asked.error_type or told.error_type,
            error_code=told.error_code,
            error_detail=told.error_detail,
            is_probe=asked.is_probe,
            finish_reasons=self.finish_reasons,
            dimensions=asked.dimensions,
            guard_fired=asked.guard_fired,
        )

    def traffic(self, passed: Traffic) -> Traffic:
        """What passed, with what was found in it."""
        return Traffic(
            request_bytes=passed.request_bytes,
            bytes_in=self.size_bytes,
            bytes_out=passed.bytes_out,
            event_count=self.stamper.count,
            comment_count=self.comment_count,
            dataless_count=self.dataless_count,
            wasted_count=self.wasted_count,
            has_unterminated_tail=self.has_tail,
            missing_bytes=passed.missing_bytes,
            keepalive_count=passed.keepalive_count,
            injected_bytes=passed.injected_bytes,
        )


def merged(before: Usage, after: Usage) -> Usage:
    """The counts of an answer that counts as it goes: the later one, unless it is missing, or zero where one was."""
    return Usage(
        input_tokens=_later(before.input_tokens, after.input_tokens),
        output_tokens=_later(before.output_tokens, after.output_tokens),
        total_tokens=_later(before.total_tokens, after.total_tokens),
    )


def _later(before: int | None, after: int | None) -> int | None:
    return after or (after if before is None else before)
