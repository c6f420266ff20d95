"""Open the sockets of every listener: once for a process, or for each of several that share the addresses."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from otel.settings import Address, Endpoint, UnixPath
from sidecar.config import Config
from sidecar.downstream.sockets import close_sockets, open_sockets, port_of

log = logging.getLogger(__name__)

Sockets = Sequence[Sequence[socket.socket]]
"""The listening sockets of one process, by listener."""


def listeners_of(config: Config) -> list[Sequence[Endpoint]]:
    """Where each listener listens: the one in front of the service, then those for what it asks itself."""
    return [config.listen, *([each.endpoint] for each in config.egress)]


def open_for(count: int, listeners: Sequence[Sequence[Endpoint]]) -> list[Sockets]:
    """The sockets of so many processes. On TCP each has its own, a unix socket is shared. Raises OSError."""
    found: list[list[list[socket.socket]]] = [[[] for _ in listeners] for _ in range(count)]
    with ExitStack() as opened:
        for place, endpoint in ((place, each) for place, endpoints in enumerate(listeners) for each in endpoints):
            for process, sockets in zip(found, _told(count, endpoint), strict=True):
                process[place] += sockets
                opened.callback(close_listening, [sockets])
        opened.pop_all()
    return list(found)


def _told(count: int, endpoint: Endpoint) -> list[list[socket.socket]]:
    """As `_opened`; the error says where."""
    try:
        return _opened(count, endpoint)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise OSError(error.errno, f"--listen or --egress {endpoint}: {reason}") from error


def _opened(count: int, endpoint: Endpoint) -> list[list[socket.socket]]:
    """For each process its sockets at one address."""
    alone = open_sockets(endpoint)  # without sharing, or whoever is there already would go unnoticed
    if count == 1 or not isinstance(endpoint, Address):
        return [alone] * count
    place = Address(endpoint.host, port_of(alone))
    close_sockets(alone)
    found: list[list[socket.socket]] = []
    with ExitStack() as opened:
        for _ in range(count):
            found.append(open_sockets(place, share_port=True))
            opened.callback(close_listening, found[-1:])
        opened.pop_all()
    return found


def tell_listening(config: Config, sockets: Sockets, **about: object) -> None:
    """A line of the log for each listener: where it listens, and for whom."""
    names = [("listen", config.upstream), *((f"egress:{each.name}", each.url) for each in config.egress)]
    for (name, upstream), own in zip(names, sockets, strict=True):
        at = ",".join(map(_address, own))
        where = {"hop": config.hop, "listener": name, "at": at, "port": port_of(own), "upstream": upstream}
        log.info("listening", extra=where | about)


def _address(listening: socket.socket) -> str:
    name = listening.getsockname()
    return str(UnixPath(name) if listening.family == socket.AF_UNIX else Address(*name[:2]))


def close_listening(listeners: Iterable[Iterable[socket.socket]]) -> None:
    """Close the sockets, and leave no path in the file system: nobody new comes in, although copies still listen."""
    for each in chain.from_iterable(listeners):
        if each.family == socket.AF_UNIX and each.fileno() >= 0:
            Path(each.getsockname()).unlink(missing_ok=True)
        each.close()
