"""Ask a gapline process over HTTP and take its JSON; whatever stands in the way becomes one sentence and an exit code.

Exit codes: 0 answered (why: healthy), 10 a cause is named, 11 inconclusive, 12 not found, 3 no answer (unreachable,
too slow, token refused, or not what the URL was taken for), 2 usage, 1 an answer this version cannot read.
"""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson
import yarl

ANSWERED: Final = 0
UNREADABLE: Final = 1
USAGE: Final = 2
NO_ANSWER: Final = 3
NAMED: Final = 10
INCONCLUSIVE: Final = 11
NOT_FOUND: Final = 12
INTERRUPTED: Final = 130  # as shells report SIGINT

ANSWER_BYTES: Final = 256 << 20  # five hops of 200,000 stamps each are 50 MB; more than this is not an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Whom a command asks. kind: `collector` or `sidecar`.

    if_absent: what to try when nobody answers. wants: what it misses when it will not answer us, if_refused: what to
    do then.
    """

    kind: str
    url: str
    token: str = ""
    if_absent: str
    wants: str
    if_refused: str

    @property
    def at(self) -> str:
        return f"the {self.kind} at {self.url}"


class NoAnswerError(Exception):
    """There is no answer to show; code is the exit code that says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def ask(peer: Peer, path: str, *, timeout_s: float, if_missing: str | None = None) -> dict[str, Any]:
    """The JSON object at the path; raises NoAnswerError.

    if_missing: what to try where the peer does not have what was asked for; None: every such peer has it.
    """
    headers = {"Accept": "application/json", **({"Authorization": f"Bearer {peer.token}"} if peer.token else {})}
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(yarl.URL(peer.url + path, encoded=True), allow_redirects=False) as response,
        ):
            return _understood(response.status, await _read(response, peer.at), peer, if_missing)
    except TimeoutError:
        raise NoAnswerError(NO_ANSWER, f"{peer.at} did not answer within {timeout_s:g} s (--timeout)") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, aiohttp.ClientConnectorSSLError) and _is_plain(error.os_error):
            without_tls = peer.url.replace("https:", "http:", 1)
            raise NoAnswerError(NO_ANSWER, f"{peer.at} does not speak TLS; try {without_tls}") from None
        raise NoAnswerError(NO_ANSWER, f"no answer from {peer.at}: {_reason(error)}. {peer.if_absent}") from None


def _reason(error: Exception) -> str:
    """What went wrong in the system's words where it has some: `Connection refused`."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({getattr(error.certificate_error, 'verify_message', 'unverified')})"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLError):  # its errno is not the system's
        return f"no TLS connection ({str(cause.reason).lower().replace('_', ' ')})"
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "the name is not known"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno)
    return str(error) or type(error).__name__


_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
"""What OpenSSL, depending on its version, says of a peer that answers a TLS greeting in plain text."""


def _is_plain(error: OSError) -> bool:
    return isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS


async def _read(response: aiohttp.ClientResponse, at: str) -> bytes:
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > ANSWER_BYTES:
            raise NoAnswerError(NO_ANSWER, f"{at} answered with more than {ANSWER_BYTES >> 20} MiB")
    return bytes(body)


def _understood(status: int, body: bytes, peer: Peer, if_missing: str | None) -> dict[str, Any]:
    """The answer in a body, or the reason why there is none."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    kind, message = (error.get("type"), error.get("message")) if isinstance(error, dict) else (None, None)
    match status:
        case 200 if isinstance(answer, dict):
            return answer
        case 404 if kind == "not_found" and if_missing is not None:
            raise NoAnswerError(NOT_FOUND, f"{message or 'not found'} ({peer.at}). {if_missing}")
        case 404:
            pass
        case 400 if kind is not None:
            raise NoAnswerError(USAGE, f"{message} ({peer.at})")
        case 401 | 403:
            refused = "refused the token" if peer.token else f"wants {peer.wants}"
            said = f" It says: {message}." if message else ""
            raise NoAnswerError(NO_ANSWER, f"{peer.at} {refused} ({status}): {peer.if_refused}.{said}")
        case _ if kind is not None:
            raise NoAnswerError(NO_ANSWER, f"{peer.at} cannot answer now ({status}): {message}")
    as_none = f"and not as a gapline {peer.kind} does; is the URL right?"
    raise NoAnswerError(NO_ANSWER, f"{peer.at} answered {status} {as_none}")
