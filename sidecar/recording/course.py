"""The course of one exchange: its instants, how each side closed, and the one end that comes of it."""

from __future__ import annotations

from typing import Final

from otel.hop import End, Ending, Moments, Phase, Side
from sidecar.inspection.seen import Seen
from sidecar.recording.endings import Facts, ending_of

_LIMITS: Final = frozenset({Ending.TIMED_OUT_FIRST_EVENT, Ending.TIMED_OUT_NEXT_EVENT, Ending.CLIENT_DISCONNECT})
"""What we end because time is over."""
_TIMEOUT: Final = "timeout"


class Course:
    """What happened when, in any order of telling. Times are offsets from the exchange's anchor, None where it never
    came to that; see `otel.hop.Moments`.

    last_byte_ns: when something last came from upstream that the reader was there for, or went there.
    missing_bytes: of what the upstream had announced.
    """

    __slots__ = (
        "_cuts",
        "_is_delimited",
        "_is_upstream_clean",
        "_stopped",
        "_stopped_ns",
        "client_left_ns",
        "downstream_ended_ns",
        "headers_received_ns",
        "last_byte_ns",
        "missing_bytes",
        "request_forwarded_ns",
        "upstream_closed_ns",
        "upstream_ended_ns",
    )

    def __init__(self) -> None:
        self.request_forwarded_ns: int | None = None
        self.headers_received_ns: int | None = None
        self.upstream_ended_ns: int | None = None
        self.downstream_ended_ns: int | None = None
        self.client_left_ns: int | None = None
        self.upstream_closed_ns: int | None = None
        self.last_byte_ns = 0
        self.missing_bytes: int | None = None
        self._is_delimited = True
        self._is_upstream_clean = False
        self._stopped: Ending | None = None
        self._stopped_ns: int | None = None
        self._cuts: dict[Side, str] = {}

    # What happened.

    def request_forwarded(self, at_ns: int) -> None:
        self.last_byte_ns = at_ns
        self.request_forwarded_ns = at_ns

    def headers_received(self, at_ns: int, *, is_delimited: bool) -> None:
        self.last_byte_ns = at_ns
        self.headers_received_ns = at_ns
        self._is_delimited = is_delimited

    def heard(self, at_ns: int) -> bool:
        """Something came from upstream; whether nobody waits for it any more."""
        if self.client_left_ns is not None:
            return True
        self.last_byte_ns = at_ns
        return False

    def upstream_ended(self, at_ns: int, *, is_clean: bool, cut: str | None, missing_bytes: int | None) -> bool:
        """Whether this is the first that is heard of it; what comes after the first changes nothing."""
        if self.upstream_ended_ns is not None:
            return False
        self.upstream_ended_ns = at_ns
        self._is_upstream_clean = is_clean
        self.missing_bytes = missing_bytes or None
        self._closed(Side.UPSTREAM, cut)
        return True

    def downstream_ended(self, at_ns: int) -> None:
        self.downstream_ended_ns = at_ns

    def client_left(self, at_ns: int, *, cut: str | None) -> None:
        if self.client_left_ns is None:
            self.client_left_ns = at_ns
            self._closed(Side.DOWNSTREAM, cut)

    def upstream_closed(self, at_ns: int) -> None:
        self.upstream_closed_ns = at_ns

    def stopped(self, ending: Ending, at_ns: int) -> bool:
        """Whether this is the first stop."""
        if self._stopped is not None:
            return False
        self._stopped = ending
        self._stopped_ns = at_ns
        self._closed(Side.SIDECAR, _TIMEOUT if ending in _LIMITS else None)
        return True

    def _closed(self, side: Side, cut: str | None) -> None:
        if cut is not None:
            self._cuts[side] = cut

    # What comes of it.

    def moments(self, closed_ns: int) -> Moments:
        """Its instants in a record that is closed, or cut, at this one."""
        return Moments(
            request_forwarded_ns=self.request_forwarded_ns,
            headers_received_ns=self.headers_received_ns,
            upstream_ended_ns=self.upstream_ended_ns,
            downstream_ended_ns=self.downstream_ended_ns,
            client_left_ns=self.client_left_ns,
            upstream_closed_ns=self.upstream_closed_ns,
            closed_ns=closed_ns,
        )

    @property
    def is_broken(self) -> bool:
        """The upstream ended, and not as HTTP ends."""
        return self.upstream_ended_ns is not None and not self._is_upstream_clean

    def phase(self, seen: Seen | None) -> Phase:
        """How far it has come."""
        if self._is_upstream_clean:
            return Phase.DRAIN
        if seen is not None and seen.terminal_seq is not None:
            return Phase.TERMINAL
        if seen is not None and seen.has_begun:
            return Phase.EVENTS
        if self.headers_received_ns is not None:
            return Phase.FIRST_EVENT
        return Phase.CONNECT if self.request_forwarded_ns is None else Phase.HEADERS

    def end(self, at_ns: int, seen: Seen | None, *, status: int | None, taken_count: int) -> End:
        """The one end. taken_count: events that our kernel had."""
        ending, side = ending_of(self._facts(seen, status=status, taken_count=taken_count))
        ended_ns = self._ended_ns(side)
        idle_ns = max(0, (at_ns if ended_ns is None else ended_ns) - self.last_byte_ns)
        cut = self._cuts.get(side)
        return End(ending, side, self.phase(seen), idle_ns, framing_incomplete=self.is_broken, cut=cut)

    def _ended_ns(self, side: Side) -> int | None:
        match side:
            case Side.UPSTREAM:
                return self.upstream_ended_ns
            case Side.DOWNSTREAM:
                return self.client_left_ns
            case Side.SIDECAR:
                return self._stopped_ns

    def _facts(self, seen: Seen | None, *, status: int | None, taken_count: int) -> Facts:
        terminal_seq = None if seen is None else seen.terminal_seq
        has_terminal_rule = seen is not None and seen.has_terminal_rule
        is_success = status is not None and 200 <= status < 300
        has_left = self.client_left_ns is not None
        has_reader = not has_left and self._stopped is None  # whom we ended has no more than our kernel took
        return Facts(
            has_error_event=seen is not None and seen.error is not None,
            is_terminal_passed=terminal_seq is not None and (has_reader or terminal_seq < taken_count),
            has_reader_closed=seen is not None and seen.has_reader_closed,
            is_upstream_broken=self.is_broken,
            is_upstream_clean=self._is_upstream_clean,
            needs_terminal=has_terminal_rule and is_success,
            has_client_left=has_left,
            has_unmarked_end=not self._is_delimited and not has_terminal_rule,
            stopped=self._stopped,
        )
