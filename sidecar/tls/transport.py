"""TLS between a TCP connection and its protocol, with nothing lost at the end of it.

The TLS of the event loops drops what it has not decrypted when the connection ends, it reads on for a reader that does
not, and it hides whether the end came with the closing alert. Here that alert, and nothing else, is `eof_received`; an
end without it is a plain `connection_lost`, for anybody on the way can make one. What had arrived before is always
given out first, also after a reset.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from contextlib import suppress
from typing import Any, Final, cast

from sidecar.receive import BUFFER, leftover

SHUTDOWN_S: Final = 5.0
"""For a client to end its side, after ours has ended."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """TLS on one TCP connection: its protocol, and the transport of the protocol above.

    host: whom the server must be; None where we are the server. It makes the handshake as soon as it is connected;
    `start` then gives it its protocol.
    """

    def __init__(self, context: tls.SSLContext, *, host: str | None) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = tls.MemoryBIO(), tls.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=host is None, server_hostname=host)
        self._shaken: asyncio.Future[None] = self._loop.create_future()
        self._raw: asyncio.Transport
        self._protocol: asyncio.BaseProtocol | None = None
        self._unsent: list[bytes] = []  # what waits until TLS has read something
        self._is_paused = False
        self._is_over = False  # closed on this side, or by the alert
        self._is_lost = False
        self.has_bare_end = False  # the peer ended its connection, and no alert came before
        self._error: Exception | None = None  # why it was lost
        self._linger: asyncio.TimerHandle | None = None

    async def handshake(self) -> None:
        """Wait until it is made. Raises ssl.SSLError, and OSError when the peer closed; then it is closed."""
        try:
            await self._shaken
        except BaseException:
            self.abort()
            raise

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Give it the protocol above."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._pump()
        if self._is_lost:
            self._loop.call_soon(protocol.connection_lost, self._error)

    # The transport of the protocol above.

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as asyncio has it
        return self._object if name == "ssl_object" else self._raw.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_over or self._raw.is_closing()

    def is_reading(self) -> bool:
        return not self._is_paused and self._raw.is_reading()

    def pause_reading(self) -> None:
        self._is_paused = True
        if not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._resumed)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size() + sum(map(len, self._unsent))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self.is_closing():
            self._unsent.append(bytes(data))
            self._flush()

    def can_write_eof(self) -> bool:
        """TLS has no half-close that peers understand."""
        return False

    def close(self) -> None:
        """Say so, and close when what was written is sent."""
        if not self.is_closing():
            self._is_over = True
            with suppress(tls.SSLError):  # it wants to read the peer's alert too, which need not be waited for
                self._object.unwrap()
            self._send()
            if self._object.server_side and _end_writing(self._raw):
                # what the client still sends would be answered by a reset, which takes what it has not read with it
                self._linger = self._loop.call_later(SHUTDOWN_S, self._raw.abort)
                self._raw.resume_reading()
            else:
                self._raw.close()

    def abort(self) -> None:
        self._is_over = True
        self._raw.abort()

    # The protocol of the TCP connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._shake()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_over:
            return
        self._incoming.write(BUFFER[:nbytes])
        if not self._shaken.done():
            self._shake()
        self._pump()

    def eof_received(self) -> None:
        """An end without the alert: the transport closes, and the protocol above hears of that alone."""
        self.has_bare_end = not self._is_over

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        if not self._shaken.done():
            self._shaken.set_exception(exc or ConnectionResetError("the peer closed the connection"))
            self._shaken.exception()  # where nobody waits any more, it is no news
        if exc is not None and not self._is_over:
            for data in leftover(self._raw):
                self._incoming.write(data)
        self._is_paused = False
        self._pump()
        self._is_lost = True
        self._error = self._error or exc
        if self._protocol is not None:
            self._protocol.connection_lost(self._error)

    # In between.

    def _shake(self) -> None:
        try:
            self._object.do_handshake()
        except tls.SSLWantReadError:
            self._send()
        except tls.SSLError as error:
            self._send()  # the alert that says why
            self._is_over = True
            self._raw.close()
            if not self._shaken.done():
                self._shaken.set_exception(error)
        else:
            self._send()
            if not self._shaken.done():
                self._shaken.set_result(None)

    def _pump(self) -> None:
        """Give out what can be decrypted, as much at a time as the protocol above takes."""
        is_dry = False
        while self._protocol is not None and not (is_dry or self._is_paused or self._is_over):
            protocol = self._protocol
            view = protocol.get_buffer(-1) if isinstance(protocol, asyncio.BufferedProtocol) else BUFFER
            count, is_dry, is_end = self._decrypt(memoryview(view))
            if count and isinstance(protocol, asyncio.BufferedProtocol):
                protocol.buffer_updated(count)
            elif count:
                cast("asyncio.Protocol", protocol).data_received(bytes(BUFFER[:count]))
            if is_end and not self._is_over:
                cast("asyncio.Protocol", self._protocol).eof_received()
                self.close()
        self._flush()

    def _decrypt(self, view: memoryview) -> tuple[int, bool, bool]:
        """Bytes put into the view; whether there are no more, and whether there will be none since the alert came."""
        count = 0
        try:
            while count < len(view):
                size_bytes = cast("int", self._object.read(len(view) - count, cast("bytearray", view[count:])))
                if not size_bytes:
                    return count, True, True
                count += size_bytes
        except tls.SSLWantReadError:
            return count, True, False
        except tls.SSLError as error:
            self._error = error
            self._raw.abort()
            return count, True, False
        return count, False, False

    def _resumed(self) -> None:
        self._pump()
        if not self._is_paused and not self._raw.is_closing():
            self._raw.resume_reading()

    def _flush(self) -> None:
        """Encrypt and send what waits to be sent."""
        try:
            while self._unsent and not self._is_over:
                self._object.write(self._unsent[0])
                del self._unsent[0]
        except tls.SSLWantReadError:
            pass  # a renegotiation: after the next receive
        except tls.SSLError as error:
            self._error = error
            self._raw.abort()
        self._send()

    def _send(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())


def _end_writing(transport: asyncio.Transport) -> bool:
    """End our sending half after what was written; False where nobody is left."""
    try:
        transport.write_eof()
    except (OSError, RuntimeError):
        return False
    return True
