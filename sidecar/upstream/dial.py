"""Open a connection to an origin: its name, the first of its addresses that answers, and TLS, all in one time limit."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import aiohappyeyeballs

from sidecar.tls.transport import TlsTransport
from sidecar.upstream.errors import ConnectFailed, ConnectTimeout, TlsFailed
from sidecar.upstream.origin import Origin

ATTEMPT_S: Final = 0.25
"""Until the next address is tried beside one that does not answer (RFC 8305, 5)."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def dial(origin: Origin, factory: Callable[[], P], *, ssl: tls.SSLContext | None, timeout_s: float) -> P:
    """A new connection with its protocol, for https under TLS, which needs its context.

    Raises ConnectTimeout, ConnectFailed or TlsFailed.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _dialled(origin, factory, ssl)
    except TimeoutError:  # ours, or the kernel's
        raise ConnectTimeout(timeout_s) from None


async def _dialled(origin: Origin, factory: Callable[[], P], ssl: tls.SSLContext | None) -> P:
    if origin.scheme != "https":
        return await _connected(origin, factory)
    assert ssl is not None, "https without its context would be sent in clear"
    try:
        secure = TlsTransport(ssl, host=origin.host)
    except ValueError as error:
        raise TlsFailed(str(error)) from error
    await _connected(origin, lambda: secure)
    try:
        await secure.handshake()
    except TimeoutError:
        raise
    except OSError as error:
        raise _tls_failure(error) from error
    protocol = factory()
    secure.start(protocol)
    return protocol


async def _connected(origin: Origin, factory: Callable[[], P]) -> P:
    """A TCP or unix connection with its protocol."""
    loop = asyncio.get_running_loop()
    sock = None

    def made() -> P:
        nonlocal sock
        sock = None  # from here on it is the transport's
        return factory()

    try:
        if origin.unix_path is not None:
            return (await loop.create_unix_connection(factory, origin.unix_path))[1]
        addresses = await _addresses(origin.host, origin.port)
        sock = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=ATTEMPT_S)
        return (await loop.create_connection(made, sock=sock))[1]
    except TimeoutError:
        raise
    except (OSError, RuntimeError, UnicodeError) as error:  # uvloop and the codec of names raise the last two
        errno = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
        raise ConnectFailed(str(error), errno) from error
    finally:
        if sock is not None:
            sock.close()


async def _addresses(host: str, port: int) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    """All addresses of a host; one that is an address itself is not looked up."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _tls_failure(error: OSError) -> TlsFailed:
    if isinstance(error, tls.SSLCertVerificationError):
        return TlsFailed(error.verify_message)
    if isinstance(error, tls.SSLError):
        return TlsFailed(error.reason or str(error))
    return TlsFailed(str(error) or "the peer closed the connection")
