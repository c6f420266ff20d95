"""A hop becomes a span and the same hop again; whatever is not a hop's whole span is refused by name."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from otel import otlp, schema
from otel.grain import LEFT_OUT
from otel.hop import Ending, EventClass, RateLimits, State, Usage
from otel.span import (
    CLIENT,
    ERROR,
    INTERNAL,
    SERVER,
    STALL_EVENTS,
    UNSET,
    Span,
    SpanError,
    SpanEvent,
    hop_to_span,
    is_ours,
    span_to_hop,
    without_timeline,
)
from otel.timeline import PART_CHARS
from tests.support.builders import a_hop, a_timeline, hops, ns
from tests.support.examples import EXAMPLES
from tests.support.golden import golden, names, pretty

HEALTHY = hop_to_span(a_hop())
FAILED = hop_to_span(EXAMPLES["failed"])
MAY_BE_ABSENT = {
    "gapline.request_id.aliases",
    "http.response.status_code",
    "gen_ai.request.model",
    "gen_ai.request.stream",
    "gen_ai.response.model",
    "gen_ai.response.id",
    "gapline.request.stream",
    "gapline.request.prompt_bucket",
    "gapline.bytes_missing",
    "gapline.end.cut",
    "gapline.error.type",
    "gapline.error.code",
    "gapline.error.detail",
    "gapline.guard.fired",
    "gapline.dimension.client",
    "gapline.dimension.region",
    "gapline.keepalives",
    "gapline.bytes_injected",
    "gapline.engine.running",
    "gapline.engine.waiting",
    "gapline.engine.kv_cache",
    "gapline.engine.preemptions",
    "gapline.engine.earlier.running",
    "gapline.engine.earlier.waiting",
    "gapline.engine.earlier.kv_cache",
    "gapline.engine.earlier.preemptions",
    "gapline.request_forwarded",
    "gapline.headers_received",
    "gapline.upstream_ended",
    "gapline.client_left",
    "gapline.upstream_closed",
    "gen_ai.response.finish_reasons",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gapline.usage.total_tokens",
    "gapline.ratelimit.requests.limit",
    "gapline.ratelimit.requests.remaining",
    "gapline.ratelimit.requests.reset",
    "gapline.ratelimit.tokens.limit",
    "gapline.ratelimit.tokens.remaining",
    "gapline.ratelimit.tokens.reset",
    "gapline.ratelimit.retry_after",
}
DERIVED = {
    "error.type",
    "gen_ai.response.time_to_first_chunk",
    "gapline.request_id.normalised",
    "gapline.blocked",
    "gapline.gap.max",
    "gapline.gap.max_seq",
}


def with_attributes(span: Span, **changes: object) -> Span:
    """The span with attributes replaced (dots are written as double underscores) or, by None, left out."""
    renamed = {name.replace("__", "."): value for name, value in changes.items()}
    merged = {**span.attributes, **renamed}
    return replace(span, attributes={name: value for name, value in merged.items() if value is not None})


def with_timeline(span: Span, **changes: object) -> Span:
    """The same for the attributes of the timeline event; names stand without `gapline.timeline.`."""
    renamed = {f"gapline.timeline.{name}".replace("__", "."): value for name, value in changes.items()}
    events = []
    for event in span.events:
        merged = {**event.attributes, **renamed} if event.name == schema.TIMELINE_EVENT else event.attributes
        events.append(replace(event, attributes={name: value for name, value in merged.items() if value is not None}))
    return replace(span, events=tuple(events))


def error_of(span: Span) -> str | None:
    try:
        span_to_hop(span)
    except SpanError as error:
        return str(error)
    return None


def event_of(span: Span, name: str) -> SpanEvent:
    (event,) = [event for event in span.events if event.name == name]
    return event


@given(hops())
def test_a_hop_becomes_a_span_and_the_same_hop_again(hop):
    assert span_to_hop(hop_to_span(hop)) == hop


@given(hops())
def test_a_span_read_and_written_again_is_the_same_span(hop):
    assume(not hop.timeline.is_thinned)  # what is derived may be missing from a thinned timeline
    span = hop_to_span(hop)
    assert hop_to_span(span_to_hop(span)) == span


@given(st.integers(0, (1 << 51) - 1))
def test_instants_in_seconds_lose_no_nanosecond_in_26_days(closed_ns):
    hop = a_hop()
    hop = replace(hop, moments=replace(hop.moments, closed_ns=closed_ns))
    assert span_to_hop(hop_to_span(hop)).moments.closed_ns == closed_ns


@pytest.mark.parametrize("closed_ns", [1 << 51, -1])
def test_instants_that_a_double_would_bend_have_no_span(closed_ns):
    hop = a_hop()
    with pytest.raises(SpanError, match=rf"^gapline.closed: {closed_ns} ns is not within"):
        hop_to_span(replace(hop, moments=replace(hop.moments, closed_ns=closed_ns)))


@pytest.mark.parametrize("ending", Ending)
def test_error_is_said_of_failures_only(ending):
    span = hop_to_span(a_hop(ending=ending))
    is_failure = ending not in {Ending.COMPLETE, Ending.CLIENT_DISCONNECT, Ending.UNKNOWN_END}
    assert span.attributes.get("error.type") == (ending.value if is_failure else None)
    assert span.status_code == (ERROR if is_failure else UNSET)


def test_a_span_is_named_by_method_and_hop_and_never_by_path():
    hop = a_hop("gateway")
    assert hop_to_span(hop).name == "POST gateway"
    assert hop_to_span(replace(hop, exchange=replace(hop.exchange, method="XYZZY"))).name == "HTTP gateway"
    assert hop_to_span(EXAMPLES["open_segment"]).name == "POST model-worker segment"


@pytest.mark.parametrize(("name", "kind"), [("healthy", SERVER), ("client", CLIENT), ("open_segment", INTERNAL)])
def test_kinds(name, kind):
    assert hop_to_span(EXAMPLES[name]).kind == kind


def test_a_span_lasts_from_the_anchor_to_the_closing():
    hop = a_hop()
    assert HEALTHY.start_ns == hop.anchor.wall_ns
    assert HEALTHY.end_ns == hop.anchor.wall_ns + hop.moments.closed_ns


class TestNotableEvents:
    def test_are_the_first_output_the_stalls_and_the_leaving_in_order(self):
        assert [event.name for event in FAILED.events] == [
            schema.FIRST_EVENT,
            schema.CLIENT_LEFT_EVENT,
            schema.STALL_EVENT,
            schema.TIMELINE_EVENT,
        ]
        assert event_of(FAILED, schema.STALL_EVENT).attributes == {"gapline.event.seq": 3, "gapline.event.gap": 3.0}
        assert event_of(FAILED, schema.STALL_EVENT).time_ns == FAILED.start_ns + ns(3.34)

    def test_are_at_most_64_and_the_longest_stalls_are_among_them(self):
        arrived, at = [], 0.0
        for i in range(100):
            at += 1 + i
            arrived.append(at)
        span = hop_to_span(a_hop(timeline=a_timeline(arrived)))
        stalls = [event.attributes["gapline.event.seq"] for event in span.events if event.name == schema.STALL_EVENT]
        assert stalls == list(range(100 - STALL_EVENTS, 100))
        assert len(span.events) <= 64

    def test_a_silence_in_a_websocket_is_no_stall(self):
        span = hop_to_span(EXAMPLES["websocket"])
        assert [event.name for event in span.events] == [
            schema.FIRST_EVENT,
            schema.TIMELINE_EVENT,
            schema.SENT_EVENT,
        ]
        assert "gen_ai.response.time_to_first_chunk" not in span.attributes

    def test_a_first_event_without_output_is_not_the_first_event(self):
        kinds = [EventClass.CONTROL, EventClass.KEEPALIVE, EventClass.CONTENT]
        span = hop_to_span(a_hop(timeline=a_timeline([0.1, 0.2, 0.3], classes=kinds)))
        assert event_of(span, schema.FIRST_EVENT).attributes == {"gapline.event.seq": 2}
        assert span.attributes["gen_ai.response.time_to_first_chunk"] == 0.3

    def test_no_first_event_is_claimed_where_the_timeline_does_not_show_it(self):
        span = hop_to_span(EXAMPLES["open_segment"])
        assert [event.name for event in span.events] == [schema.TIMELINE_EVENT]
        assert "gen_ai.response.time_to_first_chunk" not in span.attributes

    @given(st.lists(st.builds(SpanEvent, st.sampled_from(("gapline.stall", "exception", "x")), st.integers(0, 9))))
    def test_are_ignored_by_the_reader(self, others):
        span = replace(HEALTHY, events=(*others, event_of(HEALTHY, schema.TIMELINE_EVENT)))
        assert span_to_hop(span) == a_hop()


class TestSummary:
    def test_says_the_longest_gap_and_how_long_the_reader_took_nothing(self):
        assert FAILED.attributes["gapline.gap.max"] == 3.0
        assert FAILED.attributes["gapline.gap.max_seq"] == 3
        assert FAILED.attributes["gapline.blocked"] == 2.5

    def test_has_no_gap_where_there_are_no_two_events(self):
        assert "gapline.gap.max" not in hop_to_span(EXAMPLES["refused"]).attributes

    def test_calls_the_distance_over_events_left_out_no_gap(self):
        timeline = a_timeline([0.1, 2.1])
        apart = replace(timeline, is_thinned=True, stamps=(timeline.stamps[0], replace(timeline.stamps[1], seq=7)))
        assert "gapline.gap.max" not in hop_to_span(a_hop(timeline=apart)).attributes

    @given(
        st.sampled_from(("gapline.gap.max", "gapline.blocked", "gapline.request_id.normalised", "not.ours")), st.text()
    )
    def test_is_not_read_back(self, name, value):
        assert span_to_hop(with_attributes(HEALTHY, **{name: value})) == a_hop()


class TestReading:
    @pytest.mark.parametrize("name", sorted(FAILED.attributes))
    def test_a_lost_attribute_is_named_unless_it_may_be_absent(self, name):
        lost = replace(FAILED, attributes={key: value for key, value in FAILED.attributes.items() if key != name})
        assert error_of(lost) == (None if name in MAY_BE_ABSENT | DERIVED else f"{name}: missing")

    @pytest.mark.parametrize("name", sorted(FAILED.attributes))
    @pytest.mark.parametrize("wrong", [b"", -1, math.inf, math.nan, (1,)])
    def test_a_value_of_the_wrong_kind_is_named(self, name, wrong):
        error = error_of(replace(FAILED, attributes={**FAILED.attributes, name: wrong}))
        assert (error or "derived").startswith("derived" if name in DERIVED else f"{name}: ")

    def test_a_newer_schema_is_refused_and_says_so(self):
        with pytest.raises(SpanError, match=r"gapline.schema: this reader knows 1 to 1; 2 needs a newer gapline"):
            span_to_hop(with_attributes(HEALTHY, gapline__schema=2))

    def test_a_span_of_an_older_sidecar_lacks_what_is_newer_and_is_read(self):
        hop = span_to_hop(HEALTHY)
        assert not {"gen_ai.response.model", "gapline.request.stream", "gapline.end.cut"} & HEALTHY.attributes.keys()
        assert (hop.exchange.model, hop.exchange.response_model) == ("demo-model", None)
        assert (hop.exchange.request_is_stream, hop.exchange.prompt_bucket) == (None, None)
        assert (hop.sent, hop.traffic.missing_bytes, hop.end.cut) == (None, None, None)
        assert (hop.usage, hop.limits, hop.exchange.finish_reasons) == (Usage(), RateLimits(), ())
        assert (hop.exchange.dimensions, hop.exchange.guard_fired, hop.digests, hop.engine) == ((), (), None, None)
        assert (hop.traffic.keepalive_count, hop.traffic.injected_bytes) == (0, 0)

    def test_another_programs_span_is_none_of_ours(self):
        span = Span(trace_id="ab" * 16, span_id="cd" * 8, name="GET /", start_ns=1, end_ns=2)
        assert not is_ours(span)
        with pytest.raises(SpanError, match=r"^gapline.schema: missing$"):
            span_to_hop(span)

    def test_a_final_span_has_an_end_and_an_open_one_has_none(self):
        opened = hop_to_span(EXAMPLES["open_segment"])
        with pytest.raises(SpanError, match=r"^gapline.ending: missing$"):
            span_to_hop(with_attributes(HEALTHY, gapline__ending=None))
        with pytest.raises(SpanError, match=r"^gapline.ending: an open segment has none$"):
            span_to_hop(with_attributes(opened, gapline__ending="complete"))

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("trace_id", "0" * 32),
            ("trace_id", "AB" * 16),
            ("trace_id", "ab"),
            ("span_id", ""),
            ("parent_span_id", "x" * 16),
        ],
    )
    def test_ids_that_are_none_are_named(self, field, value):
        with pytest.raises(SpanError, match=rf"^{field}: "):
            span_to_hop(replace(HEALTHY, **{field: value}))

    @pytest.mark.parametrize("name", ["gapline.request_id", "gapline.request_id.aliases"])
    def test_a_request_id_that_no_recorder_writes_is_refused_escaped_and_short(self, name):
        hostile = "\x1b[2J" + "x" * 10_000
        value = (hostile,) if name.endswith("aliases") else hostile
        with pytest.raises(SpanError) as caught:
            span_to_hop(with_attributes(HEALTHY, **{name: value}))
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 200

    def test_resource_attributes_of_other_types_are_read_as_text(self):
        hop = span_to_hop(replace(HEALTHY, resource={"service.name": "tap", "process.pid": 7}))
        assert hop.place.resource == (("service.name", "tap"), ("process.pid", "7"))


class TestTimelineEvent:
    LONG = hop_to_span(a_hop(timeline=a_timeline([0.3 + 0.021 * i for i in range(2_000)])))

    def test_parts_are_numbered_and_short(self):
        attributes = event_of(self.LONG, schema.TIMELINE_EVENT).attributes
        assert attributes["gapline.timeline.parts"] == 3
        assert len(attributes["gapline.timeline.part.00"]) == PART_CHARS

    @given(st.integers(0, 2))
    def test_a_lost_part_is_named(self, at):
        with pytest.raises(SpanError, match=rf"^gapline.timeline.part.0{at}: missing$"):
            span_to_hop(with_timeline(self.LONG, **{f"part__0{at}": None}))

    @given(st.integers(0, 2), st.integers(0, 1_000))
    def test_a_cut_part_is_an_error(self, at, kept):
        part = event_of(self.LONG, schema.TIMELINE_EVENT).attributes[f"gapline.timeline.part.0{at}"]
        with pytest.raises(SpanError, match=r"^gapline.timeline: "):
            span_to_hop(with_timeline(self.LONG, **{f"part__0{at}": part[:kept]}))

    def test_the_readers_messages_lie_in_one_of_their_own_which_older_readers_pass_over(self):
        hop = EXAMPLES["websocket"]
        span = hop_to_span(hop)
        event = event_of(span, schema.SENT_EVENT)
        assert event.attributes["gapline.timeline.events"] == 3
        assert event_of(span, schema.TIMELINE_EVENT).attributes["gapline.timeline.events"] == 2
        older = replace(span, events=tuple(other for other in span.events if other is not event))
        assert span_to_hop(older) == replace(hop, sent=None)
        with pytest.raises(SpanError, match=r"^gapline.timeline.sent: 2 events of this name, there must be one$"):
            span_to_hop(replace(span, events=(*span.events, event)))
        cut = replace(event, attributes={**event.attributes, "gapline.timeline.crc32": 0})
        with pytest.raises(SpanError, match=r"^gapline.timeline.sent: checksum"):
            span_to_hop(replace(older, events=(*older.events, cut)))

    def test_swapped_parts_are_an_error(self):
        attributes = event_of(self.LONG, schema.TIMELINE_EVENT).attributes
        first, second = (attributes[f"gapline.timeline.part.0{i}"] for i in range(2))
        with pytest.raises(SpanError, match="checksum"):
            span_to_hop(with_timeline(self.LONG, part__00=second, part__01=first))

    @pytest.mark.parametrize("name", ["format", "events", "bytes", "crc32", "parts"])
    @pytest.mark.parametrize("wrong", [None, 0, 77, "1", True, 1 << 40])
    def test_a_wrong_count_is_named(self, name, wrong):
        with pytest.raises(SpanError, match=r"^gapline\.timeline"):
            span_to_hop(with_timeline(self.LONG, **{name: wrong}))

    @pytest.mark.parametrize("times", [0, 2])
    def test_there_is_exactly_one(self, times):
        events = (event_of(HEALTHY, schema.TIMELINE_EVENT),) * times
        with pytest.raises(SpanError, match=rf"^gapline.timeline: {times} events of this name, there must be one$"):
            span_to_hop(replace(HEALTHY, events=events))

    def test_a_timeline_that_was_not_quantised_has_no_span(self):
        raw = replace(a_timeline(), unit_ns=7)
        with pytest.raises(SpanError, match=r"^gapline.timeline: 300000000 ns is not a whole"):
            hop_to_span(a_hop(timeline=raw))

    @pytest.mark.parametrize("hop", EXAMPLES.values(), ids=EXAMPLES)
    def test_without_it_all_else_of_the_hop_is_the_same(self, hop):
        sent = None if hop.sent is None else LEFT_OUT
        assert span_to_hop(without_timeline(hop_to_span(hop))) == replace(hop, timeline=LEFT_OUT, sent=sent)

    def test_one_left_out_for_its_size_is_said_to_be(self):
        small = without_timeline(self.LONG)
        assert small.attributes == self.LONG.attributes
        assert not [name for name in event_of(small, schema.TIMELINE_EVENT).attributes if "part." in name]
        assert event_of(small, schema.TIMELINE_EVENT).attributes["gapline.timeline.left_out"] is True

    def test_one_that_claims_to_be_left_out_in_another_way_is_refused(self):
        with pytest.raises(SpanError, match=r"^gapline.timeline.left_out: 1 is not true or false$"):
            span_to_hop(with_timeline(HEALTHY, left_out=1))

    def test_a_number_past_the_limits_is_refused(self):
        payload = bytes.fromhex("01 00 01 80 80 80 80 80 80 80 80 80 01") + bytes(4)
        packed = {"bytes": len(payload), "crc32": zlib.crc32(payload), "events": 0}
        part = base64.b64encode(payload).decode()
        with pytest.raises(SpanError, match=r"^gapline.timeline: byte \d+: number is not below 2\*\*53$"):
            span_to_hop(with_timeline(HEALTHY, **packed, part__00=part))


@pytest.mark.parametrize("state", State)
def test_a_hop_whose_end_contradicts_its_state_has_no_span(state):
    hop = a_hop(state=state)
    other = a_hop(state=State.FINAL if state is State.OPEN else State.OPEN)
    with pytest.raises(SpanError, match=r"^gapline.ending: "):
        hop_to_span(replace(hop, end=other.end))


def as_text(span: Span) -> str:
    return pretty(json.loads(otlp.encode_request_json([span]))) + "\n"


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_spans(name):
    text = as_text(hop_to_span(EXAMPLES[name]))
    assert text == golden(f"spans/{name}.json", text)
    assert [span_to_hop(span) for span in otlp.decode_request_json(text.encode())] == [EXAMPLES[name]]


def test_golden_span_without_its_timeline():
    text = as_text(without_timeline(FAILED))
    assert text == golden("spans/timeline_left_out.json", text)


def test_every_golden_span_is_used():
    assert names("spans") == {f"{name}.json" for name in (*EXAMPLES, "timeline_left_out")}
