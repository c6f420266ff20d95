"""Open a connection to an origin: its name, the first of its addresses that answers, and TLS, all in one time limit."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import aiohappyeyeballs

from sidecar.upstream.errors import ConnectFailed, ConnectTimeout, TlsFailed, UpstreamError
from sidecar.upstream.origin import Origin

ATTEMPT_S: Final = 0.25
"""Until the next address is tried beside one that does not answer (RFC 8305, 5)."""
TLS_CLOSE_S: Final = 2.0
"""How long a closed connection waits for the peer's closing alert, which many never send."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def dial(origin: Origin, factory: Callable[[], P], *, ssl: tls.SSLContext | None, timeout_s: float) -> P:
    """A new connection with its protocol. Raises ConnectTimeout, ConnectFailed or TlsFailed."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _dialled(origin, factory, ssl if origin.scheme == "https" else None)
    except TimeoutError:  # ours, or the kernel's
        raise ConnectTimeout(timeout_s) from None


async def _dialled(origin: Origin, factory: Callable[[], P], ssl: tls.SSLContext | None) -> P:
    loop = asyncio.get_running_loop()
    try:
        if origin.unix_path is not None:
            return (await loop.create_unix_connection(factory, origin.unix_path))[1]
        sock = await aiohappyeyeballs.start_connection(
            await _addresses(origin.host, origin.port), happy_eyeballs_delay=ATTEMPT_S
        )
    except TimeoutError:
        raise
    except (OSError, RuntimeError, UnicodeError) as error:  # uvloop and the codec of names raise the last two
        raise _failure(error) from error
    return await _adopted(sock, origin, factory, ssl)


async def _adopted(sock: socket.socket, origin: Origin, factory: Callable[[], P], ssl: tls.SSLContext | None) -> P:
    """A connected socket with its protocol. It is the transport's from the moment in which that asks for one."""
    is_ours = True

    def made() -> P:
        nonlocal is_ours
        is_ours = False
        return factory()

    loop = asyncio.get_running_loop()
    try:
        if ssl is None:
            return (await loop.create_connection(made, sock=sock))[1]
        return (
            await loop.create_connection(
                made, sock=sock, ssl=ssl, server_hostname=origin.host, ssl_shutdown_timeout=TLS_CLOSE_S
            )
        )[1]
    except TimeoutError:
        raise
    except OSError as error:
        raise (_failure(error) if ssl is None else _tls_failure(error)) from error
    finally:
        if is_ours:
            sock.close()


async def _addresses(host: str, port: int) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    """All addresses of a host; one that is an address itself is not looked up."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _failure(error: Exception) -> UpstreamError:
    errno = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
    return ConnectFailed(str(error), errno)


def _tls_failure(error: OSError) -> UpstreamError:
    if isinstance(error, tls.SSLCertVerificationError):
        return TlsFailed(error.verify_message)
    if isinstance(error, tls.SSLError):
        return TlsFailed(error.reason or str(error))
    return TlsFailed(str(error) or "the peer closed the connection")
