"""Settings from flags, variables and a file, every error at once."""

from __future__ import annotations

import argparse
from dataclasses import fields

import pytest

from k8s.config import OPTIONS, PREFIX, Config, PodConfig, add_flags, config_of, pod_config
from k8s.options import POD_OPTIONS
from otel.settings import ConfigError


def test_every_option_has_its_field():
    named = {field.name for field in fields(PodConfig)} | {field.name for field in fields(Config)} - {"pod"}
    assert named == {option.name for option in OPTIONS}


def test_a_flag_wins_over_a_variable_and_that_over_the_file():
    environ = {PREFIX + "CPU": "200m", PREFIX + "MEMORY": "1Gi"}
    file_text = 'cpu = "1"\nmemory = "2Gi"\nmemory_limit = "3Gi"\nimage = "a:1"\n'
    found = pod_config({"cpu": "300m"}, environ, file_text=file_text)
    assert (found.cpu, found.memory, found.image) == ("300m", "1Gi", "a:1")


def test_settings_of_the_webhook_may_stand_beside_those_of_pods():
    assert pod_config({}, {PREFIX + "LISTEN": ":8443"}).cpu == "100m"
    assert config_of({}, {PREFIX + "CPU": "200m"}).pod.cpu == "200m"


def test_all_mistakes_are_told():
    with pytest.raises(ConfigError) as raised:
        pod_config({"cpu": "much"}, {PREFIX + "TYPO": "1", PREFIX + "MEMORY": "0"})
    assert len(raised.value.errors) == 3


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"tls_cert": "/a"}, "one needs the other"),
        ({"listen": ":1", "admin": ":1"}, "must not be the address of --listen"),
        ({"memory": "1Gi"}, r"--memory: '1Gi': must not be above --memory-limit \(256Mi\)"),
        ({"cpu": "1", "cpu_limit": "999m"}, "must not be above --cpu-limit"),
    ],
)
def test_what_does_not_go_together_is_told(flags, said):
    with pytest.raises(ConfigError, match=said):
        config_of(flags, {})


def test_every_option_of_pods_is_a_flag():
    parser = argparse.ArgumentParser()
    add_flags(parser, POD_OPTIONS)
    assert parser.parse_args(["--cpu", "1", "--allow-redirect"]).allow_redirect == "true"
