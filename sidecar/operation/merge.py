"""Put the expositions of several workers into one, as if one process had counted everything.

All workers run the same code, so a sample is the same sample where it is written the same: its name and labels are
compared as text, never taken apart. What counts up and what stands now is added; an age, a state and a mark that says
what runs are the greatest of all.

Nothing that was shown may count down again, or a reader of the metrics takes the rest for an increase. So what a
worker had counted stays when the worker is gone: `lasting` is that part of its last exposition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

GREATEST: Final = ("_info", "_oldest_seconds", "_not_after_seconds", "_is_on", "_level")
"""Ends of the names of gauges that are no amounts: of two workers the greater value is that of both."""

LEFT: Final = "gapline_export_left_total"
LEFT_HELP: Final = "spans that a worker had when it ended: lost, or restored from the spool"
_WAITING: Final = frozenset({"gapline_export_queue_spans", "gapline_spool_spans"})
_COUNTING: Final = frozenset({"counter", "histogram"})
_KINDS: Final = _COUNTING | {"gauge"}
_OF_HISTOGRAM: Final = ("", "_bucket", "_sum", "_count")


class MergeError(ValueError):
    """An exposition is not one that `otel.exposition` writes, or two of them contradict each other."""


@dataclass(slots=True)
class _Family:
    """One metric and its samples, by name and labels as they are written."""

    name: str
    kind: str
    help: str
    samples: dict[str, float] = field(default_factory=dict)

    @property
    def is_counting(self) -> bool:
        return self.kind in _COUNTING

    def add(self, other: _Family) -> None:
        if other.kind != self.kind:
            raise MergeError(f"{self.name}: is a {self.kind} and a {other.kind}")
        is_greatest = not self.is_counting and self.name.endswith(GREATEST)
        for key, value in other.samples.items():
            if key not in self.samples:
                self.samples[key] = value
            elif is_greatest:
                self.samples[key] = max(self.samples[key], value)
            else:
                self.samples[key] += value

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for key, value in self.samples.items():
            yield f"{key} {value}"


def merged(expositions: Iterable[str]) -> str:
    """All of them as one, in the order in which each metric first appears. Raises MergeError."""
    families: dict[str, _Family] = {}
    for text in expositions:
        for family in _families(text):
            if family.name in families:
                families[family.name].add(family)
            else:
                families[family.name] = family
    return _written(families.values())


def lasting(text: str, *, is_over: bool = False) -> str:
    """What of an exposition stays true while its process is silent: what has been counted. Raises MergeError.

    is_over: it is gone, and so are the spans that waited in it.
    """
    families = list(_families(text))
    waiting = [value for family in families if family.name in _WAITING for value in family.samples.values()]
    left = [_Family(LEFT, "counter", LEFT_HELP, {LEFT: sum(waiting)})] if waiting and is_over else []
    return _written([*(family for family in families if family.is_counting), *left])


def value_of(text: str, name: str) -> float:
    """What an exposition says of one metric, over all its labels; 0 where it is not there. Raises MergeError."""
    return sum(sum(family.samples.values()) for family in _families(text) if family.name == name)


def _written(families: Iterable[_Family]) -> str:
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _families(text: str) -> list[_Family]:
    """The metrics of one exposition. Raises MergeError where a line is none that `otel.exposition` writes."""
    families: dict[str, _Family] = {}
    family = None
    for line in text.split("\n"):  # not `splitlines`, which would also split at what a label may hold
        if line.startswith("# HELP "):
            name, _, said = line.removeprefix("# HELP ").partition(" ")
            if name in families:
                raise MergeError(f"{name}: stands there twice")
            families[name] = family = _Family(name, "", said)
        elif line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            if family is None or family.name != name or family.kind or kind not in _KINDS:
                raise MergeError(f"{name}: {kind!r} must be the kind of the metric above it, and a known one")
            family.kind = kind
        elif line:
            key, _, value = line.rpartition(" ")
            if family is None or not _belongs(key.partition("{")[0], family) or key in family.samples:
                raise MergeError(f"{key!r}: must stand once, under its own metric")
            family.samples[key] = _number(value)
    if unkind := [name for name, found in families.items() if not found.kind]:
        raise MergeError(f"{unkind[0]}: must have a kind")
    return list(families.values())


def _belongs(name: str, family: _Family) -> bool:
    if family.kind == "histogram":
        return any(name == family.name + end for end in _OF_HISTOGRAM)
    return bool(family.kind) and name == family.name


def _number(text: str) -> float:
    """A whole number stays one, so that merging one exposition changes nothing."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise MergeError(f"{text!r}: must be a number") from None
