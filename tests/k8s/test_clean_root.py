"""Roots of one's own: what a builder lends is taken back, and what is copied lands where a Dockerfile says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.k8s import clean_root
from tests.k8s.clean_root import _copy, _Lent, base_root, command, finished
from tests.k8s.dockerfile import Instruction
from tests.readers.reading import Missing

OURS = Path("/etc/hosts")


@pytest.mark.parametrize("before", [None, b"theirs"])
def test_what_is_lent_is_taken_back(tmp_path, before):
    place = tmp_path / "etc/hosts"
    if before is not None:
        place.parent.mkdir()
        place.write_bytes(before)
    lent = _Lent(tmp_path, "etc/hosts")
    assert place.read_bytes() == OURS.read_bytes()
    lent.take_back()
    assert (place.read_bytes() if place.exists() else None) == before


def test_what_was_installed_in_its_place_stays(tmp_path):
    lent = _Lent(tmp_path, "etc/hosts")
    (tmp_path / "etc/hosts").write_bytes(b"installed")
    lent.take_back()
    assert (tmp_path / "etc/hosts").read_bytes() == b"installed"


def copy(text: str, *, context: Path, root: Path, roots: dict[str, Path] | None = None) -> None:
    _copy(Instruction("COPY", text), context=context, roots=roots or {}, root=root, where=Path("/src"))


def test_files_are_copied_as_a_dockerfile_says(tmp_path):
    context, root = tmp_path / "context", tmp_path / "root"
    (context / "pkg/__pycache__").mkdir(parents=True)
    (context / "pkg/a.py").write_text("a")
    (context / "pkg/__pycache__/a.pyc").write_text("a")
    (context / "one.txt").write_text("1")
    copy("one.txt files/", context=context, root=root)
    copy("one.txt ./", context=context, root=root)
    copy("pkg pkg", context=context, root=root)
    copy("--from=first /pkg /opt/pkg", context=context, root=root, roots={"first": context})
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert found == {"src/files/one.txt", "src/one.txt", "src/pkg/a.py", "opt/pkg/a.py", "opt/pkg/__pycache__/a.pyc"}


def test_a_command_has_nothing_of_our_environment():
    words = command(Path("/r"), "x", "y", user="1:1", environ={"A": "1"})
    assert words[-6:] == ["1:1", "/usr/bin/env", "-i", "A=1", "x", "y"]
    assert "ro" in words
    assert "rw" in command(Path("/r"), "x", is_writable=True)


def test_a_command_that_fails_says_what_it_said():
    assert finished(["sh", "-c", "echo out"]) == "out\n"
    with pytest.raises(AssertionError, match="because"):
        finished(["sh", "-c", "echo because >&2; exit 3"])


def test_who_is_not_root_hears_it(tmp_path, monkeypatch):
    monkeypatch.setattr(clean_root.os, "geteuid", lambda: 1000)
    with pytest.raises(Missing, match="root only"):
        base_root(tmp_path, "debian:trixie-slim")
