"""Amounts are compared as numbers, however they are written."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.quantities import is_within, quantity, quantity_text


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("100m", Fraction(1, 10)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        (2, 2),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("64Mi", 64 << 20),
        ("1.5Gi", 3 << 29),
        ("2k", 2000),
        ("12e-1", Fraction(12, 10)),
    ],
)
def test_an_amount_is_a_number(text, amount):
    assert quantity(text) == amount


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1ki", "1Mib", "--1", None, True, [], "1e", "9" * 99])
def test_what_is_no_amount_is_told(text):
    with pytest.raises(ValueError, match="must be an amount"):
        quantity(text)


@given(text=st.text())
def test_nothing_else_is_raised(text):
    with suppress(ValueError):
        assert isinstance(quantity(text), Fraction)


def test_a_sidecar_gets_more_than_nothing():
    assert quantity_text("100m") == "100m"
    with pytest.raises(ValueError, match="more than zero"):
        quantity_text("0")


@pytest.mark.parametrize(
    ("request_", "limit", "expected"),
    [("1", "1000m", True), ("1.001", "1", False), ("1Gi", "1G", False), (None, "1", True), ("1", None, True)],
)
def test_a_request_is_within_its_limit_or_not(request_, limit, expected):
    assert is_within(request_, limit) is expected
