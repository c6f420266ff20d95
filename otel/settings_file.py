"""Reads the TOML file of settings that a flag or a variable names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from otel.settings import ConfigError, Option

C_co = TypeVar("C_co", covariant=True)


class ConfigOf(Protocol[C_co]):
    """How a program reads its options."""

    def __call__(self, flags: Mapping[str, Any], environ: Mapping[str, str], *, file_text: str | None) -> C_co:
        """The configuration. Raises ConfigError with every error in it."""


def configured(
    config_of: ConfigOf[C_co],
    options: Iterable[Option],
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    file_variable: str,
) -> C_co:
    """The configuration, with the file that `--config` or the variable names. Raises ConfigError.

    An option that a command has no flag for is left to environment and file.
    """
    file_text = file_text_of(flags["config"] or environ.get(file_variable))
    return config_of({option.name: flags.get(option.name) for option in options}, environ, file_text=file_text)


def file_text_of(file_name: str | None) -> str | None:
    """The text of the file, None when none is named. Raises ConfigError when it cannot be read."""
    if not file_name:
        return None
    try:
        return Path(file_name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error  # the name is said already
        raise ConfigError([f"--config: {file_name!r}: cannot be read: {why}"]) from None
