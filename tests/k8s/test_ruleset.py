"""The text for nft: clients to the sidecar, probes to the app. What the kernel makes of it is tried in namespaces."""

from __future__ import annotations

import pytest

from k8s.ruleset import ruleset


def test_probes_are_sent_on_before_clients_could_be():
    lines = [line.strip() for line in ruleset(app_port=8000, listen_port=24080, probe_port=24081).splitlines()]
    assert lines[:2] == ["table inet gapline", "delete table inet gapline"]
    assert [line for line in lines if "redirect" in line] == [
        "fib daddr type local tcp dport 24081 redirect to :8000",
        "fib daddr type local tcp dport 8000 redirect to :24080",
    ]


@pytest.mark.parametrize("two", [{"app_port": 24080}, {"probe_port": 24080}, {"app_port": 24081}])
def test_rules_that_would_turn_in_a_circle_are_refused(two):
    ports = {"app_port": 8000, "listen_port": 24080, "probe_port": 24081} | two
    with pytest.raises(ValueError, match="must be three ports"):
        ruleset(**ports)
