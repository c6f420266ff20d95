"""Put the expositions of several workers into one, as if one process had counted everything.

They are texts of OpenMetrics. All workers run the same code, so a sample is the same sample where it is written the
same: its name and labels are compared as text, never taken apart. What counts up and what stands now is added; an age,
a state and a mark that says what runs are the greatest of all. Of two exemplars the younger one stays.

Nothing that was shown may count down again, or a reader of the metrics takes the rest for an increase. So what a
worker had counted stays when the worker is gone: `lasting` is that part of its last exposition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from otel.exposition import END, Sample, heading, number, sample_of, sampled_as

GREATEST: Final = ("_info", "_oldest_seconds", "_oldest_silence_seconds", "_not_after_seconds", "_is_on", "_level")
"""Ends of the names of gauges that are no amounts: of two workers the greater value is that of both."""

LEFT: Final = "gapline_export_left_total"
LEFT_HELP: Final = "spans that a worker had when it ended: lost, or restored from the spool"
_WAITING: Final = frozenset({"gapline_export_queue_spans", "gapline_spool_spans"})
_NEWS: Final = "gapline_log_records_queue"
_NEWS_LOST: Final = "gapline_log_records_lost_total"
_NEWS_LEFT: Final = f'{_NEWS_LOST}{{reason="left"}}'
_COUNTING: Final = frozenset({"counter", "histogram"})
_KINDS: Final = _COUNTING | {"gauge"}
_OF_HISTOGRAM: Final = frozenset({"_bucket", "_sum", "_count"})


class MergeError(ValueError):
    """An exposition is not one that `otel.exposition` writes, or two of them contradict each other."""


@dataclass(slots=True)
class _Family:
    """One metric: its samples, by name and labels as they are written, and the exemplars of some of them."""

    name: str
    kind: str
    help: str = ""
    samples: dict[str, float] = field(default_factory=dict)
    exemplars: dict[str, str] = field(default_factory=dict)

    @property
    def is_counting(self) -> bool:
        return self.kind in _COUNTING

    def has(self, key: str) -> bool:
        """Whether a sample is called so."""
        name = key.partition("{")[0]
        if self.kind != "histogram":
            return name == self.name
        return name.startswith(self.name) and name[len(self.name) :] in _OF_HISTOGRAM

    def add(self, other: _Family) -> None:
        if other.kind != self.kind:
            raise MergeError(f"{self.name}: is a {self.kind} and a {other.kind}")
        is_greatest = self.kind == "gauge" and self.name.endswith(GREATEST)
        for key, value in other.samples.items():
            if key not in self.samples:
                self.samples[key] = value
            elif is_greatest:
                self.samples[key] = max(self.samples[key], value)
            else:
                self.samples[key] += value
        for key, exemplar in other.exemplars.items():
            self.exemplars[key] = max(self.exemplars.get(key, exemplar), exemplar, key=_counted_at_s)

    def lines(self) -> Iterator[str]:
        yield from heading(self.name, self.kind, self.help)
        for key, value in self.samples.items():
            exemplar = self.exemplars.get(key)
            yield f"{key} {number(value)}" if exemplar is None else str(Sample(key, number(value), exemplar))


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

    is_over: it is gone, and so are the spans and the news that waited in it.
    """
    families = _families(text)
    if is_over:
        _lose_news({family.name: family for family in families})
    waiting = [value for family in families if family.name in _WAITING for value in family.samples.values()]
    left = [_Family(LEFT, "counter", LEFT_HELP, {LEFT: sum(waiting)})] if waiting and is_over else []
    return _written([*(family for family in families if family.is_counting), *left])


def _lose_news(families: dict[str, _Family]) -> None:
    """Count as left what would have counted itself so, had its process ended in order."""
    waiting, lost = families.get(_NEWS), families.get(_NEWS_LOST)
    if waiting is not None and lost is not None:
        lost.samples[_NEWS_LEFT] = lost.samples.get(_NEWS_LEFT, 0) + sum(waiting.samples.values())


def value_of(text: str, name: str) -> float:
    """What an exposition says of one metric, over all its labels; 0 where it is not there. Raises MergeError."""
    return sum(sum(family.samples.values()) for family in _families(text) if family.name == name)


def _written(families: Iterable[_Family]) -> str:
    return "".join(f"{line}\n" for family in families for line in family.lines()) + f"{END}\n"


def _families(text: str) -> list[_Family]:
    """The metrics of one exposition; an empty text has none. Raises MergeError where a line is none of ours."""
    families: dict[str, _Family] = {}
    family = None
    *lines, end = text.removesuffix("\n").split("\n")  # not `splitlines`, which would also split at what a label holds
    if text and end != END:
        raise MergeError("must end with its end mark: it is cut short")
    for line in lines:
        if line.startswith("# TYPE "):
            family = _begun(*line.removeprefix("# TYPE ").partition(" ")[::2])
            if family.name in families:
                raise MergeError(f"{family.name}: stands there twice")
            families[family.name] = family
        elif line.startswith("# HELP "):
            name, _, said = line.removeprefix("# HELP ").partition(" ")
            if family is None or family.samples or family.help or sampled_as(name, family.kind) != family.name:
                raise MergeError(f"{name}: its help must stand once, under its own kind")
            family.help = said
        else:
            sample = sample_of(line)
            if sample is None or family is None or sample.key in family.samples or not family.has(sample.key):
                raise MergeError(f"{line!r}: must be a sample that stands once, under its own metric")
            family.samples[sample.key] = _number(sample.value)
            if sample.exemplar:
                _counted_at_s(sample.exemplar)
                family.exemplars[sample.key] = sample.exemplar
    return list(families.values())


def _begun(name: str, kind: str) -> _Family:
    if kind not in _KINDS:
        raise MergeError(f"{name}: {kind!r} must be a known kind")
    return _Family(sampled_as(name, kind), kind)


def _counted_at_s(exemplar: str) -> float:
    """When it was counted, since 1970."""
    return _number(exemplar.rpartition(" ")[2])


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
