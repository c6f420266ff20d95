"""A reader that stops, on a connection to a peer that sends what the test says."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing

import pytest

from tests.lab.stopping import Reading, Stop, read, window_bytes

EVENT = b"data: " + b"x" * 1_000 + b"\n\n"
END = b"0\r\n\r\n"


def reading(*windows: tuple[float, int], stopped_s: float | None = 1.0, resumed_s: float | None = 9.0) -> Reading:
    return Reading(0.0, windows=list(windows), stopped_s=stopped_s, resumed_s=resumed_s)


def test_the_window_fell_when_it_was_at_half_of_its_own_peak_while_the_reader_had_stopped() -> None:
    seen = reading((0.1, 10), (0.5, 100), (1.1, 60), (1.2, 50), (1.3, 0), (1.4, 0))
    assert (seen.half_s, seen.shut_s) == (1.2, 1.3)


def test_what_it_was_before_and_after_the_stop_does_not_count() -> None:
    assert reading((0.5, 100), (0.6, 10), (1.1, 90), (9.5, 0)).half_s is None
    assert reading((0.5, 100), (1.1, 0), stopped_s=None, resumed_s=None).half_s is None


@pytest.mark.parametrize("is_stopping", [False, True])
def test_it_counts_events_knows_when_it_stopped_and_reads_on_to_the_end(is_stopping: bool) -> None:
    stop = Stop(0.1, 0.4) if is_stopping else None
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        wire = socket.socket()
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        wire.connect(listener.getsockname())
        peer, _ = listener.accept()

        def answer() -> None:
            assert b"X-Request-Id: r\r\n" in peer.recv(4_096)
            for _ in range(40):
                peer.sendall(EVENT[:500])
                peer.sendall(EVENT[500:])
                time.sleep(0.01)
            peer.sendall(END)

        sending = threading.Thread(target=answer)
        sending.start()
        with closing(wire), closing(peer):
            seen = read(wire, request_id="r", body={}, stop=stop)
            sending.join()
            assert window_bytes(wire) > 0
    assert seen.is_whole
    assert seen.reads[-1][1] == 40
    assert [count for _, count in seen.reads] == sorted(count for _, count in seen.reads)
    if seen.stopped_s is None or seen.resumed_s is None:
        assert not is_stopping
    else:
        assert seen.resumed_s - seen.stopped_s >= 0.4
        assert not any(seen.stopped_s < at_s < seen.resumed_s for at_s, _ in seen.reads)
        assert seen.half_s is not None


def test_an_answer_that_breaks_off_is_not_whole() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        wire = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
        peer.sendall(EVENT)
        peer.shutdown(socket.SHUT_WR)
        with closing(wire), closing(peer):
            seen = read(wire, request_id="r", body={})
    assert not seen.is_whole
    assert seen.reads[-1][1] == 1
