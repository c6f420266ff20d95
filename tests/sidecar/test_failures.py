import socket
import ssl

import pytest

from otel.hop import Ending
from sidecar.bounds.deadlines import BODY_IDLE, FIRST_EVENT_LATE, SLOW_READER
from sidecar.failures import (
    BAD_ANSWER,
    BAD_FRAMING,
    BAD_REQUEST,
    BAD_VERSION,
    BROKE_OFF,
    FAILURES,
    NO_CODING,
    NO_PLACE,
    NO_TUNNEL,
    NOT_EXPECTED,
    OUR_FAULT,
    REFUSED,
    TIMED_OUT,
    UNKNOWN_NAME,
    UNTRUSTED,
    detail_of,
    failure_of,
    refusal_of,
    stopped,
)
from sidecar.guard.complaint import Complaint
from sidecar.upstream import (
    BadAnswer,
    BadRequestBody,
    BadRequestHead,
    BrokenOff,
    ConnectFailed,
    ConnectTimeout,
    TlsFailed,
)

HTTP_1_0, HTTP_1_1 = (1, 0), (1, 1)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ConnectTimeout(5.0), TIMED_OUT),
        (ConnectFailed("refused", 111), REFUSED),
        (TlsFailed("self-signed"), UNTRUSTED),
        (BadRequestHead("a method is a token"), BAD_REQUEST),
        (BadRequestBody("a body is as long as its length says"), BAD_REQUEST),
        (BadAnswer("an answer begins with HTTP/1"), BAD_ANSWER),
        (BrokenOff("an answer has a head", "fin"), BROKE_OFF),
        (KeyError(), OUR_FAULT),
    ],
)
def test_each_error_means_one_failure(error, failure):
    assert failure_of(error) is failure


def caused(error, cause):
    error.__cause__ = cause
    return error


UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
SELF_SIGNED = ssl.SSLCertVerificationError(1, "text of the peer")


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ConnectFailed("[Errno 111] Connect call failed ('10.0.0.1', 80)", 111), "connection refused"),
        (ConnectFailed("no text at all", None), None),
        (caused(ConnectFailed("nobody"), UNKNOWN), "name or service not known"),
        (
            caused(TlsFailed("self-signed certificate"), SELF_SIGNED),
            "certificate verify failed: self-signed certificate",
        ),
        (TlsFailed("WRONG_VERSION_NUMBER"), "WRONG VERSION NUMBER"),
        (BadAnswer("an answer begins with HTTP/1"), "an answer begins with HTTP/1"),
        (BrokenOff("an answer has a head", "reset"), "broken rule: an answer has a head (reset)"),
        (ConnectTimeout(5.0), None),
        (KeyError("what passed through"), None),
    ],
)
def test_the_log_says_why_in_words_of_the_system_or_of_ours(error, detail):
    assert detail_of(error) == detail


def test_a_name_that_nobody_knows_is_told_from_a_connection_that_is_refused():
    assert failure_of(caused(ConnectFailed("nobody"), UNKNOWN)) is UNKNOWN_NAME


def test_who_finds_the_line_full_is_told_from_who_waited_in_it():
    assert NO_PLACE.keys() == {"queue_full", "queue_timeout"}
    assert len({failure.message for failure in NO_PLACE.values()}) == 2


def test_no_row_of_the_table_is_hidden_by_one_before_it():
    kinds = [kind for kind, _ in FAILURES]

    assert not any(issubclass(kind, earlier) for at, kind in enumerate(kinds) for earlier in kinds[:at])


def test_what_the_upstream_did_is_no_decision_of_ours():
    for failure in (BAD_ANSWER, BROKE_OFF):
        assert (failure.status, failure.ending) == (502, None)
    assert (REFUSED.ending, TIMED_OUT.ending) == (Ending.REFUSED, Ending.REFUSED)


@pytest.mark.parametrize(
    ("method", "version", "fields", "failure"),
    [
        ("GET", HTTP_1_1, [], None),
        ("GET", (2, 0), [], BAD_VERSION),
        ("GET", (1, 2), [], BAD_VERSION),
        ("POST", HTTP_1_1, [("Transfer-Encoding", "chunked")], None),
        ("POST", HTTP_1_1, [("Transfer-Encoding", " , Chunked")], None),
        ("POST", HTTP_1_0, [("Transfer-Encoding", "chunked")], BAD_FRAMING),
        ("POST", HTTP_1_1, [("Transfer-Encoding", "gzip, chunked")], NO_CODING),
        ("POST", HTTP_1_1, [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")], NO_CODING),
        ("POST", HTTP_1_1, [("Transfer-Encoding", "")], NO_CODING),
        ("POST", HTTP_1_1, [("Content-Length", "1"), ("content-length", "1")], BAD_FRAMING),
        ("POST", HTTP_1_1, [("Content-Length", "9" * 19)], BAD_FRAMING),
        ("POST", HTTP_1_1, [("Content-Length", "9" * 18)], None),
        ("CONNECT", HTTP_1_1, [], NO_TUNNEL),
        ("GET", HTTP_1_1, [("Connection", "Upgrade"), ("Upgrade", "websocket")], None),
        ("GET", HTTP_1_1, [("Connection", "Upgrade"), ("Upgrade", "tls/1.2")], NO_TUNNEL),
        ("POST", HTTP_1_1, [("Expect", "100-Continue")], None),
        ("POST", HTTP_1_1, [("Expect", "magic")], NOT_EXPECTED),
        ("POST", HTTP_1_0, [("Expect", "magic")], None),
        ("GET", HTTP_1_1, [("Connection", "upgrade"), ("Upgrade", "h2c")], None),
        ("GET", HTTP_1_1, [("Connection", "upgrade")], NO_TUNNEL),
        ("GET", HTTP_1_1, [("Upgrade", "websocket")], None),
    ],
)
def test_which_requests_are_not_passed_on(method, version, fields, failure):
    assert refusal_of(method, version, fields) is failure


def test_whom_we_end_hears_the_reason_of_the_guard_before_any_other():
    complaint = Complaint("first_event_timeout", "hop: nothing came", 504)

    found = stopped(FIRST_EVENT_LATE, complaint)
    assert (found.status, found.type, found.ending) == (504, "first_event_timeout", Ending.TIMED_OUT_FIRST_EVENT)
    assert found.message == "hop: nothing came"
    assert stopped(BODY_IDLE, None).status == 408
    assert stopped(SLOW_READER, None) is None
