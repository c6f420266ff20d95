"""The file of settings: read, or refused by name."""

from __future__ import annotations

import pytest

from otel import settings
from otel.settings import ConfigError, Option
from otel.settings_file import configured, file_text_of


def test_a_named_file_is_read(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('hop = "gateway"', "utf-8")
    assert file_text_of(str(path)) == 'hop = "gateway"'


@pytest.mark.parametrize("name", [None, ""])
def test_no_file_is_no_text(name):
    assert file_text_of(name) is None


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "b.toml").write_bytes(b"\xff")
    for name in (tmp_path / "none.toml", tmp_path / "b.toml"):
        with pytest.raises(ConfigError, match=f"--config: '{name}': cannot be read"):
            file_text_of(str(name))


@pytest.mark.parametrize(("flag", "variable"), [("named", None), (None, "named"), ("named", "another")])
def test_a_program_is_configured_by_its_flags_its_environment_and_the_file_that_they_name(tmp_path, flag, variable):
    (tmp_path / "named").write_text("speed = 3", encoding="utf-8")
    config = {name: str(tmp_path / name) for name in (flag, variable) if name}
    environ = {"X_CONFIG": config[variable]} if variable else {}
    flags = {"config": config.get(flag), "speed": "7", "left": "out"}

    read = configured(lambda *given, file_text: (*given, file_text), OPTIONS, flags, environ, file_variable="X_CONFIG")

    assert read == ({"speed": "7", "size": None}, environ, "speed = 3")


OPTIONS = tuple(Option(name, settings.text, None, name, "X") for name in ("speed", "size"))
