import socket
import struct
from contextlib import contextmanager

from sidecar.receive import RECEIVE_BYTES, RESCUE_BYTES, leftover


class Transport:
    """A transport, as far as its socket goes."""

    def __init__(self, sock):
        self._socket = sock

    def get_extra_info(self, name):
        assert name == "socket"
        return self._socket


@contextmanager
def pair():
    """Both ends of a TCP connection, ours first."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as theirs,
        server.accept()[0] as ours,
    ):
        ours.setblocking(False)
        yield ours, theirs


def test_nothing_is_left_of_a_connection_that_brought_nothing():
    with pair() as (ours, _):
        assert list(leftover(Transport(ours))) == []


def test_what_came_before_a_reset_is_left():
    with pair() as (ours, theirs):
        theirs.sendall(b"a" * (RECEIVE_BYTES + 1))
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()

        assert [len(data) for data in leftover(Transport(ours))] == [RECEIVE_BYTES, 1]


def test_what_came_before_an_end_in_order_is_left():
    with pair() as (ours, theirs):
        theirs.sendall(b"a")
        theirs.close()

        assert list(leftover(Transport(ours))) == [b"a"]


def test_no_more_than_a_page_is_left():
    with pair() as (ours, theirs):
        theirs.setblocking(False)
        read_bytes = 0
        for data in leftover(Transport(ours)):
            read_bytes += len(data)
        theirs.send(bytes(RECEIVE_BYTES))
        for data in leftover(Transport(ours)):
            read_bytes += len(data)
            theirs.send(bytes(2 * RECEIVE_BYTES))  # it never runs dry

        assert RESCUE_BYTES <= read_bytes < RESCUE_BYTES + RECEIVE_BYTES
