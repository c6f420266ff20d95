"""The sidecar ends after the app, and within the pod's grace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.ending import CLASSIC_PAUSE_S, FLUSH_S, GRACE_S, NATIVE_DRAIN_S, End, ending
from k8s.pods import regular
from tests.support import pods


def end(*, is_native, hook=None, **spec):
    pod = pods.pod(pods.container(**({"lifecycle": {"preStop": hook}} if hook else {})), **spec)
    return ending(pod, regular(pod)[0], is_native=is_native)


def test_a_native_sidecar_needs_no_pause():
    assert end(is_native=True) == End(0, NATIVE_DRAIN_S)


@pytest.mark.parametrize(
    ("hook", "pause_s"),
    [
        (None, CLASSIC_PAUSE_S),
        ({"exec": {"command": ["sh", "-c", "sleep 15"]}}, 15),
        ({"exec": {"command": ["/bin/sleep", "12"]}}, 12),
        ({"sleep": {"seconds": 10}}, 10),
        ({"exec": {"command": ["curl", "localhost"]}}, CLASSIC_PAUSE_S),
    ],
)
def test_a_classic_one_goes_on_while_the_app_does(hook, pause_s):
    found = end(is_native=False, hook=hook, terminationGracePeriodSeconds=75)
    assert found == End(pause_s, 75 - pause_s - FLUSH_S)


def test_a_pod_that_says_nothing_has_half_a_minute():
    assert end(is_native=False).drain_s == GRACE_S - CLASSIC_PAUSE_S - FLUSH_S


@pytest.mark.parametrize("is_native", [True, False])
def test_no_time_at_all_is_told(is_native):
    assert "0 s for its end" in end(is_native=is_native, terminationGracePeriodSeconds=0).note
    assert end(is_native=is_native, terminationGracePeriodSeconds=60).note is None


@given(grace_s=st.integers(FLUSH_S + 1, 3600), sleep_s=st.integers(0, 4000))
def test_all_of_it_fits_into_the_grace(grace_s, sleep_s):
    found = end(is_native=False, hook={"sleep": {"seconds": sleep_s}}, terminationGracePeriodSeconds=grace_s)
    assert 0 <= found.pause_s + found.drain_s <= grace_s - FLUSH_S
    assert found.drain_s >= 1
