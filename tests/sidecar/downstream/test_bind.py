import socket

import pytest

from otel.settings import Address, UnixPath
from sidecar.config import config_of
from sidecar.downstream.bind import close_listening, listeners_of, open_for, tell_listening

ANY = Address("127.0.0.1", 0)


@pytest.fixture
def opened():
    """Open sockets, and close them afterwards."""
    found = []

    def of(count, listeners):
        found.extend(open_for(count, listeners))
        return found

    yield of
    for process in found:
        close_listening(process)


def test_listeners_are_that_of_the_service_and_one_for_each_egress():
    config = config_of(
        {"hop": "h", "upstream": "http://u", "listen": "127.0.0.1:1,unix:/a", "egress": "x=127.0.0.1:2=http://v"}, {}
    )

    assert listeners_of(config) == [
        (Address("127.0.0.1", 1), UnixPath("/a")),
        [Address("127.0.0.1", 2)],
    ]


def test_each_process_has_a_socket_of_its_own_on_the_same_port(opened):
    processes = opened(3, [[ANY], [ANY]])

    for place in (0, 1):
        sockets = [process[place][0] for process in processes]
        assert len({each.fileno() for each in sockets}) == 3
        assert len({each.getsockname() for each in sockets}) == 1
    assert processes[0][0][0].getsockname() != processes[0][1][0].getsockname()


def test_each_of_them_gets_connections(opened):
    processes = opened(2, [[ANY]])
    address = processes[0][0][0].getsockname()
    clients, counts = [socket.create_connection(address) for _ in range(64)], [0, 0]
    for number, process in enumerate(processes):
        try:
            while True:
                process[0][0].accept()[0].close()
                counts[number] += 1
        except BlockingIOError:
            pass
    for client in clients:
        client.close()

    assert sum(counts) == 64
    assert min(counts) > 8


def test_a_unix_socket_is_shared_and_its_path_goes_with_it(opened, tmp_path):
    path = tmp_path / "s"
    first, second = opened(2, [[UnixPath(str(path))]])

    assert first[0][0] is second[0][0]
    close_listening(first)
    assert not path.exists()
    close_listening(second)


@pytest.mark.parametrize("count", [1, 2])
def test_whoever_is_there_already_is_noticed_also_one_that_would_share(opened, count):
    (process,) = opened(1, [[ANY]])
    taken = Address(*process[0][0].getsockname())
    with pytest.raises(OSError, match="in use"):
        open_for(count, [[ANY], [taken]])
    with socket.socket() as sharing:
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sharing.bind(("127.0.0.1", 0))
        sharing.listen()
        with pytest.raises(OSError, match="in use"):
            open_for(count, [[Address(*sharing.getsockname())]])


def test_what_was_open_is_closed_when_another_cannot_be_had(tmp_path):
    path = tmp_path / "s"
    with pytest.raises(OSError, match="No such file"):
        open_for(2, [[UnixPath(str(path)), ANY], [UnixPath("/no-such-directory/s")]])

    assert not path.exists()


def test_each_listener_is_told_with_its_addresses(opened, tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "s"
    options = {
        "hop": "h",
        "upstream": "http://u",
        "listen": f"127.0.0.1:0,unix:{path}",
        "egress": "x=127.0.0.1:0=http://v",
    }
    config = config_of(options, {})
    (sockets,) = opened(1, listeners_of(config))
    tell_listening(config, sockets, workers=2)

    first, second = caplog.records
    assert (first.listener, first.port, first.workers) == ("listen", sockets[0][0].getsockname()[1], 2)
    assert first.at == f"127.0.0.1:{first.port},unix:{path}"
    assert (second.listener, second.upstream, second.at) == ("egress:x", "http://v", f"127.0.0.1:{second.port}")
