"""Variables with a base URL lead through the sidecar; one that cannot is a reason, never half a change."""

from __future__ import annotations

import pytest

from k8s.decisions import Edit, EgressTap, Reason, SkipError
from k8s.egress import egress_of
from k8s.pods import regular
from sidecar.option_values import egress as sidecar_egress
from tests.support import pods


def led(names, taken=(), **variables):
    env = [
        {"name": name, **(value if isinstance(value, dict) else {"value": value})} for name, value in variables.items()
    ]
    return egress_of(regular(pods.pod(pods.container(env=env)))[0], names, taken)


def test_the_path_stays_and_the_origin_becomes_ours():
    taps, edits = led(["URL"], OTHER="x", URL="https://api.openai.com/v1?x=1")
    assert taps == (EgressTap("api.openai.com", 24_100, "https://api.openai.com"),)
    old, new = "https://api.openai.com/v1?x=1", "http://127.0.0.1:24100/v1?x=1"
    assert edits == (Edit("app", ("env", 1, "value"), old, new),)


def test_one_origin_has_one_listener_and_two_have_two():
    taps, edits = led(["A", "B", "C"], A="http://w:8000/v1", B="http://w:8000/v2", C="http://w:9000")
    assert [(tap.name, tap.port) for tap in taps] == [("w", 24_100), ("w-9000", 24_101)]
    assert [edit.new for edit in edits] == [f"http://127.0.0.1:{rest}" for rest in ("24100/v1", "24100/v2", "24101")]


def test_ports_that_are_taken_are_left_alone():
    assert led(["A"], [24_100], A="http://w")[0][0].port == 24_101


def test_the_last_of_several_variables_with_one_name_counts():
    twice = pods.container(env=[{"name": "A", "value": "http://old"}, {"name": "A", "value": "http://new"}])
    _, edits = egress_of(regular(pods.pod(twice))[0], ["A"], ())
    assert edits[0].path == ("env", 1, "value")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "next:8000",
        "ftp://x",
        "http://user:key@x/v1",
        "http://$(HOST):8000",
        "http://x:99999",
        {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
)
def test_a_url_that_is_not_known_cannot_be_led(value):
    with pytest.raises(SkipError) as raised:
        led(["A"], A=value)
    assert raised.value.skip.reason is Reason.BAD_EGRESS
    assert "key@" not in raised.value.skip.detail


def test_a_variable_that_is_not_set_cannot_be_led():
    with pytest.raises(SkipError, match="sets no variable NO"):
        led(["NO"], A="http://x")


@pytest.mark.parametrize("url", ["http://[fd00::1]:80/v1", "https://a.example", "http://10.0.0.1:8000"])
def test_the_sidecar_takes_what_it_gets(url):
    ((tap,), _) = led(["A"], A=url)
    assert sidecar_egress(f"{tap.name}=127.0.0.1:{tap.port}={tap.url}").url == tap.url
