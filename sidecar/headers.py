"""Header fields on their way through: which ones end here, and which ids they carry.

Fields are (name, value) pairs in the order of the message; what passes keeps order, repetition and spelling.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from otel.ids import parse_traceparent

Fields = Collection[tuple[str, str]]

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
"""Fields of one connection (RFC 9110, 7.6.1 and 11.7). `proxy-status` is none of them, it tells the reader about the
whole way; nor is `trailer`, since the trailers of an answer pass."""
NEVER_NAMED: Final = frozenset({"authorization", "content-length", "content-type", "host"})
"""Fields that the Connection field cannot have removed: without them the message is another one."""

_NO_OPTIONS: Final[frozenset[str]] = frozenset()

UPGRADE_REQUIRED: Final = 426
"""The one answer whose Upgrade field is not for us (RFC 9110, 15.5.22)."""


class Head(list[tuple[str, str]]):
    """The fields of one head, with their values by name: of a request they are asked for many times. Not to be changed.

    by_name: the name in lower case; repeated values are joined as in `value_of`.
    """

    __slots__ = ("by_name",)

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        super().__init__(fields)
        self.by_name: dict[str, str] = {}
        repeated: dict[str, list[str]] = {}  # joined once: of a field that comes 256 times each step would copy all
        for name, value in self:
            key = name.lower()
            if key in self.by_name:
                repeated.setdefault(key, [self.by_name[key]]).append(value)
            else:
                self.by_name[key] = value
        for key, values in repeated.items():
            self.by_name[key] = ", ".join(values)


def end_to_end(fields: Fields) -> list[tuple[str, str]]:
    """The fields that go on to the next hop: all but those of this connection and those that Connection names."""
    options = connection_options(fields)
    dropped = HOP_BY_HOP | (options - NEVER_NAMED) if options else HOP_BY_HOP
    return [(name, value) for name, value in fields if name.lower() not in dropped]


def answered(fields: Fields, status: int, *, request_id: tuple[str, str]) -> list[tuple[str, str]]:
    """The fields of an answer as its reader gets them. request_id: the field that is put in where they have none."""
    passed = end_to_end(fields)
    if all(name.lower() != request_id[0].lower() for name, _ in passed):
        passed.append(request_id)
    if status == UPGRADE_REQUIRED:
        wanted = [(name, value) for name, value in fields if name.lower() == "upgrade"]
        passed += [("Connection", "Upgrade"), *wanted]
    return passed


def connection_options(fields: Fields) -> frozenset[str]:
    """The options of all Connection fields, in lower case."""
    listed = value_of(fields, "connection")
    if not listed:
        return _NO_OPTIONS
    return frozenset(option for part in listed.split(",") if (option := part.strip().lower()))


def essence_of(content_type: str | None) -> str:
    """The media type without its parameters, in lower case; empty where there is none."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_packed(content_encoding: str | None) -> bool:
    """Whether a body has a coding at all (RFC 9110, 8.4); `identity` is none, however often it is said."""
    return not {"", "identity"}.issuperset(map(str.strip, (content_encoding or "").lower().split(",")))


def is_websocket(method: str, version: tuple[int, int], fields: Fields) -> bool:
    """It asks for a WebSocket (RFC 6455, 4.1): a GET that wants that upgrade and no other, and has no body."""
    return (
        method == "GET"
        and version >= (1, 1)
        and "upgrade" in connection_options(fields)
        and (value_of(fields, "upgrade") or "").strip().lower() == "websocket"
        and value_of(fields, "content-length") is None
        and value_of(fields, "transfer-encoding") is None
    )


def value_of(fields: Fields, name: str) -> str | None:
    """The value of a field, repeated ones joined by commas (RFC 9110, 5.3); None when the message has none."""
    wanted = name.lower()
    if isinstance(fields, Head):
        return fields.by_name.get(wanted)
    values = [value for field, value in fields if field.lower() == wanted]
    return ", ".join(values) if values else None


def request_id_of(fields: Fields, names: Sequence[str] = ("x-request-id",)) -> str | None:
    """The first request id that is not empty: names in order of trust, then fields in order of the message.

    It is as it came, without the white space around it; `otel.ids.recorded` makes the form that is kept.
    """
    for name in names:
        wanted = name.lower()
        if isinstance(fields, Head) and wanted not in fields.by_name:
            continue
        for field, value in fields:
            if field.lower() == wanted and (request_id := value.strip()):
                return request_id
    return None


def trace_context_of(fields: Fields) -> tuple[str, str] | None:
    """(trace id, parent span id) of the traceparent; None when there is none, more than one, or it is not valid."""
    if isinstance(fields, Head) and "traceparent" not in fields.by_name:
        return None
    values = [value.strip() for field, value in fields if field.lower() == "traceparent"]
    return parse_traceparent(values[0]) if len(values) == 1 else None
