"""What the engine beside the worker said while the worker was silent, as evidence of a verdict that names it.

The numbers explain a silence of the source, and are shown with no other finding: what an engine says of itself proves
nothing about the hops behind it. They must have been asked for within the very wait that the verdict names.
"""

from __future__ import annotations

from typing import Final

from otel.decompose import Decomposition, Wait
from otel.findings import Cause, Finding
from otel.hop import EngineEvidence, EngineSnapshot, Hop, TapRole
from otel.join import Path
from otel.lineup import Kind, line_up

Facts = dict[str, str | int | float]

EXACT_NS: Final = 1_000_000_000
"""Counted from so shortly before or after the last event, preemptions are said to be those since it."""
_CAUSES: Final = frozenset({Cause.SOURCE_STALL, Cause.SLOW_FIRST_EVENT})


def engine_facts(path: Path, finding: Finding) -> Facts | None:
    """The engine's numbers in that wait, and how they were before; None where there are none to show.

    Preemptions are counted from the last time that it was asked before the silence, so there may be some too many:
    then they are given as `at_most`. None is not said while requests wait: vLLM counts the preemption of a request with
    its next output, and so only when the silence is over. Where the engine has been started anew meanwhile, nothing
    before is told.
    """
    wait = finding.decomposition
    if finding.cause not in _CAUSES or finding.segment.kind is not Kind.SOURCE or wait is None:
        return None
    found = _source_and_silence(path, wait)
    if found is None or (engine := found[0].engine) is None or found[0].place.role is TapRole.EGRESS:
        return None
    _, start_ns, stop_ns = found
    during, earlier = engine.during, engine.earlier
    if not start_ns <= during.asked_ns <= stop_ns:
        return None
    facts = {"server": engine.server, **_numbers(during)}
    asked_after = {"asked_after_s": (during.asked_ns - engine.silent_since_ns) / 1e9}
    if earlier is None or _is_new(earlier, during):
        return facts | asked_after
    before = {f"before_{name}": value for name, value in _numbers(earlier).items()}
    return facts | _preemptions(engine, earlier, wait.wait) | asked_after | before


def _source_and_silence(path: Path, wait: Decomposition) -> tuple[Hop, int, int] | None:
    """The tap nearest the source, and from when until when it saw nothing, by its own clock."""
    if all(hop.engine is None for hop in path.taps):
        return None  # which is usual, and lining up is not cheap
    lineup, _ = line_up(path.taps)
    if lineup is None:
        return None
    source = lineup.lanes[0]
    if wait.wait is Wait.FIRST_EVENT:
        return source.hop, 0, source.arrived[0]
    window = wait.windows[0]
    return source.hop, source.arrived[window.first], source.arrived[window.last]


def _numbers(snapshot: EngineSnapshot) -> Facts:
    numbers = {
        "running": snapshot.running_count,
        "waiting": snapshot.waiting_count,
        "kv_cache_share": snapshot.kv_cache_share,
    }
    return {name: value for name, value in numbers.items() if value is not None}


def _is_new(earlier: EngineSnapshot, during: EngineSnapshot) -> bool:
    """Whether it was started between the two: what it counts has become less."""
    before, after = earlier.preemption_count, during.preemption_count
    return before is not None and after is not None and after < before


def _preemptions(engine: EngineEvidence, earlier: EngineSnapshot, wait: Wait) -> Facts:
    if earlier.preemption_count is None or engine.during.preemption_count is None:
        return {}
    count = engine.during.preemption_count - earlier.preemption_count
    if count == 0 and engine.during.waiting_count:
        return {}
    is_exact = count == 0 or engine.silent_since_ns - earlier.asked_ns <= EXACT_NS
    since = "since_last_event" if wait is Wait.GAP else "meanwhile"
    return {f"preemptions_{since}" if is_exact else f"preemptions_{since}_at_most": count}
