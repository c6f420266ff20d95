"""The attributes of a hop's span: which field each one carries, and how its value is written and checked.

One table for both directions. An attribute is absent exactly when its value is None (`gen_ai.request.stream` also
when false, as its convention wants, and what few spans have when there is none of it), so a span that lost one is
refused instead of read with a default. Instants are seconds in doubles, which carry every nanosecond of the first 26
days.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from otel.hop import Ending, Phase, Side, State, TapRole
from otel.ids import recorded
from otel.schema import DIMENSION_PREFIX

Scalar = str | bool | int | float | bytes
AttributeValue = Scalar | tuple[Scalar, ...]
Attributes = Mapping[str, AttributeValue]

_INSTANT_LIMIT_NS: Final = 1 << 51
"""26 days: below, a double of seconds rounds back to the same nanosecond."""
TEXT_CHARS: Final = 2_000
"""Sidecars record less. What is learned of hops outlasts them, and names of megabytes would fill the memory."""

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class SpanError(ValueError):
    """The span is no hop, or the hop no span; the message names the attribute and the rule."""


class _RuleError(Exception):
    """What is wrong with a value; the caller knows its attribute."""


# Codecs of one value: `write` makes the attribute (None: absent), `read` checks it and raises _RuleError.


@dataclass(frozen=True, slots=True)
class _Codec:
    write: Callable[[Any], AttributeValue | None]
    read: Callable[[object], object]
    absent: object = ...
    """What an absent attribute means; `...` that it must not be absent."""


def _as_it_is(value: AttributeValue | None) -> AttributeValue | None:
    return value


def _part(value: object) -> str:
    if not isinstance(value, str):
        raise _RuleError("is not a string")
    return value


def _text(value: object) -> str:
    if len(text := _part(value)) > TEXT_CHARS:
        raise _RuleError(f"has more than {TEXT_CHARS} characters")
    return text


def _id(value: object) -> str:
    if recorded(_text(value)) != value:
        raise _RuleError("is not as request ids are recorded")
    return _text(value)


def _ids(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        raise _RuleError("is not a list of request ids")
    return tuple(map(_id, value))


def _tokens(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        raise _RuleError("is not a list of strings")
    return tuple(map(_text, value))


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _RuleError("is not an integer of at least 0")
    return value


def _digest(value: object) -> str:
    if not _DIGEST.fullmatch(_text(value)):
        raise _RuleError("is not sha256: and 64 lower-case hex digits")
    return _text(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _RuleError("is not true or false")
    return value


def _seconds(ns: int | None) -> float | None:
    if ns is not None and not 0 <= ns < _INSTANT_LIMIT_NS:
        raise _RuleError(f"ns is not within 0 to {_INSTANT_LIMIT_NS}")
    return None if ns is None else ns / 1e9


def _instant(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _INSTANT_LIMIT_NS / 1e9:
        raise _RuleError(f"is not a number of seconds from 0 to {_INSTANT_LIMIT_NS / 1e9}")
    return round(value * 1e9)


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _RuleError("is not a number from 0 to 1")
    return float(value)


def _choice(allowed: type[StrEnum]) -> _Codec:
    def read(value: object) -> StrEnum:
        if value not in set(allowed):
            raise _RuleError(f"is not one of {', '.join(allowed)}")
        return allowed(_text(value))

    return _Codec(str, read)


_PART: Final = _Codec(_as_it_is, _part)
"""Of a timeline, which has a limit for all of its parts together, or the value of a dimension."""
_TEXT: Final = _Codec(_as_it_is, _text)
_TEXT_OR_NONE: Final = _Codec(_as_it_is, _text, absent=None)
_ID: Final = _Codec(_as_it_is, _id)
_IDS: Final = _Codec(lambda ids: ids or None, _ids, absent=())
_TOKENS: Final = _Codec(lambda tokens: tokens or None, _tokens, absent=())
_COUNT: Final = _Codec(_as_it_is, _count)
_COUNT_OR_NONE: Final = _Codec(_as_it_is, _count, absent=None)
_COUNT_IF_ANY: Final = _Codec(lambda count: count or None, _count, absent=0)
_SHARE_OR_NONE: Final = _Codec(_as_it_is, _share, absent=None)
_SHA256: Final = _Codec(_as_it_is, _digest)
_FLAG: Final = _Codec(_as_it_is, _flag)
_FLAG_OR_NONE: Final = _Codec(_as_it_is, _flag, absent=None)
_ONLY_TRUE: Final = _Codec(lambda flag: flag or None, _flag, absent=False)
_INSTANT: Final = _Codec(_seconds, _instant)
_INSTANT_OR_NONE: Final = _Codec(_seconds, _instant, absent=None)

# attribute, field, codec: one table for both directions, a part for each part of a hop.

Rows = tuple[tuple[str, str, _Codec], ...]

SCHEMA: Final[Rows] = (("gapline.schema", "version", _COUNT),)
HOP: Final[Rows] = (
    ("gapline.request_id", "request_id", _ID),
    ("gapline.request_id.source", "request_id_source", _TEXT),
    ("gapline.request_id.aliases", "aliases", _IDS),
    ("gapline.state", "state", _choice(State)),
    ("gapline.segment.index", "segment_index", _COUNT),
)
PLACE: Final[Rows] = (
    ("gapline.hop", "hop", _TEXT),
    ("gapline.hop.role", "role", _choice(TapRole)),
)
ANCHOR: Final[Rows] = (
    ("gapline.clock.wall_anchor_ns", "wall_ns", _COUNT),
    ("gapline.clock.monotonic_anchor_ns", "monotonic_ns", _COUNT),
    ("gapline.clock.domain", "clock_domain", _TEXT),
)
EXCHANGE: Final[Rows] = (
    ("http.request.method", "method", _TEXT),
    ("url.path", "path", _TEXT),
    ("http.response.status_code", "status", _COUNT_OR_NONE),
    ("gapline.framing", "framing", _TEXT),
    ("gapline.dialect", "dialect", _TEXT),
    ("gen_ai.request.model", "model", _TEXT_OR_NONE),
    ("gen_ai.response.model", "response_model", _TEXT_OR_NONE),
    ("gen_ai.response.id", "response_id", _TEXT_OR_NONE),
    ("gapline.request.stream", "request_is_stream", _FLAG_OR_NONE),
    ("gapline.request.prompt_bucket", "prompt_bucket", _TEXT_OR_NONE),
    ("gen_ai.request.stream", "is_stream", _ONLY_TRUE),
    ("gapline.terminal_rule", "has_terminal_rule", _FLAG),
    ("gapline.error.type", "error_type", _TEXT_OR_NONE),
    ("gapline.error.code", "error_code", _TEXT_OR_NONE),
    ("gapline.error.detail", "error_detail", _TEXT_OR_NONE),
    ("gapline.guard.fired", "guard_fired", _TOKENS),
    ("gapline.probe", "is_probe", _FLAG),
    ("gen_ai.response.finish_reasons", "finish_reasons", _TOKENS),
)
USAGE: Final[Rows] = (
    ("gen_ai.usage.input_tokens", "input_tokens", _COUNT_OR_NONE),
    ("gen_ai.usage.output_tokens", "output_tokens", _COUNT_OR_NONE),
    ("gapline.usage.total_tokens", "total_tokens", _COUNT_OR_NONE),
)
LIMITS: Final[Rows] = (
    ("gapline.ratelimit.requests.limit", "request_limit", _COUNT_OR_NONE),
    ("gapline.ratelimit.requests.remaining", "request_remaining", _COUNT_OR_NONE),
    ("gapline.ratelimit.requests.reset", "request_reset_ns", _INSTANT_OR_NONE),
    ("gapline.ratelimit.tokens.limit", "token_limit", _COUNT_OR_NONE),
    ("gapline.ratelimit.tokens.remaining", "token_remaining", _COUNT_OR_NONE),
    ("gapline.ratelimit.tokens.reset", "token_reset_ns", _INSTANT_OR_NONE),
    ("gapline.ratelimit.retry_after", "retry_after_ns", _INSTANT_OR_NONE),
)
MOMENTS: Final[Rows] = (
    ("gapline.request_forwarded", "request_forwarded_ns", _INSTANT_OR_NONE),
    ("gapline.headers_received", "headers_received_ns", _INSTANT_OR_NONE),
    ("gapline.upstream_ended", "upstream_ended_ns", _INSTANT_OR_NONE),
    ("gapline.downstream_ended", "downstream_ended_ns", _INSTANT_OR_NONE),
    ("gapline.client_left", "client_left_ns", _INSTANT_OR_NONE),
    ("gapline.upstream_closed", "upstream_closed_ns", _INSTANT_OR_NONE),
    ("gapline.closed", "closed_ns", _INSTANT),
)
TRAFFIC: Final[Rows] = (
    ("gapline.request.bytes", "request_bytes", _COUNT),
    ("gapline.bytes_in", "bytes_in", _COUNT),
    ("gapline.bytes_out", "bytes_out", _COUNT),
    ("gapline.events", "event_count", _COUNT),
    ("gapline.comments", "comment_count", _COUNT),
    ("gapline.dataless", "dataless_count", _COUNT),
    ("gapline.wasted_events", "wasted_count", _COUNT),
    ("gapline.unterminated_tail", "has_unterminated_tail", _FLAG),
    ("gapline.bytes_missing", "missing_bytes", _COUNT_OR_NONE),
    ("gapline.keepalives", "keepalive_count", _COUNT_IF_ANY),
    ("gapline.bytes_injected", "injected_bytes", _COUNT_IF_ANY),
)
DIGESTS: Final[Rows] = (
    ("gapline.digest.upstream", "upstream", _SHA256),
    ("gapline.digest.downstream", "downstream", _SHA256),
)
ENGINE: Final[Rows] = (
    ("gapline.engine.server", "server", _TEXT),
    ("gapline.engine.silent_since", "silent_since_ns", _INSTANT),
)


def _snapshot(prefix: str, asked: str) -> Rows:
    return (
        (prefix + asked, "asked_ns", _INSTANT),
        (prefix + "running", "running_count", _COUNT_OR_NONE),
        (prefix + "waiting", "waiting_count", _COUNT_OR_NONE),
        (prefix + "kv_cache", "kv_cache_share", _SHARE_OR_NONE),
        (prefix + "preemptions", "preemption_count", _COUNT_OR_NONE),
    )


ENGINE_DURING: Final = _snapshot("gapline.engine.", "asked")
ENGINE_EARLIER: Final = _snapshot("gapline.engine.earlier.", "ago")
"""Its time is how long before the other it was asked: that may be before the anchor."""
END: Final[Rows] = (
    ("gapline.ending", "ending", _choice(Ending)),
    ("gapline.ended_by", "ended_by", _choice(Side)),
    ("gapline.phase", "phase", _choice(Phase)),
    ("gapline.idle_at_end", "idle_ns", _INSTANT),
    ("gapline.framing_incomplete", "framing_incomplete", _FLAG),
    ("gapline.end.cut", "cut", _TEXT_OR_NONE),
)
LEFT_OUT: Final[Rows] = (("gapline.timeline.left_out", "is_left_out", _ONLY_TRUE),)
PART_COUNT: Final[Rows] = (("gapline.timeline.parts", "count", _COUNT),)
PACKED: Final[Rows] = (
    ("gapline.timeline.format", "format", _COUNT),
    ("gapline.timeline.events", "row_count", _COUNT),
    ("gapline.timeline.bytes", "payload_bytes", _COUNT),
    ("gapline.timeline.crc32", "crc32", _COUNT),
)


def texts(names: Iterable[str]) -> Rows:
    """Rows for attributes that are strings of any length and fields of their own names."""
    return tuple((name, name, _PART) for name in names)


def write(rows: Rows, part: object) -> dict[str, AttributeValue]:
    """The attributes of one part of a hop. Raises SpanError."""
    attributes = {}
    for name, field_name, codec in rows:
        value = getattr(part, field_name)
        try:
            written = codec.write(value)
        except _RuleError as error:
            raise SpanError(f"{name}: {shown(value)} {error}") from None
        if written is not None:
            attributes[name] = written
    return attributes


def read(rows: Rows, attributes: Attributes) -> dict[str, Any]:
    """The fields of one part of a hop, by name. Raises SpanError."""
    fields: dict[str, object] = {}
    for name, field_name, codec in rows:
        if name in attributes:
            try:
                fields[field_name] = codec.read(attributes[name])
            except _RuleError as error:
                raise SpanError(f"{name}: {shown(attributes[name])} {error}") from None
        elif codec.absent is ...:
            raise SpanError(f"{name}: missing")
        else:
            fields[field_name] = codec.absent
    return fields


def write_dimensions(dimensions: Iterable[tuple[str, str]]) -> dict[str, AttributeValue]:
    """One attribute for each dimension. Raises SpanError."""
    pairs = list(dimensions)
    if any(before >= after for (before, _), (after, _) in pairwise(pairs)):
        raise SpanError(f"{DIMENSION_PREFIX}: names are not in order, each once")
    return {DIMENSION_PREFIX + name: value for name, value in pairs}


def read_dimensions(attributes: Attributes) -> tuple[tuple[str, str], ...]:
    """The dimensions, in order of name. Raises SpanError."""
    names = sorted(name for name in attributes if name.startswith(DIMENSION_PREFIX))
    return tuple((name.removeprefix(DIMENSION_PREFIX), value) for name, value in read(texts(names), attributes).items())


def shown(value: object, *, chars: int = 60) -> str:
    """A value from outside as it may stand in a message: escaped and short."""
    text = repr(value)
    return text if len(text) <= chars else text[: chars - 1] + "…"
