"""Ends in silence: what an idle timer made, and what was only a connection on which nothing was owed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.breakoff import broken_off
from otel.findings import IDLE_TIMERS_NS, Cause, Policy, Status
from otel.hop import WEBSOCKET, Blocked, End, Ending, Phase, Side
from otel.join import join
from otel.sentence import sentence
from otel.silence import TIMER_SLACK_NS, began, silent_ns, timer_behind, was_reaped
from otel.verdict import judge
from tests.support.broken import cut_in_silence
from tests.support.builders import a_conversation, a_hop, ns
from tests.support.chain import GATEWAY, MS, NAMES, WORKER, S, shifted

OWNERS = (*NAMES, "client")


def changed(hops, n, **fields):
    return [replace(hop, **fields) if i == n else hop for i, hop in enumerate(hops)]


@pytest.mark.parametrize("by", [0, 1, 2, 3])
@pytest.mark.parametrize("timer_s", [60, 90, 300, 600])
def test_an_answer_that_was_cut_as_long_after_its_last_byte_as_a_timer_lasts_was_cut_by_that_timer(by, timer_s):
    (finding,) = broken_off(join(cut_in_silence(by, after_ns=timer_s * S + 14 * MS), expected_path=NAMES), None)

    assert (finding.cause, finding.first_hop) == (Cause.IDLE_TIMER, OWNERS[by])
    assert finding.facts == {"idle_timer": {"timer_s": timer_s, "silence_s": timer_s + 0.014, "silent_before": WORKER}}


@pytest.mark.parametrize(
    ("by", "who", "also"),
    [
        (0, "Model-worker app", ""),
        (2, "Gateway app", "; before that, model-worker app had added 60.00 s"),
        (3, "The client", "; before that, model-worker app had added 60.00 s"),
    ],
)
def test_the_sentence_has_the_timer_and_whose_silence_it_was(by, who, also):
    path = join(cut_in_silence(by, after_ns=60 * S), expected_path=NAMES)

    assert sentence(path, judge(path)) == (
        f"{who} ended the answer after 60 events (about 224 characters): 60.00 s after the last byte, "
        f"as an idle timer of 60 s does{also}."
    )


@given(
    by=st.integers(0, 3),
    after=st.integers(1, 700_000),
    order=st.permutations([0, 1, 2]),
    hours=st.lists(st.integers(-48, 48), min_size=3, max_size=3),
)
def test_only_a_close_beside_a_timer_is_that_timers_and_the_hop_is_the_same_without(by, after, order, hours):
    hops = cut_in_silence(by, after_ns=after * MS)
    path = join([shifted(hops[n], wall_ns=hours[n] * 3_600 * S) for n in order], expected_path=NAMES)
    (finding,) = broken_off(path, None)

    is_beside = any(abs(after * MS - timer_ns) <= TIMER_SLACK_NS for timer_ns in IDLE_TIMERS_NS)
    assert (finding.cause is Cause.IDLE_TIMER) is is_beside
    (plain,) = broken_off(path, None, timers_ns=())
    assert plain.cause is not Cause.IDLE_TIMER
    assert (plain.segment, plain.first_hop) == (finding.segment, OWNERS[by])


def test_a_reader_that_stops_at_a_round_time_may_have_done_so_by_hand():
    cuts = [broken_off(join(cut_in_silence(by, after_ns=60 * S)), None) for by in range(4)]
    assert [finding.confidence for (finding,) in cuts] == [0.9, 0.9, 0.9, 0.7]


def test_a_timer_that_the_operator_named_counts_and_no_other_does():
    path = join(cut_in_silence(2, after_ns=42 * S), expected_path=NAMES)

    assert judge(path).cause is Cause.TRUNCATED
    assert judge(path, Policy(idle_timers_ns=(42 * S,))).cause is Cause.IDLE_TIMER
    assert judge(join(cut_in_silence(2, after_ns=60 * S)), Policy(idle_timers_ns=(42 * S,))).cause is Cause.TRUNCATED


@pytest.mark.parametrize("status", [200, 504])
def test_a_timer_that_answers_with_an_error_is_one_too(status):
    hops = cut_in_silence(2, after_ns=60 * S)
    ending = Ending.ERROR_EVENT if status == 200 else Ending.COMPLETE
    end = End(ending, Side.UPSTREAM, Phase.DRAIN, 0)
    hops = changed(hops, 2, end=end, exchange=replace(hops[2].exchange, status=status))
    (finding,) = broken_off(join(hops), None)

    assert (finding.cause, finding.first_hop) == (Cause.IDLE_TIMER, GATEWAY)


def test_an_error_of_the_source_is_its_error_however_late():
    hops = cut_in_silence(0, after_ns=60 * S)
    end = replace(hops[0].end, ending=Ending.ERROR_EVENT)
    assert broken_off(join(changed(hops, 0, end=end)), None)[0].cause is Cause.ERROR_EVENT


def test_the_app_that_kept_what_still_came_is_told_from_the_one_whose_timer_it_was():
    hops = cut_in_silence(3, after_ns=60 * S)
    for n in (0, 1):  # the gateway's app took everything that came until the end, and passed nothing on
        hops = changed(
            hops,
            n,
            end=replace(hops[n].end, idle_ns=MS),
            moments=replace(hops[n].moments, client_left_ns=hops[n].timeline.stamps[-1].arrived_ns + MS),
        )
    (finding,) = broken_off(join(hops, expected_path=NAMES), None)

    assert (finding.cause, finding.first_hop) == (Cause.IDLE_TIMER, "client")
    assert finding.facts["idle_timer"]["silent_before"] == GATEWAY


def test_a_downstream_that_took_nothing_or_got_keepalives_shows_no_timer():
    hops = cut_in_silence(2, after_ns=60 * S)
    left_ns = hops[1].moments.client_left_ns
    blocked = replace(hops[1].timeline, blocked=(Blocked(left_ns - 59 * S, left_ns, 1),))
    kept = replace(hops[1].traffic, keepalive_count=3)

    assert timer_behind(hops, 2, IDLE_TIMERS_NS) == (60 * S, 60 * S)
    assert timer_behind(changed(hops, 1, timeline=blocked), 2, IDLE_TIMERS_NS) is None
    assert timer_behind(changed(hops, 1, traffic=kept), 2, IDLE_TIMERS_NS) is None


def test_a_request_that_was_never_forwarded_met_no_timer():
    hops = cut_in_silence(0, after_ns=60 * S)
    unsent = changed(hops, 0, moments=replace(hops[0].moments, request_forwarded_ns=None))
    assert timer_behind(unsent, 0, IDLE_TIMERS_NS) is None


def test_a_whole_answer_is_silent_for_no_time_and_one_that_nobody_took_either():
    (hop, *_) = cut_in_silence(3, after_ns=60 * S)
    left_ns = hop.moments.client_left_ns
    assert silent_ns(hop) == 60 * S
    assert silent_ns(replace(hop, end=replace(hop.end, ending=Ending.COMPLETE))) == 0
    blocked = replace(hop.timeline, blocked=(Blocked(left_ns - 60 * S, left_ns, 1),))
    assert silent_ns(replace(hop, timeline=blocked)) == 0


def test_a_silence_began_at_the_first_tap_that_shows_all_of_it():
    assert began(cut_in_silence(2, after_ns=60 * S), 2, 60 * S) == 0
    assert began(cut_in_silence(2, after_ns=60 * S), 2, 61 * S) == 2


# ------------------------------------------------------------------------------ connections that only rest


def resting(*, asked_last: bool = False, idle_s: int = 60, ending: Ending = Ending.UPSTREAM_CUT):
    """A WebSocket of which an idle timer made an end, after a message of either side."""
    hop = a_conversation("gateway", received_s=[1.0, 2.0], sent_s=[0.9, 2.5 if asked_last else 1.9])
    last_s = 2.5 if asked_last else 2.0
    end = End(ending, Side.UPSTREAM, Phase.EVENTS, ns(idle_s), cut="reset")
    moments = replace(
        hop.moments,
        upstream_ended_ns=ns(last_s + idle_s) if ending is Ending.UPSTREAM_CUT else None,
        client_left_ns=ns(last_s + idle_s) if ending is Ending.CLIENT_DISCONNECT else None,
        closed_ns=ns(last_s + idle_s),
    )
    return replace(hop, end=end, moments=moments)


@pytest.mark.parametrize("ending", [Ending.UPSTREAM_CUT, Ending.CLIENT_DISCONNECT])
def test_a_conversation_in_which_nobody_waited_was_not_cut_but_reaped(ending):
    hop = resting(ending=ending)
    assert hop.exchange.framing == WEBSOCKET
    assert was_reaped(hop, IDLE_TIMERS_NS)
    assert judge(join([hop])).status is Status.HEALTHY


def test_a_conversation_in_which_an_answer_was_owed_was_cut_by_the_timer():
    hop = resting(asked_last=True)
    assert not was_reaped(hop, IDLE_TIMERS_NS)
    assert judge(join([hop])).cause is Cause.IDLE_TIMER


def test_a_conversation_that_breaks_off_at_any_other_time_is_truncated():
    assert judge(join([resting(idle_s=7)])).cause is Cause.TRUNCATED


def test_a_stream_on_which_a_client_only_listens_is_reaped_as_well():
    hop = cut_in_silence(0, after_ns=60 * S)[0]
    listening = replace(hop, exchange=replace(hop.exchange, method="GET", dialect="mcp", has_terminal_rule=False))
    assert was_reaped(listening, IDLE_TIMERS_NS)
    assert not was_reaped(hop, IDLE_TIMERS_NS), "an answer was owed"
    assert broken_off(join([listening]), None) == []


def test_an_answer_that_ended_in_order_was_not_reaped():
    assert not was_reaped(a_hop(), IDLE_TIMERS_NS)
