"""What becomes of a request's ids on its way: hops of one request that share no more than each link lets through."""

from __future__ import annotations

from dataclasses import replace

from otel.hop import Hop
from otel.ids import span_id_of, trace_id_of
from tests.support.chain import MS, NAMES, Chain, run

ANSWER = "chatcmpl-9fK2mQ7xLw0ZtR4s"
LINKS = ("kept", "replaced", "dropped", "told")
"""The id passes; the app makes another one; it is left out, and the sidecar behind makes one; or the upstream tells its
own, with an answer that has none."""


def answered(hop: Hop, answer_id: str | None = ANSWER) -> Hop:
    """The hop with this id of its answer."""
    return replace(hop, exchange=replace(hop.exchange, response_id=answer_id))


def renamed(
    request_id: str, *names: str, answer_id: str = ANSWER, wait: int = 120 * MS, chain: Chain | None = None
) -> list[Hop]:
    """Worker, proxy and gateway (or those named) of a request that has another id and another trace at each."""
    chain = Chain(first=wait, events=9) if chain is None else chain
    return [
        replace(
            answered(hop, answer_id),
            request_id=f"{request_id}-{hop.place.hop}",
            request_id_source="generated",
            trace_id=trace_id_of(f"{request_id}-{hop.place.hop}"),
            span_id=span_id_of(request_id, hop.place.hop),
        )
        for hop in run(chain)
        if hop.place.hop in (names or NAMES)
    ]


def linked(request_id: str, inner: str, outer: str, *, chain: Chain | None = None) -> list[Hop]:
    """Worker, proxy and gateway of a request with a link from worker to proxy and one from there to the gateway."""
    worker, proxy, gateway = renamed(request_id, answer_id=f"chatcmpl-{request_id}-9fK2mQ7xLw0ZtR4s", chain=chain)
    proxy = _behind(outer, gateway, proxy)
    worker = _behind(inner, proxy, worker)
    return [worker, _told(inner, proxy, worker), _told(outer, gateway, proxy)]


def _behind(link: str, outer: Hop, inner: Hop) -> Hop:
    if link == "kept":
        return replace(inner, request_id=outer.request_id, trace_id=outer.trace_id)
    source = "generated" if link == "dropped" else "header"
    return replace(answered(inner, None) if link == "told" else inner, request_id_source=source)


def _told(link: str, outer: Hop, inner: Hop) -> Hop:
    return replace(outer, aliases=(inner.request_id,)) if link == "told" else outer
