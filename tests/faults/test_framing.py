"""HTTP/1.1 at its edges: what could be read in two ways is refused or cut, what is legal passes byte for byte."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from contextlib import asynccontextmanager

import pytest

from otel.hop import Ending
from tests.faults import fault, report
from tests.support.processes import until
from tests.support.raw_peers import (
    CUT,
    RESET,
    SILENT,
    WHOLE,
    asked_once,
    chunked,
    raw_client,
    raw_upstream,
    simple,
    streaming,
)
from tests.support.script import get, post, request, sidecar

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
HEAD = "POST /x HTTP/1.1\r\nHost: a\r\n"
SHORT_S = "300ms"


@asynccontextmanager
async def between(answer, **options):
    peers = {name: options.pop(name) for name in ("answers_at_head",) if name in options}
    async with raw_upstream(answer, **peers) as up, sidecar(up.url, **options) as proxy:
        yield up, proxy


async def ok(asked):
    await asked.send(simple())


def sending(*parts, end=None):
    async def answer(asked):
        for part in parts:
            await asked.send(part)
        if end is not None:
            await asyncio.sleep(0.05)
            getattr(asked, end)()

    return answer


# -------------------------------------------------------------------------------------------- cut at every byte


PIECES = (
    'data: {"a":"é日🚀"}\r\n\r\n: ping\r\n\r\nevent: x\r\ndata: b\n\ndata: c\r\rdata: [DONE]\r\n\r\n: bye\n\n'.encode()
)


@fault(23, "bytes and events equal, wherever it is cut")
@report("R048", "a terminal event split over two reads")
@report("R045", "line ends of all three kinds")
async def test_a_body_cut_anywhere_is_the_same_body():
    async def answer(asked):
        at = int(asked.target.rpartition("=")[2])
        await asked.send(streaming())
        for piece in (PIECES[:at], PIECES[at:]):
            if piece:
                await asked.chunk(piece)
                await asyncio.sleep(0.002)
        await asked.send(b"0\r\n\r\n")

    async with between(answer) as (_, proxy), raw_client(proxy.port) as client:
        for at in range(len(PIECES) + 1):
            client.send(get(f"/x?at={at}"))
            got = await client.answer()
            assert (bytes(got.body), got.end) == (PIECES, WHOLE), f"cut at {at}"
        hops = await proxy.hops(len(PIECES) + 1)

    assert {(hop.traffic.event_count, hop.traffic.comment_count, hop.end.ending) for hop in hops} == {
        (4, 2, Ending.COMPLETE)
    }


@fault(23, "one byte a write, through the framing too")
async def test_a_body_sent_byte_by_byte_is_the_same_body():
    wire = chunked(HELLO, b"data: \xc3\xa9\r\n\r\n", DONE)

    async def answer(asked):
        await asked.send(streaming())
        for at in range(len(wire)):
            await asked.send(wire[at : at + 1])
            await asyncio.sleep(0)

    async with between(answer) as (_, proxy):
        got = await asked_once(proxy.port, get(CHAT))
        hop = await proxy.hop()

    assert (bytes(got.body), got.end) == (HELLO + b"data: \xc3\xa9\r\n\r\n" + DONE, WHOLE)
    assert (hop.traffic.event_count, hop.end.ending) == (3, Ending.COMPLETE)


@report("R003", "an event leaves when it has come, not when a buffer is full")
@report("R116", "one block a write, and none waits for another")
async def test_an_event_does_not_wait_for_the_next_one():
    passed = asyncio.Queue()

    async def answer(asked):
        await asked.send(streaming())
        for _ in range(50):
            await asked.chunk(HELLO)
            await passed.get()
        await asked.send(b"0\r\n\r\n")

    async with between(answer) as (_, proxy), raw_client(proxy.port, get(CHAT)) as client:
        got = await client.head()
        for number in range(50):
            await client.at_least(got, (number + 1) * len(HELLO), within_s=2)
            passed.put_nowait(None)
        await client.rest(got)

    assert (bytes(got.body), got.end) == (HELLO * 50, WHOLE)
    assert len(got.chunks) == 51


@report("R049", "many events in one write: all of them, and at one time")
async def test_many_events_in_one_write_are_all_seen():
    async with between(sending(streaming() + chunked(HELLO * 500 + DONE))) as (_, proxy):
        got = await asked_once(proxy.port, get(CHAT))
        hop = await proxy.hop()

    assert bytes(got.body) == HELLO * 500 + DONE
    assert hop.traffic.event_count == 501
    assert len({stamp.arrived_ns for stamp in hop.timeline.stamps}) < 20


@report("R011", "what left one flush has one time, and what is cut waits for its rest")
async def test_events_of_one_flush_share_their_time_and_half_an_event_waits():
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(HELLO * 3) + packer.flush(zlib.Z_SYNC_FLUSH)
    half = packer.compress(HELLO[:20]) + packer.flush(zlib.Z_SYNC_FLUSH)
    rest = packer.compress(HELLO[20:] + DONE) + packer.flush()

    async def answer(asked):
        await asked.send(streaming("Content-Encoding: gzip"))
        for piece in (first, half, rest):
            await asked.chunk(piece)
            await asyncio.sleep(0.05)
        await asked.send(b"0\r\n\r\n")

    async with between(answer, exact="true") as (_, proxy):
        got = await asked_once(proxy.port, get(CHAT))
        hop = await proxy.hop()

    times = [stamp.arrived_ns for stamp in hop.timeline.stamps]
    assert bytes(got.body) == first + half + rest
    assert len(times) == 5
    assert times[0] == times[1] == times[2]
    assert times[3] - times[2] > 80_000_000, "the half one came in between and is none"


@report("R017", "a quiet stream that is closed in order is not whole for that")
async def test_an_orderly_close_without_the_end_mark_never_looks_whole():
    async def answer(asked):
        await asked.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + HELLO)
        await asyncio.sleep(0.2)
        asked.close()

    async with between(answer) as (_, proxy):
        got = await asked_once(proxy.port, get(CHAT))
        hop = await proxy.hop()

    assert (bytes(got.body), got.end) == (HELLO, CUT)
    assert hop.end.ending is Ending.MISSING_TERMINAL
    assert hop.end.idle_ns > 150_000_000, "how long it had been quiet is known"


@report("R115", "bytes of no character set")
@pytest.mark.parametrize("content_type", ["application/octet-stream", "text/event-stream; charset=latin-1"])
async def test_any_bytes_pass(content_type):
    body = bytes(range(256)) * 8
    async with between(sending(streaming(content_type=content_type) + chunked(body))) as (_, proxy):
        got = await asked_once(proxy.port, get())

    assert (bytes(got.body), got.values("content-type")) == (body, [content_type.encode()])


# ------------------------------------------------------------------------------------ requests that mean two things


SMUGGLED = {
    "length and chunked": HEAD
    + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + "GET /y HTTP/1.1\r\nHost: a\r\n\r\n",
    "two lengths": HEAD + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "twice the same length": HEAD + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": HEAD + "Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": HEAD + "Content-Length: +5\r\n\r\nhello",
    "a negative length": HEAD + "Content-Length: -1\r\n\r\n",
    "a hexadecimal length": HEAD + "Content-Length: 0x5\r\n\r\nhello",
    "a length with an underscore": HEAD + "Content-Length: 5_0\r\n\r\nhello",
    "an empty length": HEAD + "Content-Length: \r\n\r\nhello",
    "a length of 30 digits": HEAD + f"Content-Length: {'9' * 30}\r\n\r\nhello",
    "a length that is no ASCII digit": HEAD + "Content-Length: \xb2\r\n\r\nhi",
    "chunked twice": HEAD + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked on two lines": HEAD + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked before another": HEAD + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an unknown coding": HEAD + "Transfer-Encoding: chunkedchunked\r\n\r\n0\r\n\r\n",
    "a coding behind a VT": HEAD + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": "POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before a colon": HEAD + "Content-Length : 5\r\n\r\nhello",
    "a folded field": HEAD + "X: 1\r\n folded\r\nContent-Length: 0\r\n\r\n",
    "a NUL in a value": HEAD + "X: a\0b\r\nContent-Length: 0\r\n\r\n",
    "a CR in a value": HEAD + "X: a\rb\r\nContent-Length: 0\r\n\r\n",
    "two hosts": HEAD + "Host: b\r\nContent-Length: 0\r\n\r\n",
    "a line without a colon": HEAD + "NoColon\r\nContent-Length: 0\r\n\r\n",
    "a version that is none": "GET / HTTP/1.2.3\r\nHost: a\r\n\r\n",
}


@fault(37, "refused, connection closed, nothing upstream")
@report("R119", "a length and chunked")
@report("R121", "lengths that are no lengths")
@pytest.mark.parametrize("behind", [False, True], ids=["alone", "behind a good one"])
@pytest.mark.parametrize("sent", SMUGGLED.values(), ids=SMUGGLED)
async def test_a_request_that_can_be_read_in_two_ways_is_refused(sent, behind):
    async with between(ok) as (up, proxy), raw_client(proxy.port) as client:
        if behind:
            client.send(get("/before"))
            assert (await client.answer()).status == 200
        client.send(sent.encode("latin-1"))
        got = await client.answer()
        assert await client.closed(within_s=2) != SILENT

    assert got.status in {400, 501, 505}
    assert len(up.asked) == behind


BAD_CHUNKS = {
    "a bare LF": b"5\nhello\r\n0\r\n\r\n",
    "an LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "junk behind the size": b"5 zz\r\nhello\r\n0\r\n\r\n",
    "more than its size": b"5\r\nhelloXX\r\n0\r\n\r\n",
    "17 digits": b"10000000000000000\r\nhello\r\n0\r\n\r\n",
    "100 digits": b"f" * 100 + b"\r\n",
}


@fault(37, "chunks that are none never make a whole request upstream")
@report("R122", "variants of the chunk line")
@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
async def test_a_body_of_bad_chunks_is_never_whole_upstream(body):
    async with between(ok, request_body_timeout="1s") as (up, proxy), raw_client(proxy.port) as client:
        client.send(request("POST", "/x", "Transfer-Encoding: chunked") + body)
        got = await client.answer()
        assert await client.closed(within_s=2) != SILENT

    assert got.status in {400, 408}
    assert up.whole_count == 0


@fault(37, "also when they come behind good ones, and later")
@pytest.mark.parametrize("good", [b"", b"5\r\nhello\r\n"], ids=["at the beginning", "behind a good one"])
async def test_a_bad_chunk_that_comes_later_is_refused_at_once(good):
    async with between(ok, request_body_timeout="5s") as (up, proxy), raw_client(proxy.port) as client:
        client.send(request("POST", "/x", "Transfer-Encoding: chunked") + good)
        await until(lambda: up.connection_count, "it is passed on")
        await asyncio.sleep(0.05)
        client.send(b"zz\r\n")
        got = await client.answer(within_s=2)
        hop = await proxy.hop()

    assert got.status == 400
    assert (up.whole_count, hop.end.ending) == (0, Ending.REJECTED)


@report("R122", "what goes upstream is framed by us")
async def test_a_legal_chunked_body_goes_up_in_canonical_chunks():
    wire = b"005;a=b\r\nhello\r\nA\r\n0123456789\r\n000\r\nX-Trailer: 1\r\n\r\n"
    async with between(ok) as (up, proxy):
        got = await asked_once(proxy.port, request("POST", "/x", "Transfer-Encoding: chunked") + wire)

    assert got.status == 200
    assert bytes(up.asked[0].body) == b"hello0123456789"
    assert up.asked[0].field("transfer-encoding") == [b"chunked"]
    assert up.asked[0].field("content-length") == []


# ------------------------------------------------------------------------------------- answers that mean two things


def answer_head(*lines):
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/event-stream", *lines, "", ""]).encode("latin-1")


BAD_HEADS = {
    "two lengths": answer_head("Content-Length: 5", "Content-Length: 6") + b"hello!",
    "twice the same length": answer_head("Content-Length: 5", "Content-Length: 5") + b"hello",
    "length and chunked": answer_head("Content-Length: 5", "Transfer-Encoding: chunked") + chunked(HELLO),
    "an unknown coding": answer_head("Transfer-Encoding: foo") + HELLO,
    "chunked twice": answer_head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunked(HELLO),
    "chunked in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(HELLO),
    "a NUL in a value": answer_head("X: a\0b", "Content-Length: 2") + b"ok",
    "a CR in a value": answer_head("X: a\rb", "Content-Length: 2") + b"ok",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "a status of one digit": b"HTTP/1.1 2 OK\r\n\r\n",
    "an unasked 101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
}


@fault(38, "502, and the next client gets its own answer")
@report("R124", "contradictory heads of an upstream")
@pytest.mark.parametrize("data", BAD_HEADS.values(), ids=BAD_HEADS)
async def test_an_answer_whose_head_can_be_read_in_two_ways_is_a_502(data):
    async def answer(asked):
        await asked.send(simple(body=b"mine") if asked.target == "/next" else data)
        if asked.target != "/next":
            asked.close()

    async with between(answer) as (up, proxy):
        got = await asked_once(proxy.port, post(CHAT, b"{}"))
        following = await asked_once(proxy.port, get("/next"))
        hops = await proxy.hops(2)

    assert (got.status, got.end) == (502, WHOLE)
    assert bytes(following.body) == b"mine"
    assert hops[0].end.ending is Ending.UPSTREAM_CUT
    assert [asked.connection for asked in up.asked] == [0, 1]


SURPLUS = {
    "behind a length": answer_head("Content-Length: 8") + b"12345678EXTRA",
    "behind the last chunk": streaming() + chunked(b"12345678") + b"EXTRA",
    "a second answer": streaming() + chunked(b"12345678") + simple(body=b"EVIL"),
    "behind a length of nothing": answer_head("Content-Length: 0") + b"EVIL",
    "behind a 204": b"HTTP/1.1 204 No Content\r\n\r\n" + simple(body=b"EVIL"),
}


@fault(38, "surplus bytes reach nobody, and their connection is not used again")
@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("data", SURPLUS.values(), ids=SURPLUS)
async def test_surplus_bytes_reach_nobody(data, is_late):
    async def answer(asked):
        if asked.target == "/next":
            await asked.send(simple(body=b"mine"))
        elif is_late:
            cut = data.find(b"12345678") + 8 if b"12345678" in data else data.find(b"\r\n\r\n") + 4
            cut += len(b"\r\n0\r\n\r\n") if b"chunked" in data else 0
            await asked.send(data[:cut])
            await asyncio.sleep(0.05)
            await asked.send(data[cut:])
        else:
            await asked.send(data)

    async with between(answer) as (up, proxy), raw_client(proxy.port, get("/x")) as client:
        got = await client.answer()
        await asyncio.sleep(0.1)
        client.send(get("/next"))
        following = await client.answer()

    assert got.status in {200, 204}
    assert bytes(got.body) in {b"12345678", b""}
    assert bytes(following.body) == b"mine"
    assert [asked.connection for asked in up.asked] == [0, 1]


@fault(38, "bad chunks end the answer, not cleanly")
@pytest.mark.parametrize("bad", [b"5\r\nhelloXX0\r\n\r\n", b"zz\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"-1\r\n\r\n"])
async def test_bad_chunks_of_an_answer_cut_it(bad):
    async with between(sending(streaming() + b"%x\r\n%b\r\n" % (len(HELLO), HELLO), bad, end="close")) as (up, proxy):
        got = await asked_once(proxy.port, get(CHAT))
        await asked_once(proxy.port, get(CHAT))
        hop = await proxy.hop()

    assert got.status == 200
    assert bytes(got.body).startswith(HELLO)
    assert got.end in {CUT, RESET}
    assert (hop.end.ending, hop.end.cut) == (Ending.UPSTREAM_CUT, "framing")
    assert [asked.connection for asked in up.asked] == [0, 1]


# ------------------------------------------------------------------------------------------------------- long heads


@fault(39, "12 KB pass both ways")
@report("R110", "a field of 12 KB, and one of 70 KB")
async def test_fields_of_12_kb_pass_both_ways():
    value = "v" * 12_000
    async with between(sending(simple("200 OK", b"ok", f"X-Long: {value}"))) as (up, proxy):
        got = await asked_once(proxy.port, get("/x", f"Authorization: {value}"))

    assert up.asked[0].field("authorization") == [value.encode()]
    assert (got.status, got.values("x-long")) == (200, [value.encode()])


@fault(39, "70 KB: 431 for a request, 502 for an answer")
async def test_fields_of_70_kb_are_refused_cleanly():
    value = "v" * 70_000
    async with between(sending(simple("200 OK", b"ok", f"X-Long: {value}"))) as (up, proxy):
        asked = await asked_once(proxy.port, get("/x", f"X-Long: {value}"))
        assert not up.asked
        answered = await asked_once(proxy.port, get("/x"))
        (hop,) = await proxy.hops()

    assert (asked.status, asked.end) == (431, WHOLE)
    assert (answered.status, hop.exchange.status) == (502, 502)


@fault(39, "140 lines pass both ways")
@report("R118", "more lines than a library's own limit")
async def test_heads_of_140_lines_pass_both_ways():
    lines = [f"X-{number}: {number}" for number in range(140)]
    async with between(sending(simple("200 OK", b"ok", *lines))) as (up, proxy):
        got = await asked_once(proxy.port, get("/x", *lines))

    assert len([field for field in got.fields if field[0].startswith(b"X-") and field[1].isdigit()]) == 140
    assert up.asked[0].field("x-139") == [b"139"]


@report("R111", "repeated fields, their order and their spelling")
async def test_repeated_fields_keep_order_and_spelling():
    down = ["Set-Cookie: a=1", "X-ODD-case: 1", "set-cookie: b=2", "Vary: A", "vArY: B", "Server-Timing: t;dur=1"]
    up_lines = ["X-Forwarded-For: 1.1.1.1", "Cookie: a=1", "x-forwarded-FOR: 2.2.2.2", "Cookie: b=2"]
    async with between(sending(simple("200 OK", b"ok", *down))) as (up, proxy):
        got = await asked_once(proxy.port, get("/x", *up_lines))

    names = {line.partition(":")[0].encode() for line in down}
    assert [b"%b: %b" % each for each in got.fields if each[0] in names] == [line.encode() for line in down]
    for line in up_lines:
        assert line.encode() in up.asked[0].head.split(b"\r\n")


@report("R005", "a field for the next proxy is not ours to take")
async def test_a_field_for_another_proxy_passes():
    async with between(sending(simple("200 OK", b"ok", "X-Accel-Buffering: no"))) as (_, proxy):
        got = await asked_once(proxy.port, get())

    assert got.values("x-accel-buffering") == [b"no"]


# ----------------------------------------------------------------------------------------------- a byte at a time


@fault(40, "a head that takes too long: 408")
async def test_a_head_that_comes_a_byte_at_a_time_is_a_408():
    async with between(ok, request_head_timeout=SHORT_S) as (up, proxy), raw_client(proxy.port) as client:
        for at in range(40):
            client.send(get("/x", f"X-Pad: {'p' * 100}")[at : at + 1])
            await asyncio.sleep(0.03)
            if client.left_by is not None:
                break
        got = await client.answer(within_s=2)

    assert got.status == 408
    assert not up.asked


@fault(40, "also behind a good request, and an idle connection is no slow head")
async def test_a_slow_head_behind_a_good_request_is_a_408_and_idleness_is_none():
    async with between(ok, request_head_timeout=SHORT_S) as (up, proxy), raw_client(proxy.port) as client:
        client.send(get("/x"))
        assert (await client.answer()).status == 200
        await asyncio.sleep(0.8)
        client.send(get("/x"))
        assert (await client.answer()).status == 200
        client.send(b"GET /slow HTT")
        got = await client.answer(within_s=2)

    assert got.status == 408
    assert len(up.asked) == 2


@fault(40, "a body may take long as long as it comes")
async def test_a_body_that_comes_slowly_but_steadily_is_no_fault():
    async with between(ok, request_body_timeout=SHORT_S) as (up, proxy), raw_client(proxy.port) as client:
        client.send(request("POST", "/x", "Content-Length: 20"))
        for at in range(20):
            client.send(b"0123456789abcdefghij"[at : at + 1])
            await asyncio.sleep(0.05)
        got = await client.answer()

    assert got.status == 200
    assert bytes(up.asked[0].body) == b"0123456789abcdefghij"


@fault(40, "a body that stays away is a 408, and never whole upstream")
async def test_a_body_that_stays_away_is_a_408():
    async with between(ok, request_body_timeout=SHORT_S) as (up, proxy), raw_client(proxy.port) as client:
        client.send(request("POST", "/x", "Content-Length: 20") + b"01234")
        got = await client.answer(within_s=3)
        hop = await proxy.hop()
        await until(lambda: not up.open_count, "the upstream is left")

    assert got.status == 408
    assert hop.end.ending is Ending.REJECTED
    assert up.whole_count == 0


# ------------------------------------------------------------------------------------- 1xx, 100-continue, trailers


@report("R101", "answers without a body, however they are framed")
@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ],
)
async def test_an_answer_without_a_body_has_none_and_both_connections_go_on(method, data):
    async def answer(asked):
        await asked.send(simple(body=b"mine") if asked.target == "/next" else data)

    async with between(answer) as (up, proxy), raw_client(proxy.port) as client:
        client.send(request(method, "/x"))
        got = await client.answer(method.encode())
        client.send(get("/next"))
        following = await client.answer()

    assert (got.status, got.end) == (int(data[9:12]), WHOLE)
    assert bytes(following.body) == b"mine"
    assert [asked.connection for asked in up.asked] == [0, 0]
    lengths = [b"100"] if b"Content-Length" in data else []
    assert got.values("content-length") == lengths


@report("R102", "interim answers are passed on, and are not the answer")
async def test_interim_answers_pass_before_the_answer():
    interims = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
    async with between(sending(interims, streaming() + chunked(HELLO, DONE))) as (_, proxy):
        got = await asked_once(proxy.port, get(CHAT))
        old = await asked_once(proxy.port, request("GET", CHAT, version="1.0"))

    assert got.interims == [(103, [(b"Link", b"</a>")]), (102, [])]
    assert (got.status, bytes(got.body)) == (200, HELLO + DONE)
    assert (old.status, old.interims, bytes(old.body)) == (200, [], HELLO + DONE)


@report("R102", "an interim answer and nothing behind it: 502")
async def test_an_interim_answer_and_then_nothing_is_a_502():
    async with between(sending(b"HTTP/1.1 103 Early Hints\r\n\r\n", end="close")) as (up, proxy):
        got = await asked_once(proxy.port, post(CHAT, b"{}"))

    assert (got.status, len(up.asked)) == (502, 1)


@report("R103", "one 100, then the answer")
async def test_an_expectation_is_answered_once():
    body = b"x" * 200_000
    async with between(ok) as (up, proxy), raw_client(proxy.port) as client:
        client.send(request("POST", "/x", f"Content-Length: {len(body)}", "Expect: 100-continue"))
        await until(lambda: b"100 " in client.buffer, "the body is asked for", within_s=1)
        client.send(body)
        got = await client.answer()

    assert [status for status, _ in got.interims] == [100]
    assert (got.status, len(up.asked[0].body)) == (200, len(body))


@report("R103", "an early 413 passes, whatever becomes of the body")
@pytest.mark.parametrize("fields", [[], ["Expect: 100-continue"]])
async def test_an_early_refusal_of_a_big_body_passes(fields):
    async def answer(asked):
        asked.wire.transport.pause_reading()
        await asked.send(simple("413 Content Too Large", b"too large", "Connection: close"))
        await asyncio.sleep(0.2)
        asked.close()

    async with between(answer, answers_at_head=True) as (_, proxy), raw_client(proxy.port) as client:
        client.send(request("POST", "/x", "Content-Length: 2000000", *fields))
        if not fields:
            client.send(bytes(2_000_000))
        got = await client.answer(within_s=3)

    assert (got.status, bytes(got.body)) == (413, b"too large")


@report("R103", "an unknown expectation: 417")
async def test_an_unknown_expectation_is_a_417():
    async with between(ok) as (up, proxy):
        got = await asked_once(proxy.port, request("POST", "/x", "Content-Length: 1", "Expect: foo") + b"x")

    assert got.status == 417
    assert not up.asked


@report("R106", "trailers pass, those that change the framing do not")
async def test_trailers_pass():
    trailers = b"X-Checksum: abc\r\nServer-Timing: t;dur=1\r\nContent-Length: 3\r\n"
    data = streaming("Trailer: X-Checksum") + chunked(HELLO, DONE, trailers=trailers)
    async with between(sending(data)) as (up, proxy):
        got = await asked_once(proxy.port, get(CHAT))
        old = await asked_once(proxy.port, request("GET", CHAT, version="1.0"))
        hop = await proxy.hop()

    assert got.trailers == [(b"X-Checksum", b"abc"), (b"Server-Timing", b"t;dur=1")]
    assert (bytes(old.body), old.trailers) == (HELLO + DONE, [])
    assert hop.end.ending is Ending.COMPLETE
    assert [asked.connection for asked in up.asked] == [0, 0]


# ------------------------------------------------------------------------------------------------------ coded bodies


@report("R008", "a coding that cannot be read: bytes and fields pass, framing decides")
@report("R010", "brotli that was asked for")
@pytest.mark.parametrize("coding", ["zstd", "br", "gzip, zstd", "identity, gzip"])
async def test_an_encoded_body_passes_whatever_its_coding(coding):
    body = hashlib.sha512(coding.encode()).digest() * 20
    data = streaming(f"Content-Encoding: {coding}") + chunked(body)
    async with between(sending(data)) as (up, proxy):
        got = await asked_once(proxy.port, get("/generate", "Accept-Encoding: br, zstd"))
        hop = await proxy.hop()

    assert (bytes(got.body), got.values("content-encoding")) == (body, [coding.encode()])
    assert up.asked[0].field("accept-encoding") == [b"br, zstd"]
    assert hop.end.ending is Ending.COMPLETE


@report("R109", "a prompt of 40 MB, with a length and in chunks")
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_a_prompt_of_40_mb_passes(is_chunked):
    piece, count = bytes(range(256)) * 4_096, 40
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {count * len(piece)}"
    async with between(ok) as (up, proxy), raw_client(proxy.port) as client:
        client.send(request("POST", CHAT, framing))
        for _ in range(count):
            client.send(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            await client.drain()
        client.send(b"0\r\n\r\n" if is_chunked else b"")
        got = await client.answer(within_s=30)
        hop = await proxy.hop()

    assert got.status == 200
    assert hashlib.sha256(up.asked[0].body).digest() == hashlib.sha256(piece * count).digest()
    assert hop.traffic.request_bytes == count * len(piece)
