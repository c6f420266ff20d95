"""What all signals of OTLP have in common: attributes, ids, bodies in protobuf and JSON, both directions.

JSON is the OTLP mapping, not protobuf's own: trace and span ids are hex, enums are numbers; 64-bit integers are
strings, and numbers are accepted.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

import orjson
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel.attributes import Attributes, AttributeValue, Scalar, shown

OBJECTS_PER_REQUEST: Final = 2_000_000
"""JSON objects of a request, counted before parsing: a body of the largest size in real life has half of them."""

_MESSAGE_CHARS: Final = 200
_INVALID: Final = (
    *("resource_spans", "scope_spans", "resource_logs", "scope_logs", "log_records"),
    *("trace_id", "span_id", "parent_span_id"),
)
"""Protobuf's JSON knows fields by these names too, OTLP's does not; they would go past the conversion of ids."""
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_Message = TypeVar("_Message", bound=Message)


class OtlpError(ValueError):
    """The body is no OTLP request or answer, or what is sent does not fit into one; the message says the rule."""


class _Pairs(Protocol):
    def add(self) -> KeyValue: ...


class _Holder(Protocol):
    """A message with attributes: a span, an event of one, a log record, a resource."""

    @property
    def attributes(self) -> _Pairs: ...


# Attributes and ids.


def put_all(holder: _Holder, attributes: Attributes) -> None:
    """Give the message these attributes. Raises ValueError for a number that does not fit."""
    for key, value in attributes.items():  # setting fields costs a third of building messages from arguments
        pair = holder.attributes.add()
        pair.key = utf8(key)
        _put(pair.value, value)


def attributes_of(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    """The attributes that have a value of a known type: no map, no list in a list."""
    return {pair.key: value for pair in pairs if (value := _value_of(pair.value)) is not None}


def _put(target: AnyValue, value: AttributeValue) -> None:
    match value:
        case str():
            target.string_value = utf8(value)
        case bool():  # before int, which it is too
            target.bool_value = value
        case int():
            target.int_value = value
        case float():
            target.double_value = value
        case bytes():
            target.bytes_value = value
        case tuple():
            target.array_value.SetInParent()
            for item in value:
                _put(target.array_value.values.add(), item)


def _value_of(value: AnyValue) -> AttributeValue | None:
    match value.WhichOneof("value"):
        case "array_value":
            items = tuple(map(_scalar_of, value.array_value.values))
            known = tuple(item for item in items if item is not None)
            return known if len(known) == len(items) else None
        case _:
            return _scalar_of(value)


def _scalar_of(value: AnyValue) -> Scalar | None:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bytes_value":
            return value.bytes_value
        case _:
            return None


def utf8(text: str) -> str:
    """The text, with what UTF-8 cannot carry (lone surrogates from undecodable paths) as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def id_bytes(name: str, digits: str, size: int) -> bytes:
    """The id of these hex digits. Raises ValueError."""
    value = bytes.fromhex(digits)
    if len(digits) != 2 * size or len(value) != size:
        raise ValueError(f"{name} {shown(digits)} does not have {2 * size} hex digits")
    return value


# Bodies in protobuf.


def parsed(message: _Message, body: bytes) -> _Message:
    """The message, filled from the body. Raises OtlpError."""
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise OtlpError(f"body of {len(body)} bytes is not a protobuf {message.DESCRIPTOR.name}: {error}") from None
    return message


def has_more_fields(body: bytes, path: Sequence[int], limit: int) -> bool:
    """Whether the body has more fields than this, counted before parsing, down the path but not inside its end.

    path: the field numbers on the way from the request to its items.
    """
    return sum(1 for _ in islice(fields(body, path), limit + 1)) > limit


def fields(body: bytes, path: Sequence[int]) -> Iterator[int]:
    """Where each field begins, of the messages along the path.

    What breaks the rules of the format ends the walk; the parser says so later.
    """
    return _fields(body, 0, len(body), path, 0)


def _fields(body: bytes, at: int, end: int, path: Sequence[int], level: int) -> Iterator[int]:
    while at < end:
        yield at
        tag, at = _varint(body, at, end)
        match tag & 7:
            case 0:
                _, at = _varint(body, at, end)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:
                size, at = _varint(body, at, end)
                if size > end - at:
                    return
                if level < len(path) and tag >> 3 == path[level]:
                    yield from _fields(body, at, at + size, path, level + 1)
                at += size
            case _:
                return


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """The number there and where the next begins; past the end when it is cut off."""
    value = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 0, end


# Bodies in JSON.


def parsed_json(message: _Message, body: bytes, path: Sequence[str], ids: Sequence[str]) -> _Message:
    """The message, filled from a body of JSON; unknown fields are ignored. Raises OtlpError.

    path: the members on the way from the request to its items; ids: which members of those are ids.
    """
    if body.count(b"{") > OBJECTS_PER_REQUEST:
        raise OtlpError(f"request has more than {OBJECTS_PER_REQUEST} JSON objects")
    tree = json_object(body)
    for item in _items(tree, path):
        _convert(item, ids, _base64_of_hex)
    return from_tree(message, tree)


def as_json_body(message: Message, path: Sequence[str], ids: Sequence[str]) -> bytes:
    """The message as a body of JSON."""
    tree = to_tree(message)
    for item in _items(tree, path):
        _convert(item, ids, _hex_of_base64)
    return orjson.dumps(tree)


def json_object(body: bytes) -> dict[str, Any]:
    """The one object in the body. Raises OtlpError."""
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise OtlpError(f"body of {len(body)} bytes is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise OtlpError(f"body is a JSON {type(tree).__name__}, not an object")
    return tree


def to_tree(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message, use_integers_for_enums=True)


def from_tree(message: _Message, tree: dict[str, Any]) -> _Message:
    """The message, filled from JSON data. Raises OtlpError."""
    try:
        return json_format.ParseDict(tree, message, ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise OtlpError(
            f"JSON is not an {message.DESCRIPTOR.name}: {shown(str(error), chars=_MESSAGE_CHARS)}"
        ) from None


def encode_error(message: str, *, as_json: bool) -> bytes:
    """The body of an answer that is not 2xx: a google.rpc.Status."""
    if as_json:
        return orjson.dumps({"message": message})
    return Status(message=message).SerializeToString()  # the same field number as in google.rpc.Status


def _items(tree: dict[str, Any], path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The objects at the end of the path, with the links of each."""
    level = [tree]
    for name in path:
        level = [member for holder in level for member in _members(holder, name)]
    for item in level:
        yield from (*_members(item, "links"), item)


def _members(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    members = holder.get(name) or []
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise OtlpError(f"{name} is not a list of objects")
    for cleaned in (holder, *members):
        for invalid in _INVALID:
            cleaned.pop(invalid, None)
    return members


def _convert(item: dict[str, Any], ids: Sequence[str], convert: Callable[[str], str]) -> None:
    """Rewrite the ids in place: protobuf's JSON has bytes in base64, OTLP's has ids in hex."""
    for name in ids:
        if name in item:
            item[name] = convert(item[name])


def _base64_of_hex(digits: object) -> str:
    if not isinstance(digits, str) or len(digits) % 2 or not _HEX_DIGITS.issuperset(digits):
        raise OtlpError(f"id {shown(digits)} is not a string of hex digits")
    return base64.b64encode(bytes.fromhex(digits)).decode("ascii")


def _hex_of_base64(text: str) -> str:
    return base64.b64decode(text).hex()
