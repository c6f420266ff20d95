"""Heads that never became a request: counted by the rule that they broke, and told in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from aiohttp.http_exceptions import (
    BadHttpMessage,
    BadStatusLine,
    InvalidHeader,
    InvalidURLError,
    LineTooLong,
    PayloadEncodingError,
)

log = logging.getLogger(__name__)

TELL_NS: Final = 1_000_000_000
"""Between two lines of the log: whoever sends rubbish must not fill a disk with it."""

LINE_TOO_LONG: Final = "line_too_long"
TOO_MANY_LINES: Final = "too_many_lines"
HEAD_TOO_LONG: Final = "head_too_long"
BAD_REQUEST_LINE: Final = "bad_request_line"
BAD_FRAMING: Final = "bad_framing"
BAD_HOST: Final = "bad_host"
BAD_FIELD: Final = "bad_field"
OTHER: Final = "other"
RULES: Final = (
    LINE_TOO_LONG,
    TOO_MANY_LINES,
    HEAD_TOO_LONG,
    BAD_REQUEST_LINE,
    BAD_FRAMING,
    BAD_HOST,
    BAD_FIELD,
    OTHER,
)
TOO_LONG: Final = frozenset({LINE_TOO_LONG, TOO_MANY_LINES, HEAD_TOO_LONG})
"""Rules that say how much a head may be, not how it is written."""

_BY_KIND: Final[tuple[tuple[type[BadHttpMessage], str], ...]] = (
    (LineTooLong, LINE_TOO_LONG),
    (BadStatusLine, BAD_REQUEST_LINE),
    (InvalidURLError, BAD_REQUEST_LINE),
    (PayloadEncodingError, BAD_FRAMING),
    (InvalidHeader, BAD_FIELD),
)
_BY_WORD: Final = (
    ("Too many headers", TOO_MANY_LINES),
    ("Content-Length", BAD_FRAMING),
    ("Transfer-Encoding", BAD_FRAMING),
    ("chunk", BAD_FRAMING),
    ("'Host'", BAD_HOST),
    ("header", BAD_FIELD),
)
"""What the parser says where the kind of its error does not tell."""
_QUOTES: Final = ":\n\n"
"""Behind it the parser quotes the client."""


def rule_of(error: BaseException | None) -> str:
    """Which rule was broken, as the parser says; one of RULES."""
    for kind, rule in _BY_KIND:
        if isinstance(error, kind):
            return rule
    said = error.message.partition(_QUOTES)[0] if isinstance(error, BadHttpMessage) else ""
    return next((rule for word, rule in _BY_WORD if word in said), OTHER)


class RefusedHeads:
    """Counts and tells them, for all listeners of a process. counts: by rule."""

    def __init__(self, now: Callable[[], int]) -> None:
        """now: the monotonic clock."""
        self._now = now
        self._told_ns: int | None = None
        self._untold_count = 0
        self.counts = dict.fromkeys(RULES, 0)

    @property
    def count(self) -> int:
        """Of all rules."""
        return sum(self.counts.values())

    def add(self, rule: str, *, listener: str, peer: str | None) -> None:
        """One more. peer: the address of the client, None where it has none or it is not known."""
        self.counts[rule] += 1
        self._untold_count += 1
        at_ns = self._now()
        if self._told_ns is None or at_ns - self._told_ns >= TELL_NS:
            log.warning(
                "head refused",
                extra={"rule": rule, "listener": listener, "peer": peer, "since_last": self._untold_count},
            )
            self._told_ns, self._untold_count = at_ns, 0
