import gzip
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass, Exchange, Usage
from sidecar.inspection import body as module
from sidecar.inspection.body import LOOKS, Body
from sidecar.inspection.seen import FINISHES

SSE = "text/event-stream"
EVENT_STREAM = "application/vnd.amazon.eventstream"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
ANTHROPIC = b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg","model":"c"}}\n\n'
ERROR = b'data: {"error":{"type":"server_error","code":"overloaded"}}\n\n'


def seen(*arrivals, path="/v1/chat/completions", content_type=SSE, coding=None, **options) -> Body:
    body = Body(path, content_type=content_type, content_encoding=coding, **options)
    for number, data in enumerate(arrivals):
        body.arrived(data, number, is_wasted=False)
    body.ended()
    return body


def classes(body):
    return [stamp.event_class for stamp in body.stamper.stamps()]


def test_the_events_of_a_chat_stream():
    body = seen(HELLO, b": ping\n\n", b"id: 1\n\n", HELLO + DONE, b"data: tail")

    assert classes(body) == [EventClass.CONTENT, EventClass.CONTENT, EventClass.TERMINAL]
    assert [stamp.arrived_ns for stamp in body.stamper.stamps()] == [0, 3, 3]
    assert (body.model, body.response_id, body.terminal_seq) == ("m", "chatcmpl-1", 2)
    assert (body.comment_count, body.dataless_count, body.has_tail) == (1, 1, True)
    assert (body.framing, body.dialect.name, body.has_terminal_rule, body.is_stream) == (
        "sse",
        "openai_chat",
        True,
        True,
    )


def test_the_first_event_tells_the_dialect_where_the_path_does_not():
    assert seen(HELLO, path="/proxy").dialect.name == "openai_chat"
    assert seen(b"data: 1\n\n", HELLO, path="/proxy").dialect.name == "openai_chat"
    assert seen(b": x\n\n", HELLO, path="/proxy").dialect.name == "openai_chat"
    assert seen(*[b"data: 1\n\n"] * LOOKS, HELLO, path="/proxy").dialect.name == "plain"


def test_an_event_knows_better_than_the_path():
    body = seen(ANTHROPIC, path="/v1/chat/completions")

    assert (body.dialect.name, body.model, body.has_terminal_rule) == ("anthropic", "c", True)


def test_a_path_that_no_event_bears_out_is_not_believed():
    strange = b'data: {"piece":"of another API"}\n\n'

    assert seen(*[strange] * LOOKS).dialect.name == "plain"
    assert seen(*[strange] * (LOOKS - 1)).has_terminal_rule
    assert seen(*[b"data:\n\n"] * (2 * LOOKS)).dialect.name == "openai_chat"
    assert seen(HELLO, *[strange] * (2 * LOOKS)).dialect.name == "openai_chat"


def test_what_a_gateway_says_first_does_not_hide_the_stream():
    body = seen(b'data: {"sources":[]}\n\n', ERROR, HELLO, DONE, path="/api/ask")

    assert (body.dialect.name, classes(body)[-2:]) == ("openai_chat", [EventClass.CONTENT, EventClass.TERMINAL])


def test_an_end_mark_that_everybody_uses_proves_an_end_and_its_absence_nothing():
    assert seen(b"data: 1\n\n", DONE, path="/x").terminal_seq == 1
    assert not seen(b"data: 1\n\n", path="/x").has_terminal_rule


def test_the_framing_in_which_an_api_has_no_mark_has_no_rule():
    body = seen(HELLO[6:-1], path="/x", content_type="application/x-ndjson")

    assert (body.dialect.name, classes(body), body.has_terminal_rule) == ("openai_chat", [EventClass.CONTENT], False)


def test_counts_and_reasons_are_gathered_from_wherever_they_come():
    chunk = b'data: {"choices":[{"index":%d,"delta":{},"finish_reason":"%s"}],"usage":{%s}}\n\n'
    body = seen(
        chunk % (0, b"stop", b'"prompt_tokens":8,"completion_tokens":1'),
        chunk % (1, b"length", b'"prompt_tokens":0,"completion_tokens":5'),
        chunk % (2, b"stop", b'"total_tokens":13'),
    )
    asked = body.exchange(Exchange(method="POST", path="/"))

    assert asked.finish_reasons == ("stop", "length")
    assert body.usage == Usage(input_tokens=8, output_tokens=5, total_tokens=13)


def test_no_more_reasons_are_kept_than_answers_have():
    chunk = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"r%d"}]}\n\n'

    assert len(seen(*(chunk % number for number in range(99))).finish_reasons) == FINISHES


def test_the_upstreams_own_id_comes_with_its_error():
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"},"request_id":"req_x"}\n\n'

    assert seen(ANTHROPIC, error, path="/v1/messages").request_alias == "req_x"


def test_the_error_of_a_last_line_without_its_end_is_an_error():
    body = seen(b'{"response":"a","done":false}\n{"error":"out of memory"}', content_type="application/x-ndjson")

    assert (body.error.event_class, body.has_tail, body.terminal_seq) == (EventClass.ERROR, True, None)


def test_no_event_holds_the_loop_for_long():
    odd = [
        b'"' + b"\\" * 900_000,
        b"[" * 900_000,
        b'{"a":[' + b"{}," * 300_000 + b"{}]}",
        b'{"a":NaN,"b":"' + b"x" * 900_000,
    ]
    for data in odd:
        began_ns = time.perf_counter_ns()
        seen(b"data: " + data + b"\n\n", path="/v1/messages")
        assert time.perf_counter_ns() - began_ns < 1_000_000_000  # some 20 ms; nothing may be quadratic


def test_the_first_error_is_kept_as_tokens():
    body = seen(ERROR, ERROR.replace(b"overloaded", b"other"))

    assert (body.error.error_type, body.error.error_code) == ("server_error", "overloaded")


def test_an_encoded_stream_is_seen_decoded_and_counted_as_it_came():
    packed = gzip.compress(HELLO + DONE)
    body = seen(packed[:20], packed[20:], coding="gzip")

    assert classes(body) == [EventClass.CONTENT, EventClass.TERMINAL]
    assert body.size_bytes == len(packed)


def test_a_coding_we_do_not_know_leaves_arrivals_and_no_rule():
    body = seen(b"\x0b\x01", b"\x02", coding="br")

    assert classes(body) == [EventClass.OPAQUE, EventClass.OPAQUE]
    assert (body.framing, body.has_terminal_rule, body.failure_count) == ("sse", False, 0)


def test_a_body_that_breaks_its_coding_is_opaque_from_there():
    head = gzip.compress(HELLO)[:10]
    body = seen(head, b"\xff" * 100, b"more", coding="gzip")

    assert classes(body) == [EventClass.OPAQUE, EventClass.OPAQUE]
    assert (body.has_terminal_rule, body.failure_count) == (False, 0)


def test_a_plain_body_has_an_event_for_each_arrival():
    body = seen(b"{", b"}", content_type="application/json")

    assert classes(body) == [EventClass.OPAQUE, EventClass.OPAQUE]
    assert (body.is_stream, body.has_terminal_rule) == (False, False)


def test_a_muted_body_is_counted_and_keeps_what_it_had_seen():
    body = Body("/v1/chat/completions", content_type=SSE, content_encoding=None)
    body.arrived(HELLO + b"data: the beginning of", 0, is_wasted=False)
    body.mute()
    body.arrived(b" an event\n\n" + DONE + ERROR, 1, is_wasted=False)
    body.ended()

    assert classes(body) == [EventClass.CONTENT]
    assert (body.model, body.terminal_seq, body.error, body.has_tail) == ("m", None, None, False)
    assert body.size_bytes == len(HELLO + b"data: the beginning of an event\n\n" + DONE + ERROR)
    assert not body.has_terminal_rule


def test_keepalives_are_no_progress():
    body = Body("/v1/messages", content_type=SSE, content_encoding=None)
    body.arrived(b'event: message_start\ndata: {"type":"message_start"}\n\n', 5, is_wasted=False)
    body.arrived(b'event: ping\ndata: {"type":"ping"}\n\n', 9, is_wasted=False)

    assert classes(body)[-1] is EventClass.KEEPALIVE
    assert body.progress_ns == 5


def test_wasted_events_prove_nothing():
    body = Body("/v1/chat/completions", content_type=SSE, content_encoding=None)
    body.arrived(HELLO, 0, is_wasted=False)
    body.arrived(ERROR + DONE, 1, is_wasted=True)

    assert (body.wasted_count, body.stamper.count) == (2, 3)
    assert (body.terminal_seq, body.error) == (None, None)


def test_our_own_mistake_stops_the_looking_and_is_counted(monkeypatch):
    body = Body("/x", content_type=SSE, content_encoding=None)
    body.arrived(HELLO, 0, is_wasted=False)
    monkeypatch.setattr(module.Body, "_note", lambda *_: 1 / 0)
    body.arrived(HELLO, 1, is_wasted=False)
    body.arrived(HELLO, 2, is_wasted=False)
    body.ended()

    assert (body.failure_count, body.size_bytes, body.stamper.count) == (1, 3 * len(HELLO), 1)
    assert not body.has_terminal_rule


@given(
    data=st.binary(max_size=2_000),
    seed=st.integers(0, 2**32),
    content_type=st.sampled_from([SSE, "application/x-ndjson", "application/json", EVENT_STREAM, "text/plain", None]),
    coding=st.sampled_from([None, "gzip", "deflate", "br", "gzip, gzip"]),
    path=st.sampled_from(["/v1/chat/completions", "/v1/messages", "/m:streamGenerateContent", "/"]),
)
def test_no_bytes_make_it_fail(data, seed, content_type, coding, path):
    rng = random.Random(seed)
    at = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    pieces = [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]

    body = seen(*pieces, path=path, content_type=content_type, coding=coding)

    assert body.failure_count == 0
    assert body.size_bytes == len(data)


@given(
    st.lists(st.sampled_from([HELLO, b": ping\n\n", b"id: 1\n\n", b"data: 1\r\n\r\n", b"data: 2\rdata: 3\r\r", DONE])),
    st.lists(st.integers(0, 400)),
)
def test_no_event_counts_as_acknowledged_before_its_last_byte_is(blocks, cuts):
    stream = b"".join(blocks)
    ends = [
        seen_bytes
        for seen_bytes in range(1, len(stream) + 1)
        for _ in range(count_after(stream[:seen_bytes]) - count_after(stream[: seen_bytes - 1]))
    ]
    body, at = Body("/v1/chat/completions", content_type=SSE, content_encoding=None), 0
    for number, cut in enumerate([*sorted({min(cut, len(stream)) for cut in cuts}), len(stream)]):
        body.arrived(stream[at:cut], number, is_wasted=False)
        body.stamper.taken(number, cut)
        at = cut

    for acked in range(len(stream) + 1):
        assert body.stamper.acked_count(acked) <= sum(end <= acked for end in ends)
    assert body.stamper.acked_count(len(stream)) == len(ends)


def count_after(stream):
    body = Body("/v1/chat/completions", content_type=SSE, content_encoding=None)
    body.arrived(stream, 0, is_wasted=False)
    return body.stamper.count


def test_what_comes_in_one_read_is_acknowledged_event_by_event():
    body = seen(HELLO + b": ping\n\n" + HELLO + HELLO[:10])
    body.stamper.taken(1, 1_000)
    first, second = 1_000 - 10 - len(HELLO) - len(b": ping\n\n"), 1_000 - 10

    assert [body.stamper.acked_count(acked) for acked in (first - 1, first, second - 1, second)] == [0, 1, 1, 2]


def test_where_the_events_of_a_coded_body_end_on_the_wire_is_not_known():
    body = seen(gzip.compress(HELLO * 2), coding="gzip")
    body.stamper.taken(1, 1_000)

    assert [body.stamper.acked_count(acked) for acked in (999, 1_000)] == [0, 2]


def test_an_odd_event_is_opaque_and_the_next_one_is_read_again():
    odd = b'data: {"choices":[{"index":0,"delta":{"content":[{"type":["text"],"text":5}]}}]}\n\n'
    body = Body("/v1/chat/completions", content_type="text/event-stream", content_encoding=None)
    body.arrived(odd + b'data: {"choices":[{"index":0,"delta":{"content":"ok"}}]}\n\n', 1, is_wasted=False)
    assert body.stamper.count == 2
    assert body.stamper.stamps()[1].event_class is EventClass.CONTENT
    assert body.has_terminal_rule


def test_an_end_mark_without_its_blank_line_is_the_end_mark():
    body = Body("/v1/chat/completions", content_type="text/event-stream", content_encoding=None)
    body.arrived(b'data: {"choices":[{"index":0,"delta":{"content":"ok"}}]}\n\ndata: [DONE]\n', 1, is_wasted=False)
    body.ended()
    assert body.has_tail
    assert body.terminal_seq is not None


@pytest.mark.parametrize("line", [b"data:\n\n", b"\n", b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'])
def test_a_small_read_that_unpacks_to_very_many_lines_is_not_looked_at(line):
    packed = gzip.compress(line * 200_000)

    assert len(packed) < 100_000
    assert classes(seen(packed, coding="gzip")) == [EventClass.OPAQUE]


def test_an_event_of_ours_may_stand_between_events_and_nowhere_else():
    body = Body("/v1/chat/completions", content_type=SSE, content_encoding=None)
    found = [body.is_at_boundary]
    for data in (HELLO, b"data: a", b"\n", b"\n", b": ping\r\n\r", b"\n"):
        body.arrived(data, 0, is_wasted=False)
        found.append(body.is_at_boundary)

    assert found == [True, True, False, False, True, False, True]
    body.mute()
    assert not body.is_at_boundary


@pytest.mark.parametrize(
    ("coding", "is_plain"), [(None, True), ("Identity", True), ("", True), ("gzip", False), ("br", False)]
)
def test_in_an_encoded_body_there_is_no_place_for_an_event_of_ours(coding, is_plain):
    assert Body("/", content_type=SSE, content_encoding=coding).is_at_boundary is is_plain
    assert not Body("/", content_type="text/plain", content_encoding=coding).is_at_boundary


def test_signs_of_life_are_no_events():
    body = Body("/v1/messages", content_type=SSE, content_encoding=None)
    body.arrived(b': x\n\nevent: ping\ndata: {"type":"ping"}\n\n', 0, is_wasted=False)
    assert not body.has_event
    body.arrived(ANTHROPIC, 1, is_wasted=False)
    assert body.has_event


def test_a_refusal_is_read_and_is_no_error_event():
    refused = b'{"error":{"type":"rate_limit_error","code":"429","message":"rate limit for zanzibar reached"}}'
    body = seen(refused[:9], refused[9:], content_type="application/json", status=429)

    assert body.error is None
    assert (body.refusal.error_type, body.refusal.error_detail) == ("rate_limit_error", "rate limit for … reached")
    assert body.refusal.error_text == "rate limit for zanzibar reached"
    assert seen(refused, content_type="application/json", status=200).refusal is None


def test_a_refusal_that_cannot_be_read_is_counted(monkeypatch):
    monkeypatch.setattr("sidecar.inspection.error_body.error_reading", None)
    body = seen(b"{}", content_type="application/json", status=500)

    assert (body.refusal, body.failure_count) == (None, 1)


def test_a_muted_body_says_nothing_of_its_refusal():
    body = Body("/", content_type="application/json", content_encoding=None, status=500)
    body.arrived(b'{"error":{"type":"x"}}', 0, is_wasted=False)
    body.mute()
    body.ended()

    assert body.refusal is None


def test_a_dialect_that_chokes_on_a_trial_of_ours_spoils_nothing_but_the_shape():
    body = Body("/v1/chat/completions", content_type="text/event-stream", content_encoding=None)
    read = body._read_event

    def choking(event):
        if b'"x"' in event.data:  # what trials put in the place of a text
            raise KeyError("x")
        return read(event)

    body._read_event = choking
    for number in range(5):
        body.arrived(b'data: {"choices":[{"delta":{"content":"hello"}}]}\n\n', number, is_wasted=False)

    assert (body.stamper.count, body.stamper.position, body.is_blind) == (5, 25, False)
    assert body.failure_count > 0
