"""Tell by its first bytes what a connection speaks, so that what is not HTTP/1 can be passed through unread."""

from __future__ import annotations

from enum import Enum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What every HTTP/2 client says first (RFC 9113, 3.4); no request of HTTP/1 can begin so."""
_HANDSHAKE: Final = 0x16  # a TLS record of that type (RFC 8446, 5.1)
_MAJOR: Final = 0x03  # the version of a record, 3.0 to 3.4, whatever will be negotiated
_MINORS: Final = range(5)
_CLIENT_HELLO: Final = 0x01  # the first message of a handshake, behind the record's five bytes
_HELLO_AT: Final = 5


class Opening(Enum):
    """What a connection speaks. MORE: too little has come to tell. HTTP1: that, or nothing that we know."""

    MORE = "more"
    HTTP1 = "http1"
    HTTP2 = "http2"
    TLS = "tls"


OPAQUE: Final = (Opening.HTTP2, Opening.TLS)
"""What passes unread."""


def opening_of(data: bytes) -> Opening:
    """What a connection speaks that begins with these bytes; MORE only while both answers are still possible."""
    if not data:
        return Opening.MORE
    if data[0] == _HANDSHAKE:
        return _opening_of_record(data)
    if data.startswith(PREFACE):
        return Opening.HTTP2
    return Opening.MORE if PREFACE.startswith(data) else Opening.HTTP1


def _opening_of_record(data: bytes) -> Opening:
    wrong_major = len(data) > 1 and data[1] != _MAJOR
    wrong_minor = len(data) > 2 and data[2] not in _MINORS
    if wrong_major or wrong_minor:
        return Opening.HTTP1
    if len(data) <= _HELLO_AT:
        return Opening.MORE
    return Opening.TLS if data[_HELLO_AT] == _CLIENT_HELLO else Opening.HTTP1
