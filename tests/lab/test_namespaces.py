"""A network of its own, with real packets: only where root may make one."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from otel.demo.processes import Command, Processes
from tests.lab import namespaces
from tests.lab.links import Line
from tests.lab.namespaces import CONTROL, Network
from tests.readers.reading import Missing

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif((why := namespaces.missing()) is not None, reason=str(why)),
]
MS = 1_000_000
PLACES = ("source", "middle", "reader")
UPPER, LOWER = ("source", "middle"), ("middle", "reader")


@contextmanager
def joined(network: Network) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection over the lower link: the end of the middle, which sends, and that of the reader."""
    with network.inside("middle"):
        listener = socket.create_server((network.address("middle"), 0))
    with closing(listener):
        with network.inside("reader"):
            reader = socket.create_connection(listener.getsockname(), timeout=10)
        sender, _ = listener.accept()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with closing(sender), closing(reader):
        yield sender, reader


def sent_in_s(sender: socket.socket, reader: socket.socket, data: bytes = b"x") -> float:
    """How long it takes from one end to the other."""
    start_s = time.monotonic()
    sender.sendall(data)
    got = 0
    while got < len(data):
        got += len(reader.recv(65_536))
    return time.monotonic() - start_s


def test_packets_take_as_long_as_their_link_and_the_others_are_not_slowed() -> None:
    with Network(PLACES, lines={LOWER: Line(delay_ns=60 * MS)}) as network:
        with joined(network) as (sender, reader):
            assert 0.06 <= sent_in_s(sender, reader) < 0.16
        with network.inside("source"):
            listener = socket.create_server((network.address("source"), 0))
        with (
            closing(listener),
            network.inside("middle"),
            closing(socket.create_connection(listener.getsockname())) as up,
        ):
            other, _ = listener.accept()
            with closing(other):
                assert sent_in_s(other, up) < 0.05


def test_faults_come_while_it_runs_and_go_by_themselves() -> None:
    with Network(PLACES) as network, joined(network) as (sender, reader):
        assert sent_in_s(sender, reader) < 0.1
        network.black_hole(LOWER, 0.5)
        time.sleep(0.05)
        assert sent_in_s(sender, reader) > 0.4
        assert sent_in_s(sender, reader) < 0.1
        network.black_hole(UPPER, 5.0)
        time.sleep(0.05)
        assert sent_in_s(sender, reader) < 0.1
        network.rate(LOWER, 80_000.0, 2.0)
        time.sleep(0.05)
        assert 0.7 < sent_in_s(sender, reader, bytes(10_000)) < 2.0
        network.loss(LOWER, 0.3, 5.0)
        time.sleep(0.05)
        retransmitted = _retransmitted(sender)
        sent_in_s(sender, reader, bytes(200_000))
        assert _retransmitted(sender) > retransmitted


def test_buffers_are_as_large_as_was_asked_for_in_there_and_nowhere_else() -> None:
    def sizes() -> list[str]:
        return [Path(f"/proc/sys/net/ipv4/{name}").read_text() for name in ("tcp_rmem", "tcp_wmem")]

    before = sizes()
    with Network(PLACES, receive_bytes=16 << 20, send_bytes=8_192) as network:
        with network.inside("middle"):
            assert [size.split() for size in sizes()] == [["4096", "16777216", "16777216"], ["4096", "8192", "8192"]]
        assert sizes() == before


def test_a_small_receive_buffer_holds_little() -> None:
    with Network(PLACES, receive_bytes=8_192) as network, joined(network) as (sender, _):
        sender.setblocking(False)
        taken = 0
        try:
            while taken < 10_000_000:
                taken += sender.send(bytes(1_000))
        except BlockingIOError:
            pass
        time.sleep(0.2)
        unsent = int.from_bytes(sender.getsockopt(socket.IPPROTO_TCP, 11, 256)[144:148], "little")
        assert taken - unsent < 65_536


def test_a_process_runs_and_is_asked_in_its_place_and_control_reaches_all(tmp_path: Path) -> None:
    with Network(PLACES) as network, Processes(tmp_path, is_ready=network.is_ready) as processes:
        address, port = network.control_address("middle"), 8_000
        arguments = ("http.server", "--bind", address, str(port), "--directory", str(tmp_path))
        command = Command("serving", arguments, f"http://{address}:{port}/")
        processes.start(network.wrap(command, "middle"))
        processes.wait_ready(lambda _: None)
        with network.inside(CONTROL):
            socket.create_connection((address, port), timeout=5).close()
        assert os.readlink(f"/proc/{processes.pid('serving')}/ns/net") != os.readlink("/proc/self/ns/net")


def test_nothing_is_left_behind_and_the_machines_own_network_is_as_it_was() -> None:
    def links() -> str:
        return subprocess.run(("ip", "-o", "link"), capture_output=True, text=True, check=True).stdout

    before, space = links(), os.readlink("/proc/self/ns/net")
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with Network(PLACES) as network:
        wire = network.wire_pid
        assert links() == before
    assert (links(), os.readlink("/proc/self/ns/net")) == (before, space)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    assert not Path(f"/proc/{wire}").exists()


def test_a_link_of_no_neighbours_is_refused() -> None:
    with pytest.raises(ValueError, match="neighbours"):
        Network(PLACES, lines={("source", "reader"): Line()})


def test_where_there_is_no_tun_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(namespaces, "_TUN", tmp_path / "tun")
    with pytest.raises(Missing, match="tun"), Network(PLACES):
        pass


def _retransmitted(sender: socket.socket) -> int:
    """tcpi_total_retrans."""
    return int.from_bytes(sender.getsockopt(socket.IPPROTO_TCP, 11, 256)[100:104], "little")
