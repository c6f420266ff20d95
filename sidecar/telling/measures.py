"""What numbers are kept between two looks at /metrics: counters, histograms, and the labels that they may have.

Times are added up as whole nanoseconds, so no sum is off however many there are; only what is shown is in seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from otel.exposition import Counted, Distribution, Exemplar, Series, Value, series

OTHER: Final = "other"
"""The label of every name that found no place of its own."""

Labels = tuple[str, ...]
"""The values of the labels of one sample, in the order of their names."""


class Names:
    """Which names of one kind have a place of their own as a label. over_count: exchanges whose name found none."""

    __slots__ = ("_known", "_limit_count", "over_count")

    def __init__(self, limit_count: int) -> None:
        self._limit_count = limit_count
        self._known: set[str] = set()
        self.over_count = 0

    def shown(self, name: str | None, *, is_borne_out: bool) -> str:
        """The name as a label; empty for none. is_borne_out: more than somebody's word stands for it; what is only
        that may take half of the places."""
        if name is None or name in self._known:
            return name or ""
        if len(self._known) < (self._limit_count if is_borne_out else self._limit_count // 2):
            self._known.add(name)
            return name
        self.over_count += 1
        return OTHER


def flag(*, is_so: bool) -> str:
    """Yes or no as a label."""
    return "true" if is_so else "false"


@dataclass(frozen=True, slots=True)
class Source:
    """The exchange that a number is of. at_ns: when it ended, since 1970."""

    trace_id: str
    at_ns: int


class Counters:
    """One counter by its labels. per_unit: how many of what is added make one of what is shown."""

    __slots__ = ("_help", "_label_names", "_last", "_name", "_per_unit", "_sums")

    def __init__(self, name: str, text: str, label_names: Labels, *, per_unit: int = 1) -> None:
        self._name, self._help, self._label_names, self._per_unit = name, text, label_names, per_unit
        self._sums: dict[Labels, int] = {}
        self._last: dict[Labels, Exemplar] = {}

    def begin(self, labels: Labels) -> None:
        """Show it from the start, or the first one would be no increase."""
        self._sums.setdefault(labels, 0)

    def add(self, labels: Labels, value: int, source: Source | None = None) -> None:
        """source: shown as the exemplar until there is a younger one."""
        self._sums[labels] = self._sums.get(labels, 0) + value
        if source is not None:
            self._last[labels] = Exemplar(source.trace_id, value / self._per_unit, source.at_ns)

    def series(self) -> Series:
        return series(
            self._name,
            "counter",
            self._help,
            [(_named(self._label_names, labels), self._shown(labels, value)) for labels, value in self._sums.items()],
        )

    def _shown(self, labels: Labels, value: int) -> Value:
        if self._per_unit != 1:
            return value / self._per_unit
        return Counted(value, self._last.get(labels))


class Histograms:
    """One histogram by its labels. bounds: upper ends of the buckets; per_unit: as for a counter."""

    __slots__ = ("_bounds", "_by_labels", "_ends", "_help", "_label_names", "_name", "_per_unit")

    def __init__(
        self, name: str, text: str, label_names: Labels, bounds: Sequence[float], *, per_unit: int = 10**9
    ) -> None:
        self._name, self._help, self._label_names, self._per_unit = name, text, label_names, per_unit
        self._bounds = tuple(bounds)
        self._ends = [round(bound * per_unit) for bound in bounds]
        self._by_labels: dict[Labels, _Histogram] = {}

    def add(self, labels: Labels, value: int | None, source: Source) -> None:
        """Nothing, where there was nothing to measure."""
        if value is not None:
            bucket = bisect_left(self._ends, value)  # the end of a bucket belongs to it
            self._at(labels).add(bucket, 1, value, Exemplar(source.trace_id, value / self._per_unit, source.at_ns))

    def add_many(self, labels: Labels, tally: Tally, source: Source) -> None:
        """All values of one exchange, whose greatest is the exemplar."""
        if not tally.counts:
            return
        greatest = Exemplar(source.trace_id, tally.greatest / self._per_unit, source.at_ns)
        found = self._at(labels)
        for end, count in tally.counts:
            found.add(len(self._ends) if end is None else bisect_left(self._ends, end), count, 0, None)
        found.add(bisect_left(self._ends, tally.greatest), 0, tally.sum, greatest)

    def series(self) -> Series:
        return series(
            self._name,
            "histogram",
            self._help,
            [
                (_named(self._label_names, labels), found.shown(self._bounds, self._per_unit))
                for labels, found in self._by_labels.items()
            ],
        )

    def _at(self, labels: Labels) -> _Histogram:
        found = self._by_labels.get(labels)
        if found is None:
            found = self._by_labels[labels] = _Histogram(len(self._ends) + 1)
        return found


class _Histogram:
    """One set of labels."""

    __slots__ = ("_counts", "_exemplars", "_sum")

    def __init__(self, bucket_count: int) -> None:
        self._counts = [0] * bucket_count
        self._exemplars: list[Exemplar | None] = [None] * bucket_count
        self._sum = 0

    def add(self, bucket: int, count: int, value: int, exemplar: Exemplar | None) -> None:
        self._counts[bucket] += count
        self._sum += value
        self._exemplars[bucket] = exemplar or self._exemplars[bucket]

    def shown(self, bounds: tuple[float, ...], per_unit: int) -> Distribution:
        return Distribution(bounds, tuple(self._counts), self._sum / per_unit, tuple(self._exemplars))


@dataclass(frozen=True, slots=True)
class Tally:
    """Many values, counted by buckets: counts by the upper end of each, None for the one without, the empty ones
    left out."""

    counts: tuple[tuple[int | None, int], ...]
    sum: int
    greatest: int


_NOTHING: Final = Tally((), 0, 0)


def tally(values: Sequence[int], ends: Sequence[int]) -> Tally:
    """Count them by buckets. A histogram can take it whose bounds are among these ends."""
    if not values:  # as of every answer that is no stream
        return _NOTHING
    counts = [0] * (len(ends) + 1)
    total = greatest = 0
    for value in values:
        counts[bisect_left(ends, value)] += 1
        total += value
        greatest = max(greatest, value)
    found = zip((*ends, None), counts, strict=True)
    return Tally(tuple((end, count) for end, count in found if count), total, greatest)


def _named(names: Labels, values: Labels) -> dict[str, str]:
    return dict(zip(names, values, strict=True))
