"""The flags of the commands that ask: whom they name, what they refuse. How they look is seen in test_commands."""

from __future__ import annotations

import pytest

from otel.view import flags
from otel.view.flags import COLLECTOR_TOKEN_VARIABLE, DEFAULT_COLLECTOR, TOKEN_VARIABLE, URL_VARIABLE


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in (URL_VARIABLE, TOKEN_VARIABLE, COLLECTOR_TOKEN_VARIABLE, "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def collector_of(*argv: str):
    parser = flags.parser("why", "Why.")
    return flags.collector_of(parser, parser.parse_args(argv))


def test_the_collector_on_this_machine_is_asked_where_none_is_named(monkeypatch):
    assert collector_of().url == DEFAULT_COLLECTOR
    monkeypatch.setenv(URL_VARIABLE, "http://elsewhere:1")
    assert collector_of().url == "http://elsewhere:1"
    assert collector_of("--collector", "here:2").url == "http://here:2"


def test_the_token_of_the_command_outweighs_that_of_the_collector(monkeypatch):
    monkeypatch.setenv(COLLECTOR_TOKEN_VARIABLE, "third\n")
    assert collector_of().token == "third"
    monkeypatch.setenv(TOKEN_VARIABLE, "second")
    assert collector_of().token == "second"
    assert collector_of("--token", "first").token == "first"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--collector", "ftp://x"], "the collector's URL 'ftp://x'"),
        (["--token", "a\nb"], "the token must be printable ASCII"),
        (["--width", "3"], "must be a whole number from 60 to 1000"),
        (["--timeout", "soon"], "'soon'"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        collector_of(*argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_token_is_never_shown(capsys):
    with pytest.raises(SystemExit):
        collector_of("--token", "s3cret\x00")
    assert "s3cret" not in capsys.readouterr().err


def test_a_pipe_has_neither_colour_nor_a_narrow_line():
    parser = flags.parser("why", "Why.")
    look = flags.look(parser.parse_args([]))
    assert (look.is_colour, look.width) == (False, 100)
    look = flags.look(parser.parse_args(["--color", "--width", "77", "--ascii"]))
    assert (look.is_colour, look.width, look.is_ascii) == (True, 77, True)
