"""What a hop's holding added to a reader's waits, by the script and the reader's stamps, and the mark of a verdict.

The reader waited for a stretch of text; the source, by its script, was silent for so long while it made that stretch.
What is left was added on the way, and nothing else is planted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from otel.demo.answer import Answer, Receipt
from tests.lab.felt import FELT_S, waits
from tests.lab.middles import Hold
from tests.lab.noise import EXPLAINS
from tests.lab.shapes import Spoken

NOTICED_S: Final = 0.25
"""What a hop may add before a verdict names it."""
RELEASES: Final = 3
"""Gaps of one app from which on it is known to buffer: one release cannot be told from a stall."""
BUFFERING: Final = "buffering"
HOLDS: Final = frozenset({BUFFERING, "app_stall", "slow_first_event", "end_hold"})
"""What a hop that holds may be called while its releases are few."""


class Mark(StrEnum):
    """How a verdict compares with what the reader felt."""

    NAMED = "named"
    CALLED_OTHERWISE = "called otherwise"
    HEALTHY = "healthy"
    UNFELT = "not felt"
    DISTURBED = "disturbed"
    MISSED = "missed"
    WRONG_HOP = "wrong hop"
    ACCUSED = "accused"


MEANING: Final = {
    Mark.NAMED: "the hop that holds, and its cause",
    Mark.CALLED_OTHERWISE: f"the hop that holds; {RELEASES} gaps or more were felt, and it was not called {BUFFERING}",
    Mark.HEALTHY: "nobody holds, nobody was named",
    Mark.UNFELT: "it holds less than a reader notices, and nobody was named",
    Mark.DISTURBED: "somebody was named for what no hop holds: the machine was busy, or an engine paused",
    Mark.MISSED: "the reader felt it, and nobody was named",
    Mark.WRONG_HOP: "the reader felt it, and another hop was named",
    Mark.ACCUSED: "nobody holds, the reader felt nothing, and somebody was named",
}
WRONG: Final = frozenset({Mark.CALLED_OTHERWISE, Mark.MISSED, Mark.WRONG_HOP, Mark.ACCUSED})


@dataclass(frozen=True, slots=True)
class Felt:
    """What a reader waited longer than the source was silent, in seconds, wait by wait in the order of the text.

    The first is that of the first text, the last that of the end.
    """

    added_s: tuple[float, ...]

    @property
    def worst_s(self) -> float:
        return max(self.added_s)

    @property
    def holds(self) -> int:
        """Waits that the reader's stamps show."""
        return sum(added_s > FELT_S for added_s in self.added_s)

    @property
    def gaps(self) -> int:
        """Those of them that lie between two texts."""
        return sum(added_s > FELT_S for added_s in self.added_s[1:-1])


def felt(seen: Answer, calm: Spoken) -> Felt:
    """Compare by position in the text, which is the same however events were merged, split or cut."""
    added = tuple(wait.added_s for wait in waits(seen, calm))
    return Felt(added or (seen.ended_s - calm.script.events[-1].at_s,))


def waited(seen: Answer) -> Felt:
    """Every wait as it was, of an answer that nobody wrote a script for: a model's own pauses are in it."""
    texts_s = [receipt.at_s for receipt in seen.receipts if receipt.chars]
    return Felt(tuple(after_s - before_s for before_s, after_s in pairwise([0.0, *texts_s, seen.ended_s])))


def expected(calm: Spoken, hold: Hold) -> Felt | None:
    """What a reader feels of such a hold where nothing else takes time; None where the hold has no known size."""
    if hold.texts is None and hold.size_bytes is None:
        return None
    receipts, held_bytes, held_texts, held_chars = [], 0, 0, 0
    for due, chars in zip(calm.script.events, calm.chars, strict=True):
        held_bytes, held_texts, held_chars = held_bytes + len(due.data), held_texts + bool(chars), held_chars + chars
        if held_texts == hold.texts or held_bytes >= (hold.size_bytes or math.inf):
            receipts.append(Receipt(due.at_s, held_chars))
            held_bytes = held_texts = held_chars = 0
    end_s = calm.script.events[-1].at_s
    return felt(Answer(200, (*receipts, Receipt(end_s, held_chars)), end_s, is_whole=True, is_done=True), calm)


def mark(
    verdict: Mapping[str, Any],
    was: Felt,
    *,
    holders: Sequence[str],
    due: Felt | None = None,
    source: str | None = None,
    is_noise: bool = False,
) -> Mark:
    """The mark of the verdict on one answer. holders: the hops that hold what passes, if any; due: what was expected
    of them, None where that is not known. source: the hop whose own pauses were felt, too, where nobody wrote its
    answer: no other can be excused by them. is_noise: the machine may have made what somebody is named for."""
    named = verdict["first_hop"] if verdict["status"] == "named" else None
    named_s = max((part["seconds"] for part in verdict["contributions"]), default=0.0)
    was_waited = was.worst_s > max(FELT_S, EXPLAINS * named_s)
    if not holders:
        if named is None:
            return Mark.HEALTHY
        is_excused = is_noise or (was_waited and named == (source or named))
        return Mark.DISTURBED if is_excused else Mark.ACCUSED
    is_right = named in holders and verdict["cause"] in HOLDS
    is_beyond_hold = due is not None and due.worst_s < NOTICED_S and was.holds > 0
    if not is_right and is_beyond_hold and (named is None or was_waited):
        return Mark.DISTURBED
    if named is None:
        return Mark.MISSED if was.holds else Mark.UNFELT
    if not is_right:
        is_beside = any(other["first_hop"] in holders and other["cause"] in HOLDS for other in verdict["others"])
        return Mark.DISTURBED if is_noise and (is_beside or not was.holds) else Mark.WRONG_HOP
    return Mark.CALLED_OTHERWISE if was.gaps >= RELEASES and verdict["cause"] != BUFFERING else Mark.NAMED
