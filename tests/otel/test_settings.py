"""Settings: flag over environment over file over default, every error at once, and no typo in silence."""

from __future__ import annotations

import argparse
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import settings
from otel.settings import REQUIRED, Address, ConfigError, Option, add_flags, count, items, load, read

PORT = Option("port", settings.count, 80, "where to listen", metavar="PORT")
NAME = Option("hop_name", settings.name, REQUIRED, "who we are")
QUIET = Option("quiet", settings.switch, False, "say less, by 100%")
TAGS = Option("tags", settings.items(settings.text), (), "what else to say")
OPTIONS = (PORT, NAME, QUIET, TAGS)


def values(*, flags=None, environ=None, file_text=None, options=OPTIONS, known=()):
    return load(
        options,
        prefix="G_",
        flags=flags or {},
        environ=environ or {},
        file_text=file_text,
        known_variables=known,
    )


def errors(**sources):
    with pytest.raises(ConfigError) as caught:
        values(**sources)
    assert str(caught.value) == "\n".join(caught.value.errors)
    return list(caught.value.errors)


class TestSources:
    def test_a_flag_wins_over_the_environment_that_over_the_file_that_over_the_default(self):
        file_text = 'port = 1\nhop_name = "file"\n'
        environ = {"G_PORT": "2", "G_HOP_NAME": "environ"}
        flags = {"port": "3", "hop_name": None}
        assert values(file_text='hop_name = "file"')["port"] == 80
        assert values(file_text=file_text)["port"] == 1
        assert values(file_text=file_text, environ=environ)["port"] == 2
        assert values(file_text=file_text, environ=environ, flags=flags)["port"] == 3
        assert values(file_text=file_text, environ=environ, flags=flags)["hop_name"] == "environ"

    def test_all_three_spell_switches_and_lists_their_own_way(self):
        file_text = 'hop_name = "x"\nquiet = true\ntags = ["a", "b"]\n'
        assert values(file_text=file_text) == {"port": 80, "hop_name": "x", "quiet": True, "tags": ("a", "b")}
        environ = {"G_HOP_NAME": "x", "G_QUIET": "on", "G_TAGS": "a, b,"}
        assert values(environ=environ) == {"port": 80, "hop_name": "x", "quiet": True, "tags": ("a", "b")}

    def test_names_of_others_are_left_alone(self):
        assert values(environ={"G_HOP_NAME": "x", "GPU": "1", "PATH": "/bin"})["hop_name"] == "x"
        assert values(environ={"G_HOP_NAME": "x", "G_OTHER": "1"}, known=["G_OTHER"])["hop_name"] == "x"


class TestErrors:
    def test_are_told_all_at_once_with_source_value_and_rule(self):
        assert errors(
            flags={"port": "many"},
            environ={"G_QUIET": "perhaps", "G_PROT": "80"},
            file_text='porrt = 1\ntags = [" "]\n',
        ) == [
            "file: porrt: no such option",
            "G_PROT: no such option",
            "--port: 'many': must be a whole number, 0 or more",
            "--hop-name: required (or G_HOP_NAME, or hop_name in the file)",
            "G_QUIET: 'perhaps': is not true or false",
        ]

    def test_a_file_that_is_no_toml_is_one_of_them(self):
        (first, second) = errors(file_text="port = ", flags={"port": "many"})
        assert first.startswith("file: not TOML: ")
        assert second.startswith("--port")

    def test_what_is_missing_may_stand_in_a_file_that_could_not_be_read(self):
        (only,) = errors(file_text="hop_name = a")
        assert only.startswith("file: not TOML: ")

    def test_of_a_list_the_item_is_named(self):
        options = (Option("ports", items(count), (), "h", is_list=True),)
        assert errors(options=options, flags={"ports": "1,x, 2"}) == ["--ports: 'x': must be a whole number, 0 or more"]

    def test_what_could_be_read_is_there_beside_the_errors(self):
        found, told = read(OPTIONS, prefix="G_", flags={"port": "80", "hop_name": ""}, environ={})
        assert found["port"] == 80
        assert "hop_name" not in found
        assert len(told) == 1


class TestFlags:
    def parser(self):
        parser = argparse.ArgumentParser()
        add_flags(parser, OPTIONS, prefix="G_")
        return parser

    def test_are_the_names_with_dashes_and_switches_take_no_value(self):
        parsed = vars(self.parser().parse_args(["--hop-name", "x", "--quiet"]))
        assert parsed == {"port": None, "hop_name": "x", "quiet": "true", "tags": None}
        assert values(flags=parsed) == {"port": 80, "hop_name": "x", "quiet": True, "tags": ()}

    def test_tell_default_and_variable_in_their_help(self):
        text = " ".join(self.parser().format_help().split())
        assert "where to listen [80; G_PORT]" in text
        assert "who we are [required; G_HOP_NAME]" in text
        assert "say less, by 100% [off; G_QUIET]" in text
        assert "what else to say [none; G_TAGS]" in text


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (settings.switch, "TRUE", True),
        (settings.switch, "0", False),
        (settings.text, " x ", " x "),
        (settings.name, "gateway-1.eu_west", "gateway-1.eu_west"),
        (settings.path, "/etc/gapline.toml", PurePath("/etc/gapline.toml")),
        (settings.address, "127.0.0.1:80", Address("127.0.0.1", 80)),
        (settings.address, ":0", Address("0.0.0.0", 0)),
        (settings.address, "[::1]:4317", Address("::1", 4317)),
        (settings.http_url, "http://vllm:8000/", "http://vllm:8000"),
        (settings.http_url, "https://[::1]/v1", "https://[::1]/v1"),
        (settings.seconds, "250ms", 0.25),
        (settings.seconds, "2.5", 2.5),
        (settings.seconds, "30s", 30.0),
        (settings.seconds, "5m", 300.0),
        (settings.seconds, "12h", 43_200.0),
        (settings.seconds, "7d", 604_800.0),
        (settings.size_bytes, "4096", 4_096),
        (settings.size_bytes, "64K", 65_536),
        (settings.size_bytes, "32MiB", 33_554_432),
        (settings.size_bytes, "10gb", 10_737_418_240),
        (settings.count, "007", 7),
        (settings.choice("all", "none"), "all", "all"),
        (settings.items(settings.count), "1, 2,3", (1, 2, 3)),
        (settings.items(settings.count), "", ()),
    ],
)
def test_text_becomes_a_value(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (settings.switch, "maybe"),
        (settings.text, "  "),
        (settings.name, "-x"),
        (settings.name, "x" * 64),
        (settings.name, "a b"),
        (settings.path, ""),
        (settings.address, "80"),
        (settings.address, "host:"),
        (settings.address, "host:65536"),
        (settings.address, "host:-1"),
        (settings.address, "host:٣"),
        (settings.address, "::1:80"),
        (settings.http_url, "vllm:8000"),
        (settings.http_url, "ftp://vllm"),
        (settings.http_url, "http://"),
        (settings.http_url, "http://vllm:port"),
        (settings.http_url, "http://user@vllm"),
        (settings.http_url, "http://vllm?x=1"),
        (settings.http_url, "http://vllm#x"),
        (settings.seconds, "-1s"),
        (settings.seconds, "1 s"),
        (settings.seconds, "1w"),
        (settings.seconds, "nan"),
        (settings.size_bytes, "1.5M"),
        (settings.size_bytes, "1T"),
        (settings.count, "-1"),
        (settings.count, "1.0"),
        (settings.count, "²"),
        (settings.choice("all", "none"), "some"),
        (settings.items(settings.count), "1,x"),
    ],
)
def test_text_that_breaks_a_rule_is_refused(parse, text):
    with pytest.raises(ValueError, match=r"must|is not"):
        parse(text)


PARSERS = [settings.switch, settings.text, settings.name, settings.path, settings.address, settings.http_url]
PARSERS += [settings.seconds, settings.size_bytes, settings.count]


@given(st.sampled_from(PARSERS), st.text(max_size=30))
def test_a_parser_raises_nothing_but_its_rule(parse, text):
    try:
        parse(text)
    except ValueError:
        return


@given(st.builds(Address, st.sampled_from(["127.0.0.1", "::1", "host"]), st.integers(0, 65_535)))
def test_an_address_is_written_as_it_is_read(address):
    assert settings.address(str(address)) == address


def test_what_is_required_says_so():
    assert repr(REQUIRED) == "required"


@pytest.mark.parametrize(
    ("parse", "default", "text"),
    [
        (settings.seconds, 604_800.0, "7d"),
        (settings.seconds, 90.0, "90s"),
        (settings.seconds, 0.25, "0.25"),
        (lambda text: settings.seconds(text) or None, 60.0, "1m"),
        (settings.seconds, 0.0, "0"),
        (settings.size_bytes, 10 << 30, "10G"),
        (settings.size_bytes, 4097, "4097"),
        (settings.switch, False, "off"),
        (settings.switch, True, "on"),
        (settings.text, None, "none"),
        (settings.items(settings.name), (), "none"),
        (settings.items(settings.name), ("a", "b"), "a,b"),
        (settings.address, Address("::1", 80), "[::1]:80"),
        (settings.count, REQUIRED, "required"),
    ],
)
def test_a_default_is_shown_as_a_person_would_write_it(parse, default, text):
    assert settings.shown(settings.Option("x", parse, default, "")) == text
