"""The ids of one exchange: what its head carries, what is made where it carries none, and how they are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otel.ids import recorded, span_id_of, trace_id_of
from sidecar import headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ids of one exchange, in the forms in which they are recorded."""

    request_id: str
    request_id_source: str
    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IdField:
    """The field that carries the request id, as it is sent: on with the request, and back with the answer."""

    name: str
    value: str
    is_made: bool


def id_field_of(fields: headers.Fields, names: Sequence[str], *, make_id: Callable[[], str]) -> IdField:
    """The request id of a head under the name under which it came, else one made for it under the first name."""
    for name in names:
        if (value := headers.request_id_of(fields, (name,))) is not None:
            return IdField(name.title(), value, is_made=False)
    return IdField(names[0].title(), make_id(), is_made=True)


def identity_of(
    fields: headers.Fields, names: Sequence[str], *, id_field: IdField, unique: Sequence[str | int]
) -> Identity:
    """What is recorded of the ids of a head. unique tells this exchange from all others of its trace."""
    request_id = recorded(id_field.value)
    others = (headers.request_id_of(fields, (name,)) for name in names)
    trace_id, parent_span_id = headers.trace_context_of(fields) or (trace_id_of(id_field.value), None)
    return Identity(
        request_id=request_id,
        request_id_source="generated" if id_field.is_made else "header",
        trace_id=trace_id,
        span_id=span_id_of(trace_id, *unique),
        parent_span_id=parent_span_id,
        aliases=tuple(sorted({recorded(other) for other in others if other is not None} - {request_id})),
    )
