"""How the body of a response is framed (RFC 9112, 6.3), and whether its connection can carry another one.

What is ambiguous is refused, not interpreted: a length beside a transfer coding, two lengths, even equal ones, and
any transfer coding that is not exactly one `chunked`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sidecar.headers import connection_options, value_of
from sidecar.http1.head import Http1Error, ResponseHead

_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)  # 18 digits are more than any disk, and fit 63 bits
_TIMEOUT: Final = re.compile(r"timeout[ \t]*=[ \t]*\"?([0-9]{1,9})\"?", re.ASCII | re.IGNORECASE)


class FramingKind(Enum):
    """What tells where a body ends."""

    NONE = "none"
    """There is no body, whatever the fields say."""
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"
    """The end of the connection, which looks the same when the server broke off."""


@dataclass(frozen=True, slots=True)
class Framing:
    """How one body is framed. length_bytes: of its content, known with LENGTH only."""

    kind: FramingKind
    length_bytes: int | None = None


def framing_of(method: str, head: ResponseHead, *, wants_upgrade: bool = False) -> Framing:
    """The framing of the response to a request with this method. Raises Http1Error when it is not one and clear."""
    lengths, codings = _values(head, "content-length"), _values(head, "transfer-encoding")
    if head.status == 101 and not wants_upgrade:
        raise Http1Error("101 answers only a request that asks for an upgrade")
    if head.status == 101 and [value.lower() for value in _values(head, "upgrade")] not in ([], ["websocket"]):
        raise Http1Error("101 goes on with the protocol that was asked for")
    if head.status < 200 and (codings or lengths not in ([], ["0"])):
        raise Http1Error("an interim answer has no body")
    if method == "CONNECT" and 200 <= head.status < 300:
        raise Http1Error("a connection is not turned into a tunnel by CONNECT")
    if codings:
        _check_codings(codings, head)
    if lengths and codings:
        raise Http1Error("a length and a transfer coding exclude each other")
    if len(lengths) > 1:
        raise Http1Error("there is one Content-Length at most")
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise Http1Error("a Content-Length is 1 to 18 digits")
    if method == "HEAD" or head.status < 200 or head.status in (204, 304):
        return Framing(FramingKind.NONE)
    if codings:
        return Framing(FramingKind.CHUNKED)
    if lengths:
        return Framing(FramingKind.LENGTH, int(lengths[0]))
    return Framing(FramingKind.CLOSE)


def is_reusable(head: ResponseHead, framing: Framing) -> bool:
    """The connection can carry another exchange once this answer has ended, as far as its head tells."""
    options = connection_options(head.fields)
    if framing.kind is FramingKind.CLOSE or head.status == 101 or "close" in options:
        return False
    if head.status == 204 and (
        _values(head, "transfer-encoding") or _values(head, "content-length") not in ([], ["0"])
    ):
        return False  # a server that announces a body where there is none may send it yet
    return head.version >= (1, 1) or "keep-alive" in options


def keep_alive_s(head: ResponseHead) -> float | None:
    """How long the server says it keeps an idle connection; None when it does not say."""
    for part in (value_of(head.fields, "keep-alive") or "").split(","):
        if timeout := _TIMEOUT.fullmatch(part.strip()):
            return float(timeout[1])
    return None


def _check_codings(codings: list[str], head: ResponseHead) -> None:
    if head.version < (1, 1):
        raise Http1Error("HTTP/1.0 has no transfer coding")
    if [coding.lower() for coding in codings] != ["chunked"]:
        raise Http1Error("the only transfer coding is one chunked")


def _values(head: ResponseHead, name: str) -> list[str]:
    return [value for field, value in head.fields if field.lower() == name]
