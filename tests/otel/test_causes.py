"""Why a segment added its term: by what it is made of, by what was waited for, and by what flowed unseen meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import decompose
from otel.causes import cause_behind, cause_of
from otel.decompose import Decomposition, Wait
from otel.evidence import Whereabouts
from otel.findings import Cause, Policy
from otel.hop import EventClass
from otel.join import join
from otel.lineup import Kind, Lineup, line_up
from otel.rhythm import rhythm_of
from tests.support.chain import GATEWAY, MS, PROXY, WORKER, Chain, S, run

AT = 60
POLICY = Policy()
RHYTHM = rhythm_of([25 * MS] * 60, floor_ns=POLICY.floor_ns, ceiling_ns=POLICY.ceiling_ns)


def lined_up(chain: Chain) -> Lineup:
    lineup, _ = line_up(join(run(chain)).taps)
    assert lineup is not None
    return lineup


def waits(lineup: Lineup) -> dict[Wait, Decomposition]:
    end = decompose.end(lineup)
    assert end is not None
    return {
        Wait.GAP: decompose.gap_before(lineup, AT),
        Wait.FIRST_EVENT: decompose.first_event(lineup),
        Wait.END: end,
    }


BY_WAIT = {
    Kind.SOURCE: (Cause.SOURCE_STALL, Cause.SLOW_FIRST_EVENT, Cause.END_HOLD),
    Kind.BETWEEN: (Cause.APP_STALL, Cause.SLOW_FIRST_EVENT, Cause.END_HOLD),
    Kind.SIDECAR: (Cause.SELF, Cause.SELF, Cause.SELF),
    Kind.READER: (Cause.SLOW_READER, Cause.SLOW_READER, Cause.SLOW_READER),
}


@pytest.mark.parametrize("kind", BY_WAIT)
def test_a_cause_follows_from_the_segment_and_from_what_was_waited_for(kind):
    lineup = lined_up(Chain())
    for wait, cause in zip(waits(lineup).values(), BY_WAIT[kind], strict=True):
        segments = [segment for segment in wait.terms if segment.kind is kind]
        assert segments
        for segment in segments:
            assert cause_of(lineup, wait, segment, S, RHYTHM, policy=POLICY)[0] is cause


def test_a_reader_whose_record_shows_the_way_of_the_request_as_well_is_not_late_for_the_first_output():
    lineup = lined_up(Chain(has_record=True))
    found = {
        wait: cause_behind(lineup, each, segment, S)[0]
        for wait, each in waits(lineup).items()
        for segment in each.terms
        if segment.kind is Kind.READER
    }
    assert found[Wait.FIRST_EVENT] is Cause.SLOW_FIRST_EVENT
    assert found[Wait.GAP] is Cause.SLOW_READER


def test_bytes_that_were_lost_make_it_the_networks_whoever_stands_behind():
    lineup = lined_up(Chain(lossy=(GATEWAY, AT, 2 * S)))
    wait = decompose.gap_before(lineup, AT)
    reader = lineup.before(len(lineup.lanes))
    cause, kernel, where = cause_behind(lineup, wait, reader, wait.terms[reader])
    assert (cause, where) == (Cause.NETWORK, Whereabouts.NETWORK)
    assert kernel is not None


def thinking(*, before: int = 20, pause_ns: int = 0) -> Lineup:
    """Some text, then two seconds of thoughts that the gateway keeps back with a pause in their middle, then text."""
    return lined_up(
        Chain(
            events=before + 160,
            phases=[(EventClass.CONTENT, before), (EventClass.REASONING, 80)],
            strips={GATEWAY: EventClass.REASONING},
            stalls=[("source", before + 40, pause_ns)],
        )
    )


@pytest.mark.parametrize(
    ("pause_ns", "cause"),
    [(0, Cause.HIDDEN_OUTPUT), (200 * MS, Cause.HIDDEN_OUTPUT), (300 * MS, Cause.SOURCE_STALL)],
)
def test_thoughts_fill_a_wait_only_where_they_flow_all_through_it(pause_ns, cause):
    lineup = thinking(pause_ns=pause_ns)
    wait = decompose.gap_before(lineup, 20)
    assert wait.terms[lineup.source] > 2 * S
    assert cause_of(lineup, wait, lineup.source, wait.terms[lineup.source], RHYTHM, policy=POLICY)[0] is cause


def test_thoughts_that_begin_too_late_do_not_fill_the_wait_for_the_first_output():
    lineup = thinking(before=0)
    wait = decompose.first_event(lineup)
    term = wait.terms[lineup.source]
    early = replace(POLICY, first_event_ns=50 * MS)
    assert cause_of(lineup, wait, lineup.source, term, RHYTHM, policy=POLICY)[0] is Cause.HIDDEN_OUTPUT
    assert cause_of(lineup, wait, lineup.source, term, RHYTHM, policy=early)[0] is Cause.SLOW_FIRST_EVENT


@given(
    before=st.integers(4, 60),
    thoughts=st.integers(20, 60),
    merge=st.integers(1, 6),
    pause_ms=st.sampled_from([0, 150, 400]),
    is_exact=st.booleans(),
)
def test_thoughts_fill_a_wait_also_where_it_is_not_known_exactly_behind_which_text(
    before, thoughts, merge, pause_ms, is_exact
):
    """Lab seed 5, case 22: the text that may lie in the window was taken for a silence of the source."""
    lineup = lined_up(
        Chain(
            events=before + thoughts + 40,
            phases=[(EventClass.CONTENT, before), (EventClass.REASONING, thoughts)],
            strips={PROXY: EventClass.REASONING},
            merge={GATEWAY: merge},
            stalls=[("source", before + thoughts // 2, pause_ms * MS)],
            is_exact=is_exact,
        )
    )
    longest = max(range(1, lineup.last.count), key=lambda j: lineup.reader[j] - lineup.reader[j - 1])
    wait = decompose.gap_before(lineup, longest)
    cause, _, _ = cause_of(lineup, wait, lineup.source, wait.terms[lineup.source], RHYTHM, policy=POLICY)
    assert cause is (Cause.SOURCE_STALL if pause_ms > 250 else Cause.HIDDEN_OUTPUT)


@given(at=st.integers(1, 60), ms=st.integers(400, 2_000), size=st.integers(62, 100), is_merged=st.booleans())
def test_loss_within_what_a_hop_collects_before_its_first_output_is_the_networks(at, ms, size, is_merged):
    """Lab seed 2, case 88: the kernel was asked for the first event alone, which had long been there."""
    how = {"merge" if is_merged else "collects": {GATEWAY: size}}
    lineup = lined_up(Chain(events=130, lossy=(WORKER, at, ms * MS), chars=(40,), **how))
    wait = decompose.first_event(lineup)
    link = lineup.before(1)
    assert wait.terms[link] >= (ms - 40) * MS
    assert cause_behind(lineup, wait, link, wait.terms[link])[0] is Cause.NETWORK
    hold = lineup.before(2)
    assert cause_behind(lineup, wait, hold, wait.terms[hold])[0] is Cause.SLOW_FIRST_EVENT
