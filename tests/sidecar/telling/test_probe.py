"""Probes are recognised by who asks, what for, how it is marked and how small it is; and people are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.telling import probe
from sidecar.telling.probe import AGENTS, HEADERS, PATHS, HeaderRule, ProbeRules

CHAT = "/v1/chat/completions"
SHIPPED = ProbeRules()


def by_agent(agent: str, rules: ProbeRules = SHIPPED) -> bool:
    return rules.is_probe("POST", CHAT, [("Host", "x"), ("User-Agent", agent)])


@pytest.mark.parametrize(
    "agent",
    [
        "kube-probe/1.29",
        "ELB-HealthChecker/2.0",
        "GoogleHC/1.0",
        "Prometheus/2.45.0",
        "Blackbox Exporter/0.24.0",
        "Envoy/HC",
        "Datadog/Synthetics",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0 Safari/537.36 DatadogSynthetics",
        "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
        "Amazon-Route53-Health-Check-Service (ref 1; report http://amzn.to/1)",
        "Consul Health Check",
        "check_http/v2.3.3 (nagios-plugins 2.3.3)",
        "KUBE-PROBE/1.29",
    ],
)
def test_probers_are_known_by_their_user_agent(agent: str):
    assert by_agent(agent)


@pytest.mark.parametrize(
    "agent",
    [
        "",
        "OpenAI/Python 1.52.0",
        "curl/8.5.0",
        "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0",
        "notkube-probe/1.0",
        "x" * 5_000 + " kube-probe/1.29",
    ],
)
def test_people_and_their_programs_are_none(agent: str):
    assert not by_agent(agent)


@pytest.mark.parametrize("path", ["/health", "/healthz", "/livez", "/readyz", "/ping", "/metrics", "/v1/health",
                                  "/health/live", "/v2/health/ready", "/healthz?verbose"])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_paths_that_only_say_how_it_is_are_probes(method: str, path: str):
    assert SHIPPED.is_probe(method, path, [])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/ping"),
        ("GET", "/v1/models"),
        ("GET", "/healthy"),
        ("GET", "/HEALTH"),
        ("GET", "/"),
        ("GET", "/a/ping"),
    ],
)
def test_other_paths_and_whoever_posts_to_them_are_none(method: str, path: str):
    assert not SHIPPED.is_probe(method, path, [])


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [
        ([("X-Gapline-Probe", "")], True),
        ([("X-Datadog-Origin", "Synthetics")], True),
        ([("x-datadog-origin", "rum")], False),
        ([("X-Datadog-Origin-2", "synthetics")], False),
    ],
)
def test_fields_that_only_probes_have_make_one(fields, is_one: bool):
    assert SHIPPED.is_probe("POST", CHAT, fields) is is_one


def test_rules_of_ones_own_are_in_place_of_the_shipped_ones():
    own = ProbeRules(
        [probe.agent("our-canary")], [probe.path("/up"), probe.path("/sys/*")], [probe.header("X-Canary=1")]
    )
    assert by_agent("Our-Canary/2", own)
    assert not by_agent("kube-probe/1.29", own)
    assert own.is_probe("GET", "/up", [])
    assert own.is_probe("GET", "/sys/", [])
    assert not own.is_probe("GET", "/healthz", [])
    assert own.is_probe("POST", CHAT, [("x-canary", " 1 ")])
    assert not own.is_probe("POST", CHAT, [("x-canary", "11")])


def test_without_rules_nothing_is_one():
    none = ProbeRules((), (), ())
    assert not none.is_probe("GET", "/healthz", [("User-Agent", "kube-probe/1.29"), ("X-Gapline-Probe", "1")])


def test_the_shipped_rules_are_as_options_could_be():
    assert tuple(map(probe.agent, AGENTS)) == AGENTS
    assert tuple(map(probe.path, PATHS)) == PATHS
    assert tuple(probe.header(str(rule)) for rule in HEADERS) == HEADERS


@given(st.from_regex(r"[a-z-]{1,20}", fullmatch=True), st.none() | st.from_regex(r"[!-~]{1,20}", fullmatch=True))
def test_the_rule_of_a_field_reads_as_it_is_shown(name: str, value: str | None):
    rule = HeaderRule(name, None if value is None else value.lower())
    assert probe.header(str(rule)) == rule


@pytest.mark.parametrize(
    ("parse", "value", "rule"),
    [
        (probe.agent, "", "1 to 100 printable"),
        (probe.agent, "a\n", "1 to 100 printable"),
        (probe.agent, "a" * 101, "1 to 100 printable"),
        (probe.path, "health", "must be a path"),
        (probe.path, "/a?b", "without a query"),
        (probe.path, "/a*b", "must be a path"),
        (probe.path, "/" + "a" * 200, "at most 200"),
        (probe.header, "", "must be NAME or NAME=VALUE"),
        (probe.header, "a b", "must be NAME or NAME=VALUE"),
        (probe.header, "x-a=", "must have a value"),
        (probe.header, "x-a=\x1b", "must have a value"),
    ],
)
def test_an_option_that_is_no_rule_says_what_one_is(parse, value: str, rule: str):
    with pytest.raises(ValueError, match=rule):
        parse(value)


@given(st.text(max_size=300), st.text(max_size=300), st.lists(st.tuples(st.text(max_size=30), st.text(max_size=300))))
def test_whatever_is_asked_gets_an_answer(method: str, path: str, fields):
    assert SHIPPED.is_probe(method, path, fields) in {True, False}
