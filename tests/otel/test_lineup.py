"""All taps of a path lined up: the segments and their names, and how sure it is that the same output is compared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from otel.lineup import EDITED, ROUGHLY, Kind, Segment, line_up
from tests.support.chain import GATEWAY, PROXY, WORKER, Chain, run


def segments(lineup):
    count = len(lineup.lanes)
    pairs = [(lineup.before(n), lineup.within(n)) for n in range(count)]
    return [segment.label for pair in pairs for segment in pair] + [lineup.outermost().label]


def test_segments_are_named_by_the_taps_at_their_ends():
    lineup, unaligned = line_up(run(Chain()))
    assert not unaligned
    assert segments(lineup) == [
        "source",
        f"self:{WORKER}",
        f"{WORKER}>{PROXY}",
        f"self:{PROXY}",
        f"{PROXY}>{GATEWAY}",
        f"self:{GATEWAY}",
        f"{GATEWAY}>client",
    ]


def test_a_client_record_is_the_readers_segment():
    assert Segment(Kind.READER, GATEWAY, "client").label == f"{GATEWAY}>client"
    lineup, _ = line_up(run(Chain(has_record=True)))
    assert lineup.has_record
    assert segments(lineup)[-3:] == [f"{GATEWAY}>client", "ui", "ui"]


@given(merge=st.integers(2, 9))
def test_hops_that_merge_are_lined_up_by_position_and_the_others_by_number(merge):
    lineup, _ = line_up(run(Chain(merge={GATEWAY: merge})))
    assert not lineup.by_ordinal
    assert lineup.same == [True, False]


@given(hop=st.sampled_from([PROXY, GATEWAY]), at=st.integers(0, 100))
def test_an_edited_text_is_the_same_output_up_to_its_edit(hop, at):
    lineup, _ = line_up(run(Chain(rewrites={hop: [(at, 70)]}, is_exact=True)))
    assert lineup.by_ordinal
    assert (lineup.likeness(at - 1), lineup.likeness(at)) == (1.0, EDITED)


def test_where_it_is_not_known_from_where_on_a_text_is_another_all_of_it_is_alike_only_roughly():
    lineup, _ = line_up(run(Chain(rewrites={PROXY: [(40, 90)]}, merge={GATEWAY: 3})))
    assert lineup.likeness(1) == ROUGHLY


def test_hops_that_saw_other_events_are_compared_by_their_ends_alone():
    hops = [run(Chain(events=events, phases=[(EventClass.OPAQUE, events)]))[n] for n, events in enumerate((40, 60, 40))]
    lineup, _ = line_up(hops)
    assert lineup.is_partial
    assert [lane.count for lane in lineup.lanes] == [2, 2, 2]
    assert lineup.likeness(1) == ROUGHLY


def test_hops_without_an_event_give_nothing_to_line_up():
    assert line_up(run(Chain(events=0)))[0] is None
