"""The trial of gateways that drop ids: what is asked of whom, what counts as joined, and Envoy from end to end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel.demo.faults import GATEWAY, WORKER
from tests.lab.installed import found
from tests.lab.joining import Trial, as_it_comes, names_of, routes, trials
from tests.lab.middles import MIDDLES, Part

STOPPED = Trial(
    hops=(WORKER, "inference-proxy", GATEWAY),
    traces=2,
    route=(Part.LITELLM,),
    is_stopped=True,
    said=f"source_stall @ {WORKER}",
    confidence=0.9,
    gap_s=2.0,
    felt_s=2.05,
)


def test_every_gateway_that_is_here_is_tried_alone_and_with_the_other() -> None:
    both = [(Part.ENVOY,), (Part.LITELLM,), (Part.ENVOY, Part.LITELLM)]
    assert list(routes(list(Part))) == both
    assert list(routes([Part.APP, Part.ENVOY])) == [(Part.ENVOY,)]
    assert list(routes([Part.APP])) == []
    assert names_of(both[2]) == (WORKER, "inference-proxy", "router", GATEWAY)


def test_litellm_is_told_to_forward_nothing() -> None:
    config = MIDDLES[Part.LITELLM].config or ""
    assert "forward_client_headers" in config
    assert "forward_client_headers" not in as_it_comes(config)
    with pytest.raises(ValueError, match="to leave out"):
        as_it_comes("model_list: []")


@pytest.mark.parametrize(
    "change",
    [
        {"hops": (WORKER, GATEWAY)},
        {"traces": 1},
        {"said": "app_stall @ inference-proxy"},
        {"gap_s": 1.5},
        {"is_stopped": False},
    ],
)
def test_what_lacks_a_hop_a_name_or_half_a_second_is_wrong(change: dict[str, object]) -> None:
    assert STOPPED.is_passed
    assert not replace(STOPPED, **change).is_passed


def test_a_gateway_that_is_slow_of_itself_is_no_failure_of_joining() -> None:
    slow = replace(STOPPED, is_stopped=False, said="slow_first_event @ inference-proxy")
    assert slow.is_passed
    assert not replace(slow, felt_s=0.1).is_passed
    assert replace(slow, felt_s=0.1, said="healthy").is_passed


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_hops_around_envoy_are_joined() -> None:
    here = found(["envoy"], may_install=False)
    if here.missing:
        pytest.skip(here.missing["envoy"])
    made = trials((Part.ENVOY,), paths=here.paths)
    assert [trial.is_passed for trial in made] == [True] * len(made), made
