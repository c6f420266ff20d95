"""How long a stream may be silent: the limits, and the rules that change them for a path or a model.

A rule is what `--guard-rule` takes, `path=GLOB;model=GLOB;first=TIME;next=TIME;content=TIME;signed=true;off=true`.
It fits where both globs do (one that is not there fits everything), and says something about each field that it
has. Of several that fit, the first that says something about a field decides it; the options decide the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Any, Final, TypeVar

from otel import settings

T = TypeVar("T")

MS_NS: Final = 1_000_000
"""Limits are whole milliseconds: they are looked at ten times a second, and so they survive being written as text."""
GLOB_CHARS: Final = 300
"""Longest glob: as much as is kept of a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """How long one stream may be silent, each None for as long as it likes.

    first_event_ns: before its first event. next_event_ns: after that. content_ns: without an event, though comments
    and pings come.
    """

    first_event_ns: int | None = None
    next_event_ns: int | None = None
    content_ns: int | None = None

    @classmethod
    def of_seconds(cls, *, first_event: float, next_event: float, content: float) -> GuardLimits:
        """As the options have them, where 0 is no limit. Raises ValueError for what rounds to none and is none."""
        first_event_ns, next_event_ns, content_ns = map(limit_ns_of, (first_event, next_event, content))
        return cls(
            first_event_ns=first_event_ns or None, next_event_ns=next_event_ns or None, content_ns=content_ns or None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is different for some paths and models. None: the rule says nothing of it; a limit of 0: there is none.

    is_signed: what passes there is signed, so nothing is to be put into it. is_off: nothing is guarded there.
    """

    path: str | None = None
    model: str | None = None
    first_event_ns: int | None = None
    next_event_ns: int | None = None
    content_ns: int | None = None
    is_signed: bool | None = None
    is_off: bool | None = None

    def __str__(self) -> str:
        values = ((key, getattr(self, name), show) for key, (name, _, show) in _FIELDS.items())
        return ";".join(f"{key}={show(value)}" for key, value, show in values if value is not None)

    @property
    def has_limit(self) -> bool:
        """It says something of a limit, or that there is guarding at all."""
        limits = (self.first_event_ns, self.next_event_ns, self.content_ns)
        return self.is_off is False or any(limit_ns is not None for limit_ns in limits)

    @property
    def names_path(self) -> bool:
        """It is about paths that somebody chose; `*` is every one."""
        return bool((self.path or "").strip("*"))


def rule(value: str) -> Rule:
    """The rule that a text says; `str` gives the text back. Raises ValueError with the rule that was broken."""
    said: dict[str, object] = {}
    for part in filter(None, map(str.strip, value.split(";"))):
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if key not in _FIELDS or not equals:
            raise ValueError(f"{part!r} is none of {', '.join(f'{known}=…' for known in _FIELDS)}")
        name, parse, _ = _FIELDS[key]
        if name in said:
            raise ValueError(f"{key}= must not stand there twice")
        try:
            said[name] = parse(text)
        except ValueError as error:
            raise ValueError(f"{part!r}: {error}") from None
    if not said.keys() - {"path", "model"}:
        raise ValueError("must say first=, next=, content=, signed= or off=")
    return Rule(**said)  # type: ignore[arg-type]  # each by its own parser


class Rules:
    """The limits of every stream: those of the options, and what the rules change."""

    __slots__ = ("_base", "_rules")

    def __init__(self, base: GuardLimits, rules: Sequence[Rule] = ()) -> None:
        self._base = base
        self._rules = tuple((each, _fits(each.path), _fits(each.model)) for each in rules)

    def limits_for(self, path: str, model: str | None, *, is_inference: bool) -> GuardLimits | None:
        """The limits of a stream, None where it is not guarded at all.

        path has no query. is_inference: it is a streamed answer of a model. Others are guarded only where a rule that
        names a path says a limit.
        """
        fitting = self._fitting(path, model)
        if not is_inference and not any(each.names_path and each.has_limit for each in fitting):
            return None
        if _first(each.is_off for each in fitting):
            return None
        said: tuple[Rule | GuardLimits, ...] = (*fitting, self._base)
        return GuardLimits(
            first_event_ns=_first(each.first_event_ns for each in said) or None,
            next_event_ns=_first(each.next_event_ns for each in said) or None,
            content_ns=_first(each.content_ns for each in said) or None,
        )

    def is_signed(self, path: str, model: str | None) -> bool:
        """A rule says that what passes there is signed."""
        return bool(_first(each.is_signed for each in self._fitting(path, model)))

    def _fitting(self, path: str, model: str | None) -> list[Rule]:
        return [each for each, is_path, is_model in self._rules if is_path(path) and is_model(model)]


def _first(said: Iterable[T | None]) -> T | None:
    return next((value for value in said if value is not None), None)


def _fits(glob: str | None) -> Callable[[str | None], bool]:
    """Whether a value fits; what is not known fits no glob, not even `*`."""
    if glob is None:
        return lambda _: True
    match = re.compile(translate(glob)).match
    return lambda value: value is not None and match(value) is not None


def limit_ns_of(seconds: float) -> int:
    """A limit in whole milliseconds, 0 for none. Raises ValueError for what rounds to none and is none."""
    limit_ns = round(seconds * 1_000) * MS_NS
    if limit_ns <= 0 < seconds:
        raise ValueError("must be 0, for none, or at least 1ms")
    return limit_ns


def _time(text: str) -> int:
    return limit_ns_of(settings.seconds(text))


def _shown_time(limit_ns: int) -> str:
    seconds, rest_ns = divmod(limit_ns, 1_000 * MS_NS)
    return f"{limit_ns // MS_NS}ms" if rest_ns else f"{seconds}s"


def _shown_switch(value: bool) -> str:
    return "true" if value else "false"


def _glob(text: str) -> str:
    if not text or len(text) > GLOB_CHARS or not text.isprintable():
        raise ValueError(f"a glob must be 1 to {GLOB_CHARS} characters, none of them a control character")
    return text


def _path_glob(text: str) -> str:
    if not text.startswith(("/", "*")):
        raise ValueError("a path must begin with / or *")
    return _glob(text)


_FIELDS: Final[dict[str, tuple[str, Callable[[str], object], Callable[[Any], str]]]] = {
    "path": ("path", _path_glob, str),
    "model": ("model", _glob, str),
    "first": ("first_event_ns", _time, _shown_time),
    "next": ("next_event_ns", _time, _shown_time),
    "content": ("content_ns", _time, _shown_time),
    "signed": ("is_signed", settings.switch, _shown_switch),
    "off": ("is_off", settings.switch, _shown_switch),
}
"""What a rule may say: the field of it, its parser, and how it is written."""
