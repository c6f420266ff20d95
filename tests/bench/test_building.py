"""The programs in C: compiled once for a version of their text, and why not where nothing compiles."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bench.building import COMPILERS, FILES, built, version
from tests.readers.reading import Missing

has_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="there is no C compiler here")


def test_a_version_is_of_the_text(tmp_path: Path) -> None:
    for source in FILES.glob("*.[ch]"):
        shutil.copy(source, tmp_path)
    assert version(tmp_path) == version()
    (tmp_path / "load.c").write_text("int main(void) { return 0; }")
    assert version(tmp_path) != version()


def test_without_a_compiler_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="there is none of cc"):
        built(cache=tmp_path)


@has_compiler
def test_they_are_compiled_once(tmp_path: Path) -> None:
    first = built(cache=tmp_path)
    times = {name: Path(path).stat().st_mtime_ns for name, path in first.items()}
    assert built(cache=tmp_path) == first
    assert {name: Path(path).stat().st_mtime_ns for name, path in first.items()} == times


@has_compiler
def test_what_does_not_compile_leaves_nothing_behind(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("upstream", "load"):
        (sources / f"{name}.c").write_text("int main(void) { return nothing; }")
    with pytest.raises(Missing, match="nothing"):
        built(cache=tmp_path, sources=sources)
    assert not [file for file in tmp_path.rglob("*") if file.name in {"upstream", "load"}]
