"""Read from a certificate until when it is valid: as much of DER (X.690) and RFC 5280 as that takes, and no more."""

from __future__ import annotations

import calendar
import re
from binascii import Error, a2b_base64
from typing import Final

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_TIME: Final = {
    _UTC_TIME: re.compile(rb"(\d\d)" * 6 + b"Z"),
    _GENERALIZED_TIME: re.compile(rb"(\d{4})" + rb"(\d\d)" * 5 + b"Z"),
}
_CENTURY_TURNS: Final = 50
"""Years of two digits from here on are of the century before (RFC 5280, 4.1.2.5.1)."""


class CertificateError(ValueError):
    """It is no certificate, or none that can be read."""


def not_after_s(pem: bytes) -> int:
    """The end of validity of the first certificate in a PEM file, in seconds since 1970. Raises CertificateError."""
    found = _PEM.search(pem)
    if found is None:
        raise CertificateError("holds no certificate in PEM format")
    try:
        der = a2b_base64(found[1])
    except Error:
        raise CertificateError("is not in PEM format") from None
    certificate, _ = _element(der, _SEQUENCE)
    rest, _ = _element(certificate, _SEQUENCE)
    if rest[:1] == bytes([_VERSION]):
        _, rest = _element(rest)
    for _ in ("serial number", "signature", "issuer"):
        _, rest = _element(rest)
    validity, _ = _element(rest, _SEQUENCE)
    _, last = _element(validity)
    return _seconds(last)


def _element(data: bytes, tag: int | None = None) -> tuple[bytes, bytes]:
    """The content of the first element, and what stands behind it."""
    if len(data) < 2 or (tag is not None and data[0] != tag):
        raise CertificateError("is not in DER")
    start, size = 2, data[1]
    if size & 0x80:  # so many bytes of length follow
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big")
    if len(data) < start + size or start > 6:
        raise CertificateError("is not in DER")
    return data[start : start + size], data[start + size :]


def _seconds(data: bytes) -> int:
    text, _ = _element(data)
    form = _TIME.get(data[0])
    found = None if form is None else form.fullmatch(text)
    if found is None:
        raise CertificateError("has no end of validity")
    year, month, day, hour, minute, second = map(int, found.groups())
    if data[0] == _UTC_TIME:
        year += 1900 if year >= _CENTURY_TURNS else 2000
    if not (year and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        raise CertificateError("has an end of validity that is no date")
    return calendar.timegm((year, month, day, hour, minute, second))
