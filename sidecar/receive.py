"""The one buffer into which every connection of the process receives, and what our kernel still has of a lost one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Final

RECEIVE_BYTES: Final = 32_768
"""Most that one receive brings, with one time for all of it: half of what makes reading pause."""
RESCUE_BYTES: Final = 1 << 20
"""Most that is read of a lost connection: an answer sent in place of reading an upload is a page."""
BUFFER: Final = memoryview(bytearray(RECEIVE_BYTES))
"""Each receive is taken out of it in the same turn of the loop, so a silent connection needs none of its own."""


def leftover(transport: asyncio.BaseTransport) -> Iterator[bytes]:
    """What our kernel has of a connection that was reset; only within connection_lost, where its socket is open."""
    descriptor, left_bytes = transport.get_extra_info("socket").fileno(), RESCUE_BYTES
    while left_bytes > 0:
        try:
            data = os.read(descriptor, RECEIVE_BYTES)
        except OSError:  # nothing more, or the reset
            return
        if not data:
            return
        left_bytes -= len(data)
        yield data
