"""The demo's client against a small server: when events were received, how the stream ended, how it pauses."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from otel.demo.reader import Pause, ask

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
TEXT = b'data: {"choices":[{"delta":{"content":"word "}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{}}\n\n'
DONE = b"data: [DONE]\n\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@contextmanager
def serving(play: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that answers one request with the play and then closes; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        wire, _ = listener.accept()
        with wire:
            asked = b""
            while not asked.endswith(b"{}"):  # a close with something unread would be a reset
                asked += wire.recv(65_536)
            play(wire)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(10)
        listener.close()


def test_each_event_has_the_time_of_the_read_that_completed_it() -> None:
    def play(wire: socket.socket) -> None:
        wire.sendall(HEAD + chunk(ROLE) + chunk(TEXT))
        time.sleep(0.1)
        wire.sendall(chunk(TEXT[:10]))
        time.sleep(0.1)
        wire.sendall(chunk(TEXT[10:] + USAGE) + chunk(DONE) + LAST)

    with serving(play) as port:
        answer = ask("127.0.0.1", port, headers={}, body={})
    assert [receipt.has_text for receipt in answer.receipts] == [False, True, True, False, False]
    assert answer.longest_gap_s == pytest.approx(0.2, abs=0.05)
    assert (answer.status, answer.is_whole, answer.is_done) == (200, True, True)


@pytest.mark.parametrize("rest", [b"", b"40\r\nhalf a chunk"])
def test_a_connection_that_closes_early_is_no_whole_answer(rest: bytes) -> None:
    with serving(lambda wire: wire.sendall(HEAD + chunk(TEXT) + rest)) as port:
        answer = ask("127.0.0.1", port, headers={}, body={})
    assert (len(answer.receipts), answer.is_whole, answer.is_done) == (1, False, False)


def test_a_watcher_hears_of_every_event() -> None:
    heard: list[int] = []
    with serving(lambda wire: wire.sendall(HEAD + chunk(ROLE) + chunk(TEXT + TEXT) + LAST)) as port:
        ask("127.0.0.1", port, headers={}, body={}, on_event=heard.append)
    assert heard == [1, 2, 3]


def test_a_client_may_leave_in_mid_stream() -> None:
    has_left = threading.Event()

    def play(wire: socket.socket) -> None:
        wire.sendall(HEAD + chunk(ROLE) + chunk(TEXT))
        if wire.recv(1) == b"":
            has_left.set()

    with serving(play) as port:
        answer = ask("127.0.0.1", port, headers={}, body={}, leave_at=2)
    assert has_left.is_set()
    assert (len(answer.receipts), answer.is_whole, answer.is_done) == (2, False, False)


def test_a_slow_reader_reads_nothing_for_its_time_after_its_window_has_closed() -> None:
    sent_s: list[float] = []

    def play(wire: socket.socket) -> None:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        wire.sendall(HEAD)
        for _ in range(2_000):
            wire.sendall(chunk(TEXT))
            sent_s.append(time.monotonic())
        wire.sendall(LAST)

    with serving(play) as port:
        answer = ask("127.0.0.1", port, headers={}, body={}, pause=Pause(at_event=10, seconds=0.5))
    assert answer.held_off_s == pytest.approx(0.5, abs=0.03)
    assert len(answer.receipts) == 2_000
    blocked_s = max(later - earlier for earlier, later in pairwise(sent_s))
    assert blocked_s == pytest.approx(0.5, abs=0.1)
