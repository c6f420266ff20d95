"""Ask the upstream: one request out, one answer back, over connections that are kept for the next one.

Nothing is sent twice, with one exception: a request that changes nothing and has no body, on a kept connection that
closed before it answered a byte. There the upstream's close has crossed with the request, and a new connection is
all it needs. Everything else is the reader's to repeat, who alone knows whether it may be done twice.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import AsyncIterator, Callable
from typing import Final

from sidecar.headers import Fields, value_of
from sidecar.http1.chunked import WholeChunks, whole_chunks
from sidecar.http1.head import Http1Error, ResponseHead, request_head
from sidecar.http1.receiving import Receiver
from sidecar.upstream.answer import Answer
from sidecar.upstream.connection import UpstreamConnection
from sidecar.upstream.dial import dial
from sidecar.upstream.errors import BadRequestHead, BrokenOff, ConnectFailed
from sidecar.upstream.origin import Origin
from sidecar.upstream.pool import IDLE_NS, SURE_NS, Pool

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SECOND_NS: Final = 1_000_000_000


class Upstream:
    """The server to which every request is passed on.

    ssl: for https, whose default trusts what the system trusts.
    opened_count: connections. reused_count: requests on a kept one. resent_count: requests that were sent again.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        clock: Callable[[], int],
        ssl: tls.SSLContext | None = None,
        connect_timeout_s: float,
        whole_chunks: WholeChunks = whole_chunks,
        receiver: type[Receiver] = Receiver,
    ) -> None:
        self.origin = origin
        self.opened_count = 0
        self.reused_count = 0
        self.resent_count = 0
        self._clock = clock
        self._ssl = (ssl or tls.create_default_context()) if origin.scheme == "https" else None
        self._connect_timeout_s = connect_timeout_s
        self._whole_chunks = whole_chunks
        self._receiver = receiver
        self._pool: Pool[UpstreamConnection] = Pool()
        self._open: set[UpstreamConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def open_count(self) -> int:
        """Connections that are open, those of upgrades left out."""
        return len(self._open)

    @property
    def idle_count(self) -> int:
        """Connections that wait for a request."""
        return len(self._pool)

    async def ask(
        self,
        method: str,
        target: str,
        fields: Fields,
        *,
        body: AsyncIterator[bytes] | None,
        head_sent: Callable[[], None],
        on_interim: Callable[[ResponseHead], None],
        wants_upgrade: bool = False,
    ) -> Answer:
        """Pass a request on, and wait for the head of the answer.

        Raises UpstreamError, and what `body` or `on_interim` raise before that head is there. Cancelled, it closes
        the connection. A body is sent as it comes, framed by the Content-Length among the fields or else in chunks.
        head_sent is called when the head was written, so twice for a request that is sent twice.
        """
        framed, length_bytes = (fields, None) if body is None else _framed(fields)
        try:
            head = request_head(method, self.origin.target(target), framed)
        except Http1Error as error:
            raise BadRequestHead(error.rule) from None

        async def asked(connection: UpstreamConnection) -> Answer:
            return await connection.exchange(
                method,
                head,
                body=body,
                length_bytes=length_bytes,
                head_sent=head_sent,
                on_interim=on_interim,
                wants_upgrade=wants_upgrade,
            )

        may_resend = body is None and method in _SAFE
        if (kept := self._kept(may_resend=may_resend)) is not None:
            connection, idle_ns = kept
            try:
                return await asked(connection)
            except BrokenOff:
                if connection.has_received or self._is_closed:
                    raise
                if idle_ns >= SURE_NS:  # sooner, it was not idleness that ended it
                    self._pool.died_idle(idle_ns, self._clock())
                if not may_resend:
                    raise
                self.resent_count += 1
        return await asked(await self._opened())

    async def close(self) -> None:
        """Close every connection, whatever is on its way."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        self._pool.clear()
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)  # until they have closed

    # For the connections.

    def released(self, connection: UpstreamConnection) -> None:
        """Its exchange is over, and it can carry another one."""
        if self._is_closed:
            connection.close()
            return
        at_ns = self._clock()
        for over in self._pool.put(connection, at_ns, keep_alive_s=connection.keep_alive_s):
            over.close()
        if self._sweep is None:
            self._plan_sweep(at_ns)

    def given_away(self, connection: UpstreamConnection) -> None:
        """It speaks another protocol, and is its reader's."""
        self._open.discard(connection)

    def lost(self, connection: UpstreamConnection) -> None:
        """It is closed, by whomever."""
        self._open.discard(connection)
        self._pool.closed(connection, self._clock())

    def _kept(self, *, may_resend: bool) -> tuple[UpstreamConnection, int] | None:
        """A kept connection that is still open, as far as our kernel knows, and for how long it lay idle.

        What may not be sent twice must not cross with the close of an idle connection, and in clear a new one costs
        next to nothing: it takes only one that the upstream cannot be tired of yet.
        """
        within_ns = IDLE_NS if may_resend or self._ssl is not None else SURE_NS
        kept = self._pool.take(self._clock(), lambda connection: connection.is_quiet, within_ns=within_ns)
        self.reused_count += kept is not None
        return kept

    async def _opened(self) -> UpstreamConnection:
        connection = await dial(
            self.origin,
            lambda: UpstreamConnection(
                self, clock=self._clock, whole_chunks=self._whole_chunks, receiver=self._receiver
            ),
            ssl=self._ssl,
            timeout_s=self._connect_timeout_s,
        )
        self.opened_count += 1
        if self._is_closed:
            connection.abort()
            raise ConnectFailed("it was closed on this side")
        if not connection.is_lost:
            self._open.add(connection)
        return connection

    def _plan_sweep(self, at_ns: int) -> None:
        wait_ns = self._pool.wait_ns(at_ns)
        loop = asyncio.get_running_loop()
        self._sweep = None if wait_ns is None else loop.call_later(wait_ns / _SECOND_NS, self._swept)

    def _swept(self) -> None:
        at_ns = self._clock()
        for over in self._pool.expired(at_ns):
            over.close()
        self._plan_sweep(at_ns)


def _framed(fields: Fields) -> tuple[Fields, int | None]:
    """The fields with the framing of a body, and its length if they have one. Raises BadRequestHead."""
    length = value_of(fields, "content-length")
    if value_of(fields, "transfer-encoding") is not None:
        raise BadRequestHead("a body is framed here, so there is no Transfer-Encoding yet")
    if length is None:
        return [*fields, ("Transfer-Encoding", "chunked")], None
    if not (length.isascii() and length.isdigit()):
        raise BadRequestHead("a Content-Length is digits")
    return fields, int(length)
