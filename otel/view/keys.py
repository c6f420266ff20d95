"""One JSON object of an answer, read key by key: what is missing or of another kind is an error that names the key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from otel.view.text import clean

LARGEST: Final = 1e12  # no count and no seconds of one request are larger: a terabyte, 31,000 years
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


class AnswerError(ValueError):
    """The answer lacks a key that the view needs, or has it in another form. The message begins with the key."""


class Keys:
    """One object of an answer while it is read: each getter names the key in its error and ticks it off."""

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, Mapping):
            raise AnswerError(f"{where or 'answer'}: must be an object, is {kind_of(value)}")
        self._value = value
        self._where = where
        self._read: set[str] = set()
        self._inner: list[Keys] = []

    @property
    def given(self) -> Mapping[str, object]:
        """The object as it came."""
        return self._value

    def _get(self, key: str) -> object:
        self._read.add(key)
        if key not in self._value:
            raise AnswerError(f"{self._at(key)}: missing from the answer")
        return self._value[key]

    def _at(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def inner(self, key: str) -> Keys:
        return self._opened(self._get(key), self._at(key))

    def maybe(self, key: str) -> Keys | None:
        value = self._get(key)
        return None if value is None else self._opened(value, self._at(key))

    def each(self, key: str) -> list[Keys]:
        return [self._opened(value, f"{self._at(key)}[{index}]") for index, value in enumerate(self._list(key))]

    def _opened(self, value: object, where: str) -> Keys:
        keys = Keys(value, where)
        self._inner.append(keys)
        return keys

    def rows(self, key: str, length: int) -> Iterator[tuple[list[object], str]]:
        for index, row in enumerate(self._list(key)):
            if not isinstance(row, list) or len(row) < length:
                raise AnswerError(f"{self._at(key)}[{index}]: must be a list of {length}, is {kind_of(row)}")
            yield row, f"{self._at(key)}[{index}]"

    def _list(self, key: str) -> list[object]:
        value = self._get(key)
        if not isinstance(value, list):
            raise AnswerError(f"{self._at(key)}: must be a list, is {kind_of(value)}")
        return value

    def mapping(self, key: str) -> Mapping[object, object]:
        value = self._get(key)
        if not isinstance(value, Mapping):
            raise AnswerError(f"{self._at(key)}: must be an object, is {kind_of(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(as_text(value, f"{self._at(key)}[{index}]") for index, value in enumerate(self._list(key)))

    def text(self, key: str) -> str:
        return as_text(self._get(key), self._at(key))

    def maybe_text(self, key: str) -> str | None:
        return None if self._get(key) is None else self.text(key)

    def later_text(self, key: str) -> str | None:
        """A text that answers of an older collector do not have."""
        return self.maybe_text(key) if self.has(key) else None

    def has(self, key: str) -> bool:
        """Whether the key is there, for those that not everybody answers with."""
        return key in self._value

    def instant(self, key: str) -> str:
        value = self.text(key)
        if not _INSTANT.match(value):
            raise AnswerError(f"{self._at(key)}: must be an RFC 3339 time, is {value!r}")
        return value

    def maybe_instant(self, key: str) -> str | None:
        return None if self._get(key) is None else self.instant(key)

    def seconds(self, key: str) -> float:
        return as_number(self._get(key), self._at(key))

    def maybe_seconds(self, key: str) -> float | None:
        return None if self._get(key) is None else self.seconds(key)

    def whole(self, key: str) -> int:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
            raise AnswerError(f"{self._at(key)}: must be a whole number, is {kind_of(value)}")
        return value

    def maybe_whole(self, key: str) -> int | None:
        return None if self._get(key) is None else self.whole(key)

    def flag(self, key: str) -> bool:
        value = self._get(key)
        if not isinstance(value, bool):
            raise AnswerError(f"{self._at(key)}: must be true or false, is {kind_of(value)}")
        return value

    def maybe_flag(self, key: str) -> bool | None:
        return None if self._get(key) is None else self.flag(key)

    def ignore(self, *names: str) -> None:
        """Tick off keys that no view shows and that may be missing."""
        self._read.update(names)

    def strangers(self) -> tuple[str, ...]:
        """The keys nobody asked for, here and inside, without the indices of lists, each once."""
        found = [clean(self._at(str(key))) for key in self._value if key not in self._read]
        for keys in self._inner:
            found += keys.strangers()
        return tuple(dict.fromkeys(re.sub(r"\[\d+\]", "[]", name) for name in found))


def as_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise AnswerError(f"{where}: must be a text, is {kind_of(value)}")
    return clean(value)


def as_number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise AnswerError(f"{where}: must be a number up to {LARGEST:.0e}, is {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number" if abs(value) <= LARGEST else "a number too large"
        case str():
            return "a text"
        case list():
            return f"a list of {len(value)}"
    return "an object"
