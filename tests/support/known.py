"""Everything that can be known of a body from outside: to compare ways of looking into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidecar.inspection.body import Body

FACTS = sorted(
    {name for kind in Body.__mro__ for name in getattr(kind, "__slots__", ()) if not name.startswith("_")} - {"stamper"}
    | {"is_at_boundary", "lacks_mark", "seems_over", "has_begun", "has_event"}
)


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
        seen.append(_facts(body))
    body.ended()
    seen.append((_facts(body), body.stamper.stamps()))
    seen += [body.stamper.acked_count(acked) for acked in range(0, size_bytes + 50, 7)]
    return seen


def _facts(body: Body) -> tuple[Any, ...]:
    stamper = body.stamper
    return (
        *[getattr(body, name) for name in FACTS],
        (stamper.count, stamper.position, stamper.is_cut_short, stamper.stamps(since=max(0, stamper.count - 2))),
    )
