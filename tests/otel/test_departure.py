"""A reader that left: hops that go on without it are told with their time, those that stop in time never."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.breakoff import broken_off
from otel.departure import WENT_ON_NS, with_ignored
from otel.findings import Cause, Status
from otel.hop import WEBSOCKET, State
from otel.join import join
from otel.query import verdict_answer
from otel.sentence import sentence
from otel.verdict import judge
from tests.support.broken import EVENTS, GAP, LEFT_AFTER, departed
from tests.support.chain import APP, GATEWAY, LINK, MS, NAMES, PROXY, WORKER, Chain, S, run, shifted


def judged(hops):
    path = join(hops, expected_path=NAMES)
    return path, judge(path)


def test_a_reader_that_leaves_a_path_that_stops_has_ignored_nobody():
    _, verdict = judged(departed())
    assert [(f.cause, f.first_hop) for f in verdict.findings] == [(Cause.CLIENT_DISCONNECT, "client")]


@pytest.mark.parametrize(
    ("went_on", "hop"), [({"gateway_ns": 8 * S}, GATEWAY), ({"proxy_ns": 8 * S}, PROXY)], ids=["gateway", "proxy"]
)
def test_an_app_that_goes_on_without_its_reader_is_named_with_the_time_and_the_waste(went_on, hop):
    path, verdict = judged(departed(**went_on))

    first, second = verdict.findings
    assert (first.cause, first.first_hop, second.cause) == (Cause.CANCEL_IGNORED, hop, Cause.CLIENT_DISCONNECT)
    assert abs(first.term_ns - 8 * S) < 20 * MS
    assert first.facts["closed_after_s"][GATEWAY] == 0.0
    assert abs(first.facts["closed_after_s"][WORKER] - 8.0) < 0.02
    assert abs(first.facts["events_for_nobody"][WORKER] - 40) <= 2
    text = sentence(path, verdict)
    assert text.startswith(f"{hop.capitalize()} app went on when the client had left after 40 events")
    assert "it kept its upstream open for 8.0" in text


def test_an_app_that_reads_an_answer_to_its_end_for_nobody_is_named_and_those_before_it_are_not():
    _, verdict = judged(departed(gateway_ns=3_600 * S))
    causes = [(f.cause, f.first_hop) for f in verdict.findings]
    assert causes == [(Cause.CANCEL_IGNORED, GATEWAY), (Cause.CLIENT_DISCONNECT, "client")]
    assert verdict.findings[0].facts["events_for_nobody"][PROXY] >= EVENTS - LEFT_AFTER - 2


def test_each_of_two_that_go_on_is_charged_with_its_own_part():
    _, verdict = judged(departed(gateway_ns=3 * S, proxy_ns=7 * S))
    parts = {f.first_hop: f.term_ns for f in verdict.findings if f.cause is Cause.CANCEL_IGNORED}
    assert verdict.findings[0].first_hop == PROXY
    assert {hop: round(ns / S) for hop, ns in parts.items()} == {PROXY: 7, GATEWAY: 3}


def test_an_app_that_had_nothing_to_pass_on_could_not_notice_and_comes_after_the_departure():
    """Most servers find out when they write: here the next event came 20 s later, and then they stopped."""
    path, verdict = judged(departed(gateway_ns=20 * S + 2 * MS, stalls=[("source", LEFT_AFTER, 20 * S - GAP)]))
    causes = [(f.cause, f.first_hop) for f in verdict.findings[:2]]
    assert causes == [(Cause.CLIENT_DISCONNECT, "client"), (Cause.CANCEL_IGNORED, GATEWAY)]
    assert "; gateway app went on for 20.0" in sentence(path, verdict)


def test_a_hop_that_drops_its_reader_is_named_before_one_that_goes_on():
    hops = departed(proxy_ns=8 * S)
    hops[2] = run(Chain())[2]  # the gateway answered in full from elsewhere
    _, verdict = judged(hops)
    assert [(f.cause, f.first_hop) for f in verdict.findings] == [
        (Cause.ABORTED, GATEWAY),
        (Cause.CANCEL_IGNORED, PROXY),
    ]


def test_our_own_sidecar_is_told_when_it_closes_late():
    hops = departed()
    moments = hops[2].moments
    late = replace(hops[2], moments=replace(moments, upstream_closed_ns=moments.client_left_ns + 5 * S))
    (left,) = broken_off(join([late]), None)
    assert [(f.cause, f.first_hop, f.segment.label) for f in with_ignored(left, [late])] == [
        (Cause.CANCEL_IGNORED, GATEWAY, f"self:{GATEWAY}"),
        (Cause.CLIENT_DISCONNECT, "client", f"{GATEWAY}>client"),
    ]


def test_a_hop_that_still_runs_has_gone_on_for_as_long_as_is_known():
    hops = departed(gateway_ns=8 * S)
    moments = replace(hops[0].moments, client_left_ns=None, upstream_closed_ns=None)
    running = replace(hops[1].moments, client_left_ns=None, upstream_closed_ns=None)
    hops[0] = replace(hops[0], state=State.OPEN, end=None, moments=moments)
    hops[1] = replace(hops[1], state=State.OPEN, end=None, moments=running)
    _, verdict = judged(hops)
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.CANCEL_IGNORED, GATEWAY)


def test_a_conversation_has_no_answer_to_stop():
    hops = [replace(h, exchange=replace(h.exchange, framing=WEBSOCKET)) for h in departed(gateway_ns=8 * S)]
    (left,) = broken_off(join(hops, expected_path=NAMES), None)
    assert with_ignored(left, hops) == [left]


def test_without_the_forwarding_moment_nothing_can_be_said_of_another_clock():
    hops = departed(gateway_ns=8 * S)
    hops[2] = replace(hops[2], moments=replace(hops[2].moments, request_forwarded_ns=None))
    (left,) = broken_off(join(hops, expected_path=NAMES), None)
    assert with_ignored(left, hops) == [left]


def test_the_answer_for_programs_has_the_times_and_the_waste():
    path, verdict = judged(departed(gateway_ns=8 * S))
    answer = verdict_answer(path, verdict, as_of="2026-01-01T00:00:00Z", is_final=True)
    assert (answer["status"], answer["cause"], answer["wait"]) == ("named", "cancel_ignored", None)
    assert set(answer["evidence"]["closed_after_s"]) == set(NAMES)
    assert answer["others"][0]["cause"] == "client_disconnect"


@given(
    gateway=st.integers(0, 20_000),
    proxy=st.integers(0, 20_000),
    same_clock=st.booleans(),
    order=st.permutations([0, 1, 2]),
    hours=st.lists(st.integers(-48, 48), min_size=3, max_size=3),
)
def test_each_is_charged_with_what_it_took_and_nobody_with_more(gateway, proxy, same_clock, order, hours):
    hops = departed(gateway_ns=gateway * MS, proxy_ns=proxy * MS, same_clock=same_clock)
    _, verdict = judged([shifted(hops[n], wall_ns=hours[n] * 3_600 * S) for n in order])

    assert verdict.status is Status.NAMED
    parts = {f.first_hop: f.term_ns for f in verdict.findings if f.cause is Cause.CANCEL_IGNORED}
    for hop, planted in ((GATEWAY, gateway * MS), (PROXY, proxy * MS)):
        ns = parts.get(hop, 0)
        assert ns <= planted + 2 * APP + LINK
        assert ns >= planted - 2 * APP if hop in parts else planted < WENT_ON_NS + 2 * APP
    assert Cause.CLIENT_DISCONNECT in {f.cause for f in verdict.findings}
    assert {f.first_hop for f in verdict.findings} <= {GATEWAY, PROXY, "client"}
