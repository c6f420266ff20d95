"""Faults in words: what parses, what is refused, and that every refusal says all that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo import faults
from otel.demo.faults import GATEWAY, HOPS, PROXY, Fault, FaultError, Kind
from otel.findings import Policy

at_hops = st.builds(
    Fault,
    st.sampled_from(HOPS),
    st.sampled_from([Kind.STALL, Kind.SLOW_FIRST, Kind.CUT, Kind.BUFFER]),
    st.integers(1, 600).map(lambda tenths: tenths / 10),
)


@given(at_hops)
def test_a_fault_is_what_its_words_parse_to(fault: Fault) -> None:
    assert faults.parse(str(fault)) == fault


def refusal_of(text: str) -> tuple[str, ...] | None:
    try:
        faults.parse(text)
    except FaultError as error:
        return error.errors
    return None


@given(st.one_of(st.text(max_size=40), st.from_regex(r"[a-z-]{1,8}:[a-z-]{1,8}=[0-9.e+-]{1,5}", fullmatch=True)))
def test_any_text_that_is_refused_is_refused_for_a_reason_that_fits_on_a_line(text: str) -> None:
    refusal = refusal_of(text)
    assert refusal != ()
    assert all(line.isprintable() for line in refusal or ())


def test_none_plants_nothing() -> None:
    assert faults.parse("none") is None


def test_all_errors_are_listed_at_once() -> None:
    with pytest.raises(FaultError) as caught:
        faults.parse("router:explode=soon")
    assert [error.split(":")[0] for error in caught.value.errors] == ["'router'", "'explode'", "'soon'"]


@pytest.mark.parametrize("text", ["gateway:stall", "gateway=2", "stall=2", "", "gateway:stall=2=3"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(FaultError):
        faults.parse(text)


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "nan", "inf", "", "2s"])
def test_seconds_outside_the_range_are_refused(seconds: str) -> None:
    with pytest.raises(FaultError, match="above 0 and at most 60"):
        faults.parse(f"gateway:stall={seconds}")


@pytest.mark.parametrize(
    ("text", "is_scripted", "rule"),
    [
        ("client:stall=2", True, "a client can only slow-read"),
        ("gateway:slow-read=2", True, "only a client can"),
        ("gateway:freeze=2", True, "only the model-worker can be frozen"),
        ("model-worker:stall=2", False, "model-worker:freeze stops its process"),
        ("client:slow-read=2", False, "needs the larger events"),
    ],
)
def test_what_does_not_fit_together_is_refused(text: str, is_scripted: bool, rule: str) -> None:
    with pytest.raises(FaultError, match=rule):
        faults.parse(text, is_scripted=is_scripted)


@pytest.mark.parametrize("text", ["model-worker:freeze=3", "gateway:stall=2", "inference-proxy:cut=1"])
def test_a_real_engine_can_be_frozen_and_the_hops_before_it_can_do_anything(text: str) -> None:
    assert str(faults.parse(text, is_scripted=False)) == text


def test_skew_is_a_hop_and_signed_seconds() -> None:
    assert faults.parse_skew("gateway=-3600") == (GATEWAY, -3600.0)


@pytest.mark.parametrize("text", ["gateway", "client=1", "gateway=far", "gateway=1e99", "gateway=nan"])
def test_other_skews_are_refused(text: str) -> None:
    with pytest.raises(FaultError):
        faults.parse_skew(text)


def test_a_header_plants_a_fault() -> None:
    assert faults.planted("inference-proxy:stall=2") == Fault(PROXY, Kind.STALL, 2.0)


@pytest.mark.parametrize("header", [None, "none"])
def test_a_header_without_a_fault_plants_nothing(header: str | None) -> None:
    assert faults.planted(header) is None


@pytest.mark.parametrize(
    ("header", "is_scripted", "reason"),
    [
        ("nonsense", True, "is not HOP:KIND=SECONDS"),
        ("gateway:stall=x", True, "must be a number"),
        ("gateway:freeze=2", True, "only the model-worker can be frozen"),
        ("model-worker:freeze=2", True, "no hop can stop itself"),
        ("model-worker:stall=2", False, "a real engine cannot be told to"),
    ],
)
def test_a_header_that_cannot_be_planted_is_refused_with_the_reason(
    header: str, is_scripted: bool, reason: str
) -> None:
    with pytest.raises(FaultError, match=reason):
        faults.planted(header, is_scripted=is_scripted)


def test_what_goes_unnoticed_is_what_the_verdict_allows_everybody() -> None:
    assert round(faults.UNNOTICED_S * 1e9) == Policy().floor_ns
