"""Which aiohttp is the oldest, and what runs with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import oldest
from tests.conformance.oldest import ROOT, environment, lowest, main
from tests.readers.reading import Missing

PROJECT = '[project]\ndependencies = ["aiohappyeyeballs>=2.5", "aiohttp>=3.13.1,<4", "orjson>=3"]\n'


def test_the_oldest_is_the_bound_of_the_project():
    assert lowest(PROJECT) == "3.13.1"
    assert lowest((ROOT / "pyproject.toml").read_text("utf-8"))


def test_a_project_without_a_bound_has_none():
    with pytest.raises(ValueError, match="unpack"):
        lowest('[project]\ndependencies = ["aiohttp"]\n')


@pytest.fixture
def installing(tmp_path, monkeypatch):
    """A cache of the test's own, and an installer that only makes a module."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def install(*command):
        calls.append(command)
        site = subprocess.run(
            [command[command.index("--python") + 1], "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        Path(site, "aiohttp.py").write_text(f"__version__ = {command[-1].partition('==')[2]!r}\n")

    monkeypatch.setattr(oldest, "run", install)
    return calls


def test_the_environment_has_that_version_above_everything_else_of_ours(installing):
    python = environment("3.13.1")
    said = subprocess.run(
        [python, "-c", "import aiohttp, orjson; print(aiohttp.__version__, orjson.__name__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert said == "3.13.1 orjson\n"
    assert environment("3.13.1") == python
    assert len(installing) == 1


def test_one_that_cannot_be_installed_is_told(monkeypatch, capsys, tmp_path):
    def refuse(*_):
        raise Missing("there is no network")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(oldest, "run", refuse)

    assert main(["--version", "3.0"]) == 2
    assert "there is no network" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--suite", "none"]])
def test_the_words_go_on_to_the_suites(monkeypatch, capfd, words):
    monkeypatch.setattr(oldest, "environment", lambda _: Path(sys.executable))

    assert main(words) == 2
    assert "--suite none: must be one of" in capfd.readouterr().err
