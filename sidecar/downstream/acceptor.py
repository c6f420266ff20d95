"""Accept connections, alike on every event loop: no busy loop when descriptors run out, and none lost at the end.

Event loops differ in what they do without descriptors: one accepts and closes, another schedules a thousand retries.
Here accepting pauses, and clients wait in the kernel's queue, until there are descriptors again. And when listening
ends, what is in that queue is accepted before the socket is closed, which would reset it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

from sidecar.downstream.doors import Doors
from sidecar.downstream.sockets import close_sockets
from sidecar.tls.contexts import ServerTls
from sidecar.tls.transport import TlsTransport

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.1
"""How long accepting rests when it cannot go on: ten attempts a second cost nothing, and a client hardly notices."""
BATCH: Final = 64
"""Connections accepted in one go, so that a burst of them does not hold up what runs."""


class Acceptor:
    """The listening sockets of one listener. pause_count: rests for want of descriptors or memory."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        *,
        make_door: Callable[[], asyncio.Protocol],
        doors: Doors,
        tls: ServerTls | None,
        handshake_timeout_s: float,
    ) -> None:
        self.sockets = tuple(sockets)
        self._make_door = make_door
        self._doors = doors
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._is_listening = False
        self.pause_count = 0
        self.failed_handshake_count = 0

    def start(self) -> None:
        self._is_listening = True
        for each in self.sockets:
            each.setblocking(False)
            self._watch(each)

    def stop(self) -> None:
        """Accept what the kernel has queued, and listen no more."""
        if not self._is_listening:
            return
        self._is_listening = False
        loop = asyncio.get_running_loop()
        for each in self.sockets:
            if (timer := self._paused.pop(each, None)) is not None:
                timer.cancel()
            loop.remove_reader(each.fileno())
            while self._accept_one(each):
                pass
        close_sockets(self.sockets)

    def close(self) -> None:
        """End handshakes that are under way."""
        self.stop()
        for task in tuple(self._tasks):
            task.cancel()

    def _watch(self, listening: socket.socket) -> None:
        self._paused.pop(listening, None)
        asyncio.get_running_loop().add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BATCH):
            if self._doors.is_flooded:
                self._pause(listening)
                return
            if not self._accept_one(listening):
                return

    def _accept_one(self, listening: socket.socket) -> bool:
        """Accept one connection; False when there is none, or none can be had."""
        try:
            accepted, _ = listening.accept()
        except BlockingIOError:
            return False
        except (InterruptedError, ConnectionAbortedError):
            return True  # that one has left already
        except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM: the connection stays where it is
            if self._is_listening:
                self.pause_count += 1
                log.warning("accepting pauses", extra={"error": error.strerror})
                self._pause(listening)
            return False
        accepted.setblocking(False)
        self._doors.handshake_count += 1
        task = asyncio.get_running_loop().create_task(self._admit(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _pause(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())
        self._paused[listening] = loop.call_later(PAUSE_S, self._watch, listening)

    async def _admit(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._tls is None:
                await loop.connect_accepted_socket(self._make_door, accepted)
            else:
                # Not the event loop's TLS: that has a buffer of its own, behind which nobody sees what our kernel takes
                secure = TlsTransport(self._tls.context, host=None)
                async with asyncio.timeout(self._handshake_timeout_s):
                    await loop.connect_accepted_socket(lambda: secure, accepted)
                    await secure.handshake()
                secure.start(self._make_door())
        except OSError:  # ssl.SSLError is one, and so are a timeout and a client that has left
            self.failed_handshake_count += self._tls is not None
        finally:
            self._doors.handshake_count -= 1
