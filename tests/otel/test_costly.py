"""Records made to be costly: as many stretches, samples, waits and edits as the format lets through cost seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from otel import waits
from otel.findings import Cause
from otel.hop import Blocked, Hop, Interval, KernelSample
from otel.join import join
from otel.timeline import EVIDENCE_ROWS
from otel.verdict import judge
from tests.support.chain import GATEWAY, MS, PROXY, Chain, S, run

EVENTS = 4_000
CPU_S = 8.0
"""Each takes a second or two; where every event is held against every stretch, and every wait against every sample, it
is more than this, and grows with the product."""


def with_evidence(hop: Hop) -> Hop:
    """As many of everything as there may be, all along the answer, and nothing of it ever acknowledged."""
    rows = range(EVIDENCE_ROWS)
    timeline = replace(
        hop.timeline,
        blocked=tuple(Blocked(i * 90 * MS, i * 90 * MS + 8 * MS, 1) for i in rows),
        lag=tuple(Interval(i * 90 * MS, i * 90 * MS + 60 * MS) for i in rows),
        samples=tuple(KernelSample(i * 90 * MS, 0, 1, 10, 1000 + i, 0, 0, 0) for i in rows),
        window_peak_bytes=65_536,
    )
    return replace(hop, timeline=timeline)


def taken_late(hop: Hop) -> Hop:
    last = hop.timeline.stamps[-1].arrived_ns + S
    stamps = tuple(replace(stamp, taken_ns=last) for stamp in hop.timeline.stamps)
    ended = replace(hop.moments, downstream_ended_ns=last + MS, closed_ns=last + MS)
    return replace(hop, timeline=replace(hop.timeline, stamps=stamps), moments=ended)


def half_edited(hop: Hop) -> Hop:
    stamps = tuple(replace(stamp, position=2 * stamp.position) for stamp in hop.timeline.stamps)
    return replace(hop, timeline=replace(hop.timeline, stamps=stamps))


def beside_itself() -> list[Hop]:
    """Half of the text stands at one place for the reader, and a source's silences, all alike, right behind it."""
    half, step = EVENTS, 1 << 40
    source, _, gateway = run(Chain(events=2 * half, gap=20 * MS, stalls=[(GATEWAY, half // 2, S)]))
    seen = tuple(replace(s, position=step * (s.seq >= half), is_exact=False) for s in gateway.timeline.stamps)
    at, late = 0, []
    for s in source.timeline.stamps[:-1]:
        at += S if s.seq > half else 20 * MS
        place = step * (s.seq >= half)
        late.append(replace(s, arrived_ns=at, taken_ns=at, position=place, is_exact=False))
    ended = replace(source.moments, upstream_ended_ns=at, downstream_ended_ns=at, closed_ns=at)
    return [
        replace(source, timeline=replace(source.timeline, quantum=2, stamps=tuple(late)), moments=ended),
        replace(gateway, timeline=replace(gateway.timeline, quantum=step, stamps=seen)),
    ]


COSTLY: dict[str, Callable[[], list[Hop]]] = {
    "evidence": lambda: [with_evidence(hop) for hop in run(Chain(events=EVENTS, gap=300 * MS))],
    "evidence, merged": lambda: [
        with_evidence(hop) for hop in run(Chain(events=EVENTS, gap=300 * MS, merge={PROXY: 7}))
    ],
    "beside itself": beside_itself,
    "taken late": lambda: [taken_late(with_evidence(hop)) for hop in run(Chain(events=EVENTS, gap=300 * MS))],
    "edited": lambda: (
        [half_edited(hop) for hop in run(Chain(events=EVENTS, gap=300 * MS, merge={PROXY: 2}))[:2]]
        + run(Chain(events=EVENTS, gap=300 * MS, merge={PROXY: 2}))[2:]
    ),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_a_record_made_to_be_costly_is_judged_in_seconds(kind):
    path = join(COSTLY[kind]())
    begun = time.process_time()
    judge(path)
    assert time.process_time() - begun < CPU_S


def test_the_longest_wait_is_named_though_only_it_was_looked_at(monkeypatch):
    """Where each wait may lie anywhere, few are looked at: those that the reader felt most."""
    looked_at = []
    whole = waits.decompose.gap_before
    monkeypatch.setattr(waits, "EVENTS_LOOKED_AT", 0)
    monkeypatch.setattr(waits.decompose, "gap_before", lambda lineup, j: looked_at.append(j) or whole(lineup, j))
    chain = Chain(events=200, stalls=[(GATEWAY, 40, 2 * S), (PROXY, 90, 4 * S), (GATEWAY, 140, 3 * S)])
    verdict = judge(join(run(chain)))
    assert len(looked_at) == 1
    assert (verdict.cause, verdict.named.first_hop) == (Cause.APP_STALL, PROXY)
