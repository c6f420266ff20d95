"""The limit of open descriptors, with the real calls wherever that does no harm."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bounds.descriptors import CEILING, RESERVED, connection_limit, raise_limit


@pytest.fixture
def limits(monkeypatch):
    """A process whose limits are these, and what was asked for."""

    def set_up(soft, hard, *, refuses=None):
        asked = []

        def setrlimit(_which, wanted):
            asked.append(wanted)
            if refuses is not None:
                raise refuses

        monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", setrlimit)
        return asked

    return set_up


@pytest.mark.parametrize(
    ("soft", "hard", "holds"),
    [
        (1_024, 20_000, 20_000),
        (1_024, CEILING * 1_000, CEILING),
        (1_024, resource.RLIM_INFINITY, CEILING),
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one_at_most_to_the_ceiling(limits, soft, hard, holds):
    asked = limits(soft, hard)

    assert raise_limit() == holds
    assert asked == [(holds, hard)]


@pytest.mark.parametrize(
    ("soft", "holds"), [(20_000, 20_000), (CEILING * 2, CEILING * 2), (resource.RLIM_INFINITY, CEILING)]
)
def test_a_limit_that_is_high_enough_is_left_alone(limits, soft, holds):
    asked = limits(soft, soft)

    assert raise_limit() == holds
    assert asked == []


@pytest.mark.parametrize("error", [PermissionError(), ValueError("not allowed to raise maximum limit")])
def test_where_it_may_not_be_raised_the_old_one_holds(limits, error):
    asked = limits(1_024, 20_000, refuses=error)

    assert raise_limit() == 1_024
    assert asked == [(20_000, 20_000)]


def test_the_system_takes_what_is_asked_of_it():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_limit(ceiling=600) == 600
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (600, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@given(st.integers(0, CEILING))
def test_every_connection_that_is_let_in_has_a_descriptor_for_each_side(limit):
    connections = connection_limit(limit)

    assert connections >= 1
    assert connections * 2 + RESERVED <= max(limit, RESERVED + 2)
    assert (connections + 1) * 2 + RESERVED > limit
