"""The injector's own certificates: an authority and the certificate that it signs, made, read, and renewed in time.

The API server trusts what its webhook configuration holds, so an authority of our own does. It lasts ten years, the
certificate ninety days; both are renewed when two thirds have passed. A new authority joins the old one in what is
trusted, and the old one stays there until it has ended: whatever is shown meanwhile is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3_650
LEAF_DAYS: Final = 90
BACKDATED: Final = timedelta(hours=1)
"""A certificate is valid since before it was made: clocks of a cluster differ."""
_AUTHORITY_NAME: Final = "gapline injector authority"


class MaterialError(ValueError):
    """What was kept is no certificate with its key, or does not fit together."""


@dataclass(frozen=True, slots=True)
class Material:
    """All that is kept, in PEM. authorities: what is to be trusted, the one that signs first."""

    authorities: bytes
    authority_key: bytes
    cert: bytes
    key: bytes


def renewed(kept: Material | None, *, hosts: Sequence[str], now: datetime) -> Material:
    """What should be kept now: the same where nothing is due. hosts: for which the certificate is, the first its name.

    What cannot be used is made anew.
    """
    try:
        return made(hosts, now) if kept is None else _renewed(kept, hosts, now)
    except MaterialError:
        return made(hosts, now)


def made(hosts: Sequence[str], now: datetime) -> Material:
    """A new authority and its first certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(key, now)
    return _signed(authority, key, trusted=[authority], hosts=hosts, now=now)


def not_after(pem: bytes) -> datetime:
    """When the first certificate in there ends. Raises MaterialError."""
    return _certificates(pem)[0].not_valid_after_utc


def _renewed(kept: Material, hosts: Sequence[str], now: datetime) -> Material:
    authority, *others = _certificates(kept.authorities)
    trusted = [authority, *(each for each in others if each.not_valid_after_utc > now)]
    leaf = _certificates(kept.cert)[0]
    key, leaf_key = _key(kept.authority_key), _key(kept.key)
    if authority.public_key() != key.public_key() or leaf.public_key() != leaf_key.public_key():
        raise MaterialError("a key is not that of its certificate")
    if _is_due(authority, now):
        new_key = ec.generate_private_key(ec.SECP256R1())
        new = _authority(new_key, now)
        return _signed(new, new_key, trusted=[new, *trusted], hosts=hosts, now=now)
    if _is_due(leaf, now) or _hosts_of(leaf) != list(hosts) or not _is_signed_by(leaf, authority):
        return _signed(authority, key, trusted=trusted, hosts=hosts, now=now)
    return kept


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _name(_AUTHORITY_NAME)
    return (
        _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _signed(
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    *,
    trusted: Sequence[x509.Certificate],
    hosts: Sequence[str],
    now: datetime,
) -> Material:
    """A new certificate, and all that belongs to it."""
    leaf_key = ec.generate_private_key(ec.SECP256R1())
    leaf = (
        _builder(_name(hosts[0][:64]), authority.subject, leaf_key.public_key(), now, LEAF_DAYS)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Material(
        authorities=b"".join(map(_pem, trusted)),
        authority_key=_key_pem(key),
        cert=_pem(leaf),
        key=_key_pem(leaf_key),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - BACKDATED)
        .not_valid_after(now.astimezone(UTC) + timedelta(days=days))
    )


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether two thirds of its time have passed, or it is not valid yet."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now < begin or now >= begin + (end - begin) * 2 / 3


def _is_signed_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _hosts_of(leaf: x509.Certificate) -> list[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return found.value.get_values_for_type(x509.DNSName)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise MaterialError("holds no certificate in PEM") from None


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise MaterialError("holds no key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise MaterialError("is a key of another kind")
    return key


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
