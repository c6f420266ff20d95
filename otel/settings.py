"""Settings: one table of options, read from flags, environment and a TOML file, all errors listed at once.

An option named `idle_timeout` of the prefix GAPLINE_SIDECAR_ is the flag `--idle-timeout`, the variable
`GAPLINE_SIDECAR_IDLE_TIMEOUT` and the key `idle_timeout` in the file. A flag wins over the environment, the
environment over the file, the file over the default.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit


class ConfigError(ValueError):
    """The configuration cannot be used. `errors` lists every value at fault with the rule that it breaks."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


class BadItems(ValueError):  # noqa: N818  # as the others, it is caught as a ValueError
    """Items of a list break the rule. rules: by item."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{item!r}: {rule}" for item, rule in rules.items()))
        self.rules = rules


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. `parse` turns text into the value and raises ValueError with the rule that was broken.

    default is the value when nothing sets it, `REQUIRED` when something must. A switch takes no value as a
    flag and `true` or `false` elsewhere. is_list: the value is a list with commas, and the flag may be repeated.
    """

    name: str
    parse: Callable[[str], object]
    default: object
    help: str
    metavar: str = "VALUE"
    is_list: bool = False

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        return self.parse is switch


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class Address:
    """A host and port to listen on; port 0 lets the kernel choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


UNIX: Final = "unix:"
_UNIX_PATH_BYTES: Final = 107  # what `struct sockaddr_un` holds


@dataclass(frozen=True, slots=True)
class UnixPath:
    """A unix socket, by its absolute path."""

    path: str

    def __str__(self) -> str:
        return UNIX + self.path


Endpoint = Address | UnixPath


def add_flags(
    parser: argparse.ArgumentParser,
    options: Iterable[Option],
    *,
    prefix: str,
    headings: Mapping[str, str] | None = None,
) -> None:
    """Give the parser a flag for every option, with its default and its variable in the help.

    headings: what stands above an option there, by its name, and holds for those that follow.
    """
    group: argparse._ActionsContainer = parser
    for option in options:
        if headings and option.name in headings:
            group = parser.add_argument_group(headings[option.name])
        text = f"{option.help} [{shown(option)}; {prefix}{option.name.upper()}]".replace("%", "%%")
        if option.is_switch:
            group.add_argument(option.flag, action="store_const", const="true", default=None, help=text)
        else:
            action = _Joined if option.is_list else "store"
            group.add_argument(option.flag, action=action, default=None, metavar=option.metavar, help=text)


class _Joined(argparse.Action):
    """Each further use of the flag adds to the list."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        del parser, option
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else f"{before},{values}")


def load(
    options: Sequence[Option],
    *,
    prefix: str,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
    file_text: str | None = None,
    known_variables: Iterable[str] = (),
) -> dict[str, object]:
    """Every option's value by name. Raises ConfigError with all errors of all three sources at once. See `read`."""
    values, errors = read(
        options,
        prefix=prefix,
        flags=flags,
        environ=environ,
        file_text=file_text,
        known_variables=known_variables,
    )
    if errors:
        raise ConfigError(errors)
    return values


def read(
    options: Sequence[Option],
    *,
    prefix: str,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
    file_text: str | None = None,
    known_variables: Iterable[str] = (),
) -> tuple[dict[str, object], list[str]]:
    """The value of every option that has one by name, and all errors of all three sources.

    flags and file keys are option names. A key of the file, or a variable that begins with the prefix,
    which is no option's is an error too, unless known_variables names it: a typo must not be silence.
    """
    errors: list[str] = []
    from_file: dict[str, object] = {}
    is_file_read = True
    if file_text is not None:
        try:
            from_file = tomllib.loads(file_text)
        except tomllib.TOMLDecodeError as error:
            errors.append(f"file: not TOML: {error}")
            is_file_read = False  # whatever is missing may stand in it
    names = {option.name for option in options}
    errors += [f"file: {key}: no such option" for key in from_file if key not in names]
    allowed = {prefix + name.upper() for name in names} | set(known_variables)
    errors += [f"{key}: no such option" for key in environ if key.startswith(prefix) and key not in allowed]
    values: dict[str, object] = {}
    for option in options:
        variable = prefix + option.name.upper()
        if flags.get(option.name) is not None:
            source, text = option.flag, flags[option.name]
        elif variable in environ:
            source, text = variable, environ[variable]
        elif option.name in from_file:
            source, text = f"file: {option.name}", _text_of(from_file[option.name])
        elif option.default is REQUIRED:
            if is_file_read:
                errors.append(f"{option.flag}: required (or {variable}, or {option.name} in the file)")
            continue
        else:
            values[option.name] = option.default
            continue
        try:
            values[option.name] = option.parse(str(text))
        except BadItems as error:
            errors += [f"{source}: {item!r}: {rule}" for item, rule in error.rules.items()]
        except ValueError as error:
            errors.append(f"{source}: {text!r}: {error}")
    return values, errors


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def shown(option: Option) -> str:
    """The default as a person would write it: 7d, 32M, on, or `required`."""
    value = option.default
    if value is REQUIRED:
        return "required"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(_rounded(each, _SECONDS_SHOWN) if isinstance(each, float) else str(each) for each in value)
    if isinstance(value, float):  # all of them are times, whatever more their parser asks for
        return _rounded(value, _SECONDS_SHOWN)
    if option.parse is size_bytes:
        return _rounded(value, _BYTES_SHOWN)
    return str(value)


def _rounded(value: object, units: Mapping[str, float]) -> str:
    """The value in the largest unit in which it is a whole number."""
    assert isinstance(value, int | float)
    unit = next((unit for unit, size in units.items() if value and value % size == 0), "")
    return f"{value / units[unit]:g}{unit}" if unit else f"{value:g}"


# Parsers: text to value; the ValueError says the rule.


def switch(text: str) -> bool:
    match text.lower():
        case "true" | "1" | "on" | "yes":
            return True
        case "false" | "0" | "off" | "no":
            return False
    raise ValueError("is not true or false")


def text(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise ValueError("must be 1 to 63 of letters, digits, '.', '_', '-' and begin with a letter or digit")
    return value


def path(value: str) -> PurePath:
    return PurePath(text(value))


def address(value: str) -> Address:
    host, colon, port = value.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError("must be HOST:PORT with a port from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 host must stand in brackets, [HOST]:PORT")
    return Address(host or "0.0.0.0", int(port))  # noqa: S104  # an empty host means every interface, as in nginx


def unix_path(value: str) -> UnixPath:
    path = value.removeprefix(UNIX)
    if not path.startswith("/") or len(path.encode()) > _UNIX_PATH_BYTES:
        raise ValueError(f"must be unix:/PATH, absolute and of at most {_UNIX_PATH_BYTES} bytes")
    return UnixPath(path)


def endpoint(value: str) -> Endpoint:
    return unix_path(value) if value.startswith(UNIX) else address(value)


def http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be http://HOST[:PORT][/PATH] or https://…")
    try:
        parts.port  # noqa: B018  # the property parses, and raises where it cannot
    except ValueError:
        raise ValueError("the port must be a number from 0 to 65535") from None
    if parts.username or parts.query or parts.fragment:
        raise ValueError("must have no user, query or fragment")
    return value.rstrip("/")


MOST_SECONDS: Final = 10_000 * 86400.0
"""More is a mistyped number, and would not fit what counts nanoseconds."""
_SECONDS: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?\Z")
_SECONDS_SHOWN: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_SECONDS_IN: Final = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: str) -> float:
    match = _SECONDS.match(value)
    if match is None:
        raise ValueError("must be a time such as 250ms, 30s, 5m, 12h or 7d")
    if (found := float(match[1]) * _SECONDS_IN[match[2]]) > MOST_SECONDS:
        raise ValueError("must be at most 10000d")
    return found


_BYTES_SHOWN: Final = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
_BYTES: Final = re.compile(r"([0-9]+)(?:([KMG])i?)?B?\Z", re.IGNORECASE)


def size_bytes(value: str) -> int:
    match = _BYTES.match(value)
    if match is None:
        raise ValueError("must be a size such as 4096, 64K, 32M or 10G")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[(match[2] or "").upper()]


def count(value: str) -> int:
    if not value.isascii() or not value.isdigit():
        raise ValueError("must be a whole number, 0 or more")
    return int(value)


def choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return value

    return parse


def items(parse_one: Callable[[str], object]) -> Callable[[str], tuple[object, ...]]:
    """The same parser for each item of a list with commas."""

    def parse(value: str) -> tuple[object, ...]:
        found, broken = [], dict[str, str]()
        for item in (part.strip() for part in value.split(",") if part.strip()):
            try:
                found.append(parse_one(item))
            except ValueError as error:
                broken[item] = str(error)
        if broken:
            raise BadItems(broken)
        return tuple(found)

    return parse
