"""The body of a request on its way out, beside whatever the upstream already answers.

An upstream may answer before it has everything, and close: 413, 401. So a failed write ends the upload and nothing
else, and before a write what has arrived is read: the answer that was sent in its place must not be lost to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from sidecar.http1.chunked import LAST_CHUNK, encode_chunk
from sidecar.upstream.errors import BadRequestBody


class Sink(Protocol):
    """The connection that takes the body. The questions are answered by False once it is lost."""

    async def has_read(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    async def has_room(self) -> bool: ...

    def upload_failed(self, upload: Upload) -> None: ...


class Upload:
    """One task, which sends one body. is_whole: all of it was written. error: what the body raised.

    length_bytes: as the head says; None sends it in chunks.
    """

    __slots__ = ("_body", "_length_bytes", "_sink", "_task", "error", "is_whole")

    def __init__(self, body: AsyncIterator[bytes], sink: Sink, *, length_bytes: int | None) -> None:
        self._body = body
        self._sink = sink
        self._length_bytes = length_bytes
        self.error: Exception | None = None
        self.is_whole = length_bytes == 0
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Send no more of it."""
        self._task.cancel()

    async def stop(self) -> None:
        """Send no more of it, and wait until nobody takes from the body any more."""
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            try:
                await self._send()
            finally:
                if isinstance(self._body, AsyncGenerator):
                    await self._body.aclose()
        except Exception as error:  # noqa: BLE001  # whatever the body raised, the request is not whole
            self.error = error
            self._sink.upload_failed(self)

    async def _send(self) -> None:
        sent_bytes = 0
        async for data in self._body:
            sent_bytes += len(data)
            if self._length_bytes is not None and sent_bytes > self._length_bytes:
                raise BadRequestBody(f"a body is no longer than its length says, {self._length_bytes} bytes")
            if not await self._sink.has_read():
                return
            self._sink.write(data if self._length_bytes is not None else encode_chunk(data))
            self.is_whole = sent_bytes == self._length_bytes
            if not self.is_whole and not await self._sink.has_room():
                return
        if self._length_bytes is None:
            self._sink.write(LAST_CHUNK)
            self.is_whole = True
        elif sent_bytes < self._length_bytes:
            raise BadRequestBody(f"a body is as long as its length says, {self._length_bytes} bytes, not {sent_bytes}")
