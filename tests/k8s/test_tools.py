"""The programs that check manifests: they find what is wrong, and say why they are not there."""

from __future__ import annotations

import pytest

from tests.k8s import tools
from tests.k8s.tools import NEWEST, OLDEST, inside, invalid
from tests.readers.reading import Missing

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "here"}}
needs_tools = pytest.mark.skipif(bool(tools.missing()), reason=tools.missing())


@needs_tools
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_a_mistyped_key_is_found_in_every_version(version):
    assert invalid([NAMESPACE], version=version) == []
    (error,) = invalid([NAMESPACE, {**NAMESPACE, "metdata": {}}], version=version)
    assert "Namespace here" in error
    assert "metdata" in error


@needs_tools
def test_a_field_is_known_from_its_version_on():
    container = {"name": "first", "image": "x", "restartPolicy": "Always"}
    spec = {"containers": [{"name": "app", "image": "x"}], "initContainers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert invalid([pod], version="1.27")
    assert not invalid([pod], version="1.28")


@needs_tools
def test_the_documents_of_a_text_are_read_without_the_empty_ones():
    assert inside("read", ["a: 1\n---\n---\nb: [2]\n", ""]) == [[{"a": 1}, {"b": [2]}], []]


def test_who_has_no_tools_hears_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "python -m tests.k8s.tools" in tools.missing()


def test_an_install_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tools, "REQUIREMENTS", tmp_path / "wrong.txt")
    (tmp_path / "wrong.txt").write_text("not a requirement\n")
    with pytest.raises(Missing, match="not a requirement"):
        tools.install()
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.txt"]
