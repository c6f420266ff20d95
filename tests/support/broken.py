"""Answers that went wrong at their end or before their beginning, as the hops of a chain would have recorded them."""

from __future__ import annotations

from dataclasses import replace

from otel.hop import End, Ending, Hop, Phase, Side
from tests.support.chain import APP, MS, NAMES, PROXY, Chain, S, run

LEFT_AFTER = 40
EVENTS = 300
GAP = 200 * MS


def silenced(
    by: int, *, token: str = "next_event_timeout", waited: int = 3 * S, held_by: int | None = None
) -> list[Hop]:
    """Three hops of an answer that fell silent after its 60th event, of which the sidecar of hop `by` made an end.

    held_by: the hop whose app kept what still came from then on; else the source sent nothing more.
    """
    hops = list(run(Chain(events=60)))
    for n, hop in enumerate(hops):
        last_ns = hop.timeline.stamps[-1].arrived_ns
        is_fed = held_by is not None and n < held_by
        until_ns = last_ns + (10 * MS if is_fed else waited)
        left = End(Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, Phase.EVENTS, until_ns - last_ns, cut="fin")
        ending = Ending.TIMED_OUT_FIRST_EVENT if token == "first_event_timeout" else Ending.TIMED_OUT_NEXT_EVENT
        ours = End(ending, Side.SIDECAR, Phase.EVENTS, waited, cut="timeout")
        moments = replace(
            hop.moments,
            upstream_ended_ns=None,
            client_left_ns=until_ns if n < by else None,
            downstream_ended_ns=None,
            closed_ns=until_ns,
        )
        exchange = replace(hop.exchange, error_type=token if n == by else None)
        end = (
            left
            if n < by
            else ours
            if n == by
            else End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.EVENTS, waited, cut="fin")
        )
        hops[n] = replace(hop, moments=moments, end=end, exchange=exchange)
    return hops


def cut_in_silence(by: int, *, after_ns: int) -> list[Hop]:
    """An answer of 60 events after which nothing came, until the app before tap `by` (3: the reader) ended it."""
    hops = list(run(Chain(events=60)))
    for n, hop in enumerate(hops):
        until_ns = hop.timeline.stamps[-1].arrived_ns + after_ns
        end = (
            End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.EVENTS, after_ns, cut="fin")
            if n >= by
            else End(Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, Phase.EVENTS, after_ns, cut="fin")
        )
        moments = replace(
            hop.moments,
            upstream_ended_ns=until_ns if n >= by else None,
            client_left_ns=until_ns if n < by else None,
            upstream_closed_ns=until_ns if n < by else None,
            downstream_ended_ns=None,
            closed_ns=until_ns + MS,
        )
        hops[n] = replace(hop, moments=moments, end=end)
    return hops


def departed(*, gateway_ns: int = 0, proxy_ns: int = 0, **chain) -> list[Hop]:
    """The reader left after LEFT_AFTER events; the apps of gateway and proxy went on for so long after that."""
    hops = run(Chain(events=EVENTS, gap=GAP, **chain))
    gateway = hops[2]
    left_ns = gateway.timeline.stamps[LEFT_AFTER - 1].taken_ns + MS
    began = [hop.anchor.wall_ns - gateway.anchor.wall_ns for hop in hops]
    closes = [left_ns + gateway_ns + proxy_ns + 2 * APP, left_ns + gateway_ns + APP, left_ns]
    return [closed(hop, at - start) for hop, at, start in zip(hops, closes, began, strict=True)]


def closed(hop: Hop, at_ns: int) -> Hop:
    """The hop with its downstream leaving at this time, unless the answer was whole before."""
    if hop.moments.downstream_ended_ns is not None and hop.moments.downstream_ended_ns <= at_ns:
        return hop
    stamps = tuple(s for s in hop.timeline.stamps if s.arrived_ns <= at_ns)
    moments = replace(
        hop.moments,
        upstream_ended_ns=None,
        downstream_ended_ns=None,
        client_left_ns=at_ns,
        upstream_closed_ns=at_ns,
        closed_ns=at_ns + MS,
    )
    return replace(
        hop,
        moments=moments,
        timeline=replace(hop.timeline, stamps=stamps),
        end=End(Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, Phase.EVENTS, 10 * MS, cut="fin"),
    )


def lost(
    hop: Hop,
    took_ns: int,
    *,
    before_ns: int = 0,
    ending: Ending = Ending.UPSTREAM_CUT,
    number: int = 0,
    status: int = 200,
) -> Hop:
    """An attempt at the place of this hop that began so long before it (0: as long as it took), and gave nothing."""
    before_ns = before_ns or took_ns
    is_left = ending is Ending.CLIENT_DISCONNECT
    return replace(
        hop,
        span_id=f"{number + 1:016x}",
        anchor=replace(
            hop.anchor, monotonic_ns=hop.anchor.monotonic_ns - before_ns, wall_ns=hop.anchor.wall_ns - before_ns
        ),
        exchange=replace(hop.exchange, status=status),
        timeline=replace(hop.timeline, stamps=()),
        moments=replace(
            hop.moments,
            headers_received_ns=None,
            upstream_ended_ns=None if is_left else took_ns,
            downstream_ended_ns=None if is_left else took_ns,
            client_left_ns=took_ns if is_left else None,
            closed_ns=took_ns + MS,
        ),
        end=End(ending, Side.DOWNSTREAM if is_left else Side.UPSTREAM, Phase.HEADERS, took_ns),
    )


def tried_again(*, took_ns: int = 4 * S, by: str = PROXY, **how) -> list[Hop]:
    """A path whose app `by` waited for a lost attempt at the hop before it, and then tried again."""
    hops = run(Chain(slow_first=[(by, took_ns)]))
    at = NAMES.index(by) - 1
    return [lost(hops[at], took_ns, **how), *hops]
