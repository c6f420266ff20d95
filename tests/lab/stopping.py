"""A reader that stops reading for a while, and knows of its own kernel how much room was left meanwhile.

What it says of its window is read at its own end of the connection, and nothing of gapline helps it.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Final

READ_BYTES: Final = 65_536
LOOK_EVERY_S: Final = 0.02
_TCP_INFO: Final = 11
_RECEIVE_WINDOW: Final = struct.Struct("232xI")  # tcpi_rcv_wnd, which Linux has since 6.2


@dataclass(frozen=True, slots=True)
class Stop:
    """Read nothing from at_s on, for so many seconds."""

    at_s: float
    seconds: float


@dataclass(slots=True)
class Reading:
    """One answer as it was read, in seconds of the monotonic clock.

    windows: what the kernel offered, and when. reads: when it got bytes, and how many whole events had come by then.
    stopped_s, resumed_s: None where it never stopped.
    """

    begun_s: float
    windows: list[tuple[float, int]] = field(default_factory=list)
    reads: list[tuple[float, int]] = field(default_factory=list)
    stopped_s: float | None = None
    resumed_s: float | None = None
    is_whole: bool = False

    @property
    def half_s(self) -> float | None:
        """When, while it had stopped, its window fell to half of its peak; None where it never did."""
        return self._fell_to(0.5)

    @property
    def shut_s(self) -> float | None:
        """When it was shut."""
        return self._fell_to(0.0)

    def _fell_to(self, share: float) -> float | None:
        if self.stopped_s is None or self.resumed_s is None:
            return None
        peak = 0
        for at_s, window_bytes in self.windows:
            peak = max(peak, window_bytes)
            if self.stopped_s <= at_s <= self.resumed_s and window_bytes <= share * peak:
                return at_s
        return None


def read(wire: socket.socket, *, request_id: str, body: dict[str, object], stop: Stop | None = None) -> Reading:
    """Ask and read to the end of the answer, but for the stop."""
    payload = json.dumps(body).encode()
    head = ["POST /v1/chat/completions HTTP/1.1", "Host: lab", "Content-Type: application/json"]
    head += [f"X-Request-Id: {request_id}", f"Content-Length: {len(payload)}", "", ""]
    reading = Reading(time.monotonic())
    wire.sendall("\r\n".join(head).encode() + payload)
    tail, count = b"", 0
    while not tail.endswith(b"0\r\n\r\n"):
        now_s = time.monotonic()
        if stop is not None and reading.stopped_s is None and now_s - reading.begun_s >= stop.at_s:
            _rest(wire, reading, until_s=now_s + stop.seconds)
        if not (data := wire.recv(READ_BYTES)):
            return reading
        count += (tail[-1:] + data).count(b"\n\n")
        tail = (tail + data)[-5:]
        reading.reads.append((time.monotonic(), count))
        if len(reading.reads) == 1 or time.monotonic() - reading.windows[-1][0] >= LOOK_EVERY_S:
            reading.windows.append((time.monotonic(), window_bytes(wire)))
    reading.is_whole = True
    return reading


def window_bytes(wire: socket.socket) -> int:
    """How much room the kernel of this end offers."""
    offered: int = _RECEIVE_WINDOW.unpack_from(wire.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256))[0]
    return offered


def _rest(wire: socket.socket, reading: Reading, *, until_s: float) -> None:
    reading.stopped_s = time.monotonic()
    while time.monotonic() < until_s:
        reading.windows.append((time.monotonic(), window_bytes(wire)))
        time.sleep(LOOK_EVERY_S)
    reading.resumed_s = time.monotonic()
