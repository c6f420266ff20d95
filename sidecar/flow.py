"""Pass the body of an answer on: in the callback that received it, or as fast as the reader takes it.

*Pull*: the exchange's task takes what has arrived, writes it on, waits until our kernel has it, and tells the recorder.
*Push*: the callback that receives a piece writes it on, for no future, no wake-up of a task and no turn of the loop lie
between the two then. The first piece that our kernel does not take whole wakes the task, which waits for the reader;
meanwhile pieces gather at the answer, and its connection stops reading, as with pull. Once all is taken, it pushes on.
*Splice*: chunks that came whole are pushed on as they came, where nothing has to be put in between.

Forward first, record second. `taken` is honest on asyncio and on uvloop alike: both try to send within `write`, and
with a write-buffer limit of 0 (see `kernel.Connection.tune`) `drain` returns only when the buffer is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from sidecar.delivery import Delivery, Write
from sidecar.exchanges import Exchanges
from sidecar.failures import Failure, refused_early
from sidecar.guard.holding import Decision, Verdict
from sidecar.live import Live
from sidecar.recording.recorder import SEGMENT_EVENTS
from sidecar.upstream import Answer, Piece


class Tier(Enum):
    """How bodies are passed on, the dearest first; each has what stands before it to fall back to."""

    PULL = "pull"
    PUSH = "push"
    SPLICE = "splice"


class Early(Exception):  # noqa: N818  # an end, not an error in our code
    """What was kept back will not be passed on: the reader gets an answer of our own."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.type)
        self.failure = failure


class Flow:
    """The body of one answer on its way to the reader."""

    __slots__ = (
        "_answer",
        "_delivery",
        "_exchanges",
        "_failure",
        "_live",
        "_now",
        "_recorder",
        "_response",
        "_splices",
        "_tier",
        "_untaken_since_ns",
        "_write",
    )

    def __init__(
        self,
        answer: Answer,
        delivery: Delivery,
        *,
        live: Live,
        exchanges: Exchanges,
        tier: Tier,
        now: Callable[[], int],
    ) -> None:
        self._answer = answer
        self._delivery = delivery
        self._live = live
        self._recorder = live.recorder
        self._response = delivery.response
        self._exchanges = exchanges
        self._tier = tier
        self._splices = tier is Tier.SPLICE
        self._now = now
        self._failure: Exception | None = None  # of the callback, raised where the task hears it
        self._untaken_since_ns: int | None = None
        self._write: Write

    async def run(self) -> None:
        """Pass on all that comes, until it ends in order. Raises BrokenOff where it does not, ConnectionResetError
        when the reader is gone, Early."""
        answer = self._answer
        while True:
            if self._tier is not Tier.PULL and not self._delivery.is_holding:
                self._write = self._delivery.writing
                await answer.pushed(self._pass)
                await self._settle()
            piece = await answer.read()
            if piece is None:
                return
            await self._pull(piece)

    def decide(self, decision: Decision) -> None:
        """What becomes of what is kept back. Raises Early."""
        if decision.verdict is Verdict.REFUSE:
            seen = self._recorder.seen
            raise Early(refused_early(decision.status, None if seen is None else seen.error))
        if decision.verdict is Verdict.RELEASE:
            self._delivery.release()

    async def _pull(self, piece: Piece) -> None:
        delivery = self._delivery
        if not delivery.is_holding:
            self._write = delivery.writing
            self._pass(piece.data, piece.at_ns)
            return await self._settle()
        self._recorder.arrived(piece.data, piece.at_ns)
        self.decide(delivery.hold(piece.data))
        if not delivery.is_holding:
            await delivery.until_taken(self._answer.unread_bytes)
            delivery.check_open()
            delivery.tell_taken()
        return None

    def _pass(self, data: bytes, at_ns: int, framed: bytes | None = None) -> bool:
        """Write a piece on, record it, and say whether the next one may come so. Never raises: whoever received it has
        no part in what goes wrong here."""
        recorder = self._recorder
        try:
            is_taken = self._write(data, framed if self._splices else None)
            taken_ns = self._now()
        except Exception as error:  # noqa: BLE001  # for the task, which may be in the middle of waiting
            self._failure = error
            recorder.arrived(data, at_ns)
            return False
        if not is_taken:
            self._untaken_since_ns = taken_ns
            recorder.arrived(data, at_ns)
            return False
        if recorder.passed(data, at_ns, taken_ns, self._response.output_size) >= SEGMENT_EVENTS:
            self._exchanges.cut_long(self._live, at_ns)
        return True

    async def _settle(self) -> None:
        """Wait until our kernel has what was passed on; raise what the callback met."""
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # what is raised knows this frame: only the garbage collector could free the two
        if self._untaken_since_ns is None:
            return
        delivery, since_ns = self._delivery, self._untaken_since_ns
        self._untaken_since_ns = None
        await delivery.until_taken(self._answer.unread_bytes, since_ns=since_ns)
        delivery.check_open()
        self._recorder.taken(self._now(), self._response.output_size)
        if self._recorder.fresh_count >= SEGMENT_EVENTS:
            self._exchanges.cut_long(self._live, self._now())
