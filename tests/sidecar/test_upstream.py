import asyncio
from contextlib import suppress

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.upstream import Upstream, fields_of, open_session, origin_form, sendable
from tests.support.script import chunk, cut, head, last_chunk, reset, send, upstream, wait


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a?b#c", "/a?b#c"),
        ("*", "*"),
        ("http://host/a", "/a"),
        ("http://user:secret@host:1?q", "/?q"),
        ("http://host", "/"),
        ("//host/a", "//host/a"),
        ("/a?u=http://b/c", "/a?u=http://b/c"),
        ("host:443", "/host:443"),
    ],
)
def test_the_origin_form_of_a_target(target, path):
    assert origin_form(target) == path


@given(st.binary(max_size=60))
def test_fields_keep_their_bytes_until_they_are_sent(value):
    ((name, text),) = fields_of([(b"x-A", value)])

    assert (name, text.encode("utf-8", "surrogateescape")) == ("x-A", value)
    assert sendable([(name, text)])["x-A"].encode() == value.decode("utf-8", "ignore").encode()


async def asked(up, method="GET", **options):
    """The answer to one request, its session kept open until the test is over."""
    session = open_session(connect_timeout_s=2)
    answer = await Upstream(up.url, session).ask(
        method, "/x", [("Host", "h")], body=None, head_sent=lambda: None, **options
    )
    return session, answer


@pytest.mark.parametrize(
    ("method", "steps", "has_body", "is_delimited"),
    [
        ("GET", [head(200), last_chunk()], True, True),
        ("GET", [head(200, None, "Content-Length: 1", chunked=False), send(b"x")], True, True),
        ("GET", [head(200, None, "Content-Length: 0", chunked=False)], False, True),
        ("GET", [head(200, chunked=False), cut()], True, False),
        ("GET", [head(204, chunked=False)], False, True),
        ("HEAD", [head(200, chunked=False)], False, True),
    ],
)
async def test_what_ends_the_body_is_known_from_the_head(method, steps, has_body, is_delimited):
    async with upstream(*steps) as up:
        session, answer = await asked(up, method)
        await session.close()

    assert (answer.has_body, answer.is_delimited) == (has_body, is_delimited)


async def test_when_the_head_is_sent_is_told_before_the_answer_is_there():
    told = []
    async with upstream(head(200), last_chunk()) as up, open_session(connect_timeout_s=2) as session:
        await Upstream(up.url, session).ask("GET", "/", [], body=None, head_sent=lambda: told.append(len(up.exchanges)))

    assert told == [0]


async def test_what_had_arrived_before_a_failure_is_not_lost():
    async with upstream(head(200), chunk(b"a" * 20_000), cut()) as up:
        session, answer = await asked(up)
        while answer.content.exception() is None:
            await asyncio.sleep(0.005)
        rest = b"".join(answer.rest())
        answer.abort()
        await session.close()

    assert rest == b"a" * 20_000


async def test_bytes_that_break_the_framing_end_the_body():
    async with upstream(head(200), chunk(b"a"), wait(0.05), send(b"zz\r\n")) as up:
        session, answer = await asked(up)
        pieces = []
        with suppress(aiohttp.ClientPayloadError):
            async with asyncio.timeout(2):
                while piece := await answer.content.read(100):
                    pieces.append(piece)
        answer.abort()
        await session.close()

    assert b"".join(pieces) == b"a"
    assert isinstance(answer.content.exception(), aiohttp.ClientPayloadError)


@pytest.mark.parametrize(("end", "is_reset"), [(cut(), False), (reset(), True)])
async def test_a_body_that_ends_with_its_connection_may_end_in_a_reset(end, is_reset):
    async with upstream(head(200, chunked=False), send(b"abc"), end) as up:
        session, answer = await asked(up)
        assert await answer.content.read(100) == b"abc"
        assert await answer.content.read(100) == b""
        await session.close()

    assert answer.is_reset is is_reset


async def test_a_whole_body_is_whole_whatever_becomes_of_its_connection():
    async with upstream(head(200, None, "Content-Length: 3", chunked=False), send(b"abc"), reset()) as up:
        session, answer = await asked(up)
        await asyncio.sleep(0.1)
        assert await answer.content.read(100) == b"abc"
        assert not answer.is_reset
        await session.close()


async def test_many_exchanges_on_one_connection_leave_nothing_behind():
    async with upstream(head(200), wait(0.01), last_chunk()) as up, open_session(connect_timeout_s=2) as session:
        for _ in range(5):
            answer = await Upstream(up.url, session).ask("GET", "/", [], body=None, head_sent=lambda: None)
            await answer.content.read(1)

        callback_count = len(answer._closed._callbacks)

    assert len({each.writer for each in up.exchanges}) == 1
    assert callback_count == 1
