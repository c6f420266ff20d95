"""The readers of npm: install them into a folder of their own, and let one Node process read with them."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.readers.programs import program, run
from tests.readers.reading import Missing, Read, Reader
from tests.readers.streams import Stream

HERE = Path(__file__).parent / "node"
FOLDER = Path(__file__).parents[2] / ".cache" / "readers"
LINE_BYTES = 1 << 26
"""Longest line of an answer: a stream with everything in it."""


def installed() -> Path:
    """The folder with the packages and our script. Raises Missing where that cannot be had."""
    program("node", package="nodejs")
    npm = program("npm", package="npm")
    wanted = (HERE / "package.json").read_bytes()
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "read.mjs", FOLDER)
    mark = FOLDER / "installed.json"
    if not mark.exists() or mark.read_bytes() != wanted:
        (FOLDER / "package.json").write_bytes(wanted)
        quiet = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
        run(npm, "install", *quiet, folder=FOLDER)
        mark.write_bytes(wanted)
    return FOLDER


class Node:
    """One Node process: jobs go in, and each is answered when it is done."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps(job | {"job": number}).encode() + b"\n")
        return await answer

    async def listen(self) -> None:
        async for line in self._process.stdout:
            told = json.loads(line)
            self._waiting.pop(told["job"]).set_result(told)
        for answer in self._waiting.values():
            answer.set_exception(Missing("the Node process ended"))


@dataclass(frozen=True, slots=True)
class Package:
    """One package as a reader; `apis` is what it can ask for, empty: whatever is SSE."""

    name: str
    apis: frozenset[str]
    node: Node

    def takes(self, stream: Stream) -> bool:
        return not self.apis or stream.api in self.apis

    async def read(self, origin: str, stream: Stream) -> Read:
        job = {"reader": self.name, "origin": origin, "path": stream.path, "n": stream.number, "api": stream.api}
        return Read.of(await self.node.ask(job))


@asynccontextmanager
async def npm_readers() -> AsyncIterator[list[Reader]]:
    """All of them, while their process runs; raises Missing where there is none."""
    process = await asyncio.create_subprocess_exec(
        *("node", "read.mjs"),
        cwd=await asyncio.to_thread(installed),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=LINE_BYTES,
    )
    node = Node(process)
    try:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(node.listen())
            yield [
                Package("openai-node", frozenset({"chat", "completions", "responses"}), node),
                Package("eventsource-parser", frozenset(), node),
            ]
            listening.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
