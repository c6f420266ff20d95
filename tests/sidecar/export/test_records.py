import logging
from dataclasses import replace

import pytest

from otel.grain import LEFT_OUT
from otel.hop import Anchor, End, Ending, EventClass, Phase, Place, Side, State, TapRole
from otel.span import hop_to_span, span_to_hop
from sidecar.export import records as module
from sidecar.export.records import LONG_EVENTS, WAITING, Records, kept
from sidecar.identity import Identity
from sidecar.recording.recorder import Recorder

HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
KEYS = {
    "hop",
    "request_id",
    "trace_id",
    "method",
    "path",
    "model",
    "status",
    "ending",
    "ended_by",
    "cut",
    "error_type",
    "phase",
    "idle_s",
    "events",
    "bytes_in",
    "bytes_out",
    "missing_bytes",
    "wasted_events",
    "closed_after_s",
    "first_event_s",
    "duration_s",
    "blocked_s",
    "stamped",
}


class Shelf:
    def __init__(self):
        self.spans = []

    def offer(self, span):
        self.spans.append(span)
        return True


def recorder(*, event_count=0, gap_ns=20_000_000) -> Recorder:
    found = Recorder(
        Identity(request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16),
        place=Place("gateway", TapRole.INGRESS),
        anchor=Anchor(1_700_000_000 * 10**9, 0, "domain"),
        method="GET",
        path="/v1/chat/completions",
    )
    found.answered(1, status=200, content_type="text/event-stream")
    for number in range(event_count):
        found.arrived(HELLO, number * gap_ns)
        found.taken(number * gap_ns, number)
    found.upstream_ended(event_count * gap_ns, is_clean=True)
    return found


def put(records, found, *, at_ns=10**9):
    records.put(lambda: found.close(at_ns), event_count=found.event_count)


def test_a_short_record_is_with_the_exporter_at_once():
    shelf = Shelf()
    records = Records(shelf, is_exact=False)
    put(records, recorder(event_count=2))

    (hop,) = map(span_to_hop, shelf.spans)
    assert (hop.state, hop.timeline.unit_ns) == (State.FINAL, 100_000)
    assert records.ended == {Ending.MISSING_TERMINAL: 1}


async def test_a_long_record_is_built_apart_and_waited_for(running):
    shelf = Shelf()
    records = Records(shelf, is_exact=True)
    put(records, recorder(event_count=LONG_EVENTS))
    assert shelf.spans == []

    async with running(records.run()):
        await records.wait_empty()

    (hop,) = map(span_to_hop, shelf.spans)
    assert (len(hop.timeline.stamps), hop.timeline.unit_ns) == (LONG_EVENTS, 1_000)


def test_without_an_exporter_endings_are_counted_all_the_same():
    records = Records(None, is_exact=False)
    put(records, recorder())

    assert records.ended == {Ending.MISSING_TERMINAL: 1}


def test_a_segment_is_no_ending():
    shelf = Shelf()
    records = Records(shelf, is_exact=False)
    hop = recorder(event_count=1).segment(10**9)
    records.put(lambda: hop, event_count=1)

    assert span_to_hop(shelf.spans[0]).state is State.OPEN
    assert records.ended == {}


def test_one_line_for_each_exchange_always_with_the_same_keys(caplog):
    caplog.set_level(logging.INFO)
    records = Records(None, is_exact=False)
    put(records, recorder())
    put(records, recorder(event_count=3))

    lines = [record for record in caplog.records if record.getMessage() == "exchange ended"]
    standard = vars(logging.makeLogRecord({})).keys()
    assert len(lines) == 2
    for line in lines:
        assert vars(line).keys() - standard - {"message", "asctime"} == KEYS
    assert (lines[1].events, lines[1].ending, lines[1].first_event_s) == (3, "missing_terminal", 0.0)


async def test_the_line_says_what_is_known_beside_the_record_also_of_a_long_one(caplog, running):
    caplog.set_level(logging.INFO)
    records = Records(None, is_exact=False)
    async with running(records.run()):
        for event_count in (0, LONG_EVENTS):
            found = recorder(event_count=event_count)
            about = {"listener": "listen", "queued_s": 0.5}
            records.put(lambda found=found: found.close(10**9), event_count=event_count, about=about)
        await records.wait_empty()

    assert [(line.listener, line.queued_s) for line in caplog.records] == [("listen", 0.5)] * 2


def test_the_line_says_how_it_broke_off_and_how_soon_the_upstream_was_told(caplog):
    caplog.set_level(logging.INFO)
    found = recorder(event_count=2)
    left = replace(found.close(10**9), end=None)
    moments = replace(left.moments, client_left_ns=5 * 10**8, upstream_closed_ns=7 * 10**8)
    end = End(Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, Phase.EVENTS, 0, cut="reset")
    exchange = replace(left.exchange, error_type="slow_reader")
    traffic = replace(left.traffic, wasted_count=3, missing_bytes=9)
    hop = replace(left, moments=moments, end=end, exchange=exchange, traffic=traffic)
    Records(None, is_exact=False).put(lambda: hop, event_count=2)

    (line,) = caplog.records
    assert (line.closed_after_s, line.wasted_events, line.missing_bytes) == (0.2, 3, 9)
    assert (line.cut, line.error_type, line.stamped) == ("reset", "slow_reader", True)


def test_a_muted_record_is_told_and_counted_and_gives_no_span(caplog):
    caplog.set_level(logging.INFO)
    shelf = Shelf()
    records = Records(shelf, is_exact=False)
    found = recorder(event_count=LONG_EVENTS)
    found.mute()
    records.put(lambda: found.close(10**11), event_count=found.event_count, is_muted=True)
    put(records, recorder())

    assert (records.muted_count, records.ended, len(shelf.spans)) == (
        1,
        {Ending.COMPLETE: 1, Ending.MISSING_TERMINAL: 1},
        1,
    )
    assert [line.stamped for line in caplog.records] == [False, True]


def test_a_muted_record_that_cannot_be_made_is_lost(caplog):
    records = Records(None, is_exact=False)
    records.put(lambda: 1 / 0, event_count=LONG_EVENTS, is_muted=True)

    assert (records.muted_count, records.lost_count) == (0, 1)


def test_a_record_leaves_quantised_in_both_directions():
    found = recorder()
    found.upgraded(1, status=101)
    found.message_sent(0x1, 5, 123_456_789, 123_999_999)
    found.message_received(0x1, 5, 234_567_891)
    hop = kept(found.close(10**9), is_exact=False)

    assert [(s.arrived_ns, s.taken_ns) for s in hop.sent.stamps] == [(123_400_000, 123_900_000)]
    assert [s.arrived_ns for s in hop.timeline.stamps] == [234_500_000]
    assert span_to_hop(hop_to_span(hop)) == hop


def test_a_record_that_cannot_be_made_is_counted_and_harms_nobody(caplog):
    shelf = Shelf()
    records = Records(shelf, is_exact=False)
    records.put(lambda: 1 / 0, event_count=0)
    put(records, recorder())

    assert (records.lost_count, len(shelf.spans)) == (1, 1)
    assert [(r.levelname, r.reason) for r in caplog.records if r.levelno >= logging.WARNING] == [
        ("WARNING", "ZeroDivisionError")
    ]


async def test_a_long_record_that_cannot_be_made_does_not_end_the_building(running):
    shelf = Shelf()
    records = Records(shelf, is_exact=False)
    records.put(lambda: 1 / 0, event_count=LONG_EVENTS)
    put(records, recorder(event_count=LONG_EVENTS))

    async with running(records.run()):
        await records.wait_empty()

    assert (records.lost_count, len(shelf.spans)) == (1, 1)


def test_long_records_that_wait_are_bounded():
    records = Records(None, is_exact=False)
    for _ in range(WAITING + 2):
        records.put(lambda: 1 / 0, event_count=LONG_EVENTS)

    assert records.lost_count == 2


def test_a_timeline_that_is_too_long_for_a_span_is_left_out(monkeypatch):
    shelf = Shelf()
    records = Records(shelf, is_exact=False)
    real = module.hop_to_span

    def too_long(hop):
        if hop.timeline.stamps:
            raise module.SpanError("gapline.timeline: too long")
        return real(hop)

    monkeypatch.setattr(module, "hop_to_span", too_long)
    put(records, recorder(event_count=3))

    hop = span_to_hop(shelf.spans[0])
    assert (hop.timeline, hop.sent, hop.traffic.event_count) == (LEFT_OUT, None, 3)

    both = recorder()
    both.upgraded(1, status=101)
    both.message_received(0x1, 5, 10**8)
    put(records, both)
    hop = span_to_hop(shelf.spans[1])
    assert (hop.timeline, hop.sent) == (LEFT_OUT, LEFT_OUT)


@pytest.mark.parametrize("event_class", [EventClass.CONTENT])
def test_the_stamps_of_a_record_are_those_of_the_exchange(event_class):
    shelf = Shelf()
    put(Records(shelf, is_exact=True), recorder(event_count=4))

    stamps = span_to_hop(shelf.spans[0]).timeline.stamps
    assert [(s.seq, s.arrived_ns, s.event_class) for s in stamps] == [
        (n, n * 20_000_000, event_class) for n in range(4)
    ]
