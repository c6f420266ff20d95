"""The front door: quick, lazy, and helpful when something was typed wrong."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

from sidecar import cli

HEAVY = {"aiohttp", "asyncio", "grpc", "uvloop", "orjson", "opentelemetry", "google", "importlib.metadata", "otel"}


@pytest.fixture
def planted(monkeypatch):
    """Put a function in place of a command's, and return the list of what it was called with."""

    def plant(name, returns=0):
        calls = []

        def function(argv):
            calls.append(argv)
            if isinstance(returns, BaseException):
                raise returns
            return returns

        module = types.ModuleType("planted")
        module.main = function
        monkeypatch.setitem(sys.modules, "planted", module)
        command = cli.Command(name, "planted:main", "planted", cli.RUN)
        monkeypatch.setitem(cli.BY_NAME, name, command)
        return calls

    return plant


def test_a_command_gets_the_rest_of_the_line_and_gives_the_exit_code(planted):
    calls = planted("why", returns=10)
    assert cli.main(["why", "req-1", "--json"]) == 10
    assert calls == [["req-1", "--json"]]


def test_a_command_that_returns_nothing_went_well(planted):
    planted("demo", returns=None)
    assert cli.main(["demo"]) == 0


def test_ctrl_c_ends_as_shells_expect(planted):
    planted("sidecar", returns=KeyboardInterrupt())
    assert cli.main(["sidecar"]) == 130


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"]])
def test_help_teaches_on_one_screen(capsys, argv):
    assert cli.main(argv) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    assert all(len(line) <= 80 for line in text.splitlines())
    assert all(f"\n  {command.name} " in text for command in cli.COMMANDS)
    assert "gapline demo --fault " in text


def test_help_on_a_command_asks_the_command(planted):
    calls = planted("stalls")
    assert cli.main(["help", "stalls"]) == 0
    assert calls == [["--help"]]


def test_nothing_typed_is_wrong_usage_and_shows_the_help(capsys):
    assert cli.main([]) == 2
    assert "usage: gapline COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("tmeline", "no such command: 'tmeline'; did you mean `gapline timeline`?"),
        ("Why", "did you mean `gapline why`?"),
        ("colector", "did you mean `gapline collector`?"),
        ("frobnicate", "`gapline --help` lists the commands"),
        ("--verbose", "no such option: '--verbose'"),
        ("\x1b[2J", "no such command: '\\x1b[2J'"),
    ],
)
def test_a_typo_gets_the_nearest_command(capsys, typed, said):
    assert cli.main([typed]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ("grpc", "pip install 'gapline[collector]', or run it with `--grpc off`"),
        ("grpc.aio", "pip install 'gapline[collector]', or run it with `--grpc off`"),
        ("xllamacpp", "pip install 'gapline[llama]'"),
        ("gguf", "pip install 'gapline[llama]'"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_remedy(planted, capsys, missing, remedy):
    planted("collector", returns=ModuleNotFoundError("no", name=missing))
    assert cli.main(["collector"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.endswith(f" is not installed: {remedy}\n")


def test_every_extra_in_a_remedy_exists():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    named = {name for remedy in cli.REMEDIES.values() for name in re.findall(r"gapline\[(\w+)\]", remedy)}
    assert named
    assert named <= project["optional-dependencies"].keys()


def test_any_other_missing_module_is_not_hidden(planted):
    planted("collector", returns=ModuleNotFoundError("no", name="otel.nowhere"))
    with pytest.raises(ModuleNotFoundError):
        cli.main(["collector"])


@pytest.mark.parametrize("argv", [["version"], ["--version"]])
def test_the_version_is_that_of_the_installed_distribution(capsys, monkeypatch, argv):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"1.2.3 of {name}")
    assert cli.main(argv) == 0
    assert capsys.readouterr().out == "gapline 1.2.3 of gapline\n"


def test_a_folder_of_source_says_that_it_is_not_installed(capsys, monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert cli.main(["version"]) == 0
    assert "not installed" in capsys.readouterr().out


def test_version_takes_nothing(capsys):
    assert cli.main(["version", "x"]) == 2
    assert cli.main(["version", "--help"]) == 0


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_every_command_is_where_the_table_says(command):
    module_name, _, function_name = command.target.partition(":")
    module = pytest.importorskip(module_name)
    assert callable(getattr(module, function_name))


def imported(statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=True)


def test_the_front_door_loads_nothing_heavy():
    loaded = set(imported("import sys, sidecar.cli; print(*sys.modules)").stdout.split())
    assert not HEAVY & loaded


def test_a_process_exits_with_the_code():
    done = subprocess.run([sys.executable, "-m", "sidecar.cli", "nope"], capture_output=True, text=True, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("shell", ["{} --help >&-", "{} --help > /dev/full", "{} --help | true"])
def test_a_reader_that_is_gone_or_full_is_no_traceback(shell):
    command = shell.format(f"{sys.executable} -m sidecar.cli")
    done = subprocess.run(
        ["bash", "-c", command], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=30
    )
    assert "Traceback" not in done.stderr
