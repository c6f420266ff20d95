"""Certificates of our own: renewed in time, trusted all the while, and for our Service only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from k8s.certificates import AUTHORITY_DAYS, LEAF_DAYS, MaterialError, made, not_after, renewed

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HOSTS = ("gapline-injector.gapline.svc", "gapline-injector.gapline.svc.cluster.local")
FIRST = made(HOSTS, NOW)


def later(days):
    return NOW + timedelta(days=days)


def is_trusted(material, *, trusted=None, host=HOSTS[0], at=NOW):
    """Whether a client that trusts these would believe the certificate."""
    store = Store(x509.load_pem_x509_certificates(trusted or material.authorities))
    leaf = x509.load_pem_x509_certificate(material.cert)
    try:
        PolicyBuilder().store(store).time(at).build_server_verifier(x509.DNSName(host)).verify(leaf, [])
    except VerificationError:
        return False
    return True


def test_a_new_one_is_trusted_for_its_hosts_and_no_other():
    assert is_trusted(FIRST)
    assert is_trusted(FIRST, host=HOSTS[1])
    assert not is_trusted(FIRST, host="gapline-injector.other.svc")
    assert not is_trusted(FIRST, trusted=made(HOSTS, NOW).authorities)


def test_nothing_is_done_before_it_is_due():
    assert renewed(FIRST, hosts=HOSTS, now=later(59)) == FIRST


def test_the_certificate_is_renewed_by_the_same_authority():
    new = renewed(FIRST, hosts=HOSTS, now=later(61))
    assert (new.authorities, new.authority_key) == (FIRST.authorities, FIRST.authority_key)
    assert new.cert != FIRST.cert
    assert not_after(new.cert) == later(61 + LEAF_DAYS)
    assert is_trusted(new, trusted=FIRST.authorities, at=later(61))


def test_a_new_authority_joins_the_old_one():
    at = later(AUTHORITY_DAYS * 2 // 3 + 1)
    old = renewed(FIRST, hosts=HOSTS, now=at - timedelta(days=20))
    new = renewed(old, hosts=HOSTS, now=at)
    assert new.authority_key != old.authority_key
    assert is_trusted(new, at=at)
    assert is_trusted(old, trusted=new.authorities, at=at)
    far = renewed(new, hosts=HOSTS, now=later(AUTHORITY_DAYS + 40))
    assert len(x509.load_pem_x509_certificates(far.authorities)) == 1


@given(days=st.lists(st.integers(1, 80), max_size=4))
@settings(max_examples=15)
def test_whatever_is_shown_is_trusted_by_those_who_trust_the_newest(days):
    at, kept = NOW, FIRST
    for step in days:
        before, at = kept, at + timedelta(days=step)
        kept = renewed(kept, hosts=HOSTS, now=at)
        assert is_trusted(kept, at=at)
        assert is_trusted(before, trusted=kept.authorities, at=at) or not_after(before.cert) < at


@pytest.mark.parametrize(
    "broken",
    [
        replace(FIRST, cert=b"none"),
        replace(FIRST, key=b"none"),
        replace(FIRST, authority_key=FIRST.key),
        replace(FIRST, key=FIRST.authority_key),
        replace(FIRST, authorities=b""),
        None,
    ],
)
def test_what_cannot_be_used_is_made_anew(broken):
    assert is_trusted(renewed(broken, hosts=HOSTS, now=NOW))


def test_another_service_gets_another_certificate():
    other = ("x.gapline.svc",)
    new = renewed(FIRST, hosts=other, now=NOW)
    assert is_trusted(new, host=other[0], trusted=FIRST.authorities)


def test_what_is_no_certificate_has_no_end():
    with pytest.raises(MaterialError):
        not_after(b"-----BEGIN NOTHING-----")
