"""MCP: the response is the end, unless the stream was asked for by GET or can be taken up again."""

import pytest

from otel.hop import EventClass
from sidecar.inspection.dialects.mcp import MCP
from sidecar.inspection.events import Reading
from tests.support.dialects import classes, event, seen

SSE = "text/event-stream"
NOTE = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
RESULT = b'event: message\ndata: {"jsonrpc":"2.0","id":2,"result":{"isError":false}}\n\n'


def read(data):
    return MCP.read(event(data, b"message"))


@pytest.mark.parametrize(
    ("message", "event_class"),
    [
        ({"method": "notifications/progress"}, EventClass.CONTROL),
        ({"id": 1, "method": "sampling/createMessage"}, EventClass.CONTROL),
        ({"id": 1, "method": "ping"}, EventClass.KEEPALIVE),
        ({"id": 1, "result": {}}, EventClass.TERMINAL),
        ({"id": "a", "result": {"error": {"code": 1}, "isError": True}}, EventClass.TERMINAL),
        ({"id": 1, "error": {"code": -32603, "message": "secret words"}}, EventClass.ERROR),
    ],
)
def test_a_message_is_classed_by_its_kind(message, event_class):
    one = {"jsonrpc": "2.0", **message}

    assert read(one).event_class is event_class
    assert read(b"[" + event(one).data + b"]").event_class is event_class


def test_an_error_gives_its_code():
    assert read({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}) == Reading(
        EventClass.ERROR, error_code="-32603"
    )
    assert MCP.read(event(b"words", b"error")) == Reading(EventClass.ERROR)


def test_a_response_too_long_to_be_kept_is_the_end():
    long = b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"' + b"x" * 99

    assert MCP.read(event(long, is_cut=True)) == Reading(EventClass.TERMINAL)
    assert MCP.read(event(b'{"jsonrpc":"2.0","method":"x","params":{"a":"', is_cut=True)) == Reading(EventClass.CONTROL)


@pytest.mark.parametrize(
    ("reads", "method", "terminal_seq", "has_rule"),
    [
        ([NOTE, RESULT], "POST", 1, True),
        ([NOTE], "POST", None, True),
        ([NOTE], "GET", None, False),
        ([b"id: 7\n" + NOTE], "POST", None, False),
        ([b"id: 7\ndata:\n\n", NOTE], "POST", None, False),
        ([b"id: 7\n\n", NOTE], "POST", None, False),
        ([b"id: 7\n" + NOTE, RESULT], "POST", 1, False),
    ],
)
def test_the_end_is_asked_for_where_there_must_be_one(reads, method, terminal_seq, has_rule):
    body = seen(reads, content_type=SSE, path="/mcp", method=method)

    assert (body.dialect.name, body.terminal_seq, body.has_terminal_rule) == ("mcp", terminal_seq, has_rule)


def test_a_ping_comment_is_no_event():
    body = seen([b": ping - 2026-05-12\r\n\r\n" + NOTE.replace(b"\n", b"\r\n") + RESULT], content_type=SSE)

    assert (classes(body), body.comment_count) == ("k.", 1)


def test_it_is_known_by_the_version():
    assert MCP.begins(event(b""), {"jsonrpc": "2.0", "method": "x"})
    assert MCP.begins(event([{"jsonrpc": "2.0", "id": 1}]), None)
    assert not MCP.begins(event(b""), {"jsonrpc": "1.0"})
    assert not MCP.begins(event([1, "2.0"]), None)
