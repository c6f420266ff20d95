"""The downstream side: take every request to the relay as it came, refuse what is none, drain.

HTTP is parsed by aiohttp's protocol without its application: there are no routes here, and nothing may answer an
`Expect` or look at a target before the relay does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from otel.logs import SILENT
from otel.settings import Address
from sidecar.bounds.deadlines import DRAINED
from sidecar.downstream.acceptor import Acceptor
from sidecar.downstream.door import LONG_HEAD, Door, raw_answer
from sidecar.downstream.doors import Doors
from sidecar.downstream.refusals import HEAD_TOO_LONG, TOO_LONG, RefusedHeads, rule_of
from sidecar.downstream.sockets import port_of
from sidecar.downstream.tunnel import Dial
from sidecar.exchanges import Exchanges
from sidecar.failures import OUR_FAULT
from sidecar.http1.head import LINE_BYTES, LINES
from sidecar.tls.contexts import ServerTls

REQUEST_BUFFER_BYTES: Final = 32_768
"""Of a request body in front of an upstream that does not take it; twice that is where reading pauses."""
HANDSHAKE_S: Final = 60.0
"""For a TLS handshake: as for a head, since both are what a client sends before it is a request."""
UNDECIDED_S: Final = 1.0
"""How long a drain waits for connections that have said nothing yet: their request gets its 503, not a reset."""
POLL_S: Final = 0.02
CLOSE_S: Final = 1.0
"""For handlers to end when their connection is closed: drain has waited for those that had something to do."""
_BAD_HEAD: Final = raw_answer(400, "the head of the request is not valid")


class Carrier(Protocol):
    """What carries requests: a relay. is_draining: it refuses them."""

    is_draining: bool

    async def handle(self, request: web.Request) -> web.StreamResponse: ...


class Refusal(web.StreamResponse):
    """What aiohttp gets in place of an answer of its own: the door has given one, and the connection lingers."""

    def __init__(self, closed: asyncio.Future[None]) -> None:
        super().__init__()
        self._closed = closed

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        del request
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        del data
        await self._closed  # or aiohttp would close at once, and a reset would overtake the answer

    @property
    def keep_alive(self) -> bool:
        return False


class BadBody(Exception):  # noqa: N818  # the client's error
    """The framing of a request's body is not valid."""


class Handler(web.RequestHandler):
    """aiohttp's HTTP/1 for one connection, except that what it refuses is refused by the door, and never logged."""

    __slots__ = ("_door", "_exchanges", "_head_refused", "body")

    def __init__(
        self, door: Door, exchanges: Exchanges, server: web.Server, *, head_refused: Callable[[str, str | None], None]
    ) -> None:
        """head_refused: is told the rule that a head broke, and the client's address."""
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            logger=SILENT,
            access_log=None,  # type: ignore[arg-type]  # documented for servers: no access log
            auto_decompress=False,
            max_line_size=LINE_BYTES,
            max_field_size=LINE_BYTES,
            max_headers=LINES,
            read_bufsize=REQUEST_BUFFER_BYTES,
        )
        self._door = door
        self._head_refused = head_refused
        self._exchanges = exchanges
        self.body: StreamReader | None = None  # of the request that runs

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._tell_body()

    def begin(self, body: StreamReader) -> None:
        """A request runs; what came before its turn may have broken its body already."""
        self.body = body
        self._tell_body()

    def _tell_body(self) -> None:
        """Tell a body that its framing broke: aiohttp queues that error behind the request that waits for the body."""
        if self.body is not None and not self.body.is_eof():
            queued = getattr(self, "_messages", None)  # where it is no more, the body's timeout ends it
            if queued and not isinstance(queued[0][0], RawRequestMessage):
                self.body.set_exception(BadBody())

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """A head that is not valid; 500 is a fault of ours, after which nothing may look whole."""
        del request, message
        if status == OUR_FAULT.status:
            self._exchanges.relay_failure_count += 1
            self._door.abort()
        else:
            rule = rule_of(exc)
            self._head_refused(rule, peer_of(self.transport))
            self._door.refuse(LONG_HEAD if rule in TOO_LONG else _BAD_HEAD)
        return Refusal(asyncio.get_running_loop().create_future())


class Listener:
    """What comes in through some sockets and goes to one relay."""

    def __init__(
        self,
        relay: Carrier,
        *,
        sockets: Sequence[socket.socket],
        tls: ServerTls | None,
        exchanges: Exchanges,
        doors: Doors,
        refused_heads: RefusedHeads,
        dial: Dial,
        name: str = "listen",
    ) -> None:
        """Takes over the sockets: it closes them. name: as metrics have it."""
        self._name = name
        self._relay = relay
        self._exchanges = exchanges
        self._doors = doors
        self._refused_heads = refused_heads
        self._dial = dial
        self._tls = tls
        self._sockets = tuple(sockets)
        self._port = port_of(sockets)
        self._server: web.Server | None = None
        self._acceptor: Acceptor | None = None

    @property
    def port(self) -> int:
        """0 for unix sockets alone."""
        return self._port

    @property
    def pause_count(self) -> int:
        """Rests of accepting, for want of descriptors or memory."""
        return 0 if self._acceptor is None else self._acceptor.pause_count

    @property
    def failed_handshake_count(self) -> int:
        return 0 if self._acceptor is None else self._acceptor.failed_handshake_count

    async def start(self) -> None:
        """Accept."""
        self._server = web.Server(self._carry, request_factory=_request_of, handler_cancellation=True)
        self._acceptor = Acceptor(
            self._sockets,
            make_door=self._door,
            doors=self._doors,
            tls=self._tls,
            handshake_timeout_s=HANDSHAKE_S,
        )
        self._acceptor.start()

    async def drain(self, *, timeout_s: float) -> None:
        """Take nothing new, let what runs finish, and end the rest at the limit. Returns when nothing runs.

        What runs is the whole process's, on whatever listener.
        """
        self._relay.is_draining = self._exchanges.is_draining = self._doors.is_draining = True
        if self._acceptor is not None:
            self._acceptor.stop()
        try:
            async with asyncio.timeout(timeout_s):
                await self._finish()
        except TimeoutError:
            self._exchanges.stop_running(DRAINED)
            self._doors.abort_tunnels()
            await self._exchanges.wait_idle()
        self._exchanges.close_lingering()

    async def close(self) -> None:
        """Close every connection of the process."""
        if self._acceptor is not None:
            self._acceptor.close()
        self._doors.close_all()
        await asyncio.sleep(0)  # for the event loop to tell everybody
        if self._server is not None:
            await self._server.shutdown(CLOSE_S)
        self._doors.abort_all()
        await asyncio.sleep(0)

    async def _finish(self) -> None:
        loop = asyncio.get_running_loop()
        patient_until_s = loop.time() + UNDECIDED_S
        while True:
            self._doors.close_idle()
            is_waiting = self._doors.has_undecided and loop.time() < patient_until_s
            if not (self._exchanges.running_count or self._doors.tunnels or is_waiting):
                return
            await asyncio.sleep(POLL_S)

    def _door(self) -> Door:
        return Door(self._doors, make_handler=self._handler, head_refused=self._head_too_long, dial=self._dial)

    def _handler(self, door: Door) -> web.RequestHandler:
        assert self._server is not None
        return Handler(door, self._exchanges, self._server, head_refused=self._head_refused)

    def _head_too_long(self) -> None:
        self._head_refused(HEAD_TOO_LONG, None)

    def _head_refused(self, rule: str, peer: str | None) -> None:
        self._refused_heads.add(rule, listener=self._name, peer=peer)

    async def _carry(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        door = None if request.transport is None else self._doors.of(request.transport)
        if door is None:
            return await self._relay.handle(request)  # the client has left, and the relay says so in its record
        handler = request.protocol
        assert isinstance(handler, Handler)
        handler.begin(request.content)
        door.request_began(request.content)
        try:
            return await self._relay.handle(request)
        finally:
            handler.body = None
            door.request_ended()


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """The client's address; on a unix socket it has none."""
    name = None if transport is None else transport.get_extra_info("peername")
    return str(Address(*name[:2])) if isinstance(name, tuple) else None


def _request_of(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    return web.Request(message, payload, protocol, writer, task, asyncio.get_running_loop())
