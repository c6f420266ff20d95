"""The least that Python can do: bytes of one connection written to another, by nothing but uvloop's own callbacks.

No HTTP at all, so it is no proxy; it is measured as the floor. `python -m tests.bench.raw PORT NEXT_PORT`
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop


class Side(asyncio.Protocol):
    """One of two connections; what comes before the other is there waits for it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None
        self._early: list[bytes] = []
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def join(self, other: Side) -> None:
        """From now on what comes here goes there."""
        self.other = other
        assert other.transport is not None
        other.transport.writelines(self._early)
        self._early.clear()
        if self._is_over:
            other.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)  # type: ignore[union-attr]  # joined ones have theirs

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        self._is_over = True
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Reader(Side):
    """The side that asks; the connection behind it is opened when it comes."""

    def __init__(self, next_port: int, tasks: set[asyncio.Task[None]]) -> None:
        super().__init__()
        self._next_port = next_port
        self._tasks = tasks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        task = asyncio.get_running_loop().create_task(self._dial())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self) -> None:
        assert self.transport is not None
        try:
            _, upstream = await asyncio.get_running_loop().create_connection(Side, "127.0.0.1", self._next_port)
        except OSError:
            self.transport.close()
            return
        upstream.other = self
        self.join(upstream)


async def main(port: int, next_port: int) -> None:
    tasks: set[asyncio.Task[None]] = set()
    server = await asyncio.get_running_loop().create_server(
        lambda: Reader(next_port, tasks), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
