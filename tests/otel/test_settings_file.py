"""The file of settings: read, or refused by name."""

from __future__ import annotations

import pytest

from otel.settings import ConfigError
from otel.settings_file import file_text_of


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
