import errno
import os
import socket
import stat

import pytest

from otel.settings import Address, UnixPath
from sidecar.downstream.sockets import close_sockets, inherited, open_sockets, port_of


def is_answered(family, address):
    with socket.socket(family) as client:
        try:
            client.connect(address)
        except OSError:
            return False
    return True


def test_a_free_port_is_the_same_on_every_address_of_the_host():
    opened = open_sockets(Address("localhost", 0))
    port = port_of(opened)

    assert port > 0
    assert {each.getsockname()[1] for each in opened} == {port}
    for each in opened:
        assert is_answered(each.family, each.getsockname())
    close_sockets(opened)
    assert not is_answered(socket.AF_INET, ("127.0.0.1", port))


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as trying:
            trying.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_all_addresses_of_both_families_can_be_had_side_by_side():
    v4 = open_sockets(Address("0.0.0.0", 0))
    v6 = open_sockets(Address("::", port_of(v4)))

    assert is_answered(socket.AF_INET, ("127.0.0.1", port_of(v4)))
    assert is_answered(socket.AF_INET6, ("::1", port_of(v4)))
    close_sockets([*v4, *v6])


def test_a_port_in_use_cannot_be_had_unless_it_is_shared():
    first = open_sockets(Address("127.0.0.1", 0), share_port=True)
    address = Address("127.0.0.1", port_of(first))
    with pytest.raises(OSError) as raised:
        open_sockets(address)
    assert raised.value.errno == errno.EADDRINUSE
    second = open_sockets(address, share_port=True)

    assert port_of(second) == address.port
    close_sockets([*first, *second])


def test_a_host_that_nobody_knows_is_an_oserror():
    with pytest.raises(OSError):
        open_sockets(Address("no-such-host.invalid", 0))


def test_a_unix_socket_is_for_its_user_and_group_and_goes_with_its_listener(tmp_path):
    path = str(tmp_path / "in.sock")
    opened = open_sockets(UnixPath(path))

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    assert is_answered(socket.AF_UNIX, path)
    assert port_of(opened) == 0
    close_sockets(opened)
    assert not os.path.exists(path)


def test_the_socket_of_a_killed_process_is_replaced_and_one_in_use_is_not(tmp_path):
    path = str(tmp_path / "in.sock")
    for each in open_sockets(UnixPath(path)):
        each.close()  # and nobody removes the file, as after SIGKILL
    assert os.path.exists(path)
    second = open_sockets(UnixPath(path))
    with pytest.raises(OSError) as raised:
        open_sockets(UnixPath(path))

    assert raised.value.errno == errno.EADDRINUSE
    assert is_answered(socket.AF_UNIX, path)
    close_sockets(second)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "precious"
    path.write_text("keep")
    with pytest.raises(OSError, match="is no socket"):
        open_sockets(UnixPath(str(path)))

    assert path.read_text() == "keep"


def test_a_unix_socket_on_which_another_process_listens_on_stays(tmp_path):
    path = str(tmp_path / "in.sock")
    opened = open_sockets(UnixPath(path))
    theirs = [each.dup() for each in opened]
    close_sockets(opened)
    assert is_answered(socket.AF_UNIX, path)
    close_sockets(theirs)

    assert not os.path.exists(path)


def test_what_a_parent_has_opened_is_taken_over():
    opened = open_sockets(Address("127.0.0.1", 0))
    port = port_of(opened)
    taken = inherited([each.detach() for each in opened])

    assert port_of(taken) == port
    assert taken[0].getblocking() is False
    assert is_answered(socket.AF_INET, ("127.0.0.1", port))
    close_sockets(taken)


def test_a_descriptor_that_is_no_socket_is_refused(tmp_path):
    with (tmp_path / "file").open("w") as file, pytest.raises(OSError):
        inherited([file.fileno()])
