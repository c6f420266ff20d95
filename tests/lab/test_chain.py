"""Chains: where their taps are, and what lies between the points that are left when some are taken away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo.faults import CLIENT
from tests.lab.chain import NAMES, Chain, Place, Tap, stretches
from tests.lab.middles import Part

CHAINS = st.sampled_from([3, 4, 5]).flatmap(
    lambda count: st.tuples(*[st.sampled_from(Tap)] * count).map(
        lambda taps: Chain(tuple(Place(n, Part.APP, tap) for n, tap in zip(NAMES[count], taps, strict=True)))
    )
)


@given(CHAINS)
def test_every_app_and_every_link_lies_in_one_stretch(chain: Chain) -> None:
    made = stretches(chain.names, chain.taps)
    assert tuple(name for each in made for name in each.apps) == chain.names
    assert tuple(name for each in made for name in each.links) == (*chain.names[1:], CLIENT)
    assert tuple(each.downstream for each in made) == (*chain.taps, CLIENT)
    assert [each.upstream for each in made] == [None, *chain.taps]


@pytest.mark.parametrize(
    ("taps", "apps"),
    [
        (("model-worker", "inference-proxy", "gateway"), [1, 1, 1, 0]),
        (("model-worker", "gateway"), [1, 2, 0]),
        (("inference-proxy", "gateway"), [2, 1, 0]),
        (("model-worker", "inference-proxy"), [1, 1, 1]),
        (("model-worker", "inference-proxy egress", "inference-proxy", "gateway"), [1, 0, 1, 1, 0]),
    ],
)
def test_a_tap_that_is_missing_merges_its_neighbours(taps: tuple[str, ...], apps: list[int]) -> None:
    made = stretches(NAMES[3], taps)
    assert [len(each.apps) for each in made] == apps
    assert made[-1].is_whole == (apps[-1] == 0)


def test_a_stretch_is_called_as_in_a_verdict() -> None:
    source, own, app, last = stretches(("model-worker", "gateway"), ("model-worker", "gateway egress", "gateway"))
    assert (source.label, source.first_hop) == ("source", "model-worker")
    assert (own.label, own.first_hop, own.links) == ("model-worker>gateway egress", "gateway", ("gateway",))
    assert (app.label, app.first_hop) == ("gateway egress>gateway", "gateway")
    assert (last.label, last.first_hop) == ("gateway>client", "client")


def test_a_chain_says_what_is_special_about_it() -> None:
    chain = Chain.of(Part.NGINX, Part.APP).without("gateway")
    assert str(chain) == "model-worker <- inference-proxy (nginx) <- gateway (no tap), quantised"
    assert chain.taps == ("model-worker", "inference-proxy")
