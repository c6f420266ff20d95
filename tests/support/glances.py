"""Glances for tests: `a_glance()` by hand, `glances()` for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from otel.glance import COUNT_MAX, NAME_CHARS, Glance, Moment
from otel.ids import recorded
from tests.support.builders import WALL_NS, hex_ids


def a_glance(moment: Moment = Moment.OPEN, *, number: int = 1, **more: Any) -> Glance:
    """A stream that runs well; number makes it another one."""
    told: dict[str, Any] = {
        "at_ns": WALL_NS,
        "trace_id": f"{number:032x}",
        "span_id": f"{number:016x}",
        "request_id": f"req-{number}",
        "hop": "inference-proxy",
        "phase": "events",
        "listener": "listen",
        "model": "llama-3",
        "status": 200,
        "events": 12,
        "age_s": 20.0,
        "silent_s": 0.1,
        "heartbeat_s": 10.0,
    }
    return Glance(moment=moment, **told | more)


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=NAME_CHARS)
times = st.floats(0, 1e9, allow_nan=False)


def glances() -> st.SearchStrategy[Glance]:
    return st.builds(
        Glance,
        moment=st.sampled_from(Moment),
        at_ns=st.integers(0, (1 << 64) - 1),
        trace_id=hex_ids(32),
        span_id=hex_ids(16),
        request_id=st.text(max_size=30).map(recorded),
        hop=names,
        phase=names,
        listener=st.none() | names,
        model=st.none() | names,
        status=st.none() | st.integers(0, 999),
        events=st.integers(0, COUNT_MAX),
        age_s=times,
        silent_s=times,
        is_blocked=st.booleans(),
        is_stalled=st.booleans(),
        stall_cause=st.none() | names,
        is_probe=st.booleans(),
        heartbeat_s=st.none() | st.floats(0.001, 1e6),
        ending=st.none() | names,
    )
