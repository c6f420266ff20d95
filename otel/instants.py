"""Instants as text: RFC 3339 in UTC, to the millisecond."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_SECOND_NS: Final = 1_000_000_000


def rfc3339(at_ns: int) -> str:
    """A wall clock reading in ns since the epoch. Fixed width, so that texts sort like instants."""
    whole_s, rest_ns = divmod(at_ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(whole_s, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1_000_000:03}Z"
