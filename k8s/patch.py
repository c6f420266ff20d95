"""Changes between two JSON documents as a JSON Patch (RFC 6902): find them, and apply them. Both directions.

Lists of objects that have names, as containers, volumes and variables do, are compared by those; before anything within
a named object is touched, the patch asks whether it is still the one that was meant.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

Json = Any
"""What `json.loads` may return."""
Operation = dict[str, Json]
_MISSING: Final = object()


class PatchError(ValueError):
    """The patch does not fit the document. The message names the operation and what is wrong with it."""


def difference(before: Json, after: Json) -> list[Operation]:
    """What makes `after` of `before`; empty where they are the same."""
    return list(_changes((), before, after))


def applied(document: Json, patch: Iterable[Mapping[str, Json]]) -> Json:
    """The document with the patch applied; the one that was given stays as it is. Raises PatchError."""
    made = copy.deepcopy(document)
    for operation in patch:
        made = _apply(made, operation)
    return made


def pointer(path: Sequence[str | int]) -> str:
    """A path as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def steps(text: str) -> list[str]:
    """A JSON Pointer taken apart; list indices stay text, since only the document tells what is a list."""
    if text and not text.startswith("/"):
        raise PatchError(f"path {text!r}: must begin with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def is_same(one: Json, other: Json) -> bool:
    """Whether they are the same JSON: to Python, `True` is 1 and `1` is `1.0`."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _changes(path: tuple[str | int, ...], before: Json, after: Json) -> Iterator[Operation]:
    if is_same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _changes_of_object(path, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        names = _names(before), _names(after)
        if names[0] is not None and names[1] is not None and _is_in_order(names[0], names[1]):
            yield from _changes_by_name(path, before, after, names[0], names[1])
        else:
            yield from _changes_by_place(path, before, after)
    else:
        yield {"op": "replace", "path": pointer(path), "value": after}


def _changes_of_object(
    path: tuple[str | int, ...], before: dict[str, Json], after: dict[str, Json]
) -> Iterator[Operation]:
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": pointer((*path, key))}
    for key, value in after.items():
        if key in before:
            yield from _changes((*path, key), before[key], value)
        else:
            yield {"op": "add", "path": pointer((*path, key)), "value": value}


def _changes_by_name(
    path: tuple[str | int, ...], before: list[Json], after: list[Json], old: list[str], new: list[str]
) -> Iterator[Operation]:
    """Removals from the end, then from the front what is new or changed: every index is right when its turn comes."""
    kept = {*new}
    for index in reversed(range(len(old))):
        if old[index] not in kept:
            yield {"op": "test", "path": pointer((*path, index, "name")), "value": old[index]}
            yield {"op": "remove", "path": pointer((*path, index))}
    known = dict(zip(old, before, strict=True))
    for index, (name, value) in enumerate(zip(new, after, strict=True)):
        if name not in known:
            yield {"op": "add", "path": pointer((*path, index)), "value": value}
        elif not is_same(known[name], value):
            yield {"op": "test", "path": pointer((*path, index, "name")), "value": name}
            yield from _changes((*path, index), known[name], value)


def _changes_by_place(path: tuple[str | int, ...], before: list[Json], after: list[Json]) -> Iterator[Operation]:
    for index in reversed(range(len(after), len(before))):
        yield {"op": "remove", "path": pointer((*path, index))}
    for index, value in enumerate(after):
        if index < len(before):
            yield from _changes((*path, index), before[index], value)
        else:
            yield {"op": "add", "path": pointer((*path, index)), "value": value}


def _names(values: list[Json]) -> list[str] | None:
    """The names in a list of objects; None where one has none, or two have the same."""
    found = [str(value["name"]) for value in values if isinstance(value, dict) and isinstance(value.get("name"), str)]
    return found if len(found) == len(values) == len({*found}) else None


def _is_in_order(old: list[str], new: list[str]) -> bool:
    """Whether what stays keeps its order."""
    stays = {*old} & {*new}
    return [name for name in old if name in stays] == [name for name in new if name in stays]


def _apply(document: Json, operation: Mapping[str, Json]) -> Json:
    kind, path = operation.get("op"), str(operation.get("path", ""))
    value = operation.get("value", _MISSING)
    if kind not in {"add", "replace", "remove", "test"}:
        raise PatchError(f"{kind!r} {path}: must be add, replace, remove or test")
    if value is _MISSING and kind != "remove":
        raise PatchError(f"{kind} {path}: has no value")
    if not (way := steps(path)):
        if kind == "remove":
            raise PatchError("remove: cannot take away the whole document")
        if kind == "test" and not is_same(document, value):
            raise PatchError("test: the document is another")
        return document if kind == "test" else copy.deepcopy(value)
    owner = document
    for step in way[:-1]:
        owner = owner[_key(owner, step, path)]
    key = _key(owner, way[-1], path, may_be_new=kind == "add")
    match kind:
        case "add" if isinstance(owner, list):
            owner.insert(key, copy.deepcopy(value))
        case "add" | "replace":
            owner[key] = copy.deepcopy(value)
        case "remove":
            del owner[key]
        case "test" if not is_same(owner[key], value):
            raise PatchError(f"test {path}: is not {value!r}")
    return document


def _key(owner: Json, step: str, path: str, *, may_be_new: bool = False) -> Json:
    """The key or index of a step. Raises PatchError where the document has no such place."""
    if isinstance(owner, dict):
        if step in owner or may_be_new:
            return step
    elif isinstance(owner, list):
        if step == "-" and may_be_new:
            return len(owner)
        is_index = step == "0" or (step.isascii() and step.isdigit() and not step.startswith("0"))
        if is_index and int(step) < len(owner) + may_be_new:
            return int(step)
    raise PatchError(f"{path}: there is no {step!r}")
