"""What values may be: each says what is wrong with a value, and what a good one becomes."""

import pytest

from otel.settings import Address, ConfigError, UnixPath
from sidecar.config import config_of
from sidecar.option_values import Egress, keepalive_seconds
from sidecar.options import OPTIONS

NEEDED = {"upstream": "http://127.0.0.1:8000", "hop": "gateway"}


def parsed(name, value):
    (option,) = [option for option in OPTIONS if option.name == name]
    return option.parse(value)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("listen", "[::1]:80, unix:/run/a", (Address("::1", 80), UnixPath("/run/a"))),
        ("upstream", "unix:/run/vllm.sock", "unix:/run/vllm.sock"),
        ("upstream", "https://api.example/v1/", "https://api.example/v1"),
        ("egress", "x=127.0.0.1:1=http://a/b=c", (Egress("x", Address("127.0.0.1", 1), "http://a/b=c"),)),
        ("workers", "auto", 0),
        ("workers", "64", 64),
        ("memory_limit", "auto", "auto"),
        ("memory_limit", "off", None),
        ("memory_limit", "1G", 1 << 30),
        ("clock_offset", "-1h", -3600.0),
        ("clock_drift", "-200", -200.0),
        ("clock_drift", "0.5", 0.5),
        ("request_id_headers", "X-A, x-b", ("x-a", "x-b")),
        ("spool", "off", None),
        ("signed_headers", "X-Sig, Digest", ("x-sig", "digest")),
        ("keepalive_text", "still here", "still here"),
        ("engine_metrics", "http://127.0.0.1:8000", "http://127.0.0.1:8000/metrics"),
        ("engine_metrics", "http://127.0.0.1:8000/engine/metrics", "http://127.0.0.1:8000/engine/metrics"),
        ("engine_metrics", "off", None),
    ],
)
def test_a_good_value_becomes(name, value, found):
    assert parsed(name, value) == found


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("listen", "", "at least one"),
        ("listen", "unix:relative", "unix:/PATH"),
        ("upstream", "unix:relative", "unix:/PATH"),
        ("upstream", "ftp://a", "http://"),
        ("egress", "x=127.0.0.1:1", "NAME=HOST:PORT=URL"),
        ("upstream", "10.0.0.1:80", "unix:/PATH"),
        ("listen", "127.0.0.1:1,oops", "--listen: 'oops': "),
        ("request_id_headers", "x-a,b c", "--request-id-headers: 'b c': "),
        *(
            ("workers", value, "must be auto or a number from 1 to 64")
            for value in ("0", "65", "-1", "two", "9" * 5_000)
        ),
        ("max_streams", "-1", "whole number"),
        ("memory_limit", "much", "size"),
        ("slow_reader", "wait", "pause, end"),
        ("engine_metrics", "127.0.0.1:8000", "http://HOST"),
        ("engine_metrics", "http://u:p@h/metrics", "no user"),
        ("signed_headers", "a b", "--signed-headers: 'a b': "),
        ("keepalive_text", "two\r\nlines", "--keepalive-text"),
    ],
)
def test_a_value_that_breaks_its_rule_is_told_with_it(name, value, rule):
    with pytest.raises(ConfigError) as caught:
        config_of({**NEEDED, name: value}, {})
    (told,) = caught.value.errors

    assert rule in told


@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("100ms", 0.1), ("15s", 15.0)])
def test_a_keepalive_is_off_or_at_least_as_long_as_a_look_takes_to_come(text, seconds):
    assert keepalive_seconds(text) == seconds


@pytest.mark.parametrize("text", ["1ms", "99ms", "0.05"])
def test_a_keepalive_is_not_shorter_than_that(text):
    with pytest.raises(ValueError, match=r"^must be 0 or at least 100ms$"):
        keepalive_seconds(text)
