"""Contenders: each can be started as it is described, and ours takes the ways that this sidecar has."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel.settings import Option, choice
from sidecar.config import config_of, parser
from tests.bench import contenders as table
from tests.bench.contenders import CONFIG, NGINX, OURS, PLAIN, UNSTAMPED, Contender, contenders, tiers
from tests.bench.loads import ANCHOR, LOADS
from tests.lab.installed import DEBIAN, PYPI

ALL = contenders(known_tiers=("push", "pull"), has_compiled=True)


def command(contender: Contender, folder: Path) -> list[str]:
    found = contender.command(
        python="/p/python",
        port=24_081,
        next_port=24_082,
        folder=folder,
        paths={name: f"/x/{name}" for name in (*DEBIAN, *PYPI)},
        prefix=("taskset", "-c", "0"),
    )
    assert found.program == "taskset"
    return [found.program, *found.arguments]


@pytest.mark.parametrize("contender", ALL, ids=[each.name for each in ALL])
def test_every_word_of_a_command_is_filled_in(contender: Contender, tmp_path: Path) -> None:
    words = command(contender, tmp_path)
    own = tmp_path / f"{contender.name}-24081"
    text = " ".join(words) + ((own / CONFIG).read_text() if contender.config else "")
    assert "24081" in text
    assert "24082" in text
    assert not [word for word in ("${port}", "${next}", "${next_port}", "${own}", "${config}") if word in text]
    assert words[:4] == ["taskset", "-c", "0", "/usr/bin/env"]


def test_what_is_installed_is_known_to_the_lab() -> None:
    assert {each.program for each in ALL if each.program} <= {*DEBIAN, *PYPI}


def test_names_are_different_and_loads_are_known() -> None:
    assert len({each.name for each in ALL}) == len(ALL)
    assert all(each.loads <= LOADS.keys() for each in ALL)


def test_those_that_others_are_compared_with_are_under_the_anchor() -> None:
    by_name = {each.name: each for each in ALL}
    assert all(ANCHOR.name in by_name[name].loads for name in (NGINX, PLAIN, OURS, UNSTAMPED))


def test_our_flags_are_settings_of_the_sidecar(tmp_path: Path) -> None:
    known = [each for each in contenders(has_compiled=True) if each.arguments[0] == "sidecar"]
    for contender in known:
        words = command(contender, tmp_path)
        config = config_of(vars(parser().parse_args(words[words.index("sidecar") + 1 :])), {})
        assert config.export is not None
        assert config.passthrough is contender.name.startswith(UNSTAMPED)
        assert (config.compiled == "off") is contender.name.endswith("python")


def test_tiers_are_those_that_the_option_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "OPTIONS", ())
    assert tiers() == ()
    monkeypatch.setattr(table, "OPTIONS", (Option("tier", choice("auto", "push", "pull"), "auto", "how"),))
    assert tiers() == ("push", "pull")
    assert {each.name for each in contenders(has_compiled=False) if each.name.startswith("ours-")} == {
        "ours-push",
        "ours-pull",
    }
