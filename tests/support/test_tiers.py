"""What a run of tests chooses, of the variables that it is given."""

from __future__ import annotations

import pytest

from sidecar import native
from sidecar.config import config_of
from tests.support.tiers import tiers, told, variables

NEEDED = {"hop": "here", "upstream": "http://127.0.0.1:1"}


@pytest.mark.parametrize("tier", ["splice", "push", "pull"])
def test_the_tier_of_a_run_becomes_that_of_its_sidecars(tier):
    chosen = {"GAPLINE_TEST_TIER": tier, "GAPLINE_SIDECAR_TIER": "ignored"}

    assert config_of(NEEDED, variables(chosen)).tier == tier
    assert told(chosen) == f"tier {tier}, compiled by default"


@pytest.mark.parametrize("compiled", ["auto", "off"])
def test_so_do_the_parts_that_it_uses(compiled):
    chosen = {"GAPLINE_TEST_COMPILED": compiled, "GAPLINE_TEST_TIER": "push"}

    assert config_of(NEEDED, variables(chosen)).compiled == compiled
    assert told(chosen) == f"tier push, compiled {compiled}"


def test_a_test_that_asks_for_one_itself_has_it():
    assert config_of({**NEEDED, "tier": "push"}, variables({"GAPLINE_TEST_TIER": "pull"})).tier == "push"


@pytest.mark.parametrize("environ", [{}, {"GAPLINE_TEST_TIER": ""}])
def test_nothing_is_chosen_where_the_run_chooses_nothing(environ):
    assert variables(environ) == {}
    assert told(environ) == "tier by default, compiled by default"


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("GAPLINE_TEST_TIER", "fast", "must be one of splice, push, pull"),
        ("GAPLINE_TEST_COMPILED", "yes", "must be one of auto, on, off"),
    ],
)
def test_a_value_that_is_none_is_told_with_the_rule(variable, value, rule):
    with pytest.raises(ValueError, match=f"^{variable}={value}: {rule}$"):
        variables({variable: value})


def test_parts_that_are_not_built_cannot_be_chosen(monkeypatch):
    monkeypatch.setattr(native, "COMPILED", None)

    with pytest.raises(ValueError, match=r"^GAPLINE_TEST_COMPILED=on: is not built here"):
        variables({"GAPLINE_TEST_COMPILED": "on"})


def test_a_test_of_each_tier_tries_the_chosen_one_or_all():
    assert tiers({}) == ["pull", "push", "splice"]
    assert tiers({"GAPLINE_TEST_TIER": "push"}) == ["push"]
