"""Every reader stamps the same answer alike: plain and compressed, whole, cut off, and left."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from otel.demo import script
from otel.demo.answer import Answer
from otel.demo.reader import Pause
from tests.lab.readers import Reader, read

PAUSE_S = 0.25
FRAME = script.frame_of(request_id="r", model="m")
EVENTS = [
    script.chunk(FRAME, {"role": "assistant", "content": ""}),
    script.chunk(FRAME, {"reasoning_content": "hm"}),
    script.chunk(FRAME, {"content": "amber "}),
    script.chunk(FRAME, {"content": "dünen "}),
    script.chunk(FRAME, {}, finish_reason="stop"),
    b"data: [DONE]\n\n",
]
BODY = {"model": "m", "messages": [{"role": "user", "content": "?"}], "stream": True, "shape": "steady"}
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.parametrize(
        "reader",
        [
            pytest.param(each, marks=pytest.mark.skipif(not each.is_here, reason=f"there is no {each} here"))
            for each in Reader
        ],
    ),
]

Reads = Callable[..., Awaitable[Answer]]


@pytest.fixture
async def reads(aiohttp_server: AiohttpServer) -> Reads:
    """Asks a source that pauses before its second text; with `cut` it breaks off there, with `refuse` it says no."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "refuse" in request.headers:
            return web.json_response({"error": {"message": "no"}}, status=503)
        packed = "packed" in request.headers
        headers = {"Content-Type": "text/event-stream"} | ({"Content-Encoding": "gzip"} if packed else {})
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        pack = zlib.compressobj(wbits=31)  # gzip
        for event in EVENTS:
            if b"d\\u00fcnen" in event:
                if "cut" in request.headers:
                    request.transport.close()
                await asyncio.sleep(PAUSE_S)
            await response.write(pack.compress(event) + pack.flush(zlib.Z_SYNC_FLUSH) if packed else event)
        if packed:
            await response.write(pack.flush())
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    url = str((await aiohttp_server(app)).make_url("")).rstrip("/")

    async def reads(reader: Reader, *flags: str, **options: object) -> Answer:
        headers = dict.fromkeys(flags, "1") | {"x-request-id": "r-1"}
        return await asyncio.to_thread(read, reader, url, headers=headers, body=BODY, **options)

    return reads


async def test_texts_thoughts_and_pauses_are_what_was_sent(reader: Reader, reads: Reads) -> None:
    answer = await reads(reader)
    assert (answer.status, answer.is_whole, answer.is_done) == (200, True, True)
    assert [got.chars for got in answer.receipts[:5]] == [0, 0, 6, 6, 0]
    assert [got.has_thought for got in answer.receipts[:3]] == [False, True, False]
    [gap_s] = [later - earlier for earlier, later in pairwise(answer.texts_s)]
    assert PAUSE_S * 0.9 < gap_s < PAUSE_S + 0.2
    assert 0 <= answer.receipts[0].at_s < 0.2 < answer.ended_s


async def test_a_compressed_answer_is_read_event_by_event(reader: Reader, reads: Reads) -> None:
    if reader is Reader.OURS:
        pytest.skip("our own reader asks for no compression")
    answer = await reads(reader, "packed")
    assert answer.is_whole
    assert len(answer.texts_s) == 2
    assert answer.longest_gap_s > PAUSE_S * 0.9


async def test_a_cut_is_not_whole(reader: Reader, reads: Reads) -> None:
    answer = await reads(reader, "cut")
    assert (answer.is_whole, answer.is_done, len(answer.texts_s)) == (False, False, 1)


async def test_a_refusal_has_its_status(reader: Reader, reads: Reads) -> None:
    answer = await reads(reader, "refuse")
    assert (answer.status, answer.texts_s) == (503, [])


async def test_who_leaves_has_what_came_until_then(reader: Reader, reads: Reads) -> None:
    seen: list[int] = []
    answer = await reads(reader, leave_at=3, on_event=seen.append)
    assert (len(answer.receipts), answer.is_whole) == (3, False)
    assert seen[:3] == [1, 2, 3]


async def test_who_sleeps_reads_later(reader: Reader, reads: Reads) -> None:
    if reader is Reader.OURS:
        pytest.skip("our own reader sleeps once its window has closed: test_reader")
    answer = await reads(reader, pause=Pause(3, 2 * PAUSE_S))
    assert answer.texts_s[1] - answer.texts_s[0] > 1.9 * PAUSE_S
    assert answer.is_whole
