"""The rate limits that a response head tells of, as numbers; what is no number is not taken over."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from otel.hop import RateLimits

LIMIT_S: Final = 26 * 86_400
"""Longest wait taken over: what is longer is a date in seconds, or a mistake."""
VALUE_CHARS: Final = 32
"""Longest value looked at."""

_COUNTS: Final = {
    "x-ratelimit-limit-requests": "request_limit",
    "x-ratelimit-remaining-requests": "request_remaining",
    "x-ratelimit-limit-tokens": "token_limit",
    "x-ratelimit-remaining-tokens": "token_remaining",
    "anthropic-ratelimit-requests-limit": "request_limit",
    "anthropic-ratelimit-requests-remaining": "request_remaining",
    "anthropic-ratelimit-tokens-limit": "token_limit",
    "anthropic-ratelimit-tokens-remaining": "token_remaining",
    "x-ratelimit-limit": "request_limit",
    "x-ratelimit-remaining": "request_remaining",
    "ratelimit-limit": "request_limit",
    "ratelimit-remaining": "request_remaining",
}
_WAITS: Final = {
    "x-ratelimit-reset-requests": "request_reset_ns",
    "x-ratelimit-reset-tokens": "token_reset_ns",
    "x-ratelimit-reset": "request_reset_ns",
    "ratelimit-reset": "request_reset_ns",
    "retry-after": "retry_after_ns",
}
_MILLISECONDS: Final = {"retry-after-ms": "retry_after_ns"}

_COUNT: Final = re.compile(r"[0-9]{1,15}\Z")
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|us|µs|ns|h|m|s))+\Z")
_STEP: Final = re.compile(r"([0-9.]+)(ms|us|µs|ns|h|m|s)")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\Z")
_NS: Final = {"h": 3_600e9, "m": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0}


def limits_of(fields: Iterable[tuple[str, str]]) -> RateLimits | None:
    """The limits in the fields of a response's head, None where there are none. Waits are seconds, or durations as
    Go writes them (`6m0.5s`); dates would need a clock. The first field that says something counts."""
    found: dict[str, int] = {}
    for field_name, field_value in fields:
        name = field_name.lower()
        if not ("ratelimit" in name or name.startswith("retry-after")) or len(field_value) > VALUE_CHARS:
            continue
        value = field_value.strip()
        if (count := _COUNTS.get(name)) is not None:
            if _COUNT.match(value):
                found.setdefault(count, int(value))
        elif (wait := _WAITS.get(name)) is not None:
            _put(found, wait, _wait_ns(value))
        elif (wait := _MILLISECONDS.get(name)) is not None and _SECONDS.match(value):
            _put(found, wait, float(value) * 1e6)
    return RateLimits(**found) if found else None


def _put(found: dict[str, int], wait: str, wait_ns: float | None) -> None:
    if wait_ns is not None and wait_ns <= LIMIT_S * 1e9:
        found.setdefault(wait, round(wait_ns))


def _wait_ns(value: str) -> float | None:
    if _SECONDS.match(value):
        return float(value) * 1e9
    if _DURATION.match(value):
        return sum(float(number) * _NS[unit] for number, unit in _STEP.findall(value))
    return None
