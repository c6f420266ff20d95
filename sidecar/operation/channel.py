"""What the parent of several workers asks each of them: lines of JSON over two joined sockets that only they have.

The parent writes the first line unasked: who the worker is, and which sockets are its own. Every further line of the
parent is a question with a number, and the worker writes an answer with that number. The end of the one is the end of
the channel for the other, however it ended: so no worker outlives its parent.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Final

from sidecar.operation.account import Account

LINE_BYTES: Final = 64 << 20
"""Longest line: the list of streams takes some 500 bytes for each, and a sidecar runs less than 100,000."""
_PEEK_BYTES: Final = 65_536
PENDING: Final = 32
"""Questions without an answer from which a worker is not asked any more: it hangs, and each would wait for nothing."""
_WISHES: Final = frozenset({"switch_passthrough", "reload"})
"""What also a worker that hangs is told, and does when it hangs no more: people ask for it, so these are few."""


class ChannelError(Exception):
    """A worker does not answer: it is gone, hangs, or could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a worker is told at its start, beside what its parent was told.

    number counts from 0 to worker_count - 1. sockets: descriptors of the listening sockets, by listener. file_text: the
    settings' file as the parent had read it, so that all workers have the same.
    """

    number: int
    worker_count: int
    sockets: tuple[tuple[int, ...], ...]
    is_passthrough: bool
    file_text: str | None

    def line(self) -> bytes:
        return _line(asdict(self))

    @staticmethod
    def of_line(line: bytes) -> Birth:
        found = json.loads(line)
        sockets = tuple(map(tuple, found.pop("sockets")))
        return Birth(sockets=sockets, **found)


def birth_from(end: socket.socket) -> Birth:
    """The worker's side before it has an event loop: the first line, and nothing after it is taken."""
    line = b""
    while not line.endswith(b"\n"):
        if not (seen := end.recv(_PEEK_BYTES, socket.MSG_PEEK)):
            raise ChannelError("the parent ended before it said who we are")
        line += end.recv(seen.find(b"\n") + 1 or len(seen))
    return Birth.of_line(line)


async def answer(end: socket.socket, account: Account) -> None:
    """The worker's side: answer every question; returns when the parent is gone."""
    reader, writer = await asyncio.open_connection(sock=end, limit=LINE_BYTES)
    with suppress(ConnectionError):
        async for line in reader:
            writer.write(await _answered(json.loads(line), account))
            await writer.drain()
    writer.close()


async def _answered(question: Mapping[str, Any], account: Account) -> bytes:
    """The line of the answer; of an error only its kind, for its text may quote what passed through."""
    try:
        said = _line({"number": question["number"], "said": await _said(account, question["ask"], question["with"])})
        if len(said) <= LINE_BYTES:
            return said
        kind = "TooLong"
    except Exception as error:  # noqa: BLE001  # the parent is told, and counts it
        kind = type(error).__name__
    return _line({"number": question["number"], "error": kind})


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


async def _said(account: Account, ask: str, given: Mapping[str, bool]) -> object:
    match ask:
        case "is_ready":
            return await account.is_ready()
        case "metrics":
            return await account.metrics()
        case "streams":
            return await account.streams()
        case "switch_passthrough":
            await account.switch_passthrough(is_on=given["is_on"])
        case "reload":
            await account.reload()
        case _:
            raise ValueError(f"{ask!r}: is no question")
    return None


class Channel:
    """The parent's side: `ask` while `run` runs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._is_gone = False

    @staticmethod
    async def over(end: socket.socket, birth: Birth) -> Channel:
        """The channel over this socket, which belongs to it from now on; the worker is told who it is."""
        channel = Channel(*await asyncio.open_connection(sock=end, limit=LINE_BYTES))
        channel._writer.write(birth.line())
        return channel

    async def run(self) -> None:
        """Take answers until the worker is gone."""
        try:
            with suppress(ConnectionError, ValueError):  # the latter: a line that is too long or none of ours
                async for line in self._reader:
                    self._take(json.loads(line))
        finally:
            self._is_gone = True
            for waiting in self._pending.values():
                if not waiting.done():
                    waiting.set_exception(ChannelError("is gone"))
            self._writer.close()

    def _take(self, told: Mapping[str, Any]) -> None:
        waiting = self._pending.pop(told["number"], None)
        if waiting is None or waiting.done():  # whoever asked has given up
            return
        if "error" in told:
            waiting.set_exception(ChannelError(f"could not: {told['error']}"))
        else:
            waiting.set_result(told["said"])

    async def ask(self, question: str, *, timeout_s: float | None, **given: bool) -> Any:  # noqa: ANN401  # JSON
        """The answer to a question, the name of what an account does. Raises ChannelError."""
        if self._is_gone or (len(self._pending) >= PENDING and question not in _WISHES):
            raise ChannelError("is gone" if self._is_gone else "hangs")
        number = next(self._numbers)
        self._pending[number] = waiting = asyncio.get_running_loop().create_future()
        self._writer.write(_line({"number": number, "ask": question, "with": given}))
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            raise ChannelError(f"said nothing for {timeout_s:g} s") from None
