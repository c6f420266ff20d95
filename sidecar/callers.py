"""Who asks, as far as the head of a request may tell: a probe or not, and by what it is sliced."""

from __future__ import annotations

from sidecar.headers import Fields
from sidecar.recording.asked import Caller
from sidecar.telling.dimensions import Dimensions
from sidecar.telling.probe import ProbeRules


class Callers:
    """What one sidecar wants to know of who asks. probe_bytes: prompts up to this size are probes; 0: none are."""

    __slots__ = ("_dimensions", "_probe_bytes", "_probes")

    def __init__(self, probes: ProbeRules, dimensions: Dimensions, *, probe_bytes: int = 0) -> None:
        self._probes = probes
        self._dimensions = dimensions
        self._probe_bytes = probe_bytes

    def of(self, method: str, path: str, fields: Fields, peer: str | None) -> Caller:
        """peer: the address of the client, without its port."""
        return Caller(
            is_probe=self._probes.is_probe(method, path, fields),
            probe_bytes=self._probe_bytes,
            dimensions=self._dimensions.of(fields, peer),
        )
