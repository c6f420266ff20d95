"""The part of JSON Schema that our OpenAPI document uses, strictly: a member that no schema names is an error too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

KEYWORDS = {
    "type", "enum", "properties", "required", "additionalProperties", "items", "prefixItems", "anyOf", "$ref",
    "minimum", "maximum", "default", "pattern", "format", "description",
}  # fmt: skip
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
    "null": type(None),
}  # fmt: skip
FORMATS = {"date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"}


def violations(value: object, schema: Mapping, document: Mapping, where: str = "answer") -> Iterator[str]:
    """Everything in which the value does not keep to the schema."""
    unknown = schema.keys() - KEYWORDS
    assert not unknown, f"{where}: this checker does not know {unknown}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        yield from violations(value, document["components"]["schemas"][name], document, where)
        return
    if "anyOf" in schema:
        if all(list(violations(value, each, document, where)) for each in schema["anyOf"]):
            yield f"{where}: {value!r} fits none of {len(schema['anyOf'])} schemas"
        return
    kinds = schema.get("type", list(TYPES))
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not any(_is(value, kind) for kind in kinds):
        yield f"{where}: {value!r} is not {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    match value:
        case dict():
            yield from _members(value, schema, document, where)
        case list():
            yield from _items(value, schema, document, where)
        case str():
            pattern = schema.get("pattern") or FORMATS.get(schema.get("format", ""), "(?s).*")
            if not re.fullmatch(pattern, value):
                yield f"{where}: {value!r} does not match {pattern}"
        case int() | float():
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                yield f"{where}: {value} is out of range"


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def _members(value: dict, schema: Mapping, document: Mapping, where: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{where}.{name}: is missing"
    for name, member in value.items():
        if name in properties:
            yield from violations(member, properties[name], document, f"{where}.{name}")
        elif not schema.get("additionalProperties", not properties):
            yield f"{where}.{name}: is not described"


def _items(value: list, schema: Mapping, document: Mapping, where: str) -> Iterator[str]:
    first = schema.get("prefixItems", [])
    if len(value) < len(first) or (schema.get("items") is False and len(value) > len(first)):
        yield f"{where}: has {len(value)} items, not {len(first)}"
        return
    for index, item in enumerate(value):
        rest = schema.get("items", {})
        each = first[index] if index < len(first) else rest
        yield from violations(item, each or {}, document, f"{where}[{index}]")
