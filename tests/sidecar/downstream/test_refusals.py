import pytest
from aiohttp.http_exceptions import BadHttpMessage, InvalidHeader, LineTooLong, TransferEncodingError
from hypothesis import given
from hypothesis import strategies as st

from sidecar.downstream.refusals import OTHER, RULES, TELL_NS, TOO_LONG, RefusedHeads, rule_of
from tests.support.clock import FakeClock
from tests.support.front import ask_raw, front

HEAD = b"POST / HTTP/1.1\r\nHost: h\r\n"


@pytest.mark.parametrize(
    ("sent", "rule"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", "line_too_long"),
        (HEAD + b"A: " + b"a" * 70_000 + b"\r\n\r\n", "line_too_long"),
        (HEAD + b"A: b\r\n" * 300 + b"\r\n", "too_many_lines"),
        (HEAD + (b"A: " + b"a" * 60_000 + b"\r\n") * 20 + b"\r\n", "head_too_long"),
        (b"nonsense\r\n\r\n", "bad_request_line"),
        (b"GE@T / HTTP/1.1\r\nHost: h\r\n\r\n", "bad_request_line"),
        (b"GET http://[::1/ HTTP/1.1\r\nHost: h\r\n\r\n", "bad_request_line"),
        (b"GET / HTTP/1.2\r\nHost: h\r\n\r\n", "bad_request_line"),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "bad_framing"),
        (HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "bad_framing"),
        (HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n", "bad_framing"),
        (b"GET / HTTP/1.1\r\n\r\n", "bad_host"),
        (HEAD + b"Host: other\r\n\r\n", "bad_host"),
        (HEAD + b"A b: c\r\n\r\n", "bad_field"),
        (HEAD + b"A: b\x01\r\n\r\n", "bad_field"),
    ],
)
async def test_each_head_is_refused_by_its_rule(sent, rule, caplog):
    async with front() as at:
        await ask_raw(at.port, sent)

    assert {name: count for name, count in at.refused_heads.counts.items() if count} == {rule: 1}
    (line,) = [record for record in caplog.records if record.message == "head refused"]
    assert (line.rule, line.listener, line.since_last) == (rule, "listen", 1)
    assert rule == "head_too_long" or line.peer.startswith("127.0.0.1:")


def test_what_the_parser_quotes_of_the_client_decides_nothing():
    assert rule_of(BadHttpMessage("Something else:\n\n  b'Content-Length: 1'\n  ^")) == OTHER
    assert rule_of(None) == rule_of(ValueError("Content-Length")) == OTHER


def test_kinds_that_only_the_other_parser_of_aiohttp_has():
    assert rule_of(InvalidHeader(b"A b")) == "bad_field"
    assert rule_of(TransferEncodingError("no such length")) == "bad_framing"
    assert rule_of(LineTooLong("a", 1)) in TOO_LONG


@given(st.text())
def test_there_are_no_rules_but_those_that_are_counted_from_the_start(text):
    assert rule_of(BadHttpMessage(text)) in RULES


def test_a_line_a_second_says_how_many_there_were(caplog):
    clock = FakeClock()
    refused = RefusedHeads(clock.monotonic_ns)
    for _ in range(3):
        for _ in range(100):
            refused.add(OTHER, listener="egress:far", peer=None)
        clock.advance(TELL_NS)

    assert [line.since_last for line in caplog.records] == [1, 100, 100]
    assert refused.count == 300
