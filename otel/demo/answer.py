"""What the demo's client received and when: the measurement that a verdict has to agree with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Receipt:
    """One event as received, in seconds since the request was sent.

    chars: visible characters that it brought. has_thought: it brought output that nobody is shown.
    """

    at_s: float
    chars: int
    has_thought: bool = False

    @property
    def has_text(self) -> bool:
        return self.chars > 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as the client saw it; times in seconds since the request was sent.

    is_whole: the HTTP framing was complete. is_done: the stream said [DONE]. held_off_s: for a client that paused, how
    long its kernel got no new event because nobody read the ones it had; None for one that did not.
    """

    status: int
    receipts: tuple[Receipt, ...]
    ended_s: float
    is_whole: bool
    is_done: bool
    held_off_s: float | None = None

    @property
    def texts_s(self) -> list[float]:
        return [receipt.at_s for receipt in self.receipts if receipt.has_text]

    @property
    def first_text_s(self) -> float | None:
        return next(iter(self.texts_s), None)

    @property
    def longest_gap_s(self) -> float:
        """The longest wait between two deliveries of text."""
        return max((later - earlier for earlier, later in pairwise(self.texts_s)), default=0.0)

    @property
    def end_s(self) -> float:
        """From the last text to the end of the stream."""
        texts_s = self.texts_s
        return self.ended_s - (texts_s[-1] if texts_s else 0.0)
