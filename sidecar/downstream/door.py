"""Stand between each accepted connection and the HTTP parser: what it speaks, who waits too long, how the client left.

A door adds one call to each read and none to a write. It knows HTTP only by what the listener tells it: a request has
begun, it has ended. So bytes that come while none runs are a head, and a head that never becomes a request is slow.

A client that ends its sending side has left, in every phase, as with nginx; only in a tunnel a half-close passes on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Final, Protocol, cast

from aiohttp import StreamReader, web

from sidecar.downstream.sniff import Opening, opening_of
from sidecar.downstream.tunnel import Cut, Dial, Tunnel, Watch, cut_of, end_writing
from sidecar.kernel import Connection
from sidecar.tls.transport import TlsTransport
from sidecar.upstream import Upgraded

HEAD_BYTES: Final = 1 << 20
"""Bytes that may come before they are a request. A line and the number of lines are bounded by the parser, all of them
together are not; half of it is for a body that came with its head, which pauses reading before it is more."""

_REASONS: Final = {
    400: ("Bad Request", "bad_request"),
    408: ("Request Timeout", "request_timeout"),
    431: ("Request Header Fields Too Large", "head_too_large"),
    503: ("Service Unavailable", "full"),
}


def raw_answer(status: int, message: str) -> bytes:
    """A whole answer on the wire, after which the connection closes."""
    reason, kind = _REASONS[status]
    body = json.dumps({"error": {"type": kind, "message": f"gapline sidecar: {message}"}})
    fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    retry = "\r\nRetry-After: 1" if status == 503 else ""
    return f"HTTP/1.1 {status} {reason}\r\n{fields}{retry}\r\n\r\n{body}".encode()


FULL: Final = raw_answer(503, "as many connections as may be open are so already")
SLOW_HEAD: Final = raw_answer(408, "the head of the request did not come in time")
LONG_HEAD: Final = raw_answer(431, "the head of the request is too long")


class MakeHandler(Protocol):
    """Makes the HTTP parser of a connection."""

    def __call__(self, door: Door) -> web.RequestHandler: ...


class Registry(Protocol):
    """Whom a door tells what happens, and who then has it end what waits too long. See `sidecar.downstream.doors`."""

    @property
    def now(self) -> Callable[[], int]:
        """The monotonic clock."""
        ...

    def enter(self, door: Door) -> bool:
        """A connection is there; False when it is one too many."""
        ...

    def leave(self, door: Door) -> None:
        """It is gone."""
        ...

    def head_began(self, door: Door) -> None: ...

    def head_ended(self, door: Door) -> None: ...

    def linger(self, door: Door) -> None:
        """It has its last answer, and shall be closed when it had time to read it."""
        ...

    def open_tunnel(self, tunnel: Tunnel) -> None: ...

    def open_opaque(self, opening: Opening, first_bytes: bytes, *, dial: Dial) -> Tunnel:
        """A tunnel that connects by itself, and closes where it cannot."""
        ...

    def tunnel_closed(self, tunnel: Tunnel) -> None: ...


class Door(asyncio.Protocol):
    """One accepted connection.

    left_by: how the client ended the connection, None while it has not, or where we did. connection: as the kernel sees
    it, once it is there.
    """

    __slots__ = (
        "_body",
        "_dial",
        "_doors",
        "_first_bytes",
        "_handler",
        "_head_bytes",
        "_head_refused",
        "_inner",
        "_is_running",
        "_lost",
        "_make_handler",
        "_refusal",
        "_transport",
        "_tunnel",
        "connection",
        "is_refused",
        "left_by",
    )

    def __init__(
        self, doors: Registry, *, make_handler: MakeHandler, head_refused: Callable[[], None], dial: Dial
    ) -> None:
        self._doors = doors
        self._head_refused = head_refused
        self._make_handler = make_handler
        self._dial = dial
        self._transport: asyncio.Transport | None = None
        self.connection: Connection | None = None
        self._handler: web.RequestHandler | None = None
        self._inner: asyncio.Protocol | None = None  # who gets what comes in: the handler, or a side of a tunnel
        self._tunnel: Tunnel | None = None
        self._first_bytes = b""
        self._head_bytes = 0
        self._body: StreamReader | None = None  # of the request that runs, or that was answered before all of it came
        self._is_running = False
        self._refusal: bytes | None = None
        self._lost: list[Exception | None] = []
        self.is_refused = False
        self.left_by: Cut | None = None

    @property
    def is_idle(self) -> bool:
        """It had a request, and has none now, nor the beginning of one, as far as this process has read."""
        return (
            self._inner is self._handler
            and self._handler is not None
            and not (self._is_running or self._head_bytes or self.is_refused)
            and (self._body is None or self._body.is_eof())
        )

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.connection = Connection(self._transport)
        if not self._doors.enter(self):
            self._refusal = FULL

    def data_received(self, data: bytes) -> None:
        inner = self._inner
        if inner is None:
            self._begin(data)
        elif self._tunnel is not None or (self._body is not None and not self._body.is_eof()):
            inner.data_received(data)
        else:
            self._take_head(inner, data)

    def eof_received(self) -> bool | None:
        if self._tunnel is not None and self._inner is not None:
            self.left_by = self.left_by or "fin"
            return self._inner.eof_received()
        self.left_by = self.left_by or "fin"
        if self._is_running and self._transport is not None and self._transport.get_write_buffer_size():
            self._transport.abort()  # an orderly close would first wait for the client to take what is left
        return None

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None and self._handler.writing_paused:
            self._handler.resume_writing()
        if self._inner is not None and self._inner is not self._handler:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        is_bare = isinstance(self._transport, TlsTransport) and self._transport.has_bare_end
        self.left_by = self.left_by or cut_of(exc) or ("fin" if is_bare else None)
        self._doors.leave(self)
        if self._tunnel is not None:
            self._tunnel.client.connection_lost(exc)
            if self._is_running:  # whoever runs it hears of the end from the tunnel, and must not be cancelled for it
                self._lost.append(exc)
                return
        if self._handler is not None:
            self._handler.connection_lost(exc)

    # What comes in while no request runs.

    def _begin(self, data: bytes) -> None:
        """The first bytes: find out what they are."""
        if self.is_refused or self._tunnel is not None:
            return
        self._doors.head_began(self)
        self._first_bytes += data
        opening = opening_of(self._first_bytes)
        if opening is Opening.MORE:
            return
        first_bytes, self._first_bytes = self._first_bytes, b""
        if self._refusal is not None:
            self._refuse_first(opening)
        elif opening is Opening.HTTP1:
            assert self._transport is not None
            self._handler = self._inner = handler = self._make_handler(self)
            handler.connection_made(self._transport)
            self._take_head(handler, first_bytes)
        else:
            self._pass_unread(opening, first_bytes)

    def _take_head(self, inner: asyncio.Protocol, data: bytes) -> None:
        """Of a head, which may come before its turn; then its time begins when the request before it is through."""
        if not self._head_bytes and not self._is_running:
            self._doors.head_began(self)
        self._head_bytes += len(data)
        if self._head_bytes <= HEAD_BYTES:
            inner.data_received(data)
            return
        self._head_refused()
        if self._is_running:
            self.abort()  # its answer would stand within another one
        else:
            self.refuse(LONG_HEAD)

    def _pass_unread(self, opening: Opening, first_bytes: bytes) -> None:
        assert self._transport is not None
        self._doors.head_ended(self)
        self._transport.pause_reading()  # until somebody is there to have it
        self._tunnel = tunnel = self._doors.open_opaque(opening, first_bytes, dial=self._dial)
        self._inner = tunnel.client
        tunnel.client.connection_made(self._transport)

    # What the listener and the relay tell.

    def request_began(self, body: StreamReader) -> None:
        """A request has reached the listener."""
        self._is_running = True
        self._body = body
        self._head_bytes = 0
        self._doors.head_ended(self)
        if self.is_refused:  # answered in the moment in which it became a request
            self.abort()

    def request_ended(self) -> None:
        """It was answered, whether its body has all come or not."""
        self._is_running = False
        if self._head_bytes and not self.is_refused:
            self._doors.head_began(self)
        if self._tunnel is not None:
            if not self._tunnel.is_closed:
                self._tunnel.abort()
            if self._lost and self._handler is not None:
                asyncio.get_running_loop().call_soon(self._handler.connection_lost, self._lost.pop())

    def become_tunnel(self, far: Upgraded, *, sent: Watch | None = None, answered: Watch | None = None) -> Tunnel:
        """Join the client with an upstream that both speak another protocol from here on.

        The request goes on running until its handler returns; the client's leaving does not cancel it any more, it
        ends the tunnel. sent, answered: who watches what comes from the client, and from the upstream.
        """
        assert self._transport is not None
        assert self._handler is not None
        early = _Early()
        self._handler.set_parser(early)  # type: ignore[arg-type]  # for what the client said before it had an answer
        self._tunnel = tunnel = Tunnel(
            now=self._doors.now, closed=self._doors.tunnel_closed, sent=sent, answered=answered
        )
        self._doors.open_tunnel(tunnel)
        self._inner = tunnel.client
        if self._transport.get_write_buffer_size():
            tunnel.client.pause_writing()
        tunnel.client.connection_made(self._transport)
        tunnel.upstream.connection_made(far.transport)
        if far.rest:
            tunnel.upstream.data_received(far.rest)
        if early.data:
            tunnel.client.data_received(early.data)
        far.switch(tunnel.upstream)
        return tunnel

    def refuse(self, answer: bytes) -> None:
        """Answer in place of HTTP's handler, take nothing more, and close when the client has, or soon.

        A close at once would be a reset, with bytes of the client on their way, and a reset takes the answer with it.
        """
        transport = self._transport
        self._inner = None
        self.is_refused = True
        self._doors.head_ended(self)
        if transport is None or transport.is_closing():
            return
        transport.write(answer)
        if not end_writing(transport):
            transport.close()
            return
        self._doors.linger(self)
        if not transport.is_reading():
            transport.resume_reading()

    def _refuse_first(self, opening: Opening) -> None:
        if opening is Opening.HTTP1 and self._refusal is not None:
            self.refuse(self._refusal)
        else:
            self.abort()

    # What the registry decides.

    def head_is_late(self) -> None:
        """The head of a request has taken too long."""
        if self._first_bytes and self._handler is None and self._refusal is None:
            self._first_bytes = b""
        self.refuse(self._refusal or SLOW_HEAD)

    def time_is_up(self) -> None:
        """It was refused, or has never said anything, and lingered long enough."""
        if self._refusal is not None and not self.is_refused:
            self.refuse(self._refusal)
        else:
            self.close()

    def close_idle(self) -> None:
        """Close it where nothing runs and nothing is on its way that our kernel has."""
        if self._transport is None or self.connection is None or self._transport.is_closing():
            return
        if self.is_idle and not self.connection.unread_bytes():
            self._transport.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Early:
    """Stands in for a parser, and keeps what the client sent before the connection changed its protocol."""

    def __init__(self) -> None:
        self.data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        """The connection is gone."""
