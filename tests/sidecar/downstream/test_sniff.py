from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.downstream.sniff import PREFACE, Opening, opening_of

HELLO = bytes.fromhex("16030100c8010000c40303")
METHODS = [b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"PRI", b"P", b"PRIO"]


def test_the_preface_is_http2_and_what_only_begins_like_it_is_not():
    assert opening_of(PREFACE) is Opening.HTTP2
    assert opening_of(PREFACE + b"\x00\x00\x12\x04") is Opening.HTTP2
    assert opening_of(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX") is Opening.HTTP1
    assert opening_of(b"PRI /x HTTP/1.1\r\n") is Opening.HTTP1


def test_a_client_hello_is_tls_in_every_version():
    assert opening_of(HELLO) is Opening.TLS
    for minor in range(5):
        assert opening_of(bytes([0x16, 3, minor, 0, 200, 1])) is Opening.TLS


def test_a_record_that_is_no_client_hello_is_none_of_ours():
    assert opening_of(bytes([0x16, 3, 1, 0, 200, 2])) is Opening.HTTP1  # a server's part
    assert opening_of(bytes([0x16, 2])) is Opening.HTTP1
    assert opening_of(bytes([0x16, 3, 9])) is Opening.HTTP1
    assert opening_of(bytes([0x15, 3, 1, 0, 2, 1])) is Opening.HTTP1  # an alert


def test_nothing_tells_nothing():
    assert opening_of(b"") is Opening.MORE


@given(st.sampled_from(METHODS), st.binary(max_size=40))
def test_a_request_is_told_by_its_method_alone(method, rest):
    assert opening_of(method + b" /" + rest) is Opening.HTTP1


@given(st.binary(max_size=60))
@example(PREFACE)
@example(HELLO)
@example(b"\x16")
def test_more_bytes_never_change_what_was_told(data):
    told = [opening_of(data[:size]) for size in range(len(data) + 1)]
    decided = [opening for opening in told if opening is not Opening.MORE]

    assert len(set(decided)) <= 1
    assert told[: len(told) - len(decided)] == [Opening.MORE] * (len(told) - len(decided))


@given(st.binary(max_size=60))
def test_it_is_told_with_the_first_byte_that_can_tell(data):
    if opening_of(data) is Opening.MORE:
        assert len(data) < len(PREFACE)
        assert PREFACE.startswith(data) or data[0] == 0x16
