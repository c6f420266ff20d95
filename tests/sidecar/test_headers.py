"""What belongs to one connection ends here; everything else goes on as it came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.headers import (
    HOP_BY_HOP,
    NEVER_NAMED,
    Head,
    answered,
    connection_options,
    end_to_end,
    essence_of,
    is_packed,
    is_websocket,
    request_id_of,
    trace_context_of,
    value_of,
)

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


def names_of(fields):
    return [name for name, _ in fields]


@pytest.mark.parametrize("name", ["Connection", "keep-alive", "TE", "Transfer-Encoding", "UPGRADE"])
def test_fields_of_the_connection_do_not_pass(name):
    assert end_to_end([("Accept", "*/*"), (name, "x")]) == [("Accept", "*/*")]


@pytest.mark.parametrize("name", ["Proxy-Connection", "Proxy-Authorization", "proxy-authenticate"])
def test_what_is_meant_for_a_proxy_does_not_pass(name):
    assert end_to_end([(name, "x")]) == []


def test_the_status_that_proxies_leave_for_the_reader_passes():
    assert names_of(end_to_end([("Proxy-Status", "cache; error=timeout")])) == ["Proxy-Status"]


def test_fields_that_connection_names_do_not_pass():
    fields = [
        ("Connection", "close, X-Hop"),
        ("x-hop", "1"),
        ("connection", "  x-OTHER "),
        ("X-Other", "2"),
        ("A", "3"),
    ]

    assert end_to_end(fields) == [("A", "3")]


@pytest.mark.parametrize("name", ["Host", "Content-Length", "Authorization", "content-type"])
def test_connection_cannot_take_away_what_the_message_means(name):
    assert names_of(end_to_end([("Connection", name), (name, "x")])) == [name]


def test_order_repetition_and_spelling_stay():
    fields = [("Set-Cookie", "a=1"), ("X-b", "2"), ("SET-COOKIE", "a=2"), ("x-B", " 2 ")]

    assert end_to_end(fields) == fields


def test_connection_options_are_those_of_all_its_fields():
    assert connection_options([("Connection", "Close,, x-a"), ("connection", "TE")]) == {"close", "x-a", "te"}
    assert connection_options([]) == frozenset()


def test_a_repeated_field_is_one_list():
    assert value_of([("Content-Encoding", "gzip"), ("x", "y"), ("content-encoding", "br")], "CONTENT-encoding") == (
        "gzip, br"
    )
    assert value_of([("x", "")], "x") == ""
    assert value_of([("x", "y")], "z") is None


@pytest.mark.parametrize(
    ("fields", "request_id"),
    [
        ([("X-Request-ID", "abc")], "abc"),
        ([("x-request-id", "  abc ")], "abc"),
        ([("X-Request-Id", ""), ("X-Request-Id", "second")], "second"),
        ([("X-Request-Id", " ")], None),
        ([("Request-Id", "abc")], None),
        ([], None),
    ],
)
def test_the_request_id_is_the_first_that_is_not_empty(fields, request_id):
    assert request_id_of(fields) == request_id


def test_the_names_of_request_ids_are_asked_in_order_of_trust():
    fields = [("X-Correlation-Id", "second"), ("X-Request-Id", "first")]

    assert request_id_of(fields, ("X-REQUEST-ID", "x-correlation-id")) == "first"
    assert request_id_of(fields, ("x-nothing", "x-correlation-id")) == "second"
    assert request_id_of(fields, ()) is None


def test_the_trace_context_is_that_of_a_valid_traceparent():
    assert trace_context_of([("Traceparent", f" {TRACEPARENT} ")]) == (TRACE_ID, "00f067aa0ba902b7")


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("traceparent", "00-zz-00f067aa0ba902b7-01")],
        [("traceparent", "")],
        [("traceparent", TRACEPARENT), ("Traceparent", TRACEPARENT)],
    ],
)
def test_no_trace_context_is_better_than_a_doubtful_one(fields):
    assert trace_context_of(fields) is None


_NAMES = st.sampled_from(
    [*HOP_BY_HOP, *NEVER_NAMED, "Connection", "Host", "X-A", "x-a", "X-B", "Cookie", "Keep-Alive", "traceparent"]
)
_VALUES = st.sampled_from(["", "1", "close", "x-a", "X-A, x-b", "host, cookie", "content-length", " te ,"])
_FIELDS = st.lists(st.tuples(_NAMES, _VALUES), max_size=10)


@given(_FIELDS)
def test_what_passes_is_what_is_neither_hop_by_hop_nor_named(fields):
    passed = end_to_end(fields)
    options = connection_options(fields)

    assert passed == [
        (name, value)
        for name, value in fields
        if name.lower() in NEVER_NAMED or not (name.lower() in HOP_BY_HOP or name.lower() in options)
    ]
    assert end_to_end(passed) == passed


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=30)), max_size=6))
def test_any_text_is_read_without_an_error(fields):
    end_to_end(fields)
    request_id_of(fields)
    trace_context_of([*fields, ("traceparent", fields[0][1] if fields else "")])


def test_only_a_get_that_wants_that_upgrade_alone_asks_for_a_websocket():
    fields = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "WebSocket")]

    assert is_websocket("GET", (1, 1), fields)
    assert not is_websocket("POST", (1, 1), fields)
    assert not is_websocket("GET", (1, 0), fields)
    assert not is_websocket("GET", (1, 1), [("Upgrade", "websocket")])
    assert not is_websocket("GET", (1, 1), [("Connection", "Upgrade"), ("Upgrade", "websocket, h2c")])
    assert not is_websocket("GET", (1, 1), [*fields, ("Content-Length", "1")])


@pytest.mark.parametrize("said", ["text/event-stream", " Text/Event-Stream ; charset=utf-8", "text/event-stream;"])
def test_a_media_type_is_the_same_however_it_is_spelt(said):
    assert essence_of(said) == "text/event-stream"


def test_no_media_type_is_none():
    assert essence_of(None) == essence_of("") == essence_of("; charset=utf-8") == ""


@pytest.mark.parametrize("said", [None, "", "identity", " Identity , identity", ","])
def test_identity_is_no_coding(said):
    assert not is_packed(said)


@pytest.mark.parametrize("said", ["gzip", "identity, br", "x-unknown"])
def test_every_other_one_is(said):
    assert is_packed(said)


def test_an_answer_carries_the_request_id_unless_it_has_one():
    ours = ("X-Request-Id", "r")

    assert answered([("A", "1")], 200, request_id=ours) == [("A", "1"), ours]
    assert answered([("x-request-ID", "theirs")], 200, request_id=ours) == [("x-request-ID", "theirs")]


def test_only_a_426_keeps_its_upgrade():
    fields = [("Upgrade", "websocket"), ("Connection", "upgrade")]
    ours = ("X-Request-Id", "r")

    assert answered(fields, 200, request_id=ours) == [ours]
    assert answered(fields, 426, request_id=ours) == [ours, ("Connection", "Upgrade"), ("Upgrade", "websocket")]


_NAMES = ["X-Request-Id", "x-request-id", "Connection", "traceparent", "Upgrade", "Content-Length", "X-A"]
_ASKED = st.sampled_from(_NAMES)
_SAID = st.sampled_from(["", " ", "a", "close, X-A", "Upgrade", "websocket", TRACEPARENT])


@given(st.lists(st.tuples(_ASKED, _SAID), max_size=6))
def test_a_head_with_its_values_by_name_says_the_same(fields):
    head = Head(fields)

    assert head == fields
    assert [value_of(head, name) for name, _ in fields] == [value_of(fields, name) for name, _ in fields]
    for asked in (connection_options, end_to_end, request_id_of, trace_context_of, lambda f: value_of(f, "X-None")):
        assert asked(head) == asked(fields)
    assert is_websocket("GET", (1, 1), head) == is_websocket("GET", (1, 1), fields)
