"""Which app buffers: told by what leaves in pieces, apart from stalls, merges and bursts of the source."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.buffering import Comb
from otel.findings import Cause, Policy, Status
from otel.hop import EventClass, Moments, State
from otel.join import join
from otel.release import Hold
from otel.sentence import sentence
from otel.verdict import judge
from tests.support.builders import a_hop, a_timeline
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run

HOPS = st.sampled_from([PROXY, GATEWAY])
EXACT = st.booleans()


def verdict_on(chain: Chain, policy: Policy | None = None):
    return judge(join(run(chain)), policy)


def buffered(verdict) -> list[tuple[str, int]]:
    return [(f.first_hop, f.term_ns) for f in verdict.findings if f.cause is Cause.BUFFERING]


@pytest.mark.parametrize("hop", [PROXY, GATEWAY])
@pytest.mark.parametrize("is_exact", [False, True])
def test_a_short_answer_that_a_timer_of_250_ms_lets_go_is_buffered(hop, is_exact):
    """Fifty events, 5.5 ms apart, held for 250 ms: the first comes after 22 ms and leaves after 272."""
    verdict = verdict_on(
        Chain(events=50, first=22 * MS, gap=5_500_000, buffers=[(hop, 250 * MS)], is_exact=is_exact, chars=(20,))
    )
    assert (verdict.status, verdict.cause) == (Status.NAMED, Cause.BUFFERING)
    assert [finding.first_hop for finding in verdict.findings] == [hop]
    assert verdict.findings[0].term_ns == pytest.approx(250 * MS, abs=3 * MS)
    gaps = {each.tap: each.median_ns for each in verdict.gaps}
    assert gaps[hop] < gaps[WORKER] == pytest.approx(5_500_000, abs=200_000), "the median gap falls"


@given(hop=HOPS, ms=st.integers(115, 240), events=st.integers(60, 200), is_exact=EXACT)
def test_short_holds_are_a_note_and_no_fault(hop, ms, events, is_exact):
    chain = Chain(events=events, gap=10 * MS, buffers=[(hop, ms * MS)], is_exact=is_exact)
    path = join(run(chain))
    verdict = judge(path)
    assert verdict.status is Status.HEALTHY
    ((named, held_ns),) = buffered(verdict)
    assert named == hop
    assert held_ns <= ms * MS + 5 * MS
    assert f"{hop} app let output go in bursts" in sentence(path, verdict)


@given(hop=HOPS, size=st.integers(36, 64), is_merged=st.booleans(), is_exact=EXACT)
def test_a_window_of_some_events_is_buffering_however_short_the_answer(hop, size, is_merged, is_exact):
    how = {"merge" if is_merged else "collects": {hop: size}}
    verdict = verdict_on(Chain(events=2 * size + 5, is_exact=is_exact, **how))
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.BUFFERING, hop)


@given(hop=HOPS, seed=st.integers(0, 1_000), size=st.integers(24, 64))
def test_a_window_is_named_whatever_the_rhythm_of_the_source(hop, seed, size):
    draw = random.Random(seed)
    pauses = [min(400 * MS, round(draw.expovariate(1 / (40 * MS)))) for _ in range(300)]
    verdict = verdict_on(Chain(events=300, schedule=pauses, collects={hop: size}), Policy(rhythm_elsewhere_ns=90 * MS))
    assert verdict.status is not Status.HEALTHY
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.BUFFERING, hop)


def test_a_hop_that_buffers_behind_a_source_with_pauses_is_named_for_it():
    """The larger part of each wait is the source's."""
    chain = Chain(events=400, schedule=[2 * MS] * 11 + [700 * MS], collects={GATEWAY: 23})
    verdict = verdict_on(chain, Policy(rhythm_elsewhere_ns=700 * MS))
    assert buffered(verdict)


@given(hop=HOPS, at=st.integers(5, 100), ms=st.integers(300, 5_000))
def test_one_stall_is_no_buffer(hop, at, ms):
    verdict = verdict_on(Chain(stalls=[(hop, at, ms * MS)]))
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.APP_STALL, hop)
    assert not buffered(verdict)


@pytest.mark.parametrize("hop", [PROXY, GATEWAY])
def test_a_late_first_output_is_none_either(hop):
    assert verdict_on(Chain(slow_first=[(hop, 2 * S)])).cause is Cause.SLOW_FIRST_EVENT


@pytest.mark.parametrize("hop", [PROXY, GATEWAY])
def test_what_is_let_go_once_cannot_be_told_from_a_stall(hop):
    path = join(run(Chain(events=60, collects={hop: 60})))
    verdict = judge(path)
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.SLOW_FIRST_EVENT, hop)
    assert sentence(path, verdict).endswith(
        "; it let go once, of nearly everything: a buffer cannot be told from a stall."
    )


@given(
    hop=HOPS, at=st.integers(1, 58), ms=st.integers(400, 4_000), late_ms=st.integers(0, 3_000), is_merged=st.booleans()
)
def test_what_the_source_did_is_told_beside_one_release_that_hid_it(hop, at, ms, late_ms, is_merged):
    """Lab seed 2, case 64: a first output may take its time, and a pause behind it has the rhythm of the source."""
    how = {"merge" if is_merged else "collects": {hop: 80}}
    stalls = [("source", at, ms * MS)]
    chain = Chain(events=60, stalls=stalls, late_end=late_ms * MS, keeps_rest=True, chars=(40,), **how)
    verdict = verdict_on(chain, Policy(rhythm_elsewhere_ns=25 * MS))
    found = {finding.segment.label: finding for finding in verdict.findings}
    assert found["source"].term_ns >= max(ms, late_ms) * MS
    assert found["source"].cause in {Cause.SLOW_FIRST_EVENT, Cause.END_HOLD}
    both = 60 * 25 + 10 + min(ms, late_ms)  # of two pauses the longer is the source's, as of any that a hop waited out
    assert {label for label, finding in found.items() if finding.term_ns > both * MS} <= {"source"}


@given(hop=HOPS, at=st.integers(1, 28), ms=st.integers(300, 4_000), late_ms=st.integers(0, 250))
def test_of_a_source_without_a_rhythm_it_cannot_be_said(hop, at, ms, late_ms):
    """Lab seed 6, case 97: the rest came at once, so a hop that kept all of it made a pause a first output."""
    chain = Chain(
        events=30, gap=0, stalls=[("source", at, ms * MS)], late_end=late_ms * MS, collects={hop: 30}, chars=(40,)
    )
    verdict = verdict_on(chain)
    assert verdict.status is Status.INCONCLUSIVE
    assert [finding.segment.label for finding in verdict.findings] == ["source"]


@given(hop=HOPS, seed=st.integers(0, 1_000), thoughts=st.integers(0, 60), is_exact=EXACT)
def test_a_healthy_source_is_not_told_beside_it_though_it_thinks_meanwhile(hop, seed, thoughts, is_exact):
    draw = random.Random(seed)
    pauses = [draw.randrange(5, 60) * MS for _ in range(120)]
    phases = [(EventClass.CONTENT, 20), (EventClass.TOOL, thoughts)]
    chain = Chain(events=120, schedule=pauses, phases=phases, collects={hop: 130}, keeps_rest=True, is_exact=is_exact)
    verdict = verdict_on(chain, Policy(rhythm_elsewhere_ns=55 * MS))
    assert [f.segment.label for f in verdict.findings if f.cause is not Cause.HIDDEN_OUTPUT] == [
        f"{NAMES[NAMES.index(hop) - 1]}>{hop}"
    ]


@given(seed=st.integers(0, 1_000), burst=st.integers(2, 40))
def test_bursts_of_the_source_are_nobodys_buffer(seed, burst):
    draw = random.Random(seed)
    schedule = [*[100_000] * burst, draw.randrange(50, 700) * MS]
    verdict = verdict_on(Chain(events=400, schedule=schedule), Policy(rhythm_elsewhere_ns=700 * MS))
    assert not buffered(verdict)
    assert verdict.status is Status.HEALTHY


def test_a_frozen_sidecar_or_a_reader_that_stops_is_nobodys_buffer():
    for chain in (Chain(freeze=(PROXY, 20, 2 * S)), Chain(slow_reader=(20, 2 * S)), Chain(sluggish=60 * MS)):
        assert not buffered(verdict_on(chain))


class TestAComb:
    def test_needs_three_teeth_of_about_one_length(self):
        assert Comb([300, 300, 300]).has_teeth_like(300)
        assert not Comb([300, 300]).has_teeth_like(300)
        assert not Comb([900, 300, 300]).has_teeth_like(900)

    def test_two_pieces_show_as_much_where_they_are_nearly_everything(self):
        pieces = [Hold(250 * MS, 0.9), Hold(22 * MS, 0.1, is_rest=True)]
        assert Comb((), pieces).has_pieces_like(265 * MS)
        assert not Comb((), pieces).has_pieces_like(2 * S), "something else held it for longer"
        assert not Comb((), pieces[:1]).has_pieces_like(265 * MS)
        assert not Comb((), [Hold(250 * MS, 0.3)] * 3).has_pieces_like(600 * MS), "no piece was held for that long"
        assert not Comb((), [Hold(250 * MS, 0.7), pieces[1]]).has_pieces_like(265 * MS), "the rest passed as it came"

    def test_is_one_piece_where_it_let_go_once(self):
        assert Comb((), [Hold(250 * MS, 0.95)]).is_one_piece()
        assert not Comb((), [Hold(250 * MS, 0.5)]).is_one_piece()


@given(hop=HOPS, at=st.integers(4, 50), ms=st.integers(350, 2_500), merge=st.integers(1, 3), is_exact=EXACT)
def test_one_stall_behind_a_hop_that_merges_is_no_buffer(hop, at, ms, merge, is_exact):
    """Lab seed 202, cases 1, 9, 26 and 31: pieces of a source or a merger, and one backlog, are no three releases."""
    for schedule in (None, [100_000, 100_000, 100_000, 55 * MS]):
        chain = Chain(events=240, schedule=schedule, merge={PROXY: merge}, stalls=[(hop, at, ms * MS)], chars=(7, 3))
        verdict = verdict_on(replace(chain, is_exact=is_exact), Policy(rhythm_elsewhere_ns=60 * MS))
        assert verdict.findings[0].first_hop == hop
        assert not buffered(verdict)


def test_a_hold_that_was_made_up_for_is_no_note():
    """Hops that each tell another story make a hop hold for a reader who did not wait at all."""
    waited = [0, 200 * MS, 0]
    hops = [
        replace(
            a_hop(name, timeline=a_timeline(()), state=State.OPEN),
            moments=Moments(request_forwarded_ns=MS, closed_ns=ns),
        )
        for name, ns in zip(NAMES, waited, strict=True)
    ]
    assert judge(join(hops, expected_path=NAMES)).findings == ()
