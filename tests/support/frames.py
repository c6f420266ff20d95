"""Frames of a WebSocket as they stand on the wire."""

from __future__ import annotations

import struct
from typing import Final

TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA


def frame(opcode: int, payload: bytes = b"", *, final: bool = True, mask: bytes | None = None, rsv: int = 0) -> bytes:
    """One frame as RFC 6455, 5.2 draws it."""
    bit = 0x80 if mask is not None else 0
    size = len(payload)
    if size <= 125:
        length = bytes([bit | size])
    elif size < 65_536:
        length = bytes([bit | 126]) + struct.pack(">H", size)
    else:
        length = bytes([bit | 127]) + struct.pack(">Q", size)
    masked = payload if mask is None else bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    return bytes([(0x80 if final else 0) | rsv << 4 | opcode]) + length + (mask or b"") + masked
