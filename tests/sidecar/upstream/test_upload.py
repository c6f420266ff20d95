import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.http1.chunked import LAST_CHUNK, ChunkedReader, encode_chunk
from sidecar.upstream.errors import BadRequestBody
from sidecar.upstream.upload import Upload
from tests.support.upstreams import pieces_of


class Connection:
    """The connection under an upload, as far as that sees it."""

    def __init__(self, *, room_count=1_000):
        self.written = []
        self.failed = []
        self.room_count = room_count
        self.is_open = True

    async def has_read(self):
        await asyncio.sleep(0)
        return self.is_open

    def write(self, data):
        self.written.append(data)

    async def has_room(self):
        self.room_count -= 1
        if self.room_count < 0:
            await asyncio.Event().wait()
        return self.is_open

    def upload_failed(self, upload):
        self.failed.append(upload)


async def over(upload):
    async with asyncio.timeout(2):
        while not upload._task.done():
            await asyncio.sleep(0)


async def test_a_body_of_known_length_goes_out_as_it_comes():
    connection = Connection()
    upload = Upload(pieces_of(b"ab", b"c"), connection, length_bytes=3)
    assert not upload.is_whole
    await over(upload)

    assert (connection.written, upload.is_whole, upload.error) == ([b"ab", b"c"], True, None)


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_a_body_of_unknown_length_goes_out_in_chunks(pieces):
    async def sent():
        connection = Connection()
        upload = Upload(pieces_of(*pieces), connection, length_bytes=None)
        await over(upload)
        return upload, connection.written

    upload, written = asyncio.run(sent())
    reader = ChunkedReader()
    content = b"".join(reader.feed(b"".join(written)))

    assert b"".join(written) == b"".join(map(encode_chunk, pieces)) + LAST_CHUNK
    assert (content, reader.is_done, upload.is_whole) == (b"".join(pieces), True, True)


async def test_it_is_whole_with_its_last_byte_and_the_body_runs_to_its_own_end():
    seen = []

    async def body():
        yield b"ab"
        seen.append(upload.is_whole)

    connection = Connection(room_count=0)
    upload = Upload(body(), connection, length_bytes=2)
    await over(upload)

    assert (seen, connection.written) == ([True], [b"ab"])


@pytest.mark.parametrize(("pieces", "sent"), [((b"ab", b"c"), [b"ab"]), ((b"a",), [b"a"]), ((), [])])
async def test_a_body_of_another_length_than_announced_is_a_failure(pieces, sent):
    connection = Connection()
    upload = Upload(pieces_of(*pieces), connection, length_bytes=2)
    await over(upload)

    assert (connection.written, connection.failed) == (sent, [upload])
    assert isinstance(upload.error, BadRequestBody)


async def test_a_body_that_fails_never_gets_its_last_chunk():
    async def body():
        yield b"a"
        raise ConnectionResetError("the client left")

    connection = Connection()
    upload = Upload(body(), connection, length_bytes=None)
    await over(upload)

    assert (connection.written, connection.failed) == ([b"1\r\na\r\n"], [upload])
    assert isinstance(upload.error, ConnectionResetError)
    assert not upload.is_whole


async def test_a_lost_connection_ends_it_without_a_failure_of_its_own():
    connection = Connection()
    connection.is_open = False
    upload = Upload(pieces_of(b"a", b"b"), connection, length_bytes=None)
    await over(upload)

    assert (connection.written, connection.failed, upload.error, upload.is_whole) == ([], [], None, False)


async def test_stopped_it_takes_no_more_and_the_body_is_closed():
    closed = []

    async def body():
        try:
            while True:
                yield b"a"
        finally:
            closed.append(True)

    connection = Connection(room_count=1)
    upload = Upload(body(), connection, length_bytes=None)
    while len(connection.written) < 2:
        await asyncio.sleep(0)
    await upload.stop()
    await upload.stop()

    assert (closed, upload.error, upload.is_whole) == ([True], None, False)
    assert connection.failed == []


async def test_no_body_of_length_none_is_whole_from_the_start():
    upload = Upload(pieces_of(), Connection(), length_bytes=0)

    assert upload.is_whole
    await over(upload)
