"""The process that carries packets, with pairs of sockets in place of devices."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.links import NS, Change, Line
from tests.lab.wire import Wire

FAR_NS = 1 << 62


@contextmanager
def wired(*lines: Line) -> Iterator[tuple[list[tuple[socket.socket, socket.socket]], int]]:
    """The outer ends of each link, and where changes are written."""
    outer, inner = [], []
    for _ in lines:
        (one, one_in), (other, other_in) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        for each in (one_in, other_in):
            each.setblocking(False)
        for each in (one, other):
            each.settimeout(5)
        outer.append((one, other))
        inner.append((one_in, other_in))
    reads, writes = os.pipe()
    wire = Wire([(one.fileno(), other.fileno()) for one, other in inner], lines, seed=1)
    thread = threading.Thread(target=wire.run, args=(reads,))
    thread.start()
    try:
        yield outer, writes
    finally:
        os.close(writes)
        thread.join(5)
        os.close(reads)
        for pair in (*outer, *inner):
            for each in pair:
                each.close()
    assert not thread.is_alive()


def test_packets_cross_their_own_link_in_both_directions_and_no_other() -> None:
    with wired(Line(), Line()) as (((one, other), (third, fourth)), _):
        one.send(b"there")
        assert other.recv(2_048) == b"there"
        other.send(b"back")
        assert one.recv(2_048) == b"back"
        third.send(b"elsewhere")
        assert fourth.recv(2_048) == b"elsewhere"
        other.settimeout(0.05)
        with pytest.raises(TimeoutError):
            other.recv(2_048)


def test_a_change_holds_for_its_link_in_both_directions_and_may_come_in_pieces() -> None:
    with wired(Line(), Line()) as (((one, other), (third, fourth)), changes):
        told = Change(0, Line(loss_share=1.0), FAR_NS).to_json().encode() + b"\n"
        os.write(changes, told[:10])
        os.write(changes, told[10:])
        third.send(b"the change was read before this")
        assert fourth.recv(2_048)
        one.send(b"lost")
        other.send(b"lost")
        for each in (one, other):
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.recv(2_048)
        os.write(changes, Change(0, Line(delay_ns=NS // 100), FAR_NS).to_json().encode() + b"\n")
        third.send(b"and this one, too")
        assert fourth.recv(2_048)
        one.settimeout(5)
        other.send(b"back")
        assert one.recv(2_048) == b"back"
