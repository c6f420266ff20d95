"""A clock that stands still until a test moves it."""

from __future__ import annotations


class FakeClock:
    """Both clocks of a machine, moved by hand. It refuses to go back."""

    def __init__(
        self, *, monotonic_ns: int = 0, wall_ns: int = 1_700_000_000_000_000_000, domain: str = "test"
    ) -> None:
        self.domain = domain
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def wall_ns(self) -> int:
        return self._wall_ns

    def advance(self, ns: int) -> None:
        if ns < 0:
            raise ValueError(f"a clock does not go back by {-ns} ns")
        self._monotonic_ns += ns
        self._wall_ns += ns
