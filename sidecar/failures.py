"""What the reader gets in place of a response, and what became of the exchange then: tables, and nothing else."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs

from otel.hop import Ending
from sidecar import headers
from sidecar.bounds.deadlines import Stop
from sidecar.guard.complaint import Complaint
from sidecar.inspection.events import Reading
from sidecar.upstream.errors import BadAnswer, BadRequest, BrokenOff, ConnectFailed, ConnectTimeout, TlsFailed

LENGTH_DIGITS: Final = 18
"""Longest Content-Length that fits 64 bits whatever its digits."""


_VERSIONS: Final = frozenset({(1, 0), (1, 1)})


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer of our own. ending None: the upstream broke off, and the recorder is told as much."""

    status: int
    type: str
    message: str
    ending: Ending | None = None

    def complaint(self, hop: str) -> Complaint:
        """What it says to the reader. hop: our name."""
        return Complaint(self.type, f"gapline sidecar of hop {hop}: {self.message}", self.status)


DRAINING: Final = Failure(503, "draining", "shutting down, takes no new requests", Ending.REJECTED)
QUEUE_FULL: Final = Failure(503, "queue_full", "as many requests as may run and wait do so already", Ending.REJECTED)
QUEUE_TIMEOUT: Final = Failure(503, "queue_timeout", "waited in line and got no place in time", Ending.REJECTED)
OVERLOADED: Final = Failure(503, "overloaded", "short of memory, takes no new requests", Ending.REJECTED)
BAD_FRAMING: Final = Failure(400, "bad_request", "the framing of the request is not valid", Ending.REJECTED)
BAD_REQUEST: Final = Failure(400, "bad_request", "the head of the request cannot be passed on", Ending.REJECTED)
BAD_VERSION: Final = Failure(505, "http_version", "of HTTP only 1.0 and 1.1 are spoken here", Ending.REJECTED)
NOT_EXPECTED: Final = Failure(417, "expectation", "of expectations only 100-continue is supported", Ending.REJECTED)
NO_CODING: Final = Failure(501, "transfer_coding", "of transfer codings only chunked is supported", Ending.REJECTED)
NO_TUNNEL: Final = Failure(501, "upgrade", "of tunnels and upgrades only WebSocket is supported", Ending.REJECTED)
TIMED_OUT: Final = Failure(504, "upstream_connect_timeout", "no connection to the upstream in time", Ending.REFUSED)
REFUSED: Final = Failure(502, "upstream_refused", "no connection to the upstream", Ending.REFUSED)
UNKNOWN_NAME: Final = Failure(502, "upstream_name", "the name of the upstream is not known", Ending.REFUSED)
UNTRUSTED: Final = Failure(502, "upstream_tls", "no TLS connection to the upstream", Ending.REFUSED)
BAD_ANSWER: Final = Failure(502, "upstream_protocol", "the upstream's answer cannot be passed on")
BROKE_OFF: Final = Failure(502, "upstream_broke_off", "the upstream broke off before it answered")
OUR_FAULT: Final = Failure(500, "internal", "the sidecar failed", Ending.LOST)

FAILURES: Final[tuple[tuple[type[Exception], Failure], ...]] = (  # first match wins; subclasses before parents
    (ConnectTimeout, TIMED_OUT),
    (TlsFailed, UNTRUSTED),
    (ConnectFailed, REFUSED),
    (BadRequest, BAD_REQUEST),
    (BadAnswer, BAD_ANSWER),
    (BrokenOff, BROKE_OFF),
    (Exception, OUR_FAULT),
)

STOPPED: Final[Mapping[str, Failure]] = {
    failure.type: failure
    for failure in (
        Failure(408, "request_timeout", "the body of the request did not come in time", Ending.REJECTED),
        Failure(504, "upstream_answer_timeout", "no answer of the upstream in time", Ending.TIMED_OUT_FIRST_EVENT),
        DRAINING,
        OVERLOADED,
    )
}
"""By the reason for which we end it ourselves."""


NO_PLACE: Final[Mapping[str, Failure]] = {failure.type: failure for failure in (QUEUE_FULL, QUEUE_TIMEOUT)}
"""What who gets no place gets, by the reason of `admission.Full`."""

_DETAIL_CHARS: Final = 200
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}")
BAD_STATUS: Final = 400
"""From here on an answer says of itself that something is wrong."""


def failure_of(error: Exception) -> Failure:
    """What an error means that came in place of the upstream's head."""
    if isinstance(error, ConnectFailed) and isinstance(error.__cause__, socket.gaierror):
        return UNKNOWN_NAME
    return next(failure for kind, failure in FAILURES if isinstance(error, kind))


def detail_of(error: Exception) -> str | None:
    """Why it was, for people who read the log: words of the system or of ours, never of the peer. None: its type says
    it all."""
    match error:
        case ConnectFailed(__cause__=socket.gaierror() as unknown):
            detail = unknown.strerror or "name not known"
        case ConnectFailed(errno=int(number)):
            detail = os.strerror(number)
        case TlsFailed(__cause__=ssl.SSLCertVerificationError()):
            detail = f"certificate verify failed: {error.reason}"
        case TlsFailed():
            detail = error.reason.replace("_", " ")
        case BrokenOff():
            detail = f"broken rule: {error.rule} ({error.cut})"
        case BadAnswer() | BadRequest():
            detail = error.rule
        case _:
            return None
    return f"{detail[:1].lower()}{detail[1:_DETAIL_CHARS]}" if detail[1:2].islower() else detail[:_DETAIL_CHARS]


def stopped(stop: Stop, complaint: Complaint | None) -> Failure | None:
    """What the reader of an exchange that we end gets where no byte of an answer has gone yet; None: only its end.

    complaint: what the guard says of it, where that ended it.
    """
    if complaint is not None:
        return Failure(complaint.status, complaint.type, complaint.message, stop.ending)
    return STOPPED.get(stop.error_type or "")


def refused_early(status: int | None, error: Reading | None) -> Failure:
    """An answer that failed before its first event, and was kept back until then.

    status: what it comes to. error: what the upstream said of it, which its reader may know.
    """
    said = None if error is None else error.error_text or error.error_detail
    message = "the upstream's answer failed before its first event" + (f": {said}" if said else "")
    kind = None if error is None else error.error_type
    return Failure(status or BROKE_OFF.status, kind or "upstream_error", message)


def upstream_said(status: int, content_type: str | None) -> Failure:
    """An answer of the upstream that no longer fits, since the head of a stream went before it."""
    kind = headers.essence_of(content_type)
    shown = f" with {kind}" if _MEDIA_TYPE.fullmatch(kind) else ""
    said = f"the upstream answered {status}{shown}, after a stream was begun for it"
    if status >= BAD_STATUS:
        return Failure(status, "upstream_status", said)
    return Failure(BROKE_OFF.status, "upstream_status", said, Ending.REJECTED)


def refusal_of(method: str, version: tuple[int, int], fields: headers.Fields) -> Failure | None:
    """Why a request is not even passed on, None when it is."""
    if version not in _VERSIONS:
        return BAD_VERSION
    lengths = [value for name, value in fields if name.lower() == "content-length"]
    if len(lengths) > 1 or any(len(length) > LENGTH_DIGITS for length in lengths):
        return BAD_FRAMING  # not every parser of aiohttp refuses these itself
    codings = headers.value_of(fields, "transfer-encoding")
    if codings is not None:
        if version < (1, 1):
            return BAD_FRAMING  # RFC 9112, 6.1: such framing is faulty, and a known way to smuggle requests
        if [coding for part in codings.split(",") if (coding := part.strip().lower())] != ["chunked"]:
            return NO_CODING
    expectation = headers.value_of(fields, "expect")
    if expectation is not None and version >= (1, 1) and expectation.strip().lower() != "100-continue":
        return NOT_EXPECTED  # RFC 9110, 10.1.1; of HTTP/1.0 it is ignored
    if method == hdrs.METH_CONNECT:
        return NO_TUNNEL
    if "upgrade" in headers.connection_options(fields) and not headers.is_websocket(method, version, fields):
        # An upgrade may be ignored (RFC 9110, 7.8), and Java's client offers h2c with every request; what asks for
        # a tunnel would wait for it in vain.
        wanted = headers.value_of(fields, "upgrade") or ""
        return None if wanted.strip().lower().startswith("h2") else NO_TUNNEL
    return None
