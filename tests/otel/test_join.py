"""Joining: places are put in order without comparing clocks, and what is not there is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import State, TapRole
from otel.join import join, paths
from tests.support.builders import a_conversation
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run, shifted


def names(path) -> list[str]:
    return [hop.place.hop for hop in path.taps]


def cut_into_segments(hop, *sizes: int):
    """The open segments that a sidecar would have cut from the hop."""
    stamps, begin, segments = hop.timeline.stamps, 0, []
    for index, size in enumerate(sizes):
        segments.append(
            replace(
                hop,
                span_id=f"{index:016x}",
                state=State.OPEN,
                end=None,
                segment_index=index,
                timeline=replace(hop.timeline, stamps=stamps[begin : begin + size]),
            )
        )
        begin += size
    return segments


@given(st.permutations(run(Chain())))
def test_hops_are_ordered_from_the_source_to_the_reader(hops):
    assert names(join(hops)) == list(NAMES)


@given(st.lists(st.integers(-3_600 * S, 3_600 * S), min_size=3, max_size=3))
def test_wall_clocks_do_not_matter(offsets):
    hops = [shifted(hop, wall_ns=ns) for hop, ns in zip(run(Chain()), offsets, strict=True)]
    assert names(join(hops)) == list(NAMES)


def test_one_monotonic_clock_orders_what_nesting_cannot():
    hops = [replace(hop, timeline=replace(hop.timeline, stamps=())) for hop in run(Chain(same_clock=True))]
    assert names(join(hops)) == list(NAMES)


def test_a_client_record_stands_at_the_end():
    hops = run(Chain())
    client = replace(hops[0], span_id="c" * 16, place=replace(hops[0].place, hop="browser", role=TapRole.CLIENT))
    assert names(join([client, *hops])) == [*NAMES, "browser"]


def test_an_egress_tap_stands_between_its_app_and_the_source():
    hops = run(Chain())
    egress = replace(hops[1], span_id="e" * 16, place=replace(hops[1].place, role=TapRole.EGRESS))
    roles = [(hop.place.hop, hop.place.role) for hop in join([*hops, egress]).taps]
    assert roles[1:3] == [(PROXY, TapRole.EGRESS), (PROXY, TapRole.INGRESS)]


def test_behind_an_egress_tap_alone_lies_the_app_of_its_hop_as_well():
    without = [hop for hop in run(Chain(egress=[PROXY])) if hop.place.tap != PROXY]
    path = join(without)
    assert path.absent_between(f"{PROXY} egress", GATEWAY) == (PROXY,)
    assert path.absent_between(WORKER, f"{PROXY} egress") == ()
    assert join(without[:2]).absent_between(f"{PROXY} egress", None) == (PROXY,)
    whole = join(run(Chain(egress=[PROXY])))
    assert whole.absent_between(f"{PROXY} egress", PROXY) == ()


def test_a_hop_that_came_twice_is_one_hop():
    hops = run(Chain())
    assert join([*hops, *hops]) == join(hops)


def test_an_expected_hop_without_a_record_is_reported():
    path = join(run(Chain())[1:], expected_path=NAMES)
    assert path.absent == (WORKER,)
    (note,) = path.missing
    assert note.startswith(f"no record from {WORKER}, which usually stands on this path")


def test_the_expected_path_decides_the_order():
    hops = run(Chain())
    assert names(join(hops, expected_path=NAMES[::-1])) == list(NAMES[::-1])


def test_segments_of_an_open_hop_are_put_together_in_their_order():
    hop = run(Chain(events=9))[0]
    path = join(reversed(cut_into_segments(hop, 3, 3, 3)))
    assert path.is_open
    assert path.taps[0].timeline.stamps == hop.timeline.stamps
    assert path.missing == ()


def test_what_the_reader_sent_in_an_open_websocket_is_put_together_too():
    hop = a_conversation(received_s=[0.5, 1.5, 2.5], sent_s=[0.4, 1.4, 2.4], state=State.OPEN)
    segments = [
        replace(part, sent=replace(hop.sent, stamps=(hop.sent.stamps[n],)))
        for n, part in enumerate(cut_into_segments(hop, 1, 1, 1))
    ]
    assert join(reversed(segments)).taps[0].sent == hop.sent


def test_what_segments_say_of_their_link_and_of_what_they_left_out_stays_said():
    [hop, *_] = run(Chain(events=9))
    first, second = cut_into_segments(hop, 3, 6)
    first = replace(first, timeline=replace(first.timeline, round_trip_ns=40 * MS, is_evidence_thinned=True))
    second = replace(second, timeline=replace(second.timeline, round_trip_ns=41 * MS, is_cut_short=True))
    timeline = join([first, second]).taps[0].timeline
    assert (timeline.round_trip_ns, timeline.is_evidence_thinned, timeline.is_cut_short) == (40 * MS, True, True)


def test_a_lost_segment_is_reported():
    first, _, third = cut_into_segments(run(Chain(events=9))[0], 3, 3, 3)
    assert join([first, third]).missing == (f"segment 1 of 3 of {WORKER} is missing",)


def test_the_final_record_replaces_its_segments():
    hop = run(Chain(events=9))[0]
    path = join([*cut_into_segments(hop, 3, 3, 3), hop])
    assert path.taps == (hop,)
    assert not path.is_open


def test_of_several_attempts_the_one_that_carried_the_answer_is_on_the_path():
    worker, proxy, gateway = run(Chain())
    lost = replace(
        worker,
        span_id="a" * 16,
        anchor=replace(
            worker.anchor, monotonic_ns=worker.anchor.monotonic_ns - 3 * S, wall_ns=worker.anchor.wall_ns - 3 * S
        ),
        timeline=replace(worker.timeline, stamps=worker.timeline.stamps[:5]),
    )
    path = join([lost, worker, proxy, gateway])
    assert path.taps == (worker, proxy, gateway)
    assert path.others == (lost,)


def test_a_request_id_used_twice_is_answered_for_the_later_request():
    earlier = run(Chain(events=50))
    later = [
        replace(
            hop,
            span_id=hop.span_id[::-1],
            anchor=replace(
                hop.anchor, monotonic_ns=hop.anchor.monotonic_ns + 60 * S, wall_ns=hop.anchor.wall_ns + 60 * S
            ),
        )
        for hop in run(Chain(events=80))
    ]
    first, second = paths([*earlier, *later])
    assert first == join([*earlier, *later])
    assert first.taps == tuple(later)
    assert second.taps == tuple(earlier)


def again(hops, *, later: int, **changes):
    """The same hops as those of another request that came later with the same id."""
    return [
        replace(
            hop,
            span_id=hop.span_id[::-1],
            anchor=replace(
                hop.anchor, monotonic_ns=hop.anchor.monotonic_ns + later, wall_ns=hop.anchor.wall_ns + later
            ),
            **changes,
        )
        for hop in hops
    ]


def with_answer(hops, answer_id: str):
    return [replace(hop, exchange=replace(hop.exchange, response_id=answer_id)) for hop in hops]


@given(st.randoms(use_true_random=False))
def test_of_requests_with_one_id_each_gets_the_hops_that_carried_its_answer(shuffle):
    """Both are as long as the other, so that nothing else tells them apart."""
    first = with_answer(run(Chain()), "chatcmpl-1")
    second = with_answer(again(run(Chain()), later=50 * MS), "chatcmpl-2")
    later, earlier = paths(shuffle.sample([*first, *second], 6))

    assert (later.taps, earlier.taps) == (tuple(second), tuple(first))
    assert (later.others, earlier.others) == ((), ())
    assert later.is_shared


def test_of_requests_with_one_id_none_gets_the_hops_of_another():
    """The second one's worker and proxy did not report."""
    first = with_answer(run(Chain()), "chatcmpl-1")
    (second,) = with_answer(again(run(Chain())[2:], later=50 * MS), "chatcmpl-2")
    later, earlier = paths([*first, second])

    assert (later.taps, later.others) == ((second,), ())
    assert earlier.taps == tuple(first)


def test_one_clock_tells_whose_a_hop_is():
    first = run(Chain(same_clock=True))
    (second,) = again(run(Chain(same_clock=True))[2:], later=60 * S)
    later, earlier = paths([*first, second])

    assert later.taps == (second,)
    assert earlier.taps == tuple(first)


def test_no_hop_behind_a_request_waited_longer_for_its_answer_than_the_request():
    """As where the answer was in a cache."""
    first = run(Chain(first=2 * S))
    (second,) = again(run(Chain(first=2 * MS))[2:], later=60 * S)
    later, earlier = paths([*first, second])

    assert later.taps == (second,)
    assert earlier.taps == tuple(first)


def test_of_calls_at_once_the_one_that_became_the_answer_is_on_the_path():
    """A gateway asks twice and passes one answer on, which it has rewritten to the length of the other."""
    worker, proxy, gateway = with_answer(run(Chain(chars=(4,))), "chatcmpl-1")
    (aside,) = with_answer(again([run(Chain(chars=(5,)))[0]], later=MS), "chatcmpl-2")
    (gateway,) = with_answer([replace(run(Chain(chars=(5,)))[2])], "chatcmpl-1")
    path = join([aside, worker, proxy, gateway])

    assert path.taps == (worker, proxy, gateway)
    assert path.others == (aside,)


def asked_besides(events: int = 8, *, first: int = 60 * MS, answer_id: str | None = "chatcmpl-2", name: str = "guard"):
    """What a model that an app asked besides recorded of it, on a clock of its own."""
    (hop, *_) = with_answer(run(Chain(events=events, first=first)), answer_id)
    place = replace(hop.place, hop=name)
    return replace(hop, span_id=name.ljust(16, "0"), place=place, anchor=replace(hop.anchor, clock_domain=name))


@pytest.mark.parametrize("answer_id", ["chatcmpl-2", None])
@pytest.mark.parametrize(("events", "first"), [(8, 60 * MS), (1, 3 * S), (60, 10 * MS)])
def test_a_call_to_something_else_stands_on_no_path(events, first, answer_id):
    hops = with_answer(run(Chain()), "chatcmpl-1" if answer_id else None)
    aside = asked_besides(events, first=first, answer_id=answer_id)
    path = join([aside, *hops])

    assert (path.taps, path.others) == (tuple(hops), (aside,))


def test_a_hop_that_is_known_to_stand_there_stays_whatever_it_made_of_the_text():
    _, proxy, gateway = with_answer(run(Chain()), "chatcmpl-1")
    short = asked_besides(name=WORKER)
    path = join([short, proxy, gateway], expected_path=NAMES)

    assert names(path) == list(NAMES)
    assert names(join([short, proxy, gateway])) == [PROXY, GATEWAY]


def test_where_two_answers_have_as_many_hops_none_is_left_out():
    worker, _, gateway = run(Chain())
    guards = [asked_besides(), asked_besides(name="guard-proxy", first=62 * MS)]
    assert len(join([worker, gateway, *guards]).taps) == 4


def test_who_asks_is_never_left_out_however_much_it_takes_away():
    worker, proxy, gateway = with_answer(run(Chain(events=300)), "chatcmpl-1")
    stamps = tuple(replace(stamp, position=stamp.position // 4) for stamp in gateway.timeline.stamps)
    (gateway,) = with_answer([replace(gateway, timeline=replace(gateway.timeline, stamps=stamps))], "chatcmpl-2")
    assert join([worker, proxy, gateway]).taps == (worker, proxy, gateway)


def test_clocks_that_run_apart_do_not_turn_the_order():
    """200 ppm over a wait of ten minutes are 120 ms, far more than a hop adds: the first output says nothing then."""
    hops = []
    for hop, ppm in zip(run(Chain(first=600 * S)), (200, -200, 200), strict=True):
        stretched = tuple(
            replace(s, arrived_ns=s.arrived_ns + s.arrived_ns * ppm // 1_000_000 // 100_000 * 100_000, taken_ns=None)
            for s in hop.timeline.stamps
        )
        hops.append(replace(hop, timeline=replace(hop.timeline, stamps=stamped(stretched))))
    assert set(names(join(hops))) == set(NAMES)
    assert names(join(hops, expected_path=NAMES)) == list(NAMES)


def stamped(stamps):
    return tuple(replace(s, taken_ns=s.arrived_ns + MS) for s in stamps)


def test_nothing_to_join_is_refused():
    with pytest.raises(ValueError, match="no hops"):
        join([])


def test_two_hops_are_enough():
    assert names(join(run(Chain(names=(WORKER, GATEWAY))))) == [WORKER, GATEWAY]


def test_absent_hops_are_placed_between_the_taps_that_are_there():
    path = join(run(Chain())[1:2], expected_path=NAMES)
    assert path.absent_between(None, PROXY) == (WORKER,)
    assert path.absent_between(PROXY, None) == (GATEWAY,)
    assert path.absent_between(None, None) == (WORKER, GATEWAY)
