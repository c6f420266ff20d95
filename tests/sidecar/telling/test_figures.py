from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given

from otel.hop import OUTPUT, Blocked, End, Ending, EventClass, Moments, Phase, Side
from sidecar.telling.figures import BOUNDS_S, GAP_ENDS_NS, GENAI_BOUNDS_S, cause_of, figures
from tests.support.builders import SECOND_NS, a_hop, a_timeline, hops, ns

KEEPALIVE, CONTROL, CONTENT, TOOL, TERMINAL = (
    EventClass.KEEPALIVE,
    EventClass.CONTROL,
    EventClass.CONTENT,
    EventClass.TOOL,
    EventClass.TERMINAL,
)


def a_stream(*events, **fields):
    """A hop with these (seconds, class)."""
    times, classes = zip(*events, strict=True)
    return a_hop(timeline=a_timeline(times, classes=classes), **fields)


def test_keepalives_are_no_first_event_and_break_no_gap():
    found = figures(
        a_stream((0.1, KEEPALIVE), (0.3, CONTROL), (0.5, CONTENT), (2.0, KEEPALIVE), (3.5, TOOL), (4.0, TERMINAL))
    )

    assert (found.first_event_ns, found.first_content_ns, found.last_content_ns) == (ns(0.3), ns(0.5), ns(3.5))
    assert found.max_gap_ns == ns(3.0)
    assert (found.content_gaps.sum, found.content_gaps.greatest) == (ns(3.0), ns(3.0))


def test_what_never_came_has_no_time():
    found = figures(a_stream((0.1, KEEPALIVE)))

    assert (found.first_event_ns, found.first_content_ns, found.last_content_ns, found.max_gap_ns) == (None,) * 4
    assert found.content_gaps.counts == ()


def test_an_instant_of_zero_is_one():
    found = figures(a_stream((0.0, CONTENT), (0.0, TERMINAL)))

    assert (found.first_event_ns, found.first_content_ns, found.max_gap_ns) == (0, 0, 0)


@pytest.mark.parametrize(
    ("moments", "duration_s"),
    [
        ({"downstream_ended_ns": ns(2)}, 2),
        ({"downstream_ended_ns": ns(2), "client_left_ns": ns(3)}, 2),
        ({"client_left_ns": ns(3)}, 3),
        ({}, 9),
        ({"client_left_ns": 0}, 0),
    ],
)
def test_it_lasts_until_the_reader_has_the_answer_or_leaves(moments, duration_s):
    found = figures(a_hop(moments=Moments(closed_ns=ns(9), **moments)))

    assert found.duration_ns == ns(duration_s)


def test_blocked_stretches_are_added_up():
    timeline = replace(a_timeline(), blocked=(Blocked(ns(1), ns(2), None), Blocked(ns(4), ns(4.5), 8)))

    assert figures(a_hop(timeline=timeline)).blocked_ns == ns(1.5)


def test_the_silence_at_the_end_is_that_of_the_upstream():
    end = End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.EVENTS, ns(7))

    assert figures(a_hop(end=end)).since_last_byte_ns == ns(7)


def test_the_hole_before_the_last_stamp_of_very_many_is_no_gap():
    timeline = a_timeline((1.0, 2.0, 900.0), classes=[CONTENT] * 3)
    last = replace(timeline.stamps[-1], seq=200_005)
    timeline = replace(timeline, stamps=(*timeline.stamps[:-1], last), is_cut_short=True)
    found = figures(a_hop(timeline=timeline))

    assert (found.max_gap_ns, found.content_gaps.greatest) == (ns(1.0), ns(1.0))
    assert found.last_content_ns == ns(900)


@pytest.mark.parametrize(
    ("ending", "cut", "error_type", "error_code", "cause"),
    [
        (Ending.COMPLETE, None, None, None, None),
        (Ending.UPSTREAM_CUT, "reset", None, None, "reset"),
        (Ending.UPSTREAM_CUT, "reset", "upstream_cut", None, "reset"),
        (Ending.UPSTREAM_CUT, None, "upstream_cut", None, "upstream_cut"),
        (Ending.CLIENT_DISCONNECT, "fin", None, None, "fin"),
        (Ending.CLIENT_DISCONNECT, None, "slow_reader", None, "slow_reader"),
        (Ending.ERROR_EVENT, "fin", "overloaded_error", "529", "overloaded_error"),
        (Ending.ERROR_EVENT, None, None, "529", "529"),
        (Ending.TIMED_OUT_FIRST_EVENT, "timeout", "first_event_timeout", None, "first_event_timeout"),
    ],
)
def test_the_cause_is_the_finest_token_that_there_is(ending, cut, error_type, error_code, cause):
    hop = a_hop(end=End(ending, Side.UPSTREAM, Phase.EVENTS, 0, cut=cut))
    hop = replace(hop, exchange=replace(hop.exchange, error_type=error_type, error_code=error_code))

    assert (cause_of(hop), figures(hop).cause) == (cause, cause)


@pytest.mark.parametrize(
    ("status", "ending", "cause"),
    [
        (200, Ending.COMPLETE, None),
        (399, Ending.COMPLETE, None),
        (404, Ending.COMPLETE, "404"),
        (503, Ending.COMPLETE, "503"),
        (503, Ending.CLIENT_DISCONNECT, None),
        (None, Ending.COMPLETE, None),
    ],
)
def test_an_error_that_says_nothing_of_itself_is_told_by_its_status(status, ending, cause):
    hop = a_hop(end=End(ending, Side.UPSTREAM, Phase.EVENTS, 0))

    assert cause_of(replace(hop, exchange=replace(hop.exchange, status=status))) == cause


@given(hops())
def test_every_record_has_figures_that_fit_it(hop):
    found = figures(hop)
    content = [stamp for stamp in hop.timeline.stamps if stamp.event_class in OUTPUT]

    gap_count = sum(count for _, count in found.content_gaps.counts)
    assert gap_count <= max(0, len(content) - 1)
    if not hop.timeline.is_cut_short:
        assert gap_count == max(0, len(content) - 1)
        assert found.content_gaps.sum == sum(b.arrived_ns - a.arrived_ns for a, b in pairwise(content))
    if content:
        assert found.first_event_ns <= found.first_content_ns <= found.last_content_ns
        if found.content_gaps.counts:
            assert found.content_gaps.greatest <= found.last_content_ns - found.first_content_ns
    assert found.blocked_ns >= 0


def test_buckets_rise_reach_ten_minutes_and_have_ends_where_people_look():
    for bounds in (BOUNDS_S, GENAI_BOUNDS_S):
        assert list(bounds) == sorted(set(bounds))
        assert {0.2, 0.4, 90.0, 300.0, 600.0} <= set(bounds)
        assert {round(bound * SECOND_NS) for bound in bounds} <= set(GAP_ENDS_NS)
    assert 0.5 in BOUNDS_S, "what a first content is held to"
    conventions = {round(0.01 * 2**step, 2) for step in range(14)}
    assert conventions <= set(GENAI_BOUNDS_S)
