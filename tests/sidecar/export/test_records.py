import logging
from collections import Counter
from dataclasses import replace

import pytest

from otel.grain import LEFT_OUT
from otel.hop import Anchor, End, Ending, EventClass, Phase, Place, Side, State, TapRole
from otel.span import hop_to_span, span_to_hop
from sidecar.export import records as module
from sidecar.export.records import LONG_EVENTS, WAITING, Records, kept
from sidecar.identity import Identity
from sidecar.recording.asked import Asked
from sidecar.recording.recorder import Recorder
from sidecar.telling import accesslog
from tests.support.builders import a_hop

HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'


class Shelf:
    def __init__(self):
        self.spans = []

    def offer(self, span):
        self.spans.append(span)
        return True


class Observed:
    """What was given to be counted and measured."""

    def __init__(self):
        self.hops = []

    def observe(self, hop, figures=None):
        assert figures == module.figures(hop)
        self.hops.append(hop)

    @property
    def ended(self):
        return Counter(hop.end.ending for hop in self.hops)


def recorder(*, event_count=0, gap_ns=20_000_000) -> Recorder:
    found = Recorder(
        Asked(
            Identity(request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16),
            method="GET",
            path="/v1/chat/completions",
        ),
        place=Place("gateway", TapRole.INGRESS),
        anchor=Anchor(1_700_000_000 * 10**9, 0, "domain"),
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
    observed = Observed()
    records = Records(shelf, is_exact=False, observing=observed)
    put(records, recorder(event_count=2))

    (hop,) = map(span_to_hop, shelf.spans)
    assert (hop.state, hop.timeline.unit_ns) == (State.FINAL, 100_000)
    assert observed.ended == {Ending.MISSING_TERMINAL: 1}


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
    observed = Observed()
    records = Records(None, is_exact=False, observing=observed)
    put(records, recorder())

    assert observed.ended == {Ending.MISSING_TERMINAL: 1}


def test_a_segment_is_no_ending():
    shelf = Shelf()
    observed = Observed()
    records = Records(shelf, is_exact=False, observing=observed)
    hop = recorder(event_count=1).segment(10**9)
    records.put(lambda: hop, event_count=1)

    assert span_to_hop(shelf.spans[0]).state is State.OPEN
    assert observed.ended == {}


def test_one_line_for_each_exchange_always_with_the_same_keys(caplog):
    caplog.set_level(logging.INFO)
    records = Records(None, is_exact=False)
    put(records, recorder())
    put(records, recorder(event_count=3))

    lines = [record for record in caplog.records if record.getMessage() == "exchange ended"]
    standard = vars(logging.makeLogRecord({})).keys()
    assert len(lines) == 2
    for line in lines:
        assert vars(line).keys() - standard - {"message", "asctime"} == accesslog.line(a_hop()).keys()
    assert (lines[1].events, lines[1].outcome, lines[1].time_to_first_event_ms) == (3, "missing_terminal", 0.0)


def test_a_line_that_nobody_wants_is_not_made(caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(accesslog, "line", lambda *_, **__: 1 / 0)
    observed = Observed()
    records = Records(None, is_exact=False, observing=observed)
    put(records, recorder())

    assert (records.lost_count, observed.ended) == (0, {Ending.MISSING_TERMINAL: 1})


def test_a_line_at_the_start_when_it_is_told(caplog):
    caplog.set_level(logging.INFO)
    records = Records(None, is_exact=False)
    records.tell_start(recorder().glance(10**9), {"listener": "listen", "upstream": "127.0.0.1:8000"})
    records.tell_start(None)

    (line, loss) = caplog.records
    assert (line.message, line.request_id, line.listener) == ("exchange started", "r", "listen")
    assert (loss.message, records.lost_count) == ("record lost", 1)


async def test_every_final_record_is_measured_once_also_muted_and_long_ones(running, caplog):
    caplog.set_level(logging.INFO)
    observed = Observed()
    records = Records(None, is_exact=False, observing=observed)
    segment, muted = recorder(event_count=1).segment(10**9), recorder()
    muted.mute()
    async with running(records.run()):
        records.put(lambda: segment, event_count=1)
        records.put(lambda: muted.close(10**9), event_count=0, is_muted=True)
        put(records, recorder(event_count=2))
        put(records, recorder(event_count=LONG_EVENTS))
        await records.wait_empty()

    assert [hop.traffic.event_count for hop in observed.hops] == [0, 2, LONG_EVENTS]
    assert [line.events for line in caplog.records] == [0, 2, LONG_EVENTS]


@pytest.mark.parametrize(
    ("error_text", "in_the_log", "in_the_span"),
    [("masked", "at …", "at …"), ("full", "at jane's", "at …"), ("off", None, None)],
)
def test_the_full_text_of_an_error_is_in_the_log_alone_and_off_is_off_everywhere(
    caplog, error_text, in_the_log, in_the_span
):
    caplog.set_level(logging.INFO)
    shelf = Shelf()
    hop = recorder().close(10**9)
    hop = replace(hop, exchange=replace(hop.exchange, error_detail="at …"))
    records = Records(shelf, is_exact=False, error_text=error_text)
    records.put(lambda: hop, event_count=0, about={"error_text": "at jane's"})

    assert caplog.records[0].error_detail == in_the_log
    assert span_to_hop(shelf.spans[0]).exchange.error_detail == in_the_span


async def test_the_line_says_what_is_known_beside_the_record_also_of_a_long_one(caplog, running):
    caplog.set_level(logging.INFO)
    records = Records(None, is_exact=False)
    async with running(records.run()):
        for event_count in (0, LONG_EVENTS):
            found = recorder(event_count=event_count)
            about = {"listener": "listen", "queued_ms": 500.0}
            records.put(lambda found=found: found.close(10**9), event_count=event_count, about=about)
        await records.wait_empty()

    assert [(line.listener, line.queued_ms) for line in caplog.records] == [("listen", 500.0)] * 2


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
    assert (line.closed_after_ms, line.wasted_events, line.missing_bytes) == (200.0, 3, 9)
    assert (line.cut, line.error_type, line.stamped) == ("reset", "slow_reader", True)


def test_a_muted_record_is_told_and_counted_and_gives_no_span(caplog):
    caplog.set_level(logging.INFO)
    shelf = Shelf()
    observed = Observed()
    records = Records(shelf, is_exact=False, observing=observed)
    found = recorder(event_count=LONG_EVENTS)
    found.mute()
    records.put(lambda: found.close(10**11), event_count=found.event_count, is_muted=True)
    put(records, recorder())

    assert (records.muted_count, observed.ended, len(shelf.spans)) == (
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
