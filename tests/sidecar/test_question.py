"""A request on its way up: what of it passes, how its body flows, and who answers an expectation."""

import asyncio
import gzip

import pytest

from otel.hop import Ending
from tests.support.exchanges import CHAT, DONE, HELLO, SSE, exchange
from tests.support.script import (
    Exchange,
    ask,
    chunk,
    get,
    head,
    last_chunk,
    parsed,
    post,
    request,
    reset,
    send,
    sidecar,
    upstream,
    wait,
    wait_for,
)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("POST", "/", "Transfer-Encoding: chunked", body=b"0\r\n\r\n", version="1.0"), 400),
        (request("POST", "/", "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 501),
        (request("GET", "/", "Connection: Upgrade", "Upgrade: tls/1.2"), 501),
        (request("CONNECT", "example.org:443"), 501),
    ],
)
async def test_what_cannot_be_passed_on_is_rejected_and_recorded(sent, status):
    reply, hop, asked = await exchange(head(200, SSE), last_chunk(), sent=sent)

    assert reply.status == status
    assert hop.end.ending is Ending.REJECTED
    assert not any(each.is_whole for each in asked)


async def test_an_offer_of_h2c_is_ignored():
    sent = request("GET", "/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    reply, _, asked = await exchange(head(200, "text/plain"), last_chunk(), sent=sent)

    assert reply.status == 200
    assert b"pgrade" not in asked[0].head
    assert b"HTTP2" not in asked[0].head


@pytest.mark.parametrize("target", ["//x/../y", "/a?b=%3A:c", "/a?", "/%7euser/%2F", "/a;b?c&d=e+f%20g", "/?%zz", "*"])
async def test_a_target_is_passed_on_byte_for_byte(target):
    _, hop, asked = await exchange(head(200, "text/plain"), last_chunk(), sent=request("OPTIONS", target))

    assert asked[0].head.startswith(f"OPTIONS {target} HTTP/1.1\r\n".encode())
    assert hop.exchange.path == target.partition("?")[0]


async def test_an_absolute_target_loses_host_and_user():
    sent = request("GET", "http://user:secret@other/p?q=1")
    _, hop, asked = await exchange(head(200, "text/plain"), last_chunk(), sent=sent)

    assert asked[0].head.startswith(b"GET /p?q=1 HTTP/1.1\r\n")
    assert hop.exchange.path == "/p"


async def test_the_path_of_the_upstream_url_goes_before_every_target():
    async with upstream(head(200, "text/plain"), last_chunk()) as up, sidecar(up.url + "/base") as proxy:
        await ask(proxy.port, get("/x?y"))

    assert up.exchanges[0].head.startswith(b"GET /base/x?y HTTP/1.1\r\n")


async def test_nothing_is_added_on_the_way_up_but_the_request_id():
    _, _, asked = await exchange(
        head(200, "text/plain"), last_chunk(), sent=get("/x", "accept-Odd: 1", "X-Two: a", "X-Two: b")
    )

    names = [line.partition(b":")[0] for line in asked[0].head.split(b"\r\n")[1:] if line]
    assert names == [b"Host", b"accept-Odd", b"X-Two", b"X-Two", b"X-Request-Id"]
    assert asked[0].field("Host") == ["h"]


@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_an_encoded_request_body_passes_unchanged(coding):
    body = gzip.compress(b"x" * 500)
    _, hop, asked = await exchange(head(200, "a/b"), last_chunk(), sent=post("/x", body, f"Content-Encoding: {coding}"))

    assert asked[0].body == body
    assert asked[0].field("Content-Length") == [str(len(body))]
    assert hop.traffic.request_bytes == len(body)


async def test_a_chunked_request_body_streams_up_as_it_comes():
    got = asyncio.Event()

    async with (
        upstream(wait_for(got), head(200, "a/b"), last_chunk(), reads_body=False) as up,
        sidecar(up.url) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request("POST", "/x", "Transfer-Encoding: chunked") + b"3\r\none\r\n")
        while not up.exchanges:
            await asyncio.sleep(0.005)
        first = await up.exchanges[0].reader.readexactly(8)
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
        rest = await up.exchanges[0].reader.readexactly(13)
        got.set()
        await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    assert (first, rest) == (b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n")


async def test_a_large_request_body_has_no_limit():
    body = bytes(3 << 20)
    _, hop, asked = await exchange(head(200, "a/b"), last_chunk(), sent=post("/x", body))

    assert asked[0].body == body
    assert hop.traffic.request_bytes == len(body)


EXPECTING = request("POST", "/x", "Content-Length: 2", "Expect: 100-continue")


async def test_an_expectation_that_the_upstream_leaves_open_is_met_by_the_sidecar_once():
    async with upstream(head(200, "a/b"), last_chunk()) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(EXPECTING)
        assert (await reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        raw = await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    assert raw.startswith(b"HTTP/1.1 200"), "and no second 100"
    assert up.exchanges[0].body == b"{}"
    assert up.exchanges[0].field("Expect") == ["100-continue"]


async def test_an_expectation_is_met_as_soon_as_the_upstream_meets_it():
    body_is_due = asyncio.Event()
    steps = [send(b"HTTP/1.1 100 Go On\r\n\r\n"), wait_for(body_is_due), head(200, "a/b"), last_chunk()]
    async with upstream(*steps, reads_body=False) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        began = asyncio.get_running_loop().time()
        writer.write(EXPECTING)
        assert (await reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert asyncio.get_running_loop().time() - began < 0.4, "long before we would have said it"
        writer.write(b"{}")
        body_is_due.set()
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_refusal_in_place_of_an_expected_100_arrives_and_ends_the_connection():
    async with upstream(head(413, "a/b"), last_chunk(), reads_body=False) as up, sidecar(up.url) as proxy:
        reply = await ask(proxy.port, EXPECTING)

    assert (reply.status, reply.is_clean, reply.field("Connection")) == (413, True, ["close"])


async def test_an_unknown_expectation_is_refused_and_recorded():
    async with upstream(head(200, "a/b"), last_chunk()) as up, sidecar(up.url) as proxy:
        reply = await ask(proxy.port, request("POST", "/x", "Content-Length: 0", "Expect: magic"))
        hop = await proxy.hop()

    assert (reply.status, len(up.exchanges), hop.end.ending) == (417, 0, Ending.REJECTED)


async def test_interim_answers_pass_before_the_answer():
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    reply, _, _ = await exchange(send(hints), head(200, "a/b"), last_chunk(), sent=get())

    assert reply.raw.startswith(hints + b"HTTP/1.1 200")


async def test_an_answer_that_comes_while_the_request_is_still_sent_arrives():
    async with upstream(head(413, "a/b"), last_chunk(), reset(), reads_body=False) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request("POST", "/x", "Content-Length: 40000000", body=b"x" * 100_000))
        raw = await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    assert raw.startswith(b"HTTP/1.1 413 Reason")


async def test_a_reader_that_leaves_an_upload_nobody_takes_is_noticed():
    async with upstream(wait(30), reads_body=False) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request("POST", "/x", "Content-Length: 100000000"))
        while True:  # until nobody takes any more
            writer.write(bytes(1 << 20))
            try:
                async with asyncio.timeout(0.3):
                    await writer.drain()
            except TimeoutError:
                break
        await reset(0)(Exchange(b"", reader, writer))  # an orderly end would wait behind what nobody takes
        hop = await proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT


@pytest.mark.parametrize("body", [b"5\r\nhelloXX", b"zz\r\n"])
async def test_an_upload_that_breaks_its_framing_is_refused_at_once_and_never_looks_whole(body):
    async with upstream(head(200, "a/b"), last_chunk()) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request("POST", "/x", "Transfer-Encoding: chunked") + b"3\r\none\r\n")
        while not up.exchanges:
            await asyncio.sleep(0.005)
        writer.write(body)
        async with asyncio.timeout(2):
            reply = parsed(await reader.read())
        writer.close()
        hop = await proxy.hop()

    assert not up.exchanges[0].is_whole
    assert (reply.status, hop.end.ending) == (400, Ending.REJECTED)


async def test_a_request_of_http_1_0_without_a_host_gets_the_upstreams():
    _, _, asked = await exchange(head(200, "a/b"), last_chunk(), sent=b"GET /x HTTP/1.0\r\n\r\n")

    assert asked[0].field("Host")[0].startswith("127.0.0.1:")


async def test_the_authority_of_an_absolute_target_goes_before_the_host_field():
    sent = b"GET http://right.example/x HTTP/1.1\r\nHost: wrong.example\r\n\r\n"
    _, _, asked = await exchange(head(200, "a/b"), last_chunk(), sent=sent)

    assert asked[0].field("Host") == ["right.example"]


async def test_an_upload_that_rests_does_not_end_an_answer_that_flows():
    steps = [head(200, SSE), *[step for _ in range(6) for step in (chunk(HELLO), wait(0.1))], chunk(DONE), last_chunk()]
    async with (
        upstream(*steps, reads_body=False) as up,
        sidecar(up.url, request_body_timeout="200ms") as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request("POST", CHAT, "Content-Length: 10", body=b"{"))
        raw = await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    assert raw.count(HELLO) == 6


async def test_behind_an_offer_of_h2c_nothing_is_taken_for_a_request():
    offer = request("GET", "/a", "Connection: Upgrade", "Upgrade: h2c")
    hidden = request("GET", "/smuggled")
    async with upstream(head(200, "a/b"), last_chunk()) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(offer + request("POST", "/x", f"Content-Length: {len(hidden)}"))
        await asyncio.sleep(0.1)
        writer.write(hidden)
        raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()

    assert raw.count(b"HTTP/1.1 200") == 1
    assert b"\r\nConnection: close\r\n" in raw
    assert [exchange.head.split()[1] for exchange in up.exchanges] == [b"/a"]


async def test_an_answer_of_our_own_to_an_open_expectation_ends_the_connection():
    async with sidecar("http://127.0.0.1:1") as proxy:
        reply = await ask(proxy.port, EXPECTING)

    assert (reply.status, reply.field("Connection")) == (502, ["close"])
