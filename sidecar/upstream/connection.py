"""One connection to the upstream: a protocol that reads answers, one exchange after the other.

Time is taken first thing in the receive callback, and one receive brings little, so that one time for all of it is
honest.

A connection that is reset tells so at once, but what had arrived before is still in our kernel: it is read first, for
it may be the answer (a 413 in the middle of an upload).
"""

from __future__ import annotations

import asyncio
import select
import ssl as tls
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol, cast

from sidecar.http1.chunked import WholeChunks, whole_chunks
from sidecar.http1.framing import Framing, FramingKind, keep_alive_s
from sidecar.http1.head import ResponseHead
from sidecar.http1.reader import Broken, Content, Finished, Head, Interim, Output, ResponseReader
from sidecar.http1.reader import Upgraded as Switched
from sidecar.http1.receiving import Receiver
from sidecar.kernel import Connection, keep_alive
from sidecar.receive import BUFFER, leftover
from sidecar.tls.transport import TlsTransport
from sidecar.upstream.answer import Answer, Upgraded
from sidecar.upstream.errors import BadAnswer, BrokenOff, Cut, UpstreamError
from sidecar.upstream.upload import Upload

WRITE_AHEAD_BYTES: Final = 65_536
"""Of an upload's bytes that our kernel does not take, from which the upload waits."""

_CLOSED_HERE: Final = "it was closed on this side"
_NOISE: Final = select.POLLIN | getattr(select, "POLLRDHUP", 0)


class Keeper(Protocol):
    """Who keeps the connections."""

    def released(self, connection: UpstreamConnection) -> None:
        """Its exchange is over, and it can carry another one."""

    def given_away(self, connection: UpstreamConnection) -> None:
        """It speaks another protocol, and is its reader's."""

    def lost(self, connection: UpstreamConnection) -> None:
        """It is closed, by whomever."""


class UpstreamConnection(asyncio.BufferedProtocol):
    """One connection, used by one exchange at a time.

    has_received: a byte came since the last request. keep_alive_s: what the upstream said last. is_lost: it is closed.
    """

    buffer_updated: Receiver  # type: ignore[assignment]  # called so of each read, and each call less counts

    def __init__(
        self,
        keeper: Keeper,
        *,
        clock: Callable[[], int],
        whole_chunks: WholeChunks = whole_chunks,
        receiver: type[Receiver] = Receiver,
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._whole_chunks = whole_chunks
        self.buffer_updated = receiver(BUFFER, clock, self._received)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._kernel: Connection
        self._is_paused = False
        self.is_lost = False
        self.has_received = False
        self.keep_alive_s: float | None = None
        self._reader: ResponseReader | None = None  # None: nothing is expected
        self._head: asyncio.Future[Answer] | None = None  # the exchange that waits for its head
        self._answer: Answer | None = None  # the answer that has not ended
        self._upload: Upload | None = None
        self._on_interim: Callable[[ResponseHead], None] | None = None
        self._is_full = False
        self._room: asyncio.Future[None] | None = None

    async def exchange(
        self,
        method: str,
        head: bytes,
        *,
        body: AsyncIterator[bytes] | None,
        length_bytes: int | None,
        head_sent: Callable[[], None],
        on_interim: Callable[[ResponseHead], None],
        wants_upgrade: bool,
    ) -> Answer:
        """Send a request, and wait for the head of its answer. Raises UpstreamError, and what the body raises."""
        self.has_received = False
        self._reader = ResponseReader(method, wants_upgrade=wants_upgrade, whole_chunks=self._whole_chunks)
        self._on_interim = on_interim
        coming: asyncio.Future[Answer] = self._loop.create_future()
        self._head = coming
        upload = None
        try:
            if self.is_lost:
                raise BrokenOff("a connection lasts until its answer is whole", "fin")
            self._transport.write(head)
            head_sent()
            if body is not None:
                self._upload = upload = Upload(body, self, length_bytes=length_bytes)
            return await coming
        except BaseException:
            if coming is self._head:
                coming.cancel()  # nobody waits for it any more
                self.abort()
            elif coming.done() and not coming.cancelled() and coming.exception() is None:
                coming.result().abort()  # cancelled just when it had come
            if upload is not None:
                await upload.stop()
            del coming  # it knows the error, and that knows this frame: only the garbage collector could free them
            raise

    @property
    def is_quiet(self) -> bool:
        """It is open, and our kernel has neither bytes nor an end of it: another exchange may begin."""
        if self.is_lost or self._transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), _NOISE)
        return not poll.poll(0)

    def close(self) -> None:
        """Close in order; what waits to be sent is no use to anybody."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    # For the answer.

    def pause(self) -> None:
        self._is_paused = True
        if not self.is_lost and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        self._is_paused = False
        if not self.is_lost and not self._transport.is_closing():
            self._transport.resume_reading()

    def kernel_bytes(self) -> int | None:
        return 0 if self.is_lost else self._kernel.unread_bytes()

    def abort(self) -> None:
        """Close now; the exchange on it is broken off."""
        self._break_off(BrokenOff(_CLOSED_HERE, "reset"), self._clock())

    # For the upload.

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def has_read(self) -> bool:
        """What had arrived before this call is read, if anybody reads; False when the connection is lost."""
        if not self._is_paused and self.kernel_bytes():
            await asyncio.sleep(0)  # to the end of this turn of the loop, …
            await asyncio.sleep(0)  # … and through the next one, which reads
        return not self.is_lost and not self._transport.is_closing()

    async def has_room(self) -> bool:
        """The upstream takes more; False when the connection is lost."""
        if self._is_full and not self.is_lost:
            self._room = self._loop.create_future()
            try:
                await self._room
            finally:
                self._room = None
        return not self.is_lost

    def upload_failed(self, upload: Upload) -> None:
        """The request will never be whole, so neither will be what answers it."""
        assert upload.error is not None
        if upload is self._upload:
            self._break_off(BrokenOff("the request is whole", "reset"), self._clock(), cause=upload.error)

    # For the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._kernel = Connection(self._transport)
        self._transport.set_write_buffer_limits(high=WRITE_AHEAD_BYTES)
        keep_alive(transport.get_extra_info("socket"))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return BUFFER

    def eof_received(self) -> None:
        if self._reader is not None:
            self._take(self._reader.eof(), self._clock())

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake_upload()

    def connection_lost(self, exc: Exception | None) -> None:
        at_ns = self._clock()
        self.is_lost = True
        if exc is not None and self._reader is not None and not isinstance(self._transport, TlsTransport):
            for data in leftover(self._transport):
                self._received(data, at_ns)
                if self._reader is None:
                    break
        if self._reader is not None or self._answer is not None:
            self._break_off(_lost(exc), at_ns)
        self._wake_upload()
        self._keeper.lost(self)
        del self.buffer_updated  # it knows us

    # An answer comes in.

    def _received(self, data: bytes, at_ns: int) -> None:
        reader = self._reader
        if reader is None:  # nobody asked: it may be meant for the one before, or for nobody
            self._transport.abort()
            return
        self.has_received = True
        content = None if self._answer is None else reader.content(data)
        if self._answer is None or content is None:
            self._take(reader.feed(data), at_ns)
        else:
            self._answer.arrived(content, at_ns)
        is_usual = self._answer is not None and reader.is_between_chunks
        self.buffer_updated.sink = self._answer.arrived if is_usual and self._answer is not None else None

    def _take(self, outputs: list[Output], at_ns: int) -> None:
        pieces = [output.data for output in outputs if isinstance(output, Content)]
        for output in outputs:
            if self._reader is None:  # broken off by what was called
                return
            match output:
                case Interim(head):
                    self._interim(head, at_ns)
                case Head(head, framing):
                    self._head_came(Answer(head, framing, self, at_ns=at_ns, sending=self._upload))
                    self.keep_alive_s = keep_alive_s(head)
                case Switched(head, rest):
                    self._switched(head, rest, at_ns)
                case Broken(rule, cut):
                    self._content_came(pieces, at_ns)
                    is_bad_head = self._answer is None and cut == "framing"
                    self._break_off(BadAnswer(rule) if is_bad_head else BrokenOff(rule, cut), at_ns)
                    return
                case Finished():
                    self._content_came(pieces, at_ns)
                    self._finished(output, at_ns)
                    return
        self._content_came(pieces, at_ns)

    def _interim(self, head: ResponseHead, at_ns: int) -> None:
        assert self._on_interim is not None
        try:
            self._on_interim(head)
        except Exception as error:  # noqa: BLE001  # it is the asker's, who gets it back
            self._break_off(BrokenOff(_CLOSED_HERE, "reset"), at_ns, cause=error)

    def _head_came(self, answer: Answer) -> None:
        head, self._head = self._head, None
        if head is None or head.done():  # cancelled, and about to say so
            self.abort()
        else:
            self._answer = answer
            head.set_result(answer)

    def _content_came(self, pieces: list[bytes], at_ns: int) -> None:
        if pieces and self._answer is not None:
            self._answer.arrived(pieces[0] if len(pieces) == 1 else b"".join(pieces), at_ns)

    def _switched(self, head: ResponseHead, rest: bytes, at_ns: int) -> None:
        self._transport.pause_reading()
        self._reader = None
        if self._upload is not None:
            self._upload.cancel()
        self._keeper.given_away(self)
        upgraded = Upgraded(self._transport, rest)
        self._head_came(Answer(head, Framing(FramingKind.NONE), self, at_ns=at_ns, upgraded=upgraded))

    def _finished(self, finished: Finished, at_ns: int) -> None:
        answer, upload = self._answer, self._upload
        self._detach()
        is_sent = upload is None or upload.is_whole
        if upload is not None and not is_sent:
            upload.cancel()
        if answer is not None:
            answer.ended(at_ns, error=None, trailers=finished.trailers)
        if finished.is_reusable and is_sent and not self.is_lost and not self._transport.get_write_buffer_size():
            self.resume()
            self._keeper.released(self)
        else:
            self.close()

    def _break_off(self, error: UpstreamError, at_ns: int, *, cause: Exception | None = None) -> None:
        """The exchange ends without a whole answer, and the connection with it. cause: what its asker raised."""
        head, answer, upload = self._head, self._answer, self._upload
        self._detach()
        if upload is not None:
            upload.cancel()
        if head is not None and not head.done():
            head.set_exception(cause or error)
        if answer is not None and isinstance(error, BrokenOff):
            answer.ended(at_ns, error=error)
        self._transport.abort()

    def _detach(self) -> None:
        self._reader = self._head = self._answer = self._upload = self._on_interim = None
        if not self.is_lost:
            self.buffer_updated.sink = None

    def _wake_upload(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


def _lost(error: Exception | None) -> BrokenOff:
    """How a connection was lost that no end in order came before."""
    if error is None:
        return BrokenOff("TLS ends with its closing alert", "fin")
    cut: Cut = (
        "framing" if isinstance(error, tls.SSLError) else "timeout" if isinstance(error, TimeoutError) else "reset"
    )
    return BrokenOff("a connection lasts until its answer is whole", cut)
