"""Files of Kubernetes objects, read and written: YAML documents or JSON, and the pods that stand in them.

A document in which nothing changes is written as it was read, with its comments. What is written can be read in one way
only: text that some reader of YAML takes for a number, a truth or nothing stands in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from k8s.pods import CONTAINERS, Object, items, part

_BREAK: Final = re.compile(r"^---[ \t\r]*(?:(?<=\s)#.*)?$\n?", re.MULTILINE)
"""Between two documents: nothing within one may begin so (YAML 1.2, 9.1.2). One that begins on the line itself stays
with what stands before it, which no reader of one document takes for one."""
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*(?::[A-Za-z0-9_./@-]+)*")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_LINE_CHARS: Final = 1_000_000
"""Lines are not folded: a folded command line is hard to read, and hard to compare."""
VALUES: Final = 1_000_000
"""In one document: an object has 3 MB at most. A few lines of aliases of aliases stand for more, and an alias within
itself for endlessly many."""
_TEMPLATES: Final = (
    ("spec", "template"),
    ("spec", "jobTemplate", "spec", "template"),
    ("spec", "leaderWorkerTemplate", "leaderTemplate"),
    ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ("spec", "headGroupSpec", "template"),
    ("spec", "rayClusterConfig", "headGroupSpec", "template"),
    ("spec", "rayClusterSpec", "headGroupSpec", "template"),
)
_GROUPS: Final = (
    ("spec", "workerGroupSpecs"),
    ("spec", "rayClusterConfig", "workerGroupSpecs"),
    ("spec", "rayClusterSpec", "workerGroupSpecs"),
)
"""Lists of what has a template each."""
_JOBS: Final = frozenset({"Job", "CronJob", "RayJob"})


class DocumentError(ValueError):
    """The text holds no objects that can be read. The message says where."""


@dataclass(slots=True)
class Document:
    """One document. text: as it was read. value: what it says; None for nothing. is_changed: must be written anew."""

    text: str
    value: Any
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A pod or a template of pods within an object. path: keys and indices that lead there; empty for a pod itself."""

    kind: str
    name: str
    namespace: str | None
    pod: dict[str, Any]
    path: tuple[str | int, ...]
    owner_kind: str | None

    def __str__(self) -> str:
        where = "".join(f"[{step}]" if isinstance(step, int) else "" for step in self.path)
        inner = next((f" {step}" for step in self.path if step in _TOLD), "")
        return f"{self.kind} {self.name or '(no name)'}{inner}{where}"


_TOLD: Final = frozenset({"leaderTemplate", "workerTemplate", "headGroupSpec", "workerGroupSpecs"})
"""Steps that tell the templates of one object apart."""


def read(text: str) -> list[Document]:
    """The documents of a text. Raises DocumentError."""
    found = []
    for number, piece in enumerate(_BREAK.split(text), start=1):
        try:
            value = yaml.load(piece, Loader=_Loader)  # noqa: S506  # a SafeLoader
        except yaml.YAMLError as error:
            raise DocumentError(f"document {number}: {_said(error)}") from None
        except RecursionError:
            raise DocumentError(f"document {number}: is nested too deeply") from None
        except ValueError as error:  # a number of thousands of digits
            raise DocumentError(f"document {number}: {error}") from None
        if _has_more_than(VALUES, value):
            raise DocumentError(f"document {number}: its aliases stand for more than {VALUES:,} values")
        if value is not None and not isinstance(value, dict):
            raise DocumentError(f"document {number}: is a {type(value).__name__}, not an object")
        if value is not None or piece.strip():
            found.append(Document(piece, value))
    return found


def written(documents: list[Document], *, is_json: bool = False) -> str:
    """The documents as one text."""
    if is_json:
        values = [document.value for document in documents if document.value is not None]
        return "".join(json.dumps(value, indent=2, ensure_ascii=False) + "\n" for value in values)
    pieces = [
        yaml.dump(each.value, Dumper=_Dumper, sort_keys=False, width=_LINE_CHARS, allow_unicode=True)
        if each.is_changed
        else each.text.rstrip("\n") + "\n"
        for each in documents
    ]
    return "---\n".join(pieces)


def objects(documents: list[Document]) -> Iterator[Object]:
    """Every object, those of lists too."""
    for document in documents:
        if document.value is not None:
            yield from _flat(document.value)


def pods_in(value: Object) -> Iterator[Found]:
    """The pods and templates of an object, and of those in it when it is a list."""
    for each in _flat(value):
        kind, metadata = str(each.get("kind", "object")), part(each, "metadata")
        name, namespace = str(metadata.get("name", "")), metadata.get("namespace")
        owner = "Job" if kind in _JOBS else None
        if kind == "Pod":
            if isinstance(each, dict):
                yield Found(kind, name, namespace, each, (), None)
            continue
        for path in _paths(each):
            template = _at(each, path)
            if isinstance(template, dict) and items(part(template, "spec"), CONTAINERS):
                yield Found(kind, name, namespace, template, path, owner)


def _has_more_than(limit: int, value: object) -> bool:
    """Whether more values than that stand in this one, those behind an alias counted at each place."""
    left, count = [value], 0
    while left and count <= limit:
        count += 1
        found = left.pop()
        if isinstance(found, dict):
            left += found.values()
        elif isinstance(found, list):
            left += found
    return count > limit


def _flat(value: Object) -> Iterator[Object]:
    if str(value.get("kind", "")).endswith("List") and "items" in value:
        for each in items(value, "items"):
            if isinstance(each, Mapping):
                yield from _flat(each)
    else:
        yield value


def _paths(value: Object) -> Iterator[tuple[str | int, ...]]:
    yield from _TEMPLATES
    for group in _GROUPS:
        for index in range(len(items(part(value, *group[:-1]), group[-1]))):
            yield (*group, index, "template")


def _at(value: object, path: tuple[str | int, ...]) -> object:
    for step in path:
        try:
            value = value[step]  # type: ignore[index]  # what has no such place raises
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _said(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return where + str(getattr(error, "problem", None) or "is not YAML")


class _Loader(yaml.SafeLoader):
    """As Kubernetes reads: a date is text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Quotes what could be mistaken, and repeats what occurs twice."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)


def _text_node(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if '"' in text else '"')


_Dumper.add_representer(str, _text_node)
