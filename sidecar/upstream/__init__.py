"""The upstream side: our own HTTP/1.1 client, which passes requests and answers on without changing a byte of them.

Nothing is added to a request and nothing of it is read anew. Everything of an answer comes through: interim answers,
field order and spelling, trailers, and how it ended.
"""

from sidecar.upstream.answer import Answer, Piece, Upgraded
from sidecar.upstream.ask import Upstream
from sidecar.upstream.errors import (
    BadAnswer,
    BadRequest,
    BadRequestBody,
    BadRequestHead,
    BrokenOff,
    ConnectFailed,
    ConnectTimeout,
    Cut,
    TlsFailed,
    UpstreamError,
)
from sidecar.upstream.origin import Origin, authority_of, fields_of, origin_form, origin_of

__all__ = [
    "Answer",
    "BadAnswer",
    "BadRequest",
    "BadRequestBody",
    "BadRequestHead",
    "BrokenOff",
    "ConnectFailed",
    "ConnectTimeout",
    "Cut",
    "Origin",
    "Piece",
    "TlsFailed",
    "Upgraded",
    "Upstream",
    "UpstreamError",
    "authority_of",
    "fields_of",
    "origin_form",
    "origin_of",
]
