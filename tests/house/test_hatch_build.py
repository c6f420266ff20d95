"""The package is built with its compiled part, or without it and says so."""

import importlib
from types import SimpleNamespace

import pytest

import hatch_build
from hatch_build import NativeBuild, NotBuilt, compile_into, mode


@pytest.fixture
def hook(tmp_path):
    said = []
    return SimpleNamespace(
        target_name="wheel", directory=str(tmp_path), app=SimpleNamespace(display_warning=said.append), said=said
    )


def built(hook, version="standard"):
    data = {"force_include": {}, "pure_python": True}
    NativeBuild.initialize(hook, version, data)
    return data


def cannot(_folder):
    raise NotBuilt("there is no compiler")


def test_a_wheel_has_the_compiled_part(hook, monkeypatch):
    monkeypatch.setattr(hatch_build, "compile_into", lambda folder: folder / "compiled.so")

    data = built(hook)

    assert list(data["force_include"].values()) == ["sidecar/native/compiled.so"]
    assert (data["pure_python"], data["infer_tag"], hook.said) == (False, True, [])


def test_an_editable_install_has_it_beside_its_source(hook, monkeypatch):
    folders = []
    monkeypatch.setattr(hatch_build, "compile_into", lambda folder: folders.append(folder) or folder / "compiled.so")

    assert built(hook, "editable")["force_include"] == {}
    assert folders == [hatch_build.SOURCE.parent]


def test_a_build_that_cannot_have_it_says_so_and_goes_on_unless_it_must(hook, monkeypatch):
    monkeypatch.setattr(hatch_build, "compile_into", cannot)

    assert built(hook) == {"force_include": {}, "pure_python": True}
    assert hook.said == ["gapline is installed without its compiled part: there is no compiler"]
    monkeypatch.setenv("GAPLINE_BUILD_NATIVE", "require")
    with pytest.raises(NotBuilt, match="no compiler"):
        built(hook)


def test_it_can_be_left_out(hook, monkeypatch):
    monkeypatch.setattr(hatch_build, "compile_into", cannot)
    monkeypatch.setenv("GAPLINE_BUILD_NATIVE", "off")

    assert built(hook)["pure_python"]
    assert hook.said == []


def test_nothing_is_built_for_a_source_distribution(hook, monkeypatch):
    monkeypatch.setattr(hatch_build, "compile_into", cannot)
    hook.target_name = "sdist"

    assert built(hook)["pure_python"]


def test_another_mode_is_refused(monkeypatch):
    monkeypatch.setenv("GAPLINE_BUILD_NATIVE", "yes")

    with pytest.raises(SystemExit, match="auto, require, off, not 'yes'"):
        mode()


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(NotBuilt, match="Cython is not installed"):
        compile_into(tmp_path)
    monkeypatch.setattr(importlib, "import_module", lambda _name: None)
    monkeypatch.setattr(hatch_build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(NotBuilt, match=r"Python\.h is not there"):
        compile_into(tmp_path)


def test_a_cython_that_works_in_another_way_leaves_the_package_without(monkeypatch, tmp_path):
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(importlib, "import_module", lambda _name: SimpleNamespace())
    monkeypatch.setattr(hatch_build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})

    with pytest.raises(NotBuilt, match="Cython fails: AttributeError"):
        compile_into(tmp_path)
