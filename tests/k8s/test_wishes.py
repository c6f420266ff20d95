"""What people ask for is read whole, and every mistake is told with its rule."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.keys import PREFIX, SETTING_PREFIX
from k8s.wishes import DECIDED, MOUNTED, SECRET, WishError, Wishes, wishes
from sidecar.options import OPTIONS


def test_nothing_asked_is_nothing():
    assert wishes({}, {"checksum/config": "abc", "gapline.dev/status": "{}"}) == Wishes()


def test_the_pod_wins_over_its_namespace():
    found = wishes({"gapline.dev/hop": "a", "gapline.dev/cpu": "50m"}, {"gapline.dev/hop": "b"})
    assert (found.hop, found.cpu) == ("b", "50m")


def test_everything_that_can_be_asked_is_read():
    found = wishes(
        {
            "gapline.dev/capture": "explicit",
            "gapline.dev/listen-port": "8000",
            "gapline.dev/upstream-port": "18000",
            "gapline.dev/container": "vllm",
            "gapline.dev/egress": "OPENAI_BASE_URL, VLLM_URL",
            "gapline.dev/memory-limit": "1Gi",
            "sidecar.gapline.dev/stall-after": "5s",
            "resource.opentelemetry.io/service.name": "llm",
        }
    )
    assert (found.capture, found.listen_port, found.upstream_port) == ("explicit", 8000, 18000)
    assert found.egress == ("OPENAI_BASE_URL", "VLLM_URL")
    assert found.settings == (("stall_after", "5s"),)
    assert found.attributes == (("service.name", "llm"),)
    assert (found.container, found.memory_limit) == ("vllm", "1Gi")


@pytest.mark.parametrize(("text", "port"), [("8000", 8000), ("http", "http")])
def test_a_port_is_a_name_or_a_number(text, port):
    assert wishes({"gapline.dev/port": text}).port == port


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("gapline.dev/prot", "http", "no such annotation"),
        ("gapline.dev/inject", "enabled", "is a label"),
        ("gapline.dev/capture", "magic", "must be one of auto, named, explicit, redirect"),
        ("gapline.dev/port", "99999", "from 1 to 65535"),
        ("gapline.dev/cpu", "much", "must be an amount"),
        ("gapline.dev/image", "a b", "must be the name of an image"),
        ("gapline.dev/listen-port", "8000", "only where capture is explicit"),
        ("gapline.dev/hop", "a b", "must be 1 to 63"),
        ("sidecar.gapline.dev/stal-after", "5s", "no such option"),
        ("sidecar.gapline.dev/stall-after", "soon", "must be a time"),
        ("sidecar.gapline.dev/upstream", "http://x", "decided by the injector"),
        ("sidecar.gapline.dev/client-key", "x" * 20, "is a secret"),
        ("sidecar.gapline.dev/spool", "/x", "names files"),
    ],
)
def test_a_mistake_is_told_with_its_rule(key, value, rule):
    with pytest.raises(WishError, match=rule):
        wishes({key: value})


def test_a_secret_is_not_repeated_where_its_key_is_refused():
    with pytest.raises(WishError) as raised:
        wishes({"sidecar.gapline.dev/client-key": "a-secret-of-somebody"})
    assert "a-secret" not in str(raised.value)


def test_all_mistakes_are_told_at_once():
    with pytest.raises(WishError) as raised:
        wishes({"gapline.dev/prot": "x", "gapline.dev/cpu": "y"})
    assert len(raised.value.errors) == 2


def test_nobody_can_have_more_than_the_limit_that_was_asked_for():
    with pytest.raises(WishError, match=r"memory: '1Gi': must not be above gapline.dev/memory-limit \(1000Mi\)"):
        wishes({"gapline.dev/memory": "1Gi", "gapline.dev/memory-limit": "1000Mi"})
    assert wishes({"gapline.dev/cpu": "1", "gapline.dev/cpu-limit": "1000m"}).cpu == "1"


@pytest.mark.parametrize(
    ("ports", "rule"),
    [
        ({}, "needed where capture is explicit"),
        ({"listen-port": "8000"}, "upstream-port: needed"),
        ({"listen-port": "8000", "upstream-port": "8000"}, "must not be the port to listen on"),
    ],
)
def test_a_moved_app_says_both_ports(ports, rule):
    with pytest.raises(WishError, match=rule):
        wishes({"gapline.dev/capture": "explicit", **{f"{PREFIX}{key}": value for key, value in ports.items()}})


def test_every_option_of_the_sidecar_may_be_asked_for_or_has_a_reason_why_not():
    names = {option.name for option in OPTIONS}
    assert names >= DECIDED | SECRET | MOUNTED
    assert len(DECIDED | SECRET | MOUNTED) == len(DECIDED) + len(SECRET) + len(MOUNTED)
    assert wishes({f"{SETTING_PREFIX}guard": "enforce"}).settings == (("guard", "enforce"),)


@given(
    annotations=st.dictionaries(
        st.sampled_from([*map(PREFIX.__add__, ["port", "cpu", "hop", "egress"]), "x"]), st.text()
    )
)
def test_nothing_else_is_raised(annotations):
    with suppress(WishError):
        assert wishes(annotations).capture == "auto"
