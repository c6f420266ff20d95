"""A hop in the middle over real sockets: what it passes on, and how it misbehaves when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pytest_aiohttp.plugin import AiohttpClient, AiohttpServer

from otel.demo import faults, script
from otel.demo.middle import Middle, Write, deliver, events_of, from_event

EVENTS = [b"data: %d\n\n" % number for number in range(60)]
PAUSE_S = 0.002


class Source:
    """The next hop: streams EVENTS, remembers what it was asked, and can break off or wait for its reader to leave."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.breaks_off_after: int | None = None
        self.was_left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path_qs, dict(request.headers), await request.read()))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for number, event in enumerate(EVENTS):
                if number == self.breaks_off_after and request.transport is not None:
                    request.transport.close()
                await response.write(event)
                await asyncio.sleep(PAUSE_S)
        except (asyncio.CancelledError, ConnectionError):
            self.was_left.set()
            raise
        return response


@pytest.fixture
async def source() -> Source:
    return Source()


@pytest.fixture
async def hop(source: Source, aiohttp_server: AiohttpServer, aiohttp_client: AiohttpClient) -> aiohttp.ClientSession:
    behind = web.Application()
    behind.router.add_post("/{path:.*}", source.answer)
    server = await aiohttp_server(behind)
    middle = Middle(hop=faults.GATEWAY, next_url=str(server.make_url("")).rstrip("/"))
    app = web.Application()
    app.cleanup_ctx.append(middle.connect)
    app.router.add_post("/{path:.*}", middle.pass_on)
    return await aiohttp_client(await aiohttp_server(app))


async def test_the_bytes_come_through_unchanged_and_event_by_event(hop: aiohttp.ClientSession) -> None:
    response = await hop.post("/v1/chat/completions", data=b"{}")
    reads = [data async for data in response.content.iter_any()]
    assert b"".join(reads) == b"".join(EVENTS)
    assert len(reads) > len(EVENTS) / 2


async def test_path_body_and_the_ids_are_passed_on_and_other_headers_are_not(
    hop: aiohttp.ClientSession, source: Source
) -> None:
    headers = {"x-request-id": "r-1", "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01", "cookie": "secret"}
    await (await hop.post("/v1/other?a=b", data=b'{"x":1}', headers=headers)).read()
    [(path, seen, body)] = source.asked
    assert (path, body) == ("/v1/other?a=b", b'{"x":1}')
    passed = {name.lower(): value for name, value in seen.items()}
    assert passed["x-request-id"] == "r-1"
    assert passed["traceparent"] == headers["traceparent"]
    assert "cookie" not in passed


@pytest.mark.parametrize("fault", ["gateway:stall=0.05", "gateway:slow-first=0.05", "gateway:buffer=0.02"])
async def test_what_is_held_is_late_and_never_lost(hop: aiohttp.ClientSession, fault: str) -> None:
    response = await hop.post("/v1/chat/completions", data=b'{"max_tokens": 40}', headers={faults.HEADER: fault})
    assert await response.read() == b"".join(EVENTS)


@pytest.mark.parametrize("header", ["gateway:explode=1", "inference-proxy:freeze=1"])
async def test_a_header_that_no_hop_can_obey_is_refused_before_anybody_is_asked(
    hop: aiohttp.ClientSession, source: Source, header: str
) -> None:
    response = await hop.post("/v1/chat/completions", data=b"{}", headers={faults.HEADER: header})
    assert response.status == 400
    assert (await response.text()).startswith(f"{faults.HEADER}: ")
    assert source.asked == []


async def test_a_cut_drops_both_sides(hop: aiohttp.ClientSession, source: Source) -> None:
    response = await hop.post("/v1/chat/completions", data=b"{}", headers={faults.HEADER: "gateway:cut=0.05"})
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()
    await asyncio.wait_for(source.was_left.wait(), 2)


async def test_an_answer_that_breaks_off_behind_us_does_not_look_whole(
    hop: aiohttp.ClientSession, source: Source
) -> None:
    source.breaks_off_after = 10
    response = await hop.post("/v1/chat/completions", data=b"{}")
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()


async def test_a_reader_that_leaves_is_passed_on_as_well(hop: aiohttp.ClientSession, source: Source) -> None:
    response = await hop.post("/v1/chat/completions", data=b"{}")
    await response.content.readany()
    response.close()
    await asyncio.wait_for(source.was_left.wait(), 2)


async def stream_of(events: list[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        await asyncio.sleep(0)
        yield event


def writes_into(written: list[tuple[float, bytes]]) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        written.append((asyncio.get_running_loop().time(), data))

    return write


async def test_a_stall_holds_the_event_in_the_middle_and_no_other() -> None:
    written: list[tuple[float, bytes]] = []
    fault = faults.parse("gateway:stall=0.1")
    await deliver(stream_of(EVENTS), writes_into(written), fault, from_event(20))
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(written)]
    assert gaps[19] >= 0.099
    assert sum(gap > 0.05 for gap in gaps) == 1


async def test_a_buffer_lets_the_opening_pass_and_then_writes_many_events_at_once() -> None:
    written: list[tuple[float, bytes]] = []
    await deliver(
        stream_of(EVENTS), writes_into(written), faults.parse("gateway:buffer=0.05"), from_event(script.OPENING_EVENTS)
    )
    opening = script.OPENING_EVENTS
    assert [data for _, data in written[:opening]] == EVENTS[:opening]
    assert [data for _, data in written[opening:]] == [b"".join(EVENTS[opening:])]


@given(st.data())
async def test_any_cutting_of_the_bytes_gives_the_same_events(data: st.DataObject) -> None:
    events = data.draw(st.lists(st.from_regex(rb"data: [a-z]{0,8}\n\n", fullmatch=True), max_size=8))
    tail = data.draw(st.sampled_from([b"", b"data: open"]))
    whole = b"".join(events) + tail
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    content = aiohttp.StreamReader(_Protocol(), 2**16, loop=asyncio.get_running_loop())
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        content.feed_data(whole[start:stop])
    content.feed_eof()
    assert [event async for event in events_of(content)] == [*events, *([tail] if tail else [])]


class _Protocol(aiohttp.base_protocol.BaseProtocol):
    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())


async def test_a_hop_may_change_events_and_write_what_it_kept_at_the_end(
    source: Source, aiohttp_server: AiohttpServer, aiohttp_client: AiohttpClient
) -> None:
    @asynccontextmanager
    async def last_one_late(write: Write) -> AsyncIterator[Write]:
        kept: list[bytes] = []

        async def take(data: bytes) -> None:
            kept.append(data)
            if len(kept) > 1:
                await write(kept.pop(0))

        yield take
        await write(b"".join(kept).upper())

    behind = web.Application()
    behind.router.add_post("/{path:.*}", source.answer)
    url = str((await aiohttp_server(behind)).make_url("")).rstrip("/")
    middle = Middle(hop=faults.GATEWAY, next_url=url, passing=last_one_late)
    app = web.Application()
    app.cleanup_ctx.append(middle.connect)
    app.router.add_post("/{path:.*}", middle.pass_on)
    response = await (await aiohttp_client(await aiohttp_server(app))).post("/v1/chat/completions", data=b"{}")
    assert await response.read() == b"".join([*EVENTS[:-1], EVENTS[-1].upper()])
    [(_, asked, _)] = source.asked
    assert asked["Accept-Encoding"] == "identity"
