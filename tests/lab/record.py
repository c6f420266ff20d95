"""The reader's own record: what it received and when, as a hop like those of the sidecars.

Made of the reader's receipts alone. It stands for what a client would send that stamps for itself; the lab's reader
consumes what it receives at once.
"""

from __future__ import annotations

from typing import Final

from otel.demo.answer import Answer, Receipt
from otel.grain import EXACT_UNIT_NS, QUANTUM, UNIT_NS, quantised
from otel.hop import (
    CLIENT,
    Anchor,
    End,
    Ending,
    EventClass,
    Exchange,
    Hop,
    Moments,
    Phase,
    Place,
    Side,
    Stamp,
    TapRole,
    Timeline,
    Traffic,
)
from otel.ids import span_id_of

NS: Final = 1_000_000_000


def record(answer: Answer, *, outermost: Hop, has_left: bool = False, is_exact: bool = False) -> Hop:
    """The hop of a reader. outermost: the hop that it asked, for ids and for what it asked of it.

    has_left: it went before the answer was whole, as it was told to. Its clock is nobody else's.
    """
    ended_ns = round(answer.ended_s * NS)
    return Hop(
        request_id=outermost.request_id,
        request_id_source="header",
        trace_id=outermost.trace_id,
        span_id=span_id_of(outermost.trace_id, CLIENT),
        place=Place("reader", TapRole.CLIENT),
        anchor=Anchor(outermost.anchor.wall_ns, 0, ""),
        exchange=Exchange(
            method="POST",
            path=outermost.exchange.path,
            status=answer.status,
            framing="sse",
            dialect="openai_chat",
            is_stream=True,
            has_terminal_rule=True,
        ),
        moments=Moments(
            upstream_ended_ns=None if has_left else ended_ns,
            downstream_ended_ns=ended_ns if answer.is_whole else None,
            client_left_ns=ended_ns if has_left else None,
            closed_ns=ended_ns,
        ),
        traffic=Traffic(event_count=len(answer.receipts)),
        timeline=quantised(
            Timeline(unit_ns=1, quantum=1, stamps=_stamps(answer)),
            unit_ns=EXACT_UNIT_NS if is_exact else UNIT_NS,
            quantum=1 if is_exact else QUANTUM,
        ),
        end=_end(answer, ended_ns, has_left=has_left),
    )


def _stamps(answer: Answer) -> tuple[Stamp, ...]:
    stamps = []
    position = 0
    for seq, receipt in enumerate(answer.receipts):
        at_ns = round(receipt.at_s * NS)
        position += receipt.chars
        is_last = seq == len(answer.receipts) - 1
        event_class = EventClass.TERMINAL if is_last and answer.is_done and not receipt.chars else _class_of(receipt)
        stamps.append(Stamp(seq, at_ns, at_ns, event_class, position))
    return tuple(stamps)


def _class_of(receipt: Receipt) -> EventClass:
    if receipt.chars:
        return EventClass.CONTENT
    return EventClass.REASONING if receipt.has_thought else EventClass.CONTROL


def _end(answer: Answer, ended_ns: int, *, has_left: bool) -> End:
    idle_ns = ended_ns - round(answer.receipts[-1].at_s * NS) if answer.receipts else ended_ns
    phase = Phase.EVENTS if answer.receipts else Phase.FIRST_EVENT
    if has_left:
        return End(Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, phase, idle_ns)
    if not answer.is_whole:
        return End(Ending.UPSTREAM_CUT, Side.UPSTREAM, phase, idle_ns, framing_incomplete=True)
    if not answer.is_done:
        return End(Ending.MISSING_TERMINAL, Side.UPSTREAM, phase, idle_ns)
    return End(Ending.COMPLETE, Side.UPSTREAM, Phase.TERMINAL, idle_ns)
