"""One and clear framing for each response, or none at all; what can be reused and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.http1.framing import Framing, FramingKind, framing_of, is_reusable, keep_alive_s
from sidecar.http1.head import Http1Error, ResponseHead

NONE = Framing(FramingKind.NONE)
CHUNKED = Framing(FramingKind.CHUNKED)
CLOSE = Framing(FramingKind.CLOSE)


def length(size_bytes: int) -> Framing:
    return Framing(FramingKind.LENGTH, size_bytes)


def head(*lines: str, status: int = 200, version: tuple[int, int] = (1, 1)) -> ResponseHead:
    fields = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
    return ResponseHead(version, status, "", fields)


# ------------------------------------------------------------------------------------------------------------ bodies


@pytest.mark.parametrize(
    ("lines", "framing"),
    [
        ([], CLOSE),
        (["Content-Length: 0"], length(0)),
        (["content-LENGTH: 5"], length(5)),
        (["Content-Length: 005"], length(5)),
        (["Content-Length: 999999999999999999"], length(10**18 - 1)),
        (["Transfer-Encoding: chunked"], CHUNKED),
        (["transfer-encoding: ChunKed"], CHUNKED),
    ],
)
def test_a_body_is_framed_by_its_fields(lines, framing):
    assert framing_of("GET", head(*lines)) == framing


def test_http_1_0_has_a_length_or_the_end_of_the_connection():
    assert framing_of("GET", head(version=(1, 0))) == CLOSE
    assert framing_of("GET", head("Content-Length: 5", version=(1, 0))) == length(5)


@pytest.mark.parametrize(
    "value", ["", "-1", "+5", "5 ", "0x5", "5.0", "5, 5", "5,", "1_0", "٥", "1000000000000000000", "five"]
)
def test_an_odd_length_is_refused(value):
    with pytest.raises(Http1Error):
        framing_of("GET", ResponseHead((1, 1), 200, "", (("Content-Length", value),)))


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: 5", "Content-Length: 5"],
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 5"],
        ["Transfer-Encoding: foo"],
        ["Transfer-Encoding: "],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked, gzip"],
        ["Transfer-Encoding: chunked, chunked"],
        ["Transfer-Encoding: chunked;q=1"],
        ["Transfer-Encoding: \x0bchunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"],
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_can_be_read_in_two_ways_is_refused(method, lines):
    with pytest.raises(Http1Error):
        framing_of(method, head(*lines))


def test_http_1_0_has_no_transfer_coding():
    with pytest.raises(Http1Error):
        framing_of("GET", head("Transfer-Encoding: chunked", version=(1, 0)))


@pytest.mark.parametrize("lines", [[], ["Content-Length: 100"], ["Transfer-Encoding: chunked"]])
@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("HEAD", 404), ("GET", 204), ("GET", 304)])
def test_some_answers_have_no_body_whatever_their_fields_say(method, status, lines):
    assert framing_of(method, head(*lines, status=status)) == NONE


def test_a_method_is_read_in_its_case():
    assert framing_of("head", head("Content-Length: 5")) == length(5)


# ---------------------------------------------------------------------------------------------------- interim, upgrade


@pytest.mark.parametrize("status", [100, 102, 103, 199])
def test_an_interim_answer_has_no_body(status):
    assert framing_of("GET", head(status=status)) == NONE
    assert framing_of("GET", head("Content-Length: 0", status=status)) == NONE
    for line in ("Content-Length: 5", "Transfer-Encoding: chunked"):
        with pytest.raises(Http1Error):
            framing_of("GET", head(line, status=status))


def test_101_answers_only_a_request_for_an_upgrade():
    assert framing_of("GET", head(status=101), wants_upgrade=True) == NONE
    with pytest.raises(Http1Error):
        framing_of("GET", head(status=101))


def test_an_upgrade_may_be_declined():
    assert framing_of("GET", head("Content-Length: 5"), wants_upgrade=True) == length(5)


def test_connect_makes_no_tunnel():
    assert framing_of("CONNECT", head("Content-Length: 5", status=405)) == length(5)
    with pytest.raises(Http1Error):
        framing_of("CONNECT", head())


# ------------------------------------------------------------------------------------------------------------- reuse


@pytest.mark.parametrize(
    ("lines", "version", "expected"),
    [
        ([], (1, 1), True),
        (["Connection: keep-alive"], (1, 1), True),
        (["Connection: close"], (1, 1), False),
        (["Connection: x, CLOSE"], (1, 1), False),
        (["Connection: keep-alive", "Connection: close"], (1, 1), False),
        ([], (1, 0), False),
        (["Connection: Keep-Alive"], (1, 0), True),
        (["Connection: keep-alive, close"], (1, 0), False),
    ],
)
def test_a_connection_can_be_reused_unless_somebody_said_close(lines, version, expected):
    assert is_reusable(head(*lines, version=version), length(5)) is expected
    assert not is_reusable(head(*lines, version=version), CLOSE)


def test_an_upgraded_connection_cannot_be_reused():
    assert not is_reusable(head(status=101), NONE)


@pytest.mark.parametrize(
    ("line", "expected"),
    [("Content-Length: 0", True), ("Content-Length: 5", False), ("Transfer-Encoding: chunked", False)],
)
def test_a_body_that_is_announced_where_there_is_none_may_still_come(line, expected):
    assert is_reusable(head(line, status=204), NONE) is expected
    assert is_reusable(head(line, status=304), NONE)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("timeout=5", 5.0),
        ("timeout=5, max=100", 5.0),
        ("max=100,Timeout = 15", 15.0),
        ('timeout="5"', 5.0),
        ("timeout=0", 0.0),
        ("timeout=5, timeout=6", 5.0),
        ("timeout=-1", None),
        ("timeout=1e9", None),
        ("timeout=9999999999", None),
        ("timeout", None),
        ("", None),
    ],
)
def test_a_server_may_say_how_long_it_keeps_a_connection(value, seconds):
    assert keep_alive_s(head(f"Keep-Alive: {value}")) == seconds


def test_most_servers_do_not_say():
    assert keep_alive_s(head()) is None


# -------------------------------------------------------------------------------------------------------- any fields

NAMES = st.sampled_from(["Content-Length", "content-length", "Transfer-Encoding", "Connection", "x"])
VALUES = st.sampled_from(["0", "5", "5, 5", "chunked", "chunked, chunked", "gzip", "close", "keep-alive", "", "x"])


@given(
    st.sampled_from(["GET", "HEAD", "CONNECT"]),
    st.sampled_from([100, 101, 200, 204, 304, 500]),
    st.sampled_from([(1, 0), (1, 1)]),
    st.lists(st.tuples(NAMES, VALUES), max_size=4),
    st.booleans(),
)
def test_whatever_the_fields_there_is_one_framing_or_none(method, status, version, fields, wants_upgrade):
    answer = ResponseHead(version, status, "", tuple(fields))
    framing_fields = [name for name, _ in fields if name.lower() in ("content-length", "transfer-encoding")]
    try:
        framing = framing_of(method, answer, wants_upgrade=wants_upgrade)
    except Http1Error:
        assert framing_fields or status == 101 or method == "CONNECT"
        return
    assert len(framing_fields) <= 1
    assert (framing.kind is FramingKind.LENGTH) == (framing.length_bytes is not None)
    assert framing.kind is not FramingKind.CLOSE or not is_reusable(answer, framing)


def test_a_101_goes_on_with_the_protocol_that_was_asked_for():
    def switching(*fields):
        return framing_of("GET", ResponseHead((1, 1), 101, "", fields), wants_upgrade=True)

    assert switching(("Upgrade", "WebSocket"))
    assert switching()
    with pytest.raises(Http1Error, match="asked for"):
        switching(("Upgrade", "h2c"))
