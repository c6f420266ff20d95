import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Anchor, Blocked, Ending, Interval, KernelSample, Phase, Place, RateLimits, Side, State, TapRole
from otel.span import hop_to_span, span_to_hop
from sidecar.export.records import kept
from sidecar.identity import Identity
from sidecar.inspection.stamper import Stamper
from sidecar.recording.asked import Asked
from sidecar.recording.beside import BLOCKS, Beside
from sidecar.recording.recorder import Recorder

MS = 1_000_000
START = 10_000 * MS  # the clock when the request came: offsets count from here
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
PING = b"data: \n\n"
DONE = b"data: [DONE]\n\n"


IDENTITY = Identity(
    request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16, parent_span_id="3" * 16
)


def recorder(*, path="/v1/chat/completions", method="POST", anchor_ns=START, **head) -> Recorder:
    return Recorder(
        Asked(IDENTITY, method=method, path=path, **head),
        place=Place("gateway", TapRole.INGRESS),
        anchor=Anchor(1_700_000_000 * 10**9, anchor_ns, "domain"),
    )


def answered(**head) -> Recorder:
    """An exchange whose answer begins 2 ms after it came."""
    found = recorder()
    found.request_forwarded(START + MS)
    found.answered(START + 2 * MS, **{"status": 200, "content_type": "text/event-stream", **head})
    return found


def pass_on(found, data, at_ms, *, offset_bytes=0):
    found.arrived(data, START + at_ms * MS)
    found.taken(START + at_ms * MS + 50_000, offset_bytes)


def test_a_whole_exchange():
    found = answered()
    found.asked.passed(b"request")
    found.asked.alias_seen("theirs")
    found.asked.alias_seen("r")
    pass_on(found, HELLO, 10)
    pass_on(found, DONE, 20)
    found.upstream_ended(START + 21 * MS, is_clean=True)
    found.downstream_ended(START + 22 * MS, 400)

    hop = found.close(START + 30 * MS)

    assert (hop.state, hop.end.ending, hop.end.ended_by, hop.end.phase) == (
        State.FINAL,
        Ending.COMPLETE,
        Side.UPSTREAM,
        Phase.DRAIN,
    )
    assert hop.end.idle_ns == MS
    assert (hop.aliases, hop.parent_span_id, hop.span_id) == (("theirs",), "3" * 16, "2" * 16)
    moments = hop.moments
    assert (moments.request_forwarded_ns, moments.headers_received_ns) == (MS, 2 * MS)
    assert (moments.upstream_ended_ns, moments.downstream_ended_ns, moments.closed_ns) == (21 * MS, 22 * MS, 30 * MS)
    assert [(s.arrived_ns, s.taken_ns) for s in hop.timeline.stamps] == [
        (10 * MS, 10 * MS + 50_000),
        (20 * MS, 20 * MS + 50_000),
    ]
    assert (hop.traffic.request_bytes, hop.traffic.bytes_in, hop.traffic.event_count) == (7, len(HELLO + DONE), 2)
    assert (hop.exchange.is_stream, hop.exchange.dialect, hop.exchange.status) == (True, "openai_chat", 200)


def test_a_record_is_final_once():
    found = answered()
    found.close(START)

    with pytest.raises(RuntimeError, match="one final record"):
        found.close(START)


def test_what_was_not_taken_was_not_handed_on():
    found = answered()
    pass_on(found, HELLO, 10)
    found.arrived(HELLO, START + 11 * MS)
    found.client_left(START + 15 * MS)
    found.arrived(HELLO, START + 16 * MS)

    hop = found.close(START + 17 * MS)

    assert [stamp.taken_ns is None for stamp in hop.timeline.stamps] == [False, True, True]
    assert (hop.traffic.bytes_in, hop.traffic.bytes_out, hop.traffic.wasted_count) == (3 * len(HELLO), len(HELLO), 1)
    assert (hop.end.ending, hop.end.phase, hop.end.idle_ns) == (Ending.CLIENT_DISCONNECT, Phase.EVENTS, 4 * MS)


def test_a_terminal_event_that_the_reader_did_not_stay_for_is_no_completion():
    found = answered()
    found.arrived(DONE, START + 10 * MS)
    found.client_left(START + 99 * MS)

    assert found.close(START + 99 * MS).end.ending is Ending.CLIENT_DISCONNECT


def test_a_reader_that_leaves_with_the_terminal_event_has_all():
    found = answered()
    pass_on(found, DONE, 10)
    found.client_left(START + 11 * MS)

    end = found.close(START + 12 * MS).end
    assert (end.ending, end.phase, end.framing_incomplete) == (Ending.COMPLETE, Phase.TERMINAL, False)


@pytest.mark.parametrize(
    ("head", "ending"),
    [
        ({}, Ending.MISSING_TERMINAL),
        ({"status": 500}, Ending.COMPLETE),
        ({"content_type": "application/json"}, Ending.COMPLETE),
        ({"content_encoding": "br"}, Ending.COMPLETE),
        ({"has_body": False}, Ending.COMPLETE),
        ({"is_delimited": False}, Ending.MISSING_TERMINAL),
        ({"is_delimited": False, "content_type": "text/plain"}, Ending.UNKNOWN_END),
    ],
)
def test_a_clean_end_without_a_terminal_event(head, ending):
    found = answered(**head)
    pass_on(found, HELLO, 10)
    found.upstream_ended(START + 20 * MS, is_clean=True)

    assert found.close(START + 20 * MS).end.ending is ending


@pytest.mark.parametrize(
    ("steps", "phase"),
    [
        ([], Phase.CONNECT),
        ([lambda r: r.request_forwarded(START)], Phase.HEADERS),
        ([lambda r: r.answered(START, status=200, content_type="text/event-stream")], Phase.FIRST_EVENT),
    ],
)
def test_the_phase_is_how_far_it_came(steps, phase):
    found = recorder()
    for step in steps:
        step(found)
    found.client_left(START + MS)

    assert found.close(START + MS).end.phase is phase


def test_what_the_upstream_did_is_not_changed_by_what_comes_after():
    found = answered()
    found.upstream_ended(START + 5 * MS, is_clean=False)
    found.upstream_ended(START + 6 * MS, is_clean=True)
    found.stopped(Ending.DRAINED, START + 7 * MS)
    found.stopped(Ending.LOST, START + 8 * MS)

    end = found.close(START + 9 * MS).end
    assert (end.ending, end.framing_incomplete) == (Ending.UPSTREAM_CUT, True)


def test_an_answer_of_our_own_has_its_status_and_type():
    found = recorder()
    found.stopped(Ending.REFUSED, START + 5 * MS)
    found.answered_by_us(status=502, error_type="upstream_refused")

    hop = found.close(START + 6 * MS)
    assert (hop.end.ending, hop.end.ended_by, hop.end.phase) == (Ending.REFUSED, Side.UPSTREAM, Phase.CONNECT)
    assert (hop.exchange.status, hop.exchange.error_type, hop.exchange.framing) == (502, "upstream_refused", "none")


def test_segments_follow_one_another_and_the_final_record_has_all():
    found = answered()
    pass_on(found, HELLO, 10)
    found.blocked(START + 11 * MS, START + 12 * MS, 3)
    lag = Interval(START + 5 * MS, START + 13 * MS)
    sample = KernelSample(14 * MS, 1, 0, 0, 65_536, 0, 0, 0)
    first = found.segment(START + 20 * MS, Beside(lag=[lag], samples=[sample], window_peak_bytes=65_536))
    pass_on(found, HELLO, 25)
    found.blocked_since_ns = START + 26 * MS
    later = KernelSample(27 * MS, 2, 0, 0, 65_536, 0, 0, 0)
    second = found.segment(START + 30 * MS, Beside(lag=[lag], samples=[sample, later], window_peak_bytes=65_536))
    found.blocked_since_ns = None
    found.blocked(START + 26 * MS, START + 40 * MS, None)
    final = found.close(START + 50 * MS, Beside(lag=[lag], samples=[sample, later], window_peak_bytes=65_536))

    assert [hop.state for hop in (first, second, final)] == [State.OPEN, State.OPEN, State.FINAL]
    assert [hop.segment_index for hop in (first, second, final)] == [0, 1, 2]
    assert len({hop.span_id for hop in (first, second, final)}) == 3
    assert first.parent_span_id == second.parent_span_id == final.span_id
    assert [[stamp.seq for stamp in hop.timeline.stamps] for hop in (first, second, final)] == [[0], [1], [0, 1]]
    assert first.timeline.blocked == (Blocked(11 * MS, 12 * MS, 3),)
    assert second.timeline.blocked == (Blocked(26 * MS, 30 * MS, None),)
    assert final.timeline.blocked == (Blocked(11 * MS, 12 * MS, 3), Blocked(26 * MS, 40 * MS, None))
    assert [len(hop.timeline.lag) for hop in (first, second, final)] == [1, 0, 1]
    assert [hop.timeline.samples for hop in (first, second, final)] == [(sample,), (later,), (sample, later)]
    assert (first.moments.closed_ns, first.end) == (20 * MS, None)


def test_progress_is_an_event_or_the_last_step_before_one():
    found = recorder()
    assert found.progress_ns == START
    found.request_forwarded(START + MS)
    assert found.progress_ns == START + MS
    found.answered(START + 2 * MS, status=200, content_type="text/event-stream")
    assert found.progress_ns == START + 2 * MS
    pass_on(found, HELLO, 10)
    pass_on(found, PING, 20)
    assert found.progress_ns == START + 10 * MS


def test_the_end_of_the_body_is_acknowledged_as_one_more():
    found = answered()
    pass_on(found, HELLO, 10, offset_bytes=300)
    pass_on(found, DONE, 11, offset_bytes=400)

    assert [found.acked_count(size) for size in (299, 300, 399, 400, 500)] == [0, 1, 1, 2, 2]
    found.downstream_ended(START + 12 * MS, 405)
    assert [found.acked_count(size) for size in (400, 404, 405)] == [2, 2, 3]
    assert recorder().acked_count(10) == 0


def test_when_the_upstream_was_closed_stands_in_the_record():
    found = answered()
    found.client_left(START + 5 * MS)
    found.upstream_closed(START + 6 * MS)

    moments = found.close(START + 7 * MS).moments
    assert (moments.client_left_ns, moments.upstream_closed_ns) == (5 * MS, 6 * MS)


def test_failures_of_looking_can_be_asked_for():
    assert (recorder().failure_count, answered().failure_count) == (0, 0)


def test_of_too_many_blocked_stretches_the_longest_are_kept_and_the_record_says_so():
    found = answered()
    for number in range(BLOCKS):
        found.blocked(START + number * MS, START + number * MS + 2, 0)
    assert not found.segment(START + MS).timeline.is_evidence_thinned
    late_ns = START + BLOCKS * MS
    found.blocked(late_ns, late_ns + 1, 0)
    found.blocked(late_ns + MS, late_ns + 900 * MS, 7)

    timeline = found.close(late_ns + 901 * MS).timeline
    assert len(timeline.blocked) == BLOCKS
    assert timeline.blocked[-1] == Blocked((BLOCKS + 1) * MS, (BLOCKS + 900) * MS, 7)
    assert (timeline.is_evidence_thinned, found.dropped_block_count) == (True, 2)


def test_what_others_saw_of_the_connection_stands_in_every_record():
    found = answered()
    beside = Beside(window_peak_bytes=65_536, round_trip_ns=41_000_000, is_thinned=True)
    for timeline in (found.segment(START + MS, beside).timeline, found.close(START + MS, beside).timeline):
        assert (timeline.window_peak_bytes, timeline.round_trip_ns) == (65_536, 41_000_000)
        assert timeline.is_evidence_thinned
    assert not answered().close(START).timeline.is_evidence_thinned


def test_more_events_than_can_be_kept_cut_the_timeline_short_before_the_last_one():
    found = answered()
    found._body.stamper = Stamper(limit_count=3)
    for number in range(6):
        pass_on(found, HELLO, 10 * number)
        if number == 4:
            segment = found.segment(START + 45 * MS).timeline
    rest = found.segment(START + 55 * MS)
    final = kept(found.close(START + 60 * MS), is_exact=False)

    assert [([s.seq for s in t.stamps], t.is_cut_short) for t in (segment, rest.timeline, final.timeline)] == [
        ([0, 1, 2, 4], True),
        ([5], True),
        ([0, 1, 2, 5], True),
    ]
    assert not final.timeline.is_thinned
    assert span_to_hop(hop_to_span(final)) == final


def test_a_segment_that_cannot_be_made_is_not_tried_again_with_every_event():
    found = answered()
    pass_on(found, HELLO, 10)
    with pytest.raises(TypeError):
        found.segment(START + 20 * MS, Beside(samples=None))

    assert found.fresh_count == 0
    assert found.segment(START + 30 * MS).segment_index == 1
    assert len(found.close(START + 40 * MS).timeline.stamps) == 1


def test_a_record_leaves_quantised_unless_told_otherwise():
    found = answered()
    pass_on(found, HELLO, 10)
    found.blocked(START + 10_123_456, START + 12_654_321, None)
    hop = found.close(START + 20 * MS)

    assert kept(hop, is_exact=False).timeline.unit_ns == 100_000
    assert kept(hop, is_exact=False).timeline.blocked == (Blocked(10_100_000, 12_600_000, None),)
    assert kept(hop, is_exact=True).timeline.blocked == (Blocked(10_123_000, 12_654_000, None),)
    assert kept(hop, is_exact=True).timeline.quantum == 1


def test_a_glance_shows_how_long_it_has_been_silent():
    found = answered()
    pass_on(found, HELLO, 10)
    found.blocked_since_ns = START + 11 * MS

    glance = found.glance(START + 1_010 * MS)
    assert (glance["silent_s"], glance["is_blocked"], glance["events"], glance["phase"]) == (1.0, True, 1, "events")


def test_what_the_request_says_stands_in_the_record():
    found = recorder(content_type="application/json; charset=utf-8")
    found.asked.passed(b'{"model":"asked","messages":["' + b"x" * 2_000)
    found.asked.passed(b'"],"stream":true}')
    found.answered(START, status=200, content_type="text/event-stream")
    pass_on(found, b'data: {"model":"answered","choices":[]}\n\n', 10)

    exchange = found.close(START + 20 * MS).exchange
    assert (exchange.model, exchange.response_model) == ("asked", "answered")
    assert (exchange.request_is_stream, exchange.prompt_bucket) == (True, "<4K")


def test_a_request_that_may_not_be_looked_at_says_nothing():
    for head in ({}, {"content_type": "application/json", "content_encoding": "gzip"}):
        found = recorder(**head)
        found.asked.passed(b'{"model":"asked"}')
        exchange = found.close(START).exchange
        assert (exchange.model, exchange.request_is_stream, exchange.prompt_bucket) == (None, None, None)


def test_a_request_that_cannot_be_looked_at_goes_on_and_is_counted():
    found = recorder(content_type="application/json")
    found.asked.passed(b'{"model":"asked",')
    found.asked._scan._steps = None  # looking on is an error
    found.asked.passed(b'"messages":[1],"stream":true}')

    assert found.failure_count == 1
    assert found.close(START).exchange.model is None


def test_how_a_side_broke_off_and_what_is_missing_stand_in_the_record():
    found = answered()
    found.upstream_ended(START + 5 * MS, is_clean=False, cut="reset", missing_bytes=70)

    hop = found.close(START + 6 * MS)
    assert (hop.end.ending, hop.end.cut, hop.traffic.missing_bytes) == (Ending.UPSTREAM_CUT, "reset", 70)
    left = answered()
    left.client_left(START + 5 * MS, cut="fin")
    assert left.close(START + 6 * MS).end.cut == "fin"


def test_a_reader_that_takes_nothing_is_given_up_with_a_reason():
    found = answered()
    pass_on(found, HELLO, 10)
    found.arrived(DONE, START + 11 * MS)
    found.stopped(Ending.CLIENT_DISCONNECT, START + 60_000 * MS, error_type="slow_reader")
    found.stopped(Ending.DRAINED, START + 60_001 * MS, error_type="later")

    hop = found.close(START + 60_001 * MS)
    assert (hop.end.ending, hop.end.ended_by, hop.end.cut) == (Ending.CLIENT_DISCONNECT, Side.SIDECAR, "timeout")
    assert hop.exchange.error_type == "slow_reader"


class TestAWebSocket:
    def begun(self) -> Recorder:
        found = recorder()
        found.request_forwarded(START + MS)
        found.upgraded(START + 2 * MS, status=101)
        return found

    def test_has_two_timelines(self):
        found = self.begun()
        found.message_sent(0x1, 20, START + 10 * MS, START + 11 * MS)
        found.message_received(0x1, 500, START + 30 * MS)
        found.taken(START + 31 * MS, 500)
        found.message_received(0x8, 4, START + 40 * MS)
        found.taken(START + 41 * MS, 504)
        found.upstream_ended(START + 50 * MS, is_clean=True, cut="fin")

        hop = kept(found.close(START + 60 * MS), is_exact=True)
        assert (hop.end.ending, hop.end.ended_by, hop.exchange.status) == (Ending.COMPLETE, Side.UPSTREAM, 101)
        assert [(s.arrived_ns, s.taken_ns) for s in hop.timeline.stamps] == [(30 * MS, 31 * MS), (40 * MS, 41 * MS)]
        assert [(s.arrived_ns, s.taken_ns) for s in hop.sent.stamps] == [(10 * MS, 11 * MS)]
        assert (hop.traffic.request_bytes, hop.traffic.bytes_in, hop.traffic.bytes_out) == (20, 504, 504)
        assert hop.traffic.event_count == 2
        assert span_to_hop(hop_to_span(hop)) == hop

    def test_is_reported_in_segments_of_both_directions(self):
        found = self.begun()
        found.message_sent(0x1, 20, START + 10 * MS, START + 11 * MS)
        found.message_received(0x1, 500, START + 30 * MS)
        assert (found.event_count, found.fresh_count) == (2, 2)
        first = found.segment(START + 35 * MS)
        found.message_sent(0x1, 20, START + 40 * MS, START + 41 * MS)
        second = found.segment(START + 45 * MS)
        final = found.close(START + 50 * MS)

        assert [len(hop.timeline.stamps) for hop in (first, second, final)] == [1, 0, 1]
        assert [[s.seq for s in hop.sent.stamps] for hop in (first, second, final)] == [[0], [1], [0, 1]]

    def test_is_never_called_stalled(self):
        assert not self.begun().is_watched
        assert recorder().is_watched

    def test_messages_of_anything_else_are_counted_and_not_looked_at(self):
        found = answered()
        found.message_sent(0x1, 20, START, START)
        found.message_received(0x1, 20, START)
        hop = found.close(START)
        assert (hop.traffic.request_bytes, hop.traffic.event_count, hop.sent) == (20, 0, None)


class TestMuted:
    def test_from_the_start_bytes_are_counted_and_nothing_is_looked_at(self):
        found = recorder(content_type="application/json")
        found.mute()
        found.asked.passed(b'{"model":"asked"}')
        found.answered(START + 2 * MS, status=200, content_type="text/event-stream")
        pass_on(found, HELLO, 10)
        found.upstream_ended(START + 20 * MS, is_clean=True)
        found.blocked(START + 3 * MS, START + 9 * MS, None)

        hop = found.close(START + 21 * MS)
        assert (found.is_muted, found.is_watched, found.fresh_count) == (True, False, 0)
        assert (hop.traffic.request_bytes, hop.traffic.bytes_in, hop.traffic.bytes_out) == (17, len(HELLO), len(HELLO))
        assert (hop.traffic.event_count, hop.timeline.stamps, hop.timeline.blocked) == (0, (), ())
        assert (hop.exchange.model, hop.exchange.framing) == (None, "sse")
        assert (hop.end.ending, hop.end.phase) == (Ending.COMPLETE, Phase.DRAIN)

    def test_from_the_middle_on_its_ending_is_that_of_its_framing(self):
        found = answered()
        pass_on(found, HELLO, 10)
        found.mute()
        pass_on(found, b"data: {", 11)
        found.upstream_ended(START + 20 * MS, is_clean=False, cut="framing")

        hop = found.close(START + 21 * MS)
        assert (hop.end.ending, hop.end.cut, hop.end.phase) == (Ending.UPSTREAM_CUT, "framing", Phase.EVENTS)
        assert (hop.traffic.bytes_in, hop.timeline.stamps) == (len(HELLO) + 7, ())

    def test_what_an_event_told_before_still_counts(self):
        found = answered()
        pass_on(found, DONE, 10)
        found.mute()
        found.client_left(START + 20 * MS)

        assert found.close(START + 21 * MS).end.ending is Ending.COMPLETE

    def test_a_websocket_is_muted_too(self):
        found = recorder()
        found.mute()
        found.upgraded(START, status=101)
        found.message_received(0x1, 20, START + MS)
        found.message_sent(0x1, 30, START + MS, START + MS)

        hop = found.close(START + 2 * MS)
        assert (hop.traffic.bytes_in, hop.traffic.request_bytes, hop.traffic.event_count, hop.sent) == (20, 30, 0, None)


STEPS = {
    "forwarded": lambda r, at: r.request_forwarded(at),
    "asked": lambda r, at: r.asked.passed(b'{"model": "m", '),
    "upgraded": lambda r, at: r.upgraded(at, status=101),
    "received": lambda r, at: r.message_received(at % 16, 9, at),
    "message": lambda r, at: r.message_sent(at % 16, 9, at, at + MS),
    "slow": lambda r, at: r.stopped(Ending.CLIENT_DISCONNECT, at, error_type="slow_reader"),
    "answered": lambda r, at: r.answered(at, status=200, content_type="text/event-stream"),
    "hello": lambda r, at: r.arrived(HELLO, at),
    "done": lambda r, at: r.arrived(DONE, at),
    "broken": lambda r, at: r.arrived(b"\xff: \n\n data", at),
    "taken": lambda r, at: r.taken(at, at % 1_000),
    "blocked": lambda r, at: r.blocked(at, at + 5 * MS, 1),
    "clean": lambda r, at: r.upstream_ended(at, is_clean=True),
    "cut": lambda r, at: r.upstream_ended(at, is_clean=False, cut="reset", missing_bytes=7),
    "sent": lambda r, at: r.downstream_ended(at, 5_000),
    "left": lambda r, at: r.client_left(at),
    "closed": lambda r, at: r.upstream_closed(at),
    "drained": lambda r, at: r.stopped(Ending.DRAINED, at),
    "segment": lambda r, at: r.segment(at),
}


@given(
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 500 * MS)), max_size=25),
    is_exact=st.booleans(),
    shift_ns=st.sampled_from([0, 3_600 * 10**9]),
)
def test_whatever_happens_in_whatever_order_there_is_one_record_that_can_travel(steps, is_exact, shift_ns):
    found = recorder(anchor_ns=START + shift_ns, content_type="application/json")
    at_ns = START + shift_ns
    for name, pause_ns in steps:
        at_ns += pause_ns
        STEPS[name](found, at_ns)

    hop = kept(found.close(at_ns), is_exact=is_exact)

    assert hop.state is State.FINAL
    assert span_to_hop(hop_to_span(hop)) == hop
    assert hop.traffic.event_count == len(hop.timeline.stamps)
    assert not hop.timeline.is_cut_short


GEMINI = b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}%s}],"usageMetadata":{"promptTokenCount":9}}\n\n'


@pytest.mark.parametrize(
    ("last", "is_clean", "ending"),
    [
        (b',"finishReason":"STOP"', True, Ending.COMPLETE),
        (b',"finishReason":"STOP"', False, Ending.UPSTREAM_CUT),
        (b"", True, Ending.MISSING_TERMINAL),
    ],
)
def test_a_finish_that_may_be_withdrawn_is_the_end_only_of_a_body_that_came_to_its_end(last, is_clean, ending):
    found = answered()
    pass_on(found, GEMINI % b"" + GEMINI % last, 10)
    found.upstream_ended(START + 20 * MS, is_clean=is_clean)

    hop = found.close(START + 30 * MS)

    assert (hop.exchange.dialect, hop.end.ending) == ("gemini", ending)
    assert (hop.usage.input_tokens, hop.exchange.finish_reasons) == (9, ("STOP",) if last else ())
    assert span_to_hop(hop_to_span(kept(hop, is_exact=True))).usage == hop.usage


def test_what_the_head_says_of_limits_is_recorded():
    limits = RateLimits(request_remaining=0, retry_after_ns=20_000 * MS)

    assert answered(limits=limits).close(START + 3 * MS).limits == limits
    assert answered().close(START + 3 * MS).limits == RateLimits()


def test_the_upstreams_own_id_in_an_error_is_another_id_of_the_request():
    found = answered()
    pass_on(found, b'event: error\ndata: {"type":"error","error":{"type":"x"},"request_id":"req_theirs"}\n\n', 10)

    assert found.close(START + 20 * MS).aliases == ("req_theirs",)


def test_a_stream_that_was_asked_for_by_get_may_have_no_end():
    note = b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n'
    for method, ending in (("GET", Ending.COMPLETE), ("POST", Ending.MISSING_TERMINAL)):
        found = recorder(path="/mcp", method=method)
        found.answered(START, status=200, content_type="text/event-stream")
        pass_on(found, note, 10)
        found.upstream_ended(START + 20 * MS, is_clean=True)
        assert found.close(START + 30 * MS).end.ending is ending


@pytest.mark.parametrize("why", [Ending.LOST, Ending.DRAINED])
def test_an_end_mark_that_never_left_us_makes_no_complete_answer(why):
    found = answered()
    pass_on(found, HELLO, 10)
    found.arrived(DONE, START + 11 * MS)  # it is in our memory, and the reader takes nothing
    found.stopped(why, START + 60 * MS, error_type="overloaded")
    end = found.close(START + 70 * MS).end

    assert (end.ending, end.ended_by) == (why, Side.SIDECAR)


def test_an_end_mark_that_our_kernel_had_taken_before_we_ended_it_does():
    found = answered()
    pass_on(found, HELLO, 10)
    pass_on(found, DONE, 11)
    found.stopped(Ending.DRAINED, START + 60 * MS)

    assert found.close(START + 70 * MS).end.ending is Ending.COMPLETE


def test_a_head_is_no_event_so_that_content_is_waited_for_since_the_request_went_out():
    found = recorder()
    found.request_forwarded(START + 2 * MS)
    found.answered(START + 9 * MS, status=200, content_type="text/event-stream")
    before = found.progress(START + 2 * MS)
    found.arrived(HELLO, START + 12 * MS)
    after = found.progress(START + 2 * MS)

    assert (before.heard_ns, before.progress_ns, before.has_event) == (START + 9 * MS, START + 2 * MS, False)
    assert (after.heard_ns, after.progress_ns, after.has_event) == (START + 12 * MS, START + 12 * MS, True)


def test_where_looking_failed_any_byte_may_be_content():
    found = answered()
    pass_on(found, HELLO, 10)
    found.seen.is_blind = True
    pass_on(found, HELLO, 20)

    assert found.progress(START).progress_ns == found.progress(START).heard_ns == START + 20 * MS
