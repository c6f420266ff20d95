"""The streaming client: asks one question on a socket of its own and notes when each event was received.

It measures by itself what the verdict claims to know, and nothing of gapline helps it.
"""

from __future__ import annotations

import array
import fcntl
import http.client
import json
import socket
import termios
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from otel.demo.answer import Answer, Receipt

READ_BYTES: Final = 65_536
"""Most bytes of one read."""
TIMEOUT_S: Final = 150.0
"""Longest silence in seconds before the client gives up: twice the longest fault and some."""
SMALL_BUFFER_BYTES: Final = 8_192
"""SO_RCVBUF of a slow reader in bytes: a few events of the script fill it."""
SEGMENT_BYTES: Final = 1_448
"""TCP_MAXSEG of a slow reader, as on Ethernet: a window smaller than loopback's segments of 64 KB has the sender wait
for its probe timer, 200 ms and more, after the reader has long gone on."""
SETTLED_S: Final = 0.3
"""The window counts as closed when nothing has come for so long, many times the script's pause."""
LOOK_EVERY_S: Final = 0.002
"""How often a slow reader looks whether its buffer still fills, in seconds."""


@dataclass(frozen=True, slots=True)
class Pause:
    """What a slow reader does: read nothing for `seconds` after its window has closed, from event `at_event` on."""

    at_event: int
    seconds: float


def ask(
    host: str,
    port: int,
    *,
    headers: Mapping[str, str],
    body: Mapping[str, object],
    pause: Pause | None = None,
    leave_at: int | None = None,
    on_event: Callable[[int], None] | None = None,
) -> Answer:
    """Send one chat request and read its stream to the end, or leave when so many events have come.

    on_event is called with the number of events so far.
    """
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    connection.sock = wire = _connect(host, port, is_slow=pause is not None)
    received: list[tuple[float, bytes]] = []  # what an event says is looked at when all is read
    held_off_s: float | None = None
    is_whole = is_done = False
    try:
        payload = json.dumps(body).encode()
        start_s = time.monotonic()
        connection.request("POST", "/v1/chat/completions", payload, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        pending = b""
        while True:
            try:
                data = response.read1(READ_BYTES)
            except (http.client.IncompleteRead, ConnectionError):
                break
            at_s = time.monotonic() - start_s
            if not data:
                is_whole = True
                break
            *events, pending = (pending + data).split(b"\n\n")
            for event in events:
                is_done = is_done or event == b"data: [DONE]"
                received.append((at_s, event))
                if on_event is not None:
                    on_event(len(received))
            if leave_at is not None and len(received) >= leave_at:
                break
            if pause is not None and held_off_s is None and len(received) >= pause.at_event:
                held_off_s = _read_nothing(wire, seconds=pause.seconds)
        ended_s = time.monotonic() - start_s
        receipts = tuple(receipt(event, at_s=at_s) for at_s, event in received)
        return Answer(response.status, receipts, ended_s, is_whole, is_done, held_off_s)
    finally:
        connection.close()


def _connect(host: str, port: int, *, is_slow: bool) -> socket.socket:
    wire = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    wire.settimeout(TIMEOUT_S)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if is_slow:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)  # both before connecting, or in vain
    wire.connect((host, port))
    return wire


def _read_nothing(wire: socket.socket, *, seconds: float) -> float:
    """Let the receive buffer fill until nothing more comes, and then wait.

    Returns how long our kernel had no new event: from the last whole one in the buffer to the end of the pause.
    """
    grown = [(0, time.monotonic())]  # how many bytes lay unread, and since when
    while time.monotonic() - grown[-1][1] < SETTLED_S:
        unread_bytes = _unread(wire)
        if unread_bytes > grown[-1][0]:
            grown.append((unread_bytes, time.monotonic()))
        time.sleep(LOOK_EVERY_S)
    time.sleep(max(0.0, grown[-1][1] + seconds - time.monotonic()))
    whole_bytes = wire.recv(grown[-1][0], socket.MSG_PEEK).rfind(b"\n\n") + 1
    return time.monotonic() - next(at_s for unread_bytes, at_s in grown if unread_bytes >= whole_bytes)


def _unread(wire: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(wire.fileno(), termios.FIONREAD, count)
    return count[0]


def receipt(event: bytes, *, at_s: float) -> Receipt:
    """What an event of an OpenAI chat stream brings its reader."""
    data = event.removeprefix(b"data: ")
    if not data.startswith(b"{"):
        return Receipt(at_s, 0)
    choices: Iterable[Mapping[str, Mapping[str, str | None]]] = json.loads(data).get("choices") or ()
    deltas = [choice.get("delta") or {} for choice in choices]
    chars = sum(len(delta.get("content") or "") for delta in deltas)
    return Receipt(at_s, chars, has_thought=any(delta.get("reasoning_content") for delta in deltas))


def has_text(event: bytes) -> bool:
    """Whether an event of an OpenAI chat stream brings visible output."""
    return receipt(event, at_s=0.0).has_text
