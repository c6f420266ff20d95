"""Open the sockets to listen on: TCP over both families, unix, and those that a parent process has opened for us."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from otel.settings import Endpoint, UnixPath

BACKLOG: Final = 1_024
"""Connections that the kernel holds until we accept them: a burst of clients must not be refused."""
UNIX_MODE: Final = 0o660
"""Who may connect to a unix socket: its user and its group, since there is no other check."""
_ATTEMPTS: Final = 8
"""Times to find one free port on all families of a host, when the kernel is to choose it."""


def open_sockets(endpoint: Endpoint, *, share_port: bool = False) -> list[socket.socket]:
    """Sockets that listen there, one for each address of the host, all on one port. Raises OSError.

    share_port: further processes, or this one again, may listen on the same address, each with a queue of its own.
    """
    if isinstance(endpoint, UnixPath):
        return [_open_unix(Path(endpoint.path))]
    for _ in range(_ATTEMPTS):
        try:
            return _open_tcp(endpoint.host, endpoint.port, share_port=share_port)
        except OSError as error:
            if endpoint.port != 0 or error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"{endpoint}: no port is free on all addresses of the host")


def inherited(descriptors: Iterable[int]) -> list[socket.socket]:
    """Sockets that a parent process has opened and passed on. Raises OSError when one is none."""
    found = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for each in found:
        each.setblocking(False)
    return found


def port_of(sockets: Iterable[socket.socket]) -> int:
    """The port on which they listen; 0 for unix sockets."""
    for each in sockets:
        if each.family != socket.AF_UNIX:
            return int(each.getsockname()[1])
    return 0


def close_sockets(sockets: Iterable[socket.socket], *, unlink: bool = True) -> None:
    """Close them. unlink: take unix sockets out of the file system; not where another process listens on, too."""
    for each in sockets:
        path = each.getsockname() if each.family == socket.AF_UNIX and each.fileno() >= 0 else ""
        each.close()
        if unlink and path and not _is_served(Path(path)):
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108


def _open_tcp(host: str, port: int, *, share_port: bool) -> list[socket.socket]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            chosen = port_of(opened) or port
            opened.append(_listening(family, (address[0], chosen, *address[2:]), share_port=share_port))
    except BaseException:
        close_sockets(opened)
        raise
    return opened


def _listening(family: socket.AddressFamily, address: tuple[object, ...], *, share_port: bool) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart must not wait for old connections
        if share_port:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # 0.0.0.0 has a socket of its own
        opened.bind(address)
        opened.listen(BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


def _open_unix(path: Path) -> socket.socket:
    if os.path.lexists(path):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, f"{path}: is there and is no socket")
        if _is_served(path):
            raise OSError(errno.EADDRINUSE, f"{path}: another process listens there")
        path.unlink()
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        opened.bind(str(path))
        path.chmod(UNIX_MODE)  # before it listens, so nobody comes in by an older mode
        opened.listen(BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


def _is_served(path: Path) -> bool:
    """Somebody listens there. Asking costs them a connection that says nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(str(path))
        except BlockingIOError:
            return True  # its queue is full
        except OSError:
            return False
    return True
