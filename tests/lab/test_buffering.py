"""The trial of parts that hold: where each stands, what is reported, and one chain from end to end."""

from __future__ import annotations

import pytest

from tests.lab.buffering import chains, is_passed, report, trials
from tests.lab.holding import Mark
from tests.lab.installed import Programs
from tests.lab.middles import MIDDLES, Part
from tests.lab.shapes import Shape

NOTHING = Programs({}, {})
NODE = Programs({"node": "/bin/node", "nginx": "/bin/nginx"}, {})


@pytest.mark.parametrize("part", MIDDLES)
def test_a_part_stands_at_each_place(part: Part) -> None:
    at_gateway, at_proxy = chains(part, NODE)
    assert at_gateway.place("gateway").part is part
    assert at_proxy.place("inference-proxy").part is part


def test_what_packs_answers_stands_behind_nobody_who_would_not_let_it() -> None:
    assert [chain.place("gateway").part for chain in chains(Part.NGINX_GZIP, NOTHING)] == [Part.NGINX_GZIP]


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_a_window_is_named_and_an_engine_that_groups_is_not() -> None:
    [window, *_] = chains(Part.WINDOW, NOTHING)
    [plain, *_] = chains(Part.APP, NOTHING)
    held = trials(Part.WINDOW, window, [Shape.STEADY], NOTHING, seed=1)
    grouped = trials(Part.APP, plain, [Shape.GROUPED], NOTHING, seed=1)
    assert [(trial.mark, trial.said) for trial in held] == [(Mark.NAMED, "buffering @ gateway")]
    assert [trial.mark for trial in grouped] == [Mark.HEALTHY]
    assert is_passed(held + grouped)
    told = report(held + grouped)
    assert "| window | 1 | 1 | 1 | 1 |" in told
    assert "| app | 1 |" in told
