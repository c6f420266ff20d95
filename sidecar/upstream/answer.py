"""One answer: its head, what has arrived of its body and was not read yet, and how it ended.

What one receive brought is one piece with one time, taken when it arrived and not when it is read. A reader that does
not come makes the connection stop reading, so little waits here; the kernel's buffer and then the upstream wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from sidecar.http1.framing import Framing, FramingKind
from sidecar.http1.head import ResponseHead
from sidecar.upstream.errors import BrokenOff

AHEAD_BYTES: Final = 65_536
"""Unread bytes from which the connection stops reading: two receives, so that a stuck reader costs little."""
AHEAD_PIECES: Final = 1_024
"""The same in pieces, since one of a single byte costs 150."""
RESUME_BYTES: Final = 16_384
"""Unread bytes at which it reads again."""


class Piece(NamedTuple):
    """The content that one receive brought, never empty, and when. A tuple, for one is made of each receive."""

    data: bytes
    at_ns: int


class Sink(Protocol):
    """Takes what comes in the callback that received it, and says whether it wants more. Never raises."""

    def __call__(self, data: bytes, at_ns: int, framed: bytes | None, /) -> bool: ...


class Source(Protocol):
    """The connection under an answer that has not ended."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self) -> None: ...

    def kernel_bytes(self) -> int | None: ...


class Sending(Protocol):
    """The upload of the request's body, which runs beside its answer."""

    error: Exception | None

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A connection that speaks another protocol from here on. rest: what has arrived of that.

    It reads nothing more until `switch` has given it its new protocol.
    """

    transport: asyncio.Transport
    rest: bytes

    def switch(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to its new protocol, which hears of no connection_made, and read on."""
        self.transport.set_protocol(protocol)
        self.transport.resume_reading()


class Answer:
    """The answer to one request. Its head is there, its body is read piece by piece, by one reader at a time.

    answered_at_ns: when the head had arrived. ended_at_ns: when nothing more could come, None before; pieces may
    still wait to be read. trailers: there once it has ended. arrived_bytes: content, read or not.
    """

    __slots__ = (
        "_ended",
        "_loop",
        "_paused",
        "_pieces",
        "_sending",
        "_sink",
        "_source",
        "_unread_bytes",
        "_upgraded",
        "_waiter",
        "answered_at_ns",
        "arrived_bytes",
        "ended_at_ns",
        "fields",
        "framing",
        "reason",
        "status",
        "trailers",
        "version",
    )

    def __init__(
        self,
        head: ResponseHead,
        framing: Framing,
        source: Source,
        *,
        at_ns: int,
        sending: Sending | None = None,
        upgraded: Upgraded | None = None,
    ) -> None:
        self.status = head.status
        self.reason = head.reason
        self.version = head.version
        self.fields = list(head.fields)
        self.framing = framing
        self.answered_at_ns = at_ns
        self.ended_at_ns: int | None = None
        self.trailers: tuple[tuple[str, str], ...] = ()
        self.arrived_bytes = 0
        self._pieces: deque[Piece] = deque()
        self._unread_bytes = 0
        self._ended: BrokenOff | None = None
        self._source: Source | None = source
        self._sending = sending
        self._sink: Sink | None = None
        self._upgraded = upgraded
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def has_body(self) -> bool:
        """There may be content, as far as the head tells."""
        return self.framing.kind is not FramingKind.NONE and self.framing.length_bytes != 0

    @property
    def is_delimited(self) -> bool:
        """Something else than the end of the connection tells where the body ends."""
        return self.framing.kind is not FramingKind.CLOSE

    @property
    def length_bytes(self) -> int | None:
        """The Content-Length of the body, None when it has none."""
        return self.framing.length_bytes

    @property
    def missing_bytes(self) -> int | None:
        """Content that was announced and has not arrived; None when no length was announced."""
        return None if self.framing.length_bytes is None else self.framing.length_bytes - self.arrived_bytes

    @property
    def is_upgraded(self) -> bool:
        """It is a 101 that was asked for: there is no body, and `upgraded` hands the connection out."""
        return self._upgraded is not None

    @property
    def upload_error(self) -> Exception | None:
        """What the body of the request raised, which then broke off the answer too."""
        return None if self._sending is None else self._sending.error

    @property
    def waiting_bytes(self) -> int:
        """Content that has arrived and was not read yet."""
        return self._unread_bytes

    async def read(self) -> Piece | None:
        """The next piece, None after the last one of a whole answer. Raises BrokenOff after the last one of another.

        Cancelled, it closes the connection; what has arrived stays with `waiting`.
        """
        while not self._pieces:
            if self.ended_at_ns is not None:
                await self._outcome()
                return None
            await self._arrival()
        piece = self._pieces.popleft()
        self._unread_bytes -= len(piece.data)
        if self._paused and self._unread_bytes <= RESUME_BYTES:
            self._resume()
        return piece

    async def pushed(self, sink: Sink) -> None:
        """Give the sink what comes, until it wants no more or nothing more will come. At once where pieces wait to be
        read: those are first. Cancelled, it closes the connection."""
        if self._pieces or self.ended_at_ns is not None:
            return
        self._sink = sink
        try:
            await self._arrival()
        finally:
            self._sink = None

    def waiting(self) -> list[Piece]:
        """Take all that has arrived and was not read yet."""
        pieces = list(self._pieces)
        self._pieces.clear()
        self._unread_bytes = 0
        if self._paused:
            self._resume()
        return pieces

    def unread_bytes(self) -> int | None:
        """Bytes that wait to be read, in our kernel and in front of us; None when the kernel cannot be asked."""
        if self._source is None:
            return self._unread_bytes
        kernel_bytes = self._source.kernel_bytes()
        return None if kernel_bytes is None else self._unread_bytes + kernel_bytes

    def upgraded(self) -> Upgraded:
        """The connection, from now on the caller's. Raises BrokenOff when it has been lost since."""
        assert self._upgraded is not None, "only a 101 hands out its connection"
        self._check_whole()
        self._source = None
        return self._upgraded

    def abort(self) -> None:
        """Close the connection now, whatever is on its way; of a whole answer it carries another one already."""
        if self._source is not None:
            self._source.abort()

    # For the connection.

    def arrived(self, data: bytes, at_ns: int, framed: bytes | None = None) -> None:
        """One receive brought this content. framed: the chunks in which it came, where these are whole."""
        self.arrived_bytes += len(data)
        if self._sink is not None and self._waiter is not None and not self._waiter.done():  # nor cancelled
            if not self._sink(data, at_ns, framed):
                self._wake()
            return
        self._pieces.append(Piece(data, at_ns))
        self._unread_bytes += len(data)
        self._wake()
        if (self._unread_bytes > AHEAD_BYTES or len(self._pieces) > AHEAD_PIECES) and not self._paused:
            self._pause()

    def ended(self, at_ns: int, *, error: BrokenOff | None, trailers: tuple[tuple[str, str], ...] = ()) -> None:
        """Nothing more will arrive. error: None when the answer is whole."""
        self.ended_at_ns = at_ns
        self.trailers = trailers
        self._ended = error
        self._source = None
        self._paused = False
        self._wake()

    async def _arrival(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None

    async def _outcome(self) -> None:
        if self._sending is not None:
            await self._sending.stop()
        self._check_whole()

    def _check_whole(self) -> None:
        """Raise what broke it off: a new error each time, for what was raised knows all who run this answer."""
        if self._ended is not None:
            raise BrokenOff(self._ended.rule, self._ended.cut)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pause(self) -> None:
        if self._source is not None:
            self._paused = True
            self._source.pause()

    def _resume(self) -> None:
        self._paused = False
        if self._source is not None:
            self._source.resume()
