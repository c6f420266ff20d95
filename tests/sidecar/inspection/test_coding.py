"""The decoder sees what a reader sees, as soon as it sees it, and no bomb takes memory."""

import contextlib
import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.coding import CALL_BYTES, CODINGS, MEMBERS, RATIO_FREE_BYTES, CodingError, decoder_for

EVENTS = b"".join(b'data: {"n":%d,"delta":"piece"}\n\n' % n for n in range(50))
WBITS = {"gzip": 31, "zlib": 15, "raw": -15}


def packed(data: bytes, wrapping: str, *, flush_every: int = 0) -> bytes:
    deflate = zlib.compressobj(wbits=WBITS[wrapping])
    if not flush_every:
        return deflate.compress(data) + deflate.flush()
    pieces = [data[i : i + flush_every] for i in range(0, len(data), flush_every)]
    return b"".join(deflate.compress(p) + deflate.flush(zlib.Z_SYNC_FLUSH) for p in pieces) + deflate.flush()


def decoded(content_encoding: str | None, body: bytes, *, step: int = 0) -> bytes:
    decoder = decoder_for(content_encoding)
    assert decoder is not None
    reads = [body[i : i + step] for i in range(0, len(body), step)] if step else [body]
    return b"".join(decoder.decode(read) for read in reads)


@pytest.mark.parametrize("step", [0, 1, 2, 7])
@pytest.mark.parametrize(
    ("content_encoding", "body"),
    [
        (None, EVENTS),
        ("", EVENTS),
        ("identity", EVENTS),
        ("gzip", packed(EVENTS, "gzip")),
        ("x-gzip", packed(EVENTS, "gzip")),
        ("GZIP", packed(EVENTS, "gzip")),
        ("gzip", packed(EVENTS, "gzip", flush_every=30)),
        ("deflate", packed(EVENTS, "zlib")),
        ("deflate", packed(EVENTS, "raw")),
        ("identity, gzip", packed(EVENTS, "gzip")),
        ("gzip,identity , ", packed(EVENTS, "gzip")),
        ("deflate, gzip", packed(packed(EVENTS, "zlib"), "gzip")),
        ("gzip, deflate", packed(packed(EVENTS, "gzip"), "raw")),
        ("gzip, gzip, gzip", packed(packed(packed(EVENTS, "gzip"), "gzip"), "gzip")),
        ("gzip", packed(EVENTS[:100], "gzip") + packed(EVENTS[100:], "gzip")),
        ("gzip", packed(EVENTS, "gzip") + b"\0" * 512),
        ("gzip", packed(EVENTS, "gzip") + b"not a member"),
        ("deflate", packed(EVENTS, "zlib") + b"behind it"),
    ],
)
def test_what_was_encoded_is_decoded_however_it_is_cut(content_encoding, body, step):
    assert decoded(content_encoding, body, step=step) == EVENTS


@pytest.mark.parametrize(
    "content_encoding", ["br", "zstd", "compress", "gzip, br", "*", "gzip;q=1", "gzip" + ", gzip" * CODINGS]
)
def test_what_is_not_known_is_not_decoded(content_encoding):
    assert decoder_for(content_encoding) is None


@pytest.mark.parametrize("wrapping", ["gzip", "zlib", "raw"])
def test_every_flush_of_the_server_is_seen_at_once(wrapping):
    decoder = decoder_for("gzip" if wrapping == "gzip" else "deflate")
    deflate = zlib.compressobj(wbits=WBITS[wrapping])

    for event in (b"data: a\n\n", b"data: b\n\ndata: c\n\nda", b"ta: d\n\n"):
        assert decoder.decode(deflate.compress(event) + deflate.flush(zlib.Z_SYNC_FLUSH)) == event


def test_a_body_that_breaks_off_gives_what_it_had():
    body = packed(EVENTS, "gzip", flush_every=30)

    assert EVENTS.startswith(decoded("gzip", body[: len(body) // 2]))
    assert decoded("gzip", body[: len(body) // 2])


@pytest.mark.parametrize(
    ("content_encoding", "body"),
    [
        ("gzip", b"data: not packed at all\n\n"),
        ("deflate", b"\x78\x9cdata: no deflate\n\n"),
        ("deflate", b"\xff\xff\xff\xff"),
        ("gzip, gzip", packed(b"data: packed once\n\n", "gzip")),
        ("gzip", gzip.compress(b"data: a\n\n") + b"\x1f\x8b\x08broken"),
    ],
)
def test_a_body_that_breaks_its_coding_says_which(content_encoding, body):
    with pytest.raises(CodingError, match=content_encoding.split(",", maxsplit=1)[0]):
        decoded(content_encoding, body)


def test_one_read_unpacks_to_no_more_than_its_limit():
    bomb = packed(bytes(CALL_BYTES + 1), "gzip")

    with pytest.raises(CodingError, match=f"more than {CALL_BYTES} bytes"):
        decoded("gzip", bomb)


def test_the_members_of_one_read_share_its_limit():
    bombs = packed(bytes(CALL_BYTES // 2 + 1), "gzip") * 2

    with pytest.raises(CodingError, match=f"more than {CALL_BYTES} bytes"):
        decoded("gzip", bombs)


@pytest.mark.parametrize(("content_encoding", "wrapping"), [("gzip", "gzip"), ("deflate", "zlib"), ("deflate", "raw")])
def test_what_follows_the_end_takes_no_memory(content_encoding, wrapping):
    decoder = decoder_for(content_encoding)
    assert decoder.decode(packed(EVENTS, wrapping)) == EVENTS
    tracemalloc.start()

    for _ in range(50):
        assert decoder.decode(b"\0" * 100_000) == b""
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 500_000


def test_many_small_reads_unpack_to_no_more_than_the_ratio():
    bomb = packed(bytes(20 * CALL_BYTES), "gzip")
    decoder = decoder_for("gzip")
    unpacked_bytes = 0

    def unpack_all():
        nonlocal unpacked_bytes
        for start in range(0, len(bomb), 500):
            unpacked_bytes += len(decoder.decode(bomb[start : start + 500]))

    with pytest.raises(CodingError, match="more than 200 to 1"):
        unpack_all()

    assert unpacked_bytes <= RATIO_FREE_BYTES


def test_a_bomb_inside_a_bomb_stops_at_the_first_limit():
    bomb = packed(packed(packed(bytes(60 * CALL_BYTES), "gzip"), "gzip"), "gzip")
    tracemalloc.start()

    with pytest.raises(CodingError):
        decoded("gzip, gzip, gzip", bomb)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 4 * CALL_BYTES


def test_thousands_of_empty_members_are_refused():
    member = gzip.compress(b"")

    assert decoded("gzip", member * MEMBERS + gzip.compress(b"x"), step=len(member)) == b"x"
    with pytest.raises(CodingError, match=f"more than {MEMBERS} members"):
        decoded("gzip", member * (MEMBERS + 1))


def test_long_streams_of_nearly_equal_events_are_no_bomb():
    events = b"".join(
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,'
        b'"delta":{"content":" a"},"finish_reason":null}]}\n\n'
        for _ in range(20_000)
    )
    body = packed(events, "gzip", flush_every=len(events) // 20_000)

    assert decoded("gzip", body, step=16_384) == events


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "gzip, deflate"]), st.integers(1, 50))
def test_random_bytes_raise_nothing_but_coding_errors(body, content_encoding, step):
    with contextlib.suppress(CodingError):
        decoded(content_encoding, body, step=step)


@given(st.binary(max_size=2_000), st.sampled_from(list(WBITS)), st.integers(1, 60), st.integers(1, 60))
def test_any_body_comes_back(data, wrapping, flush_every, step):
    body = packed(data, wrapping, flush_every=flush_every)

    assert decoded("gzip" if wrapping == "gzip" else "deflate", body, step=step) == data
