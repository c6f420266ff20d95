"""The table of parts: every one is started with what it was given, and says truly what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.apps import Does
from tests.lab.installed import DEBIAN, PYPI
from tests.lab.middles import FILES, MIDDLES, PARTS, WORKERS, Part

PATHS = dict.fromkeys([*DEBIAN, *PYPI], "/bin/program")


@pytest.mark.parametrize("part", Part)
def test_a_part_is_told_where_it_listens_and_whom_to_ask(part: Part, tmp_path: Path) -> None:
    asks = {"asked_url": "http://127.0.0.9:4321"}
    command = PARTS[part].command("router", port=1_234, **asks, folder=tmp_path, paths=PATHS)
    told = " ".join([*command.arguments, *(file.read_text() for file in tmp_path.rglob("*") if file.is_file())])
    assert command.name == "router"
    assert command.ready_url.startswith("http://127.0.0.1:1234/")
    assert "1234" in told
    assert ("127.0.0.9" in told and "4321" in told) or part in WORKERS
    assert "${" not in told


def test_every_app_of_ours_is_a_part() -> None:
    said = [middle.arguments[2] for middle in MIDDLES.values() if middle.arguments[0] == "tests.lab.apps"]
    assert sorted(said) == sorted(Does)


def test_parts_of_ours_obey_faults_and_need_nothing() -> None:
    assert all(middle.is_told == (not middle.needs) for middle in MIDDLES.values())


def test_what_a_part_needs_can_be_found() -> None:
    assert {need for part in PARTS.values() for need in part.needs} == {*DEBIAN, *PYPI}


def test_every_file_is_read_by_some_part() -> None:
    used = {part.config for part in PARTS.values()} | {word for part in PARTS.values() for word in part.arguments}
    said = "\n".join(str(each) for each in used)
    for file in FILES.iterdir():
        first = file.read_text().split("\n", 1)[0]
        assert first in said or file.name in said
