"""The trial of parts that hold: where each stands, what is reported, and one chain from end to end."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.lab.apps import WINDOW_EVENTS
from tests.lab.buffering import AT_ONCE, TRAFFIC, Plan, each_alone, is_passed, report, together, trials
from tests.lab.canary import Canary
from tests.lab.chain import Chain
from tests.lab.holding import Mark
from tests.lab.installed import Programs
from tests.lab.middles import MIDDLES, Hold, Part
from tests.lab.readers import Reader
from tests.lab.shapes import BULKY_WORDS, Shape

NOTHING = Programs({}, {})
NODE = Programs({"node": "/bin/node", "nginx": "/bin/nginx"}, {})


@pytest.mark.parametrize("part", MIDDLES)
def test_a_part_stands_at_each_place(part: Part) -> None:
    at_gateway, at_proxy = each_alone([part], list(TRAFFIC), NODE)
    assert at_gateway.chain.place("gateway").part is part
    assert at_proxy.chain.place("inference-proxy").part is part
    assert at_gateway.shapes == at_proxy.shapes == tuple(TRAFFIC)


def test_what_packs_answers_stands_behind_nobody_who_would_not_let_it() -> None:
    [plan] = each_alone([Part.NGINX_GZIP], list(TRAFFIC), NOTHING)
    assert plan.chain.place("gateway").part is Part.NGINX_GZIP
    assert Reader.OURS not in plan.readers


def test_what_packs_answers_is_asked_for_large_ones_at_the_gateway_and_for_ordinary_ones_elsewhere() -> None:
    at_gateway, at_proxy = each_alone([Part.NGINX_GZIP], list(TRAFFIC), NODE)
    assert [plan.told(Shape.STEADY, seed=1).words for plan in (at_gateway, at_proxy)] == [BULKY_WORDS, 1]
    assert at_gateway.told(Shape.LONG, seed=1).words == 1
    [window, _] = each_alone([Part.WINDOW], list(TRAFFIC), NODE)
    assert window.told(Shape.BULKY, seed=1).words == BULKY_WORDS
    assert window.told(Shape.STEADY, seed=1).words == 1


def test_an_engine_has_a_window_behind_it_or_nothing_that_holds() -> None:
    plain, held = each_alone([Part.LLAMA], list(TRAFFIC), NOTHING)
    assert {place.name: place.part for place in plain.chain.hops}["model-worker"] is Part.LLAMA
    assert plain.holders == []
    assert held.holders == ["gateway"]


def test_together_each_part_is_on_trial_once_and_every_shape_is_asked_for() -> None:
    plans = list(together(list(MIDDLES), list(TRAFFIC)))
    assert Counter(part for plan in plans for part in plan.parts) == Counter(list(MIDDLES))
    assert {shape for plan in plans for shape in plan.shapes} == set(TRAFFIC)
    for plan in plans:
        assert len(plan.shapes) == AT_ONCE
        assert {place.part for place in plan.chain.hops[1:]} >= set(plan.parts)
        assert not plan.holders or (plan.holders == ["gateway"] and len(plan.parts) == 1)


def test_what_one_part_holds_is_known_and_what_two_do_together_is_not() -> None:
    assert Plan(Chain.of(Part.APP, Part.WINDOW), (), ()).hold == Hold(texts=WINDOW_EVENTS)
    assert Plan(Chain.of(Part.COALESCER, Part.WINDOW), (), ()).hold is None


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_a_window_is_named_and_an_engine_that_groups_is_not() -> None:
    [window, *_] = each_alone([Part.WINDOW], [Shape.STEADY], NOTHING)
    [plain, *_] = each_alone([Part.APP], [Shape.GROUPED], NOTHING)
    with Canary() as canary:
        held = trials(window, NOTHING, canary, seed=1)
        grouped = trials(plain, NOTHING, canary, seed=1)
    assert [(trial.mark, trial.said) for trial in held] == [(Mark.NAMED, "buffering @ gateway")]
    assert [trial.mark for trial in grouped] == [Mark.HEALTHY]
    assert is_passed(held + grouped)
    told = report(held + grouped)
    assert "| window | 1 | 1 | 1 | 1 |" in told
    assert "| app | 1 |" in told
