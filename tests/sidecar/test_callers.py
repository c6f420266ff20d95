"""Who asks: a probe or not, and by what it is sliced."""

from sidecar.callers import Callers
from sidecar.recording.asked import Caller
from sidecar.telling.dimensions import Dimension, Dimensions
from sidecar.telling.probe import ProbeRules


def test_a_caller_is_known_by_its_head():
    callers = Callers(ProbeRules(), Dimensions([Dimension("tenant", "x-tenant")]), probe_bytes=16)

    probe = callers.of("GET", "/healthz", [("User-Agent", "kube-probe/1.31")], None)
    tenant = callers.of("POST", "/v1/chat/completions", [("X-Tenant", "acme")], "10.0.0.1")

    assert probe.is_probe
    assert tenant == Caller(is_probe=False, probe_bytes=16, dimensions=(("tenant", "acme"),))
