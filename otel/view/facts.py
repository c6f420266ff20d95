"""The evidence of a verdict in words: each known fact has its phrase, an unknown one is shown by its own name.

Units come from the ends of names, as everywhere: `_s`, `_bytes`, `_share`. A fact that is null is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel.view.answers import Fact
from otel.view.text import count, seconds, size

_PHRASES: Final = {
    "alignment": "events lined up by {}",
    "position_quantum": "positions known to within {} characters",
    "source_limit_s": "this source may pause for {}",
    "source_rhythm_s": "its usual pause is {}",
    "detail": "{}",
    "bytes_were": "the awaited bytes were {}",
    "sampled_s": "sampled for {}",
    "unacknowledged_s": "unacknowledged for {}",
    "lost_share": "{} of it with loss",
    "window_shrunk_share": "{} of it with a small window",
    "window_bytes": "smallest window {}",
    "window_peak_bytes": "largest ever {}",
    "attempts": "{} other attempts under this id",
}
_IN_THE_TABLE: Final = frozenset({"blocked_s", "lag_s"})  # the table of hops has them
_NOTHING_AT_ZERO: Final = frozenset({"attempts"})


def evidence_lines(evidence: Sequence[tuple[str, Sequence[Fact]]]) -> list[tuple[str, str]]:
    """(name, text) of every group that has something to say."""
    lines = []
    for group, facts in evidence:
        name, unit = _split(group)
        spoken = [
            _spoken(key, value, unit)
            for key, value in facts
            if not (value is None or (value == 0 and key in _NOTHING_AT_ZERO))
        ]
        if spoken and group not in _IN_THE_TABLE:
            lines.append((name or "evidence", ", ".join(spoken)))
    return lines


def _spoken(key: str, value: object, group_unit: str) -> str:
    name, unit = _split(key)
    shown = _shown(value, unit or group_unit)
    return _PHRASES[key].format(shown) if key in _PHRASES else f"{name} {shown}".strip()


_UNITS: Final = ("_s", "_bytes", "_share", "_count")


def _split(key: str) -> tuple[str, str]:
    for unit in _UNITS:
        if key.endswith(unit):
            return key.removesuffix(unit).replace("_", " "), unit
    return key.replace("_", " "), ""


def _shown(value: object, unit: str) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | float() if unit == "_s":
            return seconds(value)
        case int() | float() if unit == "_bytes":
            return size(value)
        case int() | float() if unit == "_share":
            return f"{value:.0%}"
        case int():
            return count(value)
        case float():
            return f"{value:.4g}"
    return str(value)
