"""Posting: paces, waits that receivers ask for, and why a request failed. The rest is seen through both senders."""

from __future__ import annotations

import socket
import ssl

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.export.posting import Pace, is_loopback, retry_after_s, words_of


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://localhost:4318", True),
        ("http://127.0.0.1:4318", True),
        ("http://[::1]:4318", True),
        ("http://collector:4318", False),
        ("https://10.0.0.7", False),
    ],
)
def test_loopback_is_told_by_the_address(endpoint, expected):
    assert is_loopback(endpoint) is expected


def untrusted():
    error = ssl.SSLCertVerificationError(1, "text of the peer")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (aiohttp.ClientConnectorError(None, OSError(111, "Connect call failed ('10.0.0.1', 1)")), "connection refused"),
        (
            aiohttp.ClientConnectorError(None, socket.gaierror(-2, "Name or service not known")),
            "name or service not known",
        ),
        (
            aiohttp.ClientConnectorCertificateError(None, untrusted()),
            "certificate verify failed: self-signed certificate",
        ),
        (aiohttp.ServerTimeoutError("x"), "no answer in time"),
        (ConnectionResetError(104, "x"), "connection reset by peer"),
        (aiohttp.ServerDisconnectedError("x"), "ServerDisconnectedError"),
        (ValueError("what passed through"), "ValueError"),
    ],
)
def test_why_a_request_failed_is_said_in_words_of_the_system(error, words):
    assert words_of(error) == words


@pytest.mark.parametrize(
    "value", ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "9" * 500, "Mon, 01 Jan 2024 00:00:00 +9999999999999999"]
)
def test_a_retry_after_that_is_no_time_is_none(value):
    assert (retry_after_s({"Retry-After": value, "Date": "Mon, 01 Jan 2024 00:00:00 GMT"}) or 0.0) >= 0.0


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_waits_grow_up_to_a_longest_and_are_shortened_by_a_half_at_most(failure_count, jitter):
    pace = Pace(first_retry_s=0.25, last_retry_s=5.0)
    assert pace.retry_s(failure_count, 0) <= pace.retry_s(failure_count + 1, 0) <= 5.0
    assert 0.125 <= pace.retry_s(failure_count, 0) / 2 <= pace.retry_s(failure_count, jitter)
