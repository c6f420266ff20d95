"""What the sidecar itself did to one answer: bytes that it put in, and limits that it saw pass."""

from __future__ import annotations

from dataclasses import replace

from otel.hop import BodyDigests, Exchange, Traffic
from sidecar.guard.digests import Digests


class Ours:
    """What is ours in one answer. digests: of the upstream's body and of what was written, where they are wanted.

    fired: the limits that passed, as tokens in order, whether or not the guard then ended the stream.
    """

    __slots__ = ("_injected_bytes", "_keepalive_count", "digests", "fired")

    def __init__(self) -> None:
        self.digests: Digests | None = None
        self.fired: tuple[str, ...] = ()
        self._keepalive_count = 0
        self._injected_bytes = 0

    def kept_alive(self, size_bytes: int) -> None:
        """A keepalive comment was written."""
        self._keepalive_count += 1
        self.injected(size_bytes)

    def injected(self, size_bytes: int) -> None:
        """Bytes of ours went into the body."""
        self._injected_bytes += size_bytes

    def guard_fired(self, token: str) -> bool:
        """A limit passed; whether that is the first time."""
        is_news = token not in self.fired
        if is_news:
            self.fired = (*self.fired, token)
        return is_news

    def exchange(self, seen: Exchange) -> Exchange:
        """The facts of the exchange, with ours."""
        return replace(seen, guard_fired=self.fired) if self.fired else seen

    def traffic(self, passed: Traffic) -> Traffic:
        """What passed, with what we put in."""
        if not self._injected_bytes:
            return passed
        return replace(
            passed,
            bytes_out=passed.bytes_out + self._injected_bytes,
            keepalive_count=self._keepalive_count,
            injected_bytes=self._injected_bytes,
        )

    @property
    def body_digests(self) -> BodyDigests | None:
        found = self.digests
        return None if found is None else BodyDigests(*found.hex)
