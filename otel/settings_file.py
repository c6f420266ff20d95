"""Reads the TOML file of settings that a flag or a variable names."""

from __future__ import annotations

from pathlib import Path

from otel.settings import ConfigError


def file_text_of(file_name: str | None) -> str | None:
    """The text of the file, None when none is named. Raises ConfigError when it cannot be read."""
    if not file_name:
        return None
    try:
        return Path(file_name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error  # the name is said already
        raise ConfigError([f"--config: {file_name!r}: cannot be read: {why}"]) from None
