"""Whether the reader takes what it is given, told while it does not: from looks at the connection to it.

A reader that stops is seen in two steps. Early, before anything waits: its kernel takes on, and says with every
acknowledgement how much room is left, its window. A healthy reader's stays near its peak, or is back within a moment;
one that stays at half of its peak belongs to a reader that does not read. Late, when nothing is acknowledged any more
and our write may be blocked: then the reader is told from the network by the company of those bytes, as a verdict
does. Loss is asked first, since while a lost segment is missing a small window fills and stays full.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

EARLY_NS: Final = 250_000_000
"""A window may be small for this long after a burst, until its reader has had its turn."""
UNSEEN_NS: Final = 1_000_000_000
"""Who was not looked at for so long, since nothing was outstanding, may have had room meanwhile: ten looks' time."""
LATE_NS: Final = 1_500_000_000
"""Nothing acknowledged for so long is told: soon enough for two seconds, and longer than a lost segment that is sent
again over a far path, also where that is lost once more."""
CALM_NS: Final = 1_000_000_000
"""Who takes again must do so for this long before that is told: one that reads in fits and starts is told of once."""
STANDING_NS: Final = 250_000_000
"""Nothing acknowledged for a round trip and so long is standing still; on a far path every other look finds nothing."""
LOSS_STATE: Final = 3
"""tcp_info: 3 is recovery, 4 loss."""
LOST_SHARE: Final = 0.2
SHUT_SHARE: Final = 0.3


class Cause(StrEnum):
    """Why the reader has not got what was written."""

    SLOW_READER = "slow_reader"
    NETWORK = "network"


class Sign(StrEnum):
    """By what it was told: its window alone, or bytes that stay."""

    WINDOW = "window"
    UNACKNOWLEDGED = "unacknowledged"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Holdup:
    """A stretch in which the reader's side takes too little. since_ns: a reading of the clock, as in all looks."""

    cause: Cause
    sign: Sign
    since_ns: int


class Look(NamedTuple):
    """The connection to the reader at one moment. acked_bytes: only differences matter. is_blocked: our write waits.

    round_trip_ns: the shortest of late, 0 where it is not known.
    """

    at_ns: int
    acked_bytes: int
    window_bytes: int
    in_flight_segments: int = 0
    unsent_bytes: int = 0
    lost_segments: int = 0
    congestion_state: int = 0
    backoff: int = 0
    round_trip_ns: int = 0
    is_blocked: bool = False

    @property
    def is_outstanding(self) -> bool:
        """Something that was written has not been acknowledged."""
        return self.is_blocked or self.in_flight_segments > 0 or self.unsent_bytes > 0

    @property
    def is_lossy(self) -> bool:
        """Something is being sent again. Backing off with nothing in flight is asking a shut window."""
        is_resending = self.backoff > 0 and self.in_flight_segments > 0
        return self.congestion_state >= LOSS_STATE or self.lost_segments > 0 or is_resending


class Taking:
    """What looks at one reader's connection say, one after the other.

    holdup: what holds the stream up now, if anything does. freed_ns: when the last one that is over was over.
    """

    __slots__ = (
        "_calm_since_ns",
        "_last",
        "_lost_ns",
        "_peak_bytes",
        "_shut_ns",
        "_small_since_ns",
        "_standing_since_ns",
        "_stood_ns",
        "freed_ns",
        "holdup",
    )

    def __init__(self) -> None:
        self.holdup: Holdup | None = None
        self.freed_ns = 0
        self._calm_since_ns: int | None = None
        self._last: Look | None = None
        self._peak_bytes = 0
        self._small_since_ns: int | None = None
        self._standing_since_ns: int | None = None
        self._stood_ns = self._lost_ns = self._shut_ns = 0

    @property
    def is_at_ease(self) -> bool:
        """The last look found that the reader had all, and nothing strange: of such every other one is enough."""
        if self._last is None or self._last.is_outstanding:
            return False
        return self.holdup is None and self._small_since_ns is None

    @property
    def is_outstanding(self) -> bool:
        """The last look found bytes on their way, so that the next one is worth its while."""
        return self._last is not None and self._last.is_outstanding

    def seen(self, look: Look) -> None:
        """Take the next look; a second one at the same time changes nothing."""
        self._peak_bytes = max(self._peak_bytes, look.window_bytes)
        self._watch_window(look)
        self._watch_standing(look)
        self._last = look
        if self.holdup is None:
            self.holdup = self._early(look) or self._late(look)
        else:
            self._watch_calm(look)

    def cause(self) -> Cause | None:
        """Why nothing is acknowledged, by what was seen while that lasts; None where it is too little to say."""
        if not self._stood_ns:
            return None
        if self._lost_ns > LOST_SHARE * self._stood_ns or self._shut_ns <= SHUT_SHARE * self._stood_ns:
            return Cause.NETWORK
        return Cause.SLOW_READER

    def _watch_window(self, look: Look) -> None:
        """Since when every look found it at half of its peak or less."""
        is_unseen = self._last is not None and look.at_ns - self._last.at_ns >= UNSEEN_NS
        if 2 * look.window_bytes > self._peak_bytes or look.is_lossy:
            self._small_since_ns = None
        elif self._small_since_ns is None or is_unseen:
            self._small_since_ns = look.at_ns

    def _watch_standing(self, look: Look) -> None:
        """How long nothing has been acknowledged of what is outstanding, and in what company."""
        last = self._last
        if last is None or not (last.is_outstanding and look.is_outstanding and look.acked_bytes == last.acked_bytes):
            self._standing_since_ns = None
            self._stood_ns = self._lost_ns = self._shut_ns = 0
            return
        if self._standing_since_ns is None:
            self._standing_since_ns = last.at_ns
        passed_ns = look.at_ns - last.at_ns
        self._stood_ns += passed_ns
        if last.is_lossy:
            self._lost_ns += passed_ns
        elif 4 * last.window_bytes <= self._peak_bytes or self._is_asking(last):
            self._shut_ns += passed_ns

    @staticmethod
    def _is_asking(look: Look) -> bool:
        """Bytes wait with nothing in flight: our kernel asks the reader's again and again whether it has room."""
        return look.unsent_bytes > 0 and look.in_flight_segments == 0

    def _early(self, look: Look) -> Holdup | None:
        since_ns = self._small_since_ns
        if since_ns is None or look.at_ns - since_ns < EARLY_NS:
            return None
        return Holdup(Cause.SLOW_READER, Sign.WINDOW, since_ns)

    def _late(self, look: Look) -> Holdup | None:
        since_ns, cause = self._standing_since_ns, self.cause()
        if since_ns is None or cause is None or look.at_ns - since_ns < LATE_NS:
            return None
        return Holdup(cause, Sign.BLOCKED if look.is_blocked else Sign.UNACKNOWLEDGED, since_ns)

    def _is_standing(self, look: Look) -> bool:
        """Whether what was written stays for longer than the way takes, and for the cause that was told."""
        if self._standing_since_ns is None or self.holdup is None:
            return False
        is_long = look.at_ns - self._standing_since_ns > look.round_trip_ns + STANDING_NS
        return is_long and self.cause() is self.holdup.cause

    def _watch_calm(self, look: Look) -> None:
        """The holdup is over when for a while the window has been open and nothing stood for the same cause."""
        if self._small_since_ns is not None or self._is_standing(look):
            self._calm_since_ns = None
            return
        if self._calm_since_ns is None:
            self._calm_since_ns = look.at_ns
        if look.at_ns - self._calm_since_ns >= CALM_NS:
            self.holdup, self.freed_ns, self._calm_since_ns = None, self._calm_since_ns, None
