"""Everything that can be known of a body from outside: to compare ways of looking into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidecar.inspection.body import Body


def known(path: str, reads: Sequence[bytes], **options: Any) -> list[Any]:
    """All that can be seen of a body from outside, after each read and after its end."""
    body = Body(path, content_type="text/event-stream", content_encoding=None, **options)
    seen = []
    size_bytes = 0
    for number, data in enumerate(reads):
        body.arrived(data, number * 10, is_wasted=number % 7 == 5)
        size_bytes += len(data)
        if number % 3 != 1:
            body.stamper.taken(number * 10 + 3, size_bytes + number)
        seen.append(_facts(body, size_bytes))
    body.ended()
    seen.append((_facts(body, size_bytes), body.stamper.stamps()))
    seen += [body.stamper.acked_count(acked) for acked in range(0, size_bytes + 50, 7)]
    return seen


def _facts(body: Body, size_bytes: int) -> tuple[Any, ...]:
    names = {name for kind in type(body).__mro__ for name in getattr(kind, "__slots__", ()) if not name.startswith("_")}
    facts = [(name, getattr(body, name)) for name in sorted(names - {"stamper"})]
    stamper = body.stamper
    boundary = (body.is_at_boundary, body.lacks_mark, body.seems_over, body.has_begun, body.has_event)
    return (*facts, boundary, stamper.count, stamper.position, stamper.is_cut_short, stamper.stamps()[-2:], size_bytes)
