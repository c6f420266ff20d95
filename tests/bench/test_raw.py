"""The raw relay joins two connections, whatever comes first, and ends both when one ends."""

from __future__ import annotations

import asyncio

from tests.bench.raw import Reader


async def test_bytes_pass_both_ways_and_an_end_ends_both() -> None:
    loop, tasks, ended = asyncio.get_running_loop(), set(), asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data.upper())
        ended.set()
        writer.close()

    upstream = await asyncio.start_server(echo, "127.0.0.1", 0)
    next_port = upstream.sockets[0].getsockname()[1]
    relay = await loop.create_server(lambda: Reader(next_port, tasks), "127.0.0.1", 0)
    async with upstream, relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.sockets[0].getsockname()[1])
        writer.write(b"early ")
        writer.write(b"x" * 300_000)
        assert await reader.readexactly(300_006) == b"EARLY " + b"X" * 300_000
        writer.close()
        await asyncio.wait_for(ended.wait(), 5)


async def test_where_nobody_listens_the_reader_is_closed() -> None:
    loop, tasks = asyncio.get_running_loop(), set()
    free = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = free.sockets[0].getsockname()[1]
    free.close()
    relay = await loop.create_server(lambda: Reader(port, tasks), "127.0.0.1", 0)
    async with relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.sockets[0].getsockname()[1])
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
