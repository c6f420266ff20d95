"""The evidence of a verdict in words: each known fact has its phrase, an unknown one is shown by its own name.

Units come from the ends of names, as everywhere: `_s`, `_bytes`, `_share`. A fact that is null is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel.view.answers import Fact
from otel.view.text import count, seconds, size

_PHRASES: Final = {
    "alignment": "events matched {}",
    "position_quantum": "positions known to within {} characters",
    "source_limit_s": "this source may pause for {}",
    "source_rhythm_s": "its usual pause is {}",
    "pace_s": "an event every {}",
    "usual_pace_s": "usually every {}",
    "slowed_after_events": "slower after {} events",
    "pace_before_s": "every {} before",
    "pace_after_s": "every {} from there",
    "detail": "{}",
    "error_said": "the error: {}",
    "limits_passed": "limits that passed: {}",
    "sampled_s": "sampled for {}",
    "unacknowledged_s": "unacknowledged for {}",
    "lost_share": "{} of it with loss",
    "window_shrunk_share": "{} of it with a small window",
    "window_bytes": "smallest window {}",
    "window_peak_bytes": "largest ever {}",
    "unread_from_s": "not read from {} on",
    "unread_for_s": "for {}",
    "server": "{}",
    "running": "{} running",
    "waiting": "{} waiting",
    "kv_cache_share": "KV cache {}",
    "preemptions_since_last_event": "{} preemptions since the last event",
    "preemptions_since_last_event_at_most": "at most {} preemptions since the last event",
    "preemptions_meanwhile": "{} preemptions meanwhile",
    "preemptions_meanwhile_at_most": "at most {} preemptions meanwhile",
    "asked_after_s": "asked {} into the silence",
    "before_running": "{} running before",
    "before_waiting": "{} waiting before",
    "before_kv_cache_share": "KV cache {} before",
    "timer_s": "it lasts {}",
    "silence_s": "{} without a byte",
    "silent_before": "nothing more had come to {}",
    "other_attempts": "they were {}",
    "attempts": "{} other attempts under this id",
    "requests": "{} requests under this id",
}
_SERVERS: Final = {"vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI"}
_MATCHED: Final = {"ordinal": "one by one", "position": "by position in the text"}
_WHEREABOUTS: Final = {
    "with the peer": "the awaited bytes had reached {peer}",
    "in the network": "the awaited bytes were still on their way to {peer}",
    "in the network, as many as the peer's window lets pass": (
        "as many bytes were on their way as {peer} has room for"
    ),
    "with the peer, or its word that it has room again was lost": (
        "the awaited bytes had reached {peer}, or its word that it has room again was lost"
    ),
    "not sampled": "the awaited bytes: not known where they were",
}
_OF_A_WAIT: Final = frozenset({"alignment", "position_quantum", "source_limit_s", "source_rhythm_s"})
_IN_THE_TABLE: Final = frozenset({"blocked_s", "lag_s"})  # the table of hops has them
_USUAL: Final = {"attempts": 0, "requests": 1}
"""What is not worth a word where it is as usual."""


def evidence_lines(
    evidence: Sequence[tuple[str, Sequence[Fact]]], *, has_wait: bool = True, peer: str = "the next hop's machine"
) -> list[tuple[str, str]]:
    """(name, text) of every group that has something to say.

    has_wait: there is a wait, which facts on rhythm and matching are about. peer: whom the awaited bytes were for.
    """
    lines = []
    for group, facts in evidence:
        name, unit = _split(group)
        spoken = [
            _spoken(key, value, unit, peer)
            for key, value in facts
            if not (value is None or value == _USUAL.get(key) or (key in _OF_A_WAIT and not has_wait))
        ]
        if spoken and group not in _IN_THE_TABLE:
            lines.append((name or "evidence", ", ".join(spoken)))
    return lines


def _spoken(key: str, value: object, group_unit: str, peer: str) -> str:
    if key == "bytes_were":
        return _WHEREABOUTS.get(str(value), f"the awaited bytes were {value}").replace("{peer}", peer)
    name, unit = _split(key)
    if key == "alignment":
        value = _MATCHED.get(str(value), f"by {value}")
    if key == "server":
        value = _SERVERS.get(str(value), value)
    shown = _shown(value, unit or group_unit)
    if value == 1 and key.startswith("preemptions_"):
        return _PHRASES.get(key, key).format(shown).replace("preemptions", "preemption", 1)
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
