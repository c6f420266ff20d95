import base64
import ssl
import subprocess
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.tls.certificate import CertificateError, not_after_s
from tests.support.certificates import make_pair


def element(tag, content):
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def pem(der):
    body = base64.encodebytes(der)
    return b"bag attributes\n-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"


def certificate(last, *, has_version=True):
    """As much of one as is read: version, serial number, signature, issuer, validity."""
    version = element(0xA0, element(2, b"\2")) if has_version else b""
    validity = element(0x30, element(0x17, b"260101000000Z") + last)
    before = version + element(2, b"\1") + element(0x30, b"") + element(0x30, b"x" * 300)
    return pem(element(0x30, element(0x30, before + validity + element(0x30, b"subject"))))


def seconds(*at):
    return int(datetime(*at, tzinfo=UTC).timestamp())


@pytest.mark.parametrize("has_version", [True, False])
@pytest.mark.parametrize(
    ("last", "at"),
    [
        (element(0x17, b"260228235959Z"), (2026, 2, 28, 23, 59, 59)),
        (element(0x17, b"491231235959Z"), (2049, 12, 31, 23, 59, 59)),
        (element(0x17, b"500101000000Z"), (1950, 1, 1)),
        (element(0x18, b"99991231235959Z"), (9999, 12, 31, 23, 59, 59)),
    ],
)
def test_the_end_of_validity_is_read(last, at, has_version):
    assert not_after_s(certificate(last, has_version=has_version)) == seconds(*at)


def test_it_is_what_openssl_says_and_of_a_chain_the_first(tmp_path):
    pair = make_pair(tmp_path, "here")
    said = subprocess.run(
        ["openssl", "x509", "-in", str(pair.cert), "-noout", "-enddate"], check=True, capture_output=True, text=True
    ).stdout
    wanted = ssl.cert_time_to_seconds(said.strip().removeprefix("notAfter="))

    assert not_after_s(pair.cert.read_bytes() + certificate(element(0x17, b"500101000000Z"))) == wanted


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(b""),
        pem(b"\x30\x05ab"),
        pem(element(0x31, b"")),
        b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n",
        certificate(element(0x17, b"261301000000Z")),
        certificate(element(0x17, b"2601010000Z")),
        certificate(element(0x0C, b"260101000000Z")),
    ],
)
def test_what_is_no_certificate_is_an_error(text):
    with pytest.raises(CertificateError):
        not_after_s(text)


WHOLE = base64.b64decode(certificate(element(0x17, b"260228235959Z")).split(b"-----")[2])


@given(at=st.integers(0, len(WHOLE) - 1), put=st.binary(max_size=4), gone=st.integers(0, 4))
def test_any_damage_gives_a_time_or_that_error(at, put, gone):
    with suppress(CertificateError):
        assert isinstance(not_after_s(pem(WHOLE[:at] + put + WHOLE[at + gone :])), int)
