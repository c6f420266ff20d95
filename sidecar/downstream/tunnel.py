"""Join two connections: what comes in at one goes out at the other, with backpressure and half-closes passed on.

An end is passed on after everything that came before it, and always as an orderly close: what flows through a tunnel
has marks of its own for its end, and a reset would throw away bytes that had arrived. A peer that does not take what
is left, or does not end its own side, gets HALF_CLOSED_NS after the last byte moved.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Literal, Protocol, cast

from sidecar.downstream.sniff import Opening
from sidecar.kernel import keep_alive
from sidecar.upstream.dial import dial
from sidecar.upstream.origin import Origin

HALF_CLOSED_NS: Final = 60_000_000_000
"""How long one direction may stay open and still after the other has ended: a peer that is gone never says so."""

Cut = Literal["fin", "reset", "timeout"]
"""How a peer closed its connection: in order, by a reset, or by falling silent for longer than its kernel allows."""

Dial = Callable[[Opening, Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Connect to the upstream for what begins with that opening. Raises UpstreamError."""


class Watch(Protocol):
    """Told of one direction of a tunnel, always after the bytes were handed on. Must not raise."""

    def passed(self, data: bytes, at_ns: int) -> None:
        """One read: its bytes, and when they came in."""
        ...

    def taken(self, at_ns: int) -> None:
        """Our kernel has everything that has passed so far."""
        ...

    def stuck(self, at_ns: int) -> None:
        """The receiving side takes no more, and until it does nothing passes."""
        ...

    def blocked(self, began_ns: int, ended_ns: int) -> None:
        """It was stuck for this stretch; `taken` follows."""
        ...

    def ended(self, at_ns: int, cut: Cut) -> None:
        """Nothing more will come in, and how that was seen. Not told where we close."""
        ...


def cut_of(error: BaseException | None) -> Cut | None:
    """How a connection was lost, by what the event loop reports; None for a close of our own."""
    if error is None:
        return None
    return "timeout" if isinstance(error, TimeoutError) else "reset"


def end_writing(transport: asyncio.Transport) -> bool:
    """End our sending half after what was written; False where there are no halves, or nobody is left: then close."""
    if not transport.can_write_eof():
        return False
    try:
        transport.write_eof()
    except OSError:  # reset by the peer a moment ago, which the event loop has not told yet
        return False
    return True


class Side(asyncio.Protocol):
    """One end of a tunnel, the protocol of its connection. What comes in here goes out at the peer.

    passed_bytes: taken in here and handed on. ended_ns, cut: when and how this peer ended its own sending; None while
    it has not, or where we closed. blocked_since_ns: since when our kernel takes nothing for this peer.
    """

    __slots__ = (
        "_tunnel",
        "blocked_since_ns",
        "cut",
        "ended_ns",
        "is_handing_on",
        "is_lost",
        "passed_bytes",
        "peer",
        "transport",
        "watch",
    )

    def __init__(self, tunnel: Tunnel, watch: Watch | None) -> None:
        self._tunnel = tunnel
        self.blocked_since_ns: int | None = None
        self.is_handing_on = False
        self.watch = watch
        self.peer: Side = self
        self.transport: asyncio.Transport | None = None
        self.passed_bytes = 0
        self.ended_ns: int | None = None
        self.cut: Cut | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        keep_alive(transport.get_extra_info("socket"))
        self._tunnel.side_opened(self)

    def data_received(self, data: bytes) -> None:
        at_ns = self._tunnel.now()
        self._tunnel.moved_ns = at_ns
        peer, watch = self.peer, self.watch
        if peer.transport is None or peer.transport.is_closing():
            return  # nobody is there to have it; this side is being closed
        was_stuck = peer.blocked_since_ns is not None
        self.is_handing_on = True
        peer.transport.write(data)
        self.is_handing_on = False
        self.passed_bytes += len(data)
        if watch is not None:
            watch.passed(data, at_ns)
            if peer.blocked_since_ns is None:
                watch.taken(self._tunnel.now())
            elif not was_stuck:
                watch.stuck(peer.blocked_since_ns)

    def eof_received(self) -> bool:
        """Pass the half-close on; True where the other direction may go on."""
        self._ended("fin")
        peer = self.peer.transport
        if peer is not None and not peer.is_closing() and (self.peer.ended_ns is not None or not end_writing(peer)):
            peer.close()
        assert self.transport is not None
        return self.peer.ended_ns is None and self.transport.can_write_eof()

    def pause_writing(self) -> None:
        self.blocked_since_ns = self._tunnel.now()
        if self.peer.watch is not None and not self.peer.is_handing_on:  # or it tells so itself, in order
            self.peer.watch.stuck(self.blocked_since_ns)
        if self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.blocked_since_ns is None:
            return
        began_ns, self.blocked_since_ns = self.blocked_since_ns, None
        at_ns = self._tunnel.moved_ns = self._tunnel.now()
        if self.peer.watch is not None:
            self.peer.watch.blocked(began_ns, at_ns)
            self.peer.watch.taken(at_ns)
        if self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if (cut := cut_of(exc)) is not None:
            self._ended(cut)
        if self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.close()
        self._tunnel.side_lost()

    def _ended(self, cut: Cut) -> None:
        if self.ended_ns is None:
            self.ended_ns, self.cut = self._tunnel.now(), cut
            self._tunnel.moved_ns = self.ended_ns
            if self.watch is not None:
                self.watch.ended(self.ended_ns, cut)


class Tunnel:
    """Two sides, `client` and `upstream`; watched are `sent` from the client and `answered` by the upstream.

    first_bytes: what the client had sent before the upstream is connected. closed: called once, when both are closed.
    """

    __slots__ = ("_closed", "_first_bytes", "_told", "client", "moved_ns", "now", "upstream")

    def __init__(
        self,
        *,
        now: Callable[[], int],
        closed: Callable[[Tunnel], None],
        sent: Watch | None = None,
        answered: Watch | None = None,
        first_bytes: bytes = b"",
    ) -> None:
        self.now = now
        self.moved_ns = now()
        self.client, self.upstream = Side(self, sent), Side(self, answered)
        self.client.peer, self.upstream.peer = self.upstream, self.client
        self._first_bytes = first_bytes
        self._told = closed
        self._closed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def side_opened(self, side: Side) -> None:
        """A side has its connection. From when both have, everything passes."""
        if side.peer.is_lost:
            side.transport.abort()  # type: ignore[union-attr]  # just made
            return
        client, upstream = self.client.transport, self.upstream.transport
        if client is None or upstream is None:
            return
        for transport in (client, upstream):
            transport.set_write_buffer_limits(high=0)
        first_bytes, self._first_bytes = self._first_bytes, b""
        if first_bytes:
            self.client.data_received(first_bytes)
        if self.upstream.blocked_since_ns is None:
            client.resume_reading()

    def side_lost(self) -> None:
        """A side's connection is gone."""
        sides = (self.client, self.upstream)
        if all(side.is_lost or side.transport is None for side in sides) and not self.is_closed:
            self._closed.set()
            self._told(self)

    def tick(self, at_ns: int) -> None:
        """Give up what is half closed and still for too long."""
        is_ending = any(side.is_lost or side.ended_ns is not None for side in (self.client, self.upstream))
        if is_ending and at_ns - self.moved_ns >= HALF_CLOSED_NS:
            self.abort()

    def abort(self) -> None:
        """Close both sides now."""
        for side in (self.client, self.upstream):
            if side.transport is not None:
                side.transport.abort()

    async def wait_closed(self) -> None:
        """Until both sides are closed. Cancelled, it closes them."""
        try:
            await self._closed.wait()
        except asyncio.CancelledError:
            self.abort()
            raise


def dialer(origin: Origin, *, tls: ssl.SSLContext | None, connect_timeout_s: float) -> Dial:
    """How opaque connections reach an upstream: as raw bytes, since TLS from end to end is not ours to open.

    tls: for HTTP/2 in clear towards an https upstream, a context that offers `h2`; elsewhere it is not used.
    """
    raw = replace(origin, scheme="http")

    async def to_upstream(opening: Opening, protocol: Callable[[], asyncio.Protocol]) -> object:
        reached = origin if opening is Opening.HTTP2 else raw
        return await dial(reached, protocol, ssl=tls, timeout_s=connect_timeout_s)

    return to_upstream
