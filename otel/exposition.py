"""Counters, gauges and histograms as Prometheus reads them: one table of series, and the rules of both text formats.

OpenMetrics 1.0 is the whole: only it has exemplars, single exchanges that a number stands for, by their trace ids.
The older text format 0.0.4 is the same without them. Who asks says in `Accept` which one it reads; what says nothing
of it gets the older one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END: Final = "# EOF"
"""The last line of OpenMetrics: without it the text was cut short."""

_MARK: Final = " # "
"""What stands before an exemplar; it may also stand in a label."""
_ESCAPE: Final = re.compile(r"\\(.)")
_OPEN_VERSIONS: Final = frozenset({"", "1.0.0"})
_SAMPLE: Final = re.compile(
    r"""(?P<key>[a-zA-Z_:][a-zA-Z0-9_:]*+(?:\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\})?)\ """
    r"""(?P<value>[^\ ]++)(?:\ \#\ (?P<exemplar>.++))?""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One exchange that a number stands for. at_ns: when it was counted, since 1970."""

    trace_id: str
    value: float
    at_ns: int

    def __str__(self) -> str:
        return f'{{trace_id="{_quoted(self.trace_id)}"}} {number(self.value)} {self.at_ns / 1e9:.3f}'


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a histogram has measured for one set of labels.

    bounds: upper ends of the buckets, rising; there is one more bucket without an end. counts: by bucket, not added
    up. exemplars: by bucket.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    exemplars: tuple[Exemplar | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """What a counter has counted, and the exchange that it counted last."""

    count: int
    exemplar: Exemplar | None


Value = int | float | Counted | Distribution


@dataclass(frozen=True, slots=True)
class Series:
    """One metric: its samples by their labels. kind: `counter`, `gauge` or `histogram`."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[Mapping[str, str], Value], ...]


def series(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], Value]]) -> Series:
    return Series(name, kind, text, tuple(samples))


def single(name: str, kind: str, text: str, value: int | float) -> Series:
    return Series(name, kind, text, (({}, value),))


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. key: name and labels as they are written. exemplar: as written, too; empty for none."""

    key: str
    value: str
    exemplar: str = ""

    def __str__(self) -> str:
        return f"{self.key} {self.value}{_MARK}{self.exemplar}" if self.exemplar else f"{self.key} {self.value}"


def exposition(all_series: Iterable[Series]) -> str:
    """The text format, version 0.0.4."""
    return classic(openmetrics(all_series))


def openmetrics(all_series: Iterable[Series]) -> str:
    """OpenMetrics 1.0."""
    lines = []
    for each in all_series:
        lines += heading(each.name, each.kind, _quoted(each.help))
        for labels, value in each.samples:
            lines += _lines(each.name, labels, value)
    return "".join(f"{line}\n" for line in (*lines, END))


def heading(name: str, kind: str, text: str) -> list[str]:
    """What stands above the samples of a metric in OpenMetrics, where a counter is called without its `_total`.

    text: with its quotes and breaks escaped.
    """
    family = name.removesuffix("_total") if kind == "counter" else name
    return [f"# TYPE {family} {kind}", f"# HELP {family} {text}"]


def sampled_as(family: str, kind: str) -> str:
    """What the samples of a metric are called below its heading in OpenMetrics; those of a histogram have more ends."""
    return f"{family}_total" if kind == "counter" else family


def classic(text: str) -> str:
    """Our OpenMetrics in the text format 0.0.4."""
    lines: list[str] = []
    kind = ""
    for line in text.split("\n"):  # not `splitlines`, which would also split at what a label may hold
        if line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            lines.append(f"# TYPE {sampled_as(name, kind)} {kind}")
        elif line.startswith("# HELP "):
            name, _, said = line.removeprefix("# HELP ").partition(" ")
            lines.insert(-1, f"# HELP {sampled_as(name, kind)} {_ESCAPE.sub(_unless_quote, said)}")
        elif line and line != END:
            sample = sample_of(line) if _MARK in line else None
            lines.append(line if sample is None else f"{sample.key} {sample.value}")
    return "".join(f"{line}\n" for line in lines)


def sample_of(line: str) -> Sample | None:
    """A line of samples, taken apart; None where it is none."""
    found = _SAMPLE.fullmatch(line)
    return None if found is None else Sample(found["key"], found["value"], found["exemplar"] or "")


def wants_openmetrics(accept: str) -> bool:
    """Whether an `Accept` field likes OpenMetrics at least as well as the older format."""
    liked = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for offer in accept.lower().split(","):
        kind, *given = (part.strip() for part in offer.split(";"))
        parameters = dict(part.partition("=")[::2] for part in given)
        is_known = kind == "text/plain" or parameters.get("version", "").strip('"') in _OPEN_VERSIONS
        if kind in liked and is_known:
            liked[kind] = max(liked[kind], _quality(parameters.get("q", "1")))
    return 0.0 < liked["application/openmetrics-text"] >= liked["text/plain"]


def number(value: int | float) -> str:
    """A number as both formats want it."""
    match value:
        case float() if value == float("inf"):
            return "+Inf"
        case float() if value == float("-inf"):
            return "-Inf"
        case float() if value != value:  # noqa: PLR0124  # the one value that is not itself
            return "NaN"
    return str(value)


def _lines(name: str, labels: Mapping[str, str], value: Value) -> Iterator[str]:
    """The lines of one sample, many for a histogram: with a hundred models there are ten thousands of them."""
    written = _labels(labels)
    if isinstance(value, Counted):
        yield f"{name}{written} {value.count}{_told(value.exemplar)}"
    elif isinstance(value, Distribution):
        bucket = f'{name}_bucket{written[:-1]},le="' if written else f'{name}_bucket{{le="'
        count = 0
        exemplars = value.exemplars or (None,) * len(value.counts)
        for end, more, exemplar in zip(_ends(value.bounds), value.counts, exemplars, strict=True):
            count += more
            yield f'{bucket}{end}"}} {count}{_told(exemplar)}'
        yield f"{name}_sum{written} {number(value.sum)}"
        yield f"{name}_count{written} {count}"
    else:
        yield f"{name}{written} {number(value)}"


@lru_cache
def _ends(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The upper ends of the buckets as they are written."""
    return (*(number(float(bound)) for bound in bounds), "+Inf")


def _told(exemplar: Exemplar | None) -> str:
    return "" if exemplar is None else f"{_MARK}{exemplar}"


def _unless_quote(escape: re.Match[str]) -> str:
    """The older format does not escape quotes in a help."""
    return '"' if escape[1] == '"' else escape[0]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
