"""What the reader's own stamps show: every wait, and how much of it the worker's script does not explain.

Nothing here asks the code under test. The script says when each character would have come without a fault.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from otel.demo.answer import Answer
from tests.lab.shapes import Spoken
from tests.lab.told import Kind, Planted

FELT_S: Final = 0.3
"""What a reader must wait longer than without the fault, in seconds, for the fault to be one that its stamps show: the
floor of verdicts and the noise of a busy machine."""
FEWEST_PAUSES: Final = 5
"""With fewer pauses a source that was never heard before shows no rhythm."""
PAUSE_S: Final = 0.005
"""Events closer together belong to one burst."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait of the reader in seconds, for one event with text.

    after, until: the visible characters that it had before it, and with it. added_s: what the script's own longest
    silence within that text does not explain. gathered_s: how much of that a hop takes which keeps the first of that
    text until the last. The first text is waited for after 0, the end until length + 1.
    """

    after: int
    until: int
    wait_s: float
    added_s: float
    gathered_s: float = 0.0

    def holds(self, fault: Planted, length: int) -> bool:
        """Whether this is where a fault that begins at a known place of the text is felt."""
        match fault.kind:
            case Kind.SLOW_FIRST:
                return self.after == 0
            case Kind.END_HOLD:
                return self.until > length
            case _:
                return self.after < fault.at_chars <= self.until


def waits(seen: Answer, spoken: Spoken) -> list[Wait]:
    """All waits of the answer, the one for its end only where it had one."""
    texts = spoken.texts
    due_s = [spoken.script.events[index].at_s for index in texts]
    reached = [spoken.reached[index] for index in texts]
    end_s = spoken.script.events[-1].at_s - due_s[-1]
    made: list[Wait] = []
    after, before_s = 0, 0.0
    for receipt in seen.receipts:
        if not receipt.has_text:
            continue
        until, wait_s = after + receipt.chars, receipt.at_s - before_s
        first, last = (min(bisect_left(reached, chars), len(due_s) - 1) for chars in (after, until))
        silences_s = [b - a for a, b in pairwise(due_s[first : last + 1])] if after else [due_s[0]]
        longest_s = max(silences_s, default=0.0)
        gathered_s = due_s[last] - due_s[first] - (longest_s if after else 0.0)
        made.append(Wait(after, until, wait_s, wait_s - longest_s, max(0.0, gathered_s)))
        after, before_s = until, receipt.at_s
    if made and seen.is_whole:
        wait_s = seen.ended_s - before_s
        made.append(Wait(after, spoken.length + 1, wait_s, wait_s - end_s))
    return made


def has_rhythm(spoken: Spoken) -> bool:
    """Whether a source that speaks so shows its rhythm within this one answer."""
    pauses = [b.at_s - a.at_s for a, b in pairwise(spoken.script.events)]
    return sum(pause_s >= PAUSE_S for pause_s in pauses) >= FEWEST_PAUSES
