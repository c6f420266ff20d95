"""How one fuzz input is read: some switches, a payload, and the ways in which the payload is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HEADER_BYTES = 4
BYTEWISE_BYTES = 512
"""Longest payload that is also fed byte by byte: longer ones would leave too few runs in a minute."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """switches: eight booleans as bits. sizes: of the pieces in turn, when the payload comes cut."""

    switches: int
    sizes: tuple[int, ...]
    payload: bytes

    def is_on(self, bit: int) -> bool:
        return bool(self.switches >> bit & 1)

    def whole(self) -> list[bytes]:
        return [self.payload]

    def cuts(self) -> Iterator[list[bytes]]:
        """The payload cut by the sizes, and byte by byte when it is short enough."""
        pieces: list[bytes] = []
        at = 0
        while at < len(self.payload):
            size = self.sizes[len(pieces) % len(self.sizes)]
            pieces.append(self.payload[at : at + size])
            at += size
        yield pieces
        if len(self.payload) <= BYTEWISE_BYTES:
            yield [self.payload[at : at + 1] for at in range(len(self.payload))]


def delivery_of(data: bytes) -> Delivery:
    header = data[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0")
    return Delivery(header[0], tuple(size + 1 for size in header[1:]), data[HEADER_BYTES:])


def seed(payload: bytes, *, switches: int = 0, sizes: bytes = b"\x06\x00\x28") -> bytes:
    """An input that delivers this payload."""
    return bytes([switches]) + sizes + payload
