"""Counters and gauges as Prometheus text: one table of series, and the rules of the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Series:
    """One metric: its samples by their labels. kind: `counter` or `gauge`."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[Mapping[str, str], int | float], ...]


def series(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], int | float]]) -> Series:
    return Series(name, kind, text, tuple(samples))


def single(name: str, kind: str, text: str, value: int | float) -> Series:
    return Series(name, kind, text, (({}, value),))


def exposition(all_series: Iterable[Series]) -> str:
    """The text format, version 0.0.4."""
    lines = []
    for each in all_series:
        lines += [f"# HELP {each.name} {_escaped(each.help)}", f"# TYPE {each.name} {each.kind}"]
        lines += [f"{each.name}{_labels(labels)} {value}" for labels, value in each.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
