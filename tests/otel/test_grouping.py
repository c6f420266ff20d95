"""One trace may hold many requests: whose hop is whose, and that nobody's hops change another's answer."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.grouping import requests_of
from otel.hop import Hop
from tests.support.builders import a_hop
from tests.support.chain import GATEWAY, MS, PROXY, WORKER, Chain, run
from tests.support.links import LINKS, answered, linked, renamed

TRACE = "1" * 32


def hop(place: str, request_id: str, *, made: bool = False, trace_id: str = TRACE, aliases: Sequence[str] = ()) -> Hop:
    source = "generated" if made else "header"
    return a_hop(
        place, request_id=request_id, trace_id=trace_id, request_id_source=source, aliases=tuple(aliases), wall_ns=1
    )


def in_one_trace(request_id: str, **chain) -> list[Hop]:
    return [replace(each, trace_id=TRACE) for each in run(Chain(request_id=request_id, **chain))]


def of(request_id: str, hops: Sequence[Hop]) -> set[str]:
    """The span ids of the request that holds this id."""
    (found,) = (each for each in requests_of(hops) if any(hop.request_id == request_id for hop in each))
    return {hop.span_id for hop in found}


def spans(*hops: Hop) -> set[str]:
    return {hop.span_id for hop in hops}


def test_hops_with_one_id_are_one_request_however_it_is_spelled():
    hops = [hop("gateway", "chatcmpl-ABC", trace_id="2" * 32), hop("worker", "abc", trace_id="3" * 32)]

    assert requests_of(hops) == (tuple(hops),)


def test_no_hops_are_no_request():
    assert requests_of([]) == ()


def test_an_alias_bridges_an_id_that_was_replaced():
    gateway = hop("gateway", "mine", trace_id="2" * 32, aliases=["theirs"])
    inner = [hop("proxy", "theirs", trace_id="3" * 32), hop("worker", "theirs", trace_id="3" * 32)]

    assert requests_of([gateway, *inner]) == ((gateway, *inner),)


def test_an_alias_that_two_whole_requests_share_does_not_make_them_one():
    first, second = ([hop(place, name, aliases=["session"]) for place in ("gateway", "worker")] for name in ("A", "B"))

    assert requests_of([*first, *second]) == (tuple(first), tuple(second))


def test_attempts_of_a_request_with_ids_of_their_own_belong_to_it():
    gateway = hop("gateway", "mine", aliases=["try-1", "try-2"])
    tries = [hop("proxy", "try-1"), hop("proxy", "try-2")]

    assert requests_of([*tries, gateway]) == ((*tries, gateway),)


def test_hops_behind_an_app_that_drops_the_id_belong_to_the_request_of_their_trace():
    gateway = hop("gateway", "mine")
    inner = [hop("proxy", "made-up", made=True), hop("worker", "made-up")]

    assert requests_of([*inner, gateway]) == ((*inner, gateway),)


def test_so_they_do_where_the_id_is_dropped_twice_and_where_the_request_is_tried_twice():
    gateway = hop("gateway", "mine")
    twice = [gateway, hop("proxy", "made-1", made=True), hop("worker", "made-2", made=True)]
    retried = [gateway, hop("proxy", "made-1", made=True), hop("proxy", "made-2", made=True)]

    assert requests_of(twice) == (tuple(twice),)
    assert requests_of(retried) == (tuple(retried),)


def test_a_made_id_belongs_to_nobody_where_two_could_own_it():
    gateways = [hop("gateway", "A"), hop("gateway", "B")]
    worker = hop("worker", "made-up", made=True)

    assert requests_of([*gateways, worker]) == tuple((each,) for each in (*gateways, worker))


def test_a_made_id_belongs_to_the_one_that_has_no_hop_there():
    whole = [hop("gateway", "A"), hop("worker", "A")]
    gateway, worker = hop("gateway", "B"), hop("worker", "made-up", made=True)

    assert requests_of([*whole, gateway, worker]) == (tuple(whole), (gateway, worker))


def test_an_id_that_came_in_a_header_is_never_taken_for_another():
    slow = in_one_trace("req-A")
    fine = in_one_trace("req-B")

    assert of("req-B", [*slow, fine[0], fine[2]]) == spans(fine[0], fine[2])


def test_hops_that_share_nothing_but_the_answer_are_one_request():
    mine, other = renamed("A"), renamed("B", answer_id="chatcmpl-YetAnotherAnswer77")

    assert requests_of([*mine, *other]) == (tuple(mine), tuple(other))


def test_nor_does_it_matter_that_an_app_made_an_id_of_its_own():
    gateway, worker = answered(hop("gateway", "mine")), answered(hop("worker", "theirs", trace_id="2" * 32))

    assert requests_of([gateway, worker]) == ((gateway, worker),)


def test_two_requests_with_one_answer_are_two():
    first, second = renamed("A"), renamed("B")

    assert len(requests_of([first[2], second[2]])) == 2


@given(st.randoms(use_true_random=False))
def test_an_answer_that_is_given_again_belongs_to_the_request_it_was_made_for(shuffle):
    """A cache gives it in no time: who waited as long as the worker took was its reader."""
    first, again = renamed("A"), renamed("B", GATEWAY, wait=2 * MS)
    hops = shuffle.sample([*first, *again], 4)

    assert {frozenset(spans(*each)) for each in requests_of(hops)} == {
        frozenset(spans(*first)),
        frozenset(spans(*again)),
    }


@given(st.randoms(use_true_random=False))
def test_an_id_that_every_answer_has_joins_nothing(shuffle):
    hops = shuffle.sample([each for name in "ABC" for each in renamed(name, WORKER, GATEWAY)], 6)

    assert sorted(map(len, requests_of(hops))) == [1] * 6


def test_a_lost_attempt_is_still_found_by_its_trace_where_the_answer_joins_the_other():
    gateway = answered(hop("gateway", "mine"))
    tries = [hop("worker", "made-1", made=True), answered(hop("worker", "made-2", made=True))]

    assert requests_of([gateway, *tries]) == ((gateway, *tries),)


@given(
    st.dictionaries(st.sampled_from("ABC"), st.tuples(st.sampled_from(LINKS), st.sampled_from(LINKS)), min_size=1),
    st.randoms(use_true_random=False),
)
def test_every_request_is_whole_whatever_becomes_of_its_headers(links, shuffle):
    """On each link the id passes, the app makes another one, the sidecar has to make one, or its upstream says it."""
    requests = [linked(name, inner, outer) for name, (inner, outer) in links.items()]
    hops = [each for request in requests for each in request]

    found = requests_of(shuffle.sample(hops, len(hops)))
    assert {frozenset(spans(*each)) for each in found} == {frozenset(spans(*each)) for each in requests}


SUBSETS = st.sets(st.sampled_from(range(3)), min_size=1)


@given(SUBSETS, st.dictionaries(st.sampled_from(["B", "C", "D"]), SUBSETS), st.randoms(use_true_random=False))
def test_the_hops_of_other_requests_of_the_trace_have_no_effect(mine: set[int], others: dict[str, set[int]], shuffle):
    alone = [in_one_trace("req-A")[i] for i in mine]
    strangers = [in_one_trace(f"req-{name}")[i] for name, places in others.items() for i in places]
    together = [*alone, *strangers]
    shuffle.shuffle(together)

    assert of("req-A", together) == spans(*alone)


@pytest.mark.parametrize("dropped", [(PROXY, WORKER), (WORKER,)])
@given(others=st.lists(st.sampled_from(["B", "C", "D"]), unique=True), shuffle=st.randoms(use_true_random=False))
def test_so_have_whole_requests_where_the_id_was_dropped(dropped, others, shuffle):
    def renamed(each: Hop) -> Hop:
        if each.place.hop not in dropped:
            return each
        return replace(each, request_id="made-up", request_id_source="generated")

    mine = [renamed(each) for each in in_one_trace("req-A")]
    strangers = [each for name in others for each in in_one_trace(f"req-{name}")]
    together = [*mine, *strangers]
    shuffle.shuffle(together)

    assert of("req-A", together) == of("made-up", together) == spans(*mine)
    assert {each.place.hop for each in mine} == {WORKER, PROXY, GATEWAY}


@given(
    st.lists(
        st.tuples(st.sampled_from("gpw"), st.sampled_from("ABCD"), st.booleans(), st.sampled_from("12"), st.booleans()),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_every_hop_is_in_one_request_whatever_the_order(rows, shuffle):
    hops = [
        replace(
            hop(place, name, made=made, trace_id=digit * 32, aliases=["shared"] if shared else []),
            span_id=f"{number + 1:016x}",
        )
        for number, (place, name, made, digit, shared) in enumerate(rows)
    ]
    first = requests_of(hops)
    assert sorted(each.span_id for request in first for each in request) == sorted(each.span_id for each in hops)

    shuffled = shuffle.sample(hops, len(hops))
    assert {frozenset(spans(*each)) for each in requests_of(shuffled)} == {frozenset(spans(*each)) for each in first}


def test_a_trace_of_many_requests_is_sorted_in_no_time():
    hops = [hop(place, f"r{i}") for i in range(85) for place in ("gateway", "proxy", "worker")]

    assert len(requests_of(hops)) == 85
