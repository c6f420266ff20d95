"""Send a mixed load through real workers, then add up the log lines: /metrics must say the same, to the last byte.

    python -m tests.batteries.telling --gigabytes 10 --workers 2

Large downloads, streams of several models, slow readers, readers who leave, errors, cuts, silences that the
guard ends, probes, an upstream that is not there, and some of it while the kill switch is on. Then every counter is
compared with the sum over the lines by its labels, every bucket of every histogram with the times in them, and every
exemplar must be of an exchange that has a line. Times are compared to the microsecond that a line rounds to. Prints a
row for each comparison; exit code 1 when one does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import aiohttp

from tests.batteries.sums import NOTHING_LOST, Comparison, lines_of, metrics_of
from tests.support import bodies
from tests.support.processes import Fleet, Sidecar, free_ports, get, until
from tests.support.raw_peers import Asked, raw_upstream, simple, streaming

CLIENTS = 12
MODELS = ("small", "large", "vendor/odd-1.5", 'quo"ted\\slash')
PIECE = bytes(range(256)) * 4_096
"""1 MiB of a download."""
READ_BYTES = 1 << 18
KEEPALIVE_S, SILENCE_S = 0.1, 1.0
MUTED_PART = 0.05
"""So much of the load passes while the kill switch is on."""
WITHIN_S, WITHIN_S_PER_GIGABYTE = 90.0, 60.0
"""Longest that it may take: ten times what two cores need."""


# ------------------------------------------------------------------------------------------------------- the peers


def event(model: str, **more: object) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": model, "choices": [], **more}
    return f"data: {json.dumps(chunk)}\n\n".encode()


async def answer(asked: Asked) -> None:
    """Answer as the target says."""
    query = {key: values[0] for key, values in parse_qs(asked.target.partition("?")[2]).items()}
    with suppress(ConnectionError):
        await ANSWERS[query["do"]](asked, query)


async def _download(asked: Asked, query: Mapping[str, str]) -> None:
    count = int(query["count"])
    await asked.send(f"HTTP/1.1 200 OK\r\nContent-Length: {count * len(PIECE)}\r\n\r\n".encode())
    for _ in range(count):
        await asked.send(PIECE)


async def _stream(asked: Asked, query: Mapping[str, str]) -> None:
    """A chat stream; then: how it ends; pause: how long it is silent on the way."""
    model, then = json.loads(bytes(asked.body))["model"], query.get("then", "done")
    content = bodies.chat_event({"content": "w" * int(query["size"])}, model=model)
    await asked.send(streaming())
    for number in range(int(query["events"])):
        await asked.chunk(content)
        if number == 1:
            await asyncio.sleep(float(query.get("pause", "0")))
    if then == "error":
        await asked.chunk(event(model, error={"message": "out of memory", "type": "server_error", "code": "oom"}))
    elif then == "done":
        await asked.chunk(event(model, usage={"prompt_tokens": 7, "completion_tokens": 11, "total_tokens": 18}))
        await asked.chunk(b"data: [DONE]\n\n")
    elif then == "reset":
        await asyncio.sleep(0.02)
        asked.reset()
        return
    elif then == "silence":
        with suppress(TimeoutError):  # nobody guards what is not looked at, so it must end by itself
            async with asyncio.timeout(3 * SILENCE_S):
                await asked.wire.gone.wait()
    await asked.send(b"0\r\n\r\n")


async def _cut(asked: Asked, _: Mapping[str, str]) -> None:
    await asked.send(b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + bytes(50_000))
    asked.close()


async def _refuse(asked: Asked, _: Mapping[str, str]) -> None:
    body = json.dumps({"error": {"message": "slow down", "type": "rate_limit_error", "code": "busy"}}).encode()
    await asked.send(simple("429 Too Many Requests", body, "Content-Type: application/json"))


async def _health(asked: Asked, _: Mapping[str, str]) -> None:
    await asked.send(simple())


ANSWERS = {"download": _download, "stream": _stream, "cut": _cut, "refuse": _refuse, "health": _health}


@dataclass(frozen=True)
class Visit:
    """One request of one client, who may read slowly, or leave after its first bytes."""

    request: bytes
    leaves: bool = False
    pause_s: float = 0.0
    is_egress: bool = False


def chat(rng: random.Random, query: str, **habits: Any) -> Visit:
    body = json.dumps({"model": rng.choice(MODELS), "stream": True, "messages": []}).encode()
    head = f"POST /v1/chat/completions?do={query} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
    about = f"User-Agent: openai-python/1.2\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return Visit((head + about).encode() + body, **habits)


def plain(target: str, *fields: str, **habits: Any) -> Visit:
    lines = [f"GET {target} HTTP/1.1", "Host: h", "Connection: close", *fields, "", ""]
    return Visit("\r\n".join(lines).encode(), **habits)


def _events(rng: random.Random) -> str:
    return f"stream&events={rng.randrange(2, 300)}&size={rng.randrange(1, 400)}"


VISITS: tuple[tuple[float, Callable[[random.Random], Visit]], ...] = (
    (10, lambda rng: plain(f"/files?do=download&count={rng.randrange(4, 24)}")),
    (2, lambda rng: plain(f"/files?do=download&count={rng.randrange(8, 24)}", pause_s=rng.uniform(0.05, 0.3))),
    (1, lambda _: plain("/files?do=download&count=64", leaves=True)),
    (10, lambda rng: chat(rng, _events(rng))),
    (4, lambda rng: chat(rng, f"stream&events={rng.randrange(20, 200)}&size=20000")),
    (2, lambda rng: chat(rng, "stream&events=300&size=20000", pause_s=rng.uniform(0.05, 0.2))),
    (2, lambda rng: chat(rng, f"{_events(rng)}&pause={rng.uniform(0.3, 0.6):.3f}")),
    (2, lambda rng: chat(rng, f"{_events(rng)}&then=error")),
    (2, lambda rng: chat(rng, f"{_events(rng)}&then=reset")),
    (2, lambda rng: chat(rng, f"{_events(rng)}&then=missing")),
    (1, lambda rng: chat(rng, f"{_events(rng)}&then=silence")),
    (2, lambda rng: chat(rng, "stream&events=2000&size=400", leaves=True)),
    (2, lambda rng: chat(rng, "refuse")),
    (1, lambda _: plain("/files?do=cut")),
    (3, lambda _: plain("/healthz?do=health", "User-Agent: kube-probe/1.30")),
    (2, lambda rng: chat(rng, "stream", is_egress=True)),
)
"""How often, and what."""


@dataclass
class Load:
    """The clients, and how many bytes they have read."""

    port: int
    egress_port: int
    rng: random.Random
    read_bytes: int = 0
    visit_count: int = 0

    async def each(self) -> None:
        """Every kind of visit once, so that no number stays at 0."""
        async with asyncio.TaskGroup() as group:
            for _, visit in VISITS:
                group.create_task(self._carry_out(visit(self.rng)))

    async def until(self, size_bytes: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._client(size_bytes))

    async def _client(self, size_bytes: int) -> None:
        visits = [visit for _, visit in VISITS]
        weights = [weight for weight, _ in VISITS]
        while self.read_bytes < size_bytes:
            (visit,) = self.rng.choices(visits, weights)
            await self._carry_out(visit(self.rng))

    async def _carry_out(self, visit: Visit) -> None:
        port = self.egress_port if visit.is_egress else self.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=READ_BYTES)
        self.visit_count += 1
        with suppress(ConnectionError):
            writer.write(visit.request)
            first = True
            while data := await reader.read(READ_BYTES):
                self.read_bytes += len(data)
                if visit.leaves:
                    break
                if first and visit.pause_s:
                    await asyncio.sleep(visit.pause_s)
                first = False
        writer.transport.abort() if visit.leaves else writer.close()


# ------------------------------------------------------------------------------------------------------------- run


async def run(folder: Path, *, size_bytes: int, workers: int, seed: int) -> list[str]:
    """The whole of it; what did not hold."""
    nobody, egress = free_ports(2)
    with Fleet(folder) as fleet:
        async with raw_upstream(answer) as upstream:
            flags = ("--workers", str(workers), "--log-format", "json", "--keepalive", f"{KEEPALIVE_S}s")
            guard = ("--guard", "enforce", "--next-event-timeout", f"{SILENCE_S}s", "--log-start", "--semconv", "both")
            aside = ("--egress", f"nobody=127.0.0.1:{egress}=http://127.0.0.1:{nobody}")
            sidecar = fleet.sidecar("here", upstream.url, *flags, *guard, *aside)
            await sidecar.ready()
            load = Load(sidecar.port, egress, random.Random(seed))
            began = time.monotonic()
            await load.each()
            await load.until(round(size_bytes * (1 - MUTED_PART)))
            await switch(sidecar, is_on=True)
            await load.until(size_bytes)
            await switch(sidecar, is_on=False)
            took_s = time.monotonic() - began
            print(f"{load.read_bytes / 1e9:.2f} GB in {load.visit_count} requests, {took_s:.0f} s, {workers} workers")

            async def is_over() -> bool:
                found = (await metrics_of(sidecar)).values
                return not sum(map(sum, (found[name].values() for name in NOTHING_LOST[:2])))

            await until(is_over, "nothing runs any more", within_s=30)
            comparison = Comparison(await metrics_of(sidecar), lines_of(sidecar.said))
            comparison.run()
    differences = comparison.differences
    if len(comparison.lines) != load.visit_count:
        differences.append(f"{len(comparison.lines)} lines for {load.visit_count} requests")
    outcomes = Counter(line["outcome"] for line in comparison.lines)
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    return differences


async def switch(sidecar: Sidecar, *, is_on: bool) -> None:
    url = f"{sidecar.admin_url}/passthrough"
    async with aiohttp.ClientSession() as session, session.post(f"{url}?on={str(is_on).lower()}") as answered:
        assert answered.status == 200
    assert (await get(url))[0] == 200


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--gigabytes", type=float, default=0.3, help="how much passes, all together [0.3]")
    parser.add_argument("--workers", type=int, default=2, help="processes of the sidecar [2]")
    parser.add_argument("--seed", type=int, default=1, help="of the load [1]")
    arguments, _ = parser.parse_known_args(argv)  # a battery among others is also given their folder
    within_s = WITHIN_S + WITHIN_S_PER_GIGABYTE * arguments.gigabytes

    async def bounded(folder: Path) -> list[str]:
        async with asyncio.timeout(within_s):
            return await run(
                folder,
                size_bytes=round(arguments.gigabytes * 1e9),
                workers=arguments.workers,
                seed=arguments.seed,
            )

    with tempfile.TemporaryDirectory() as folder:
        differences = asyncio.run(bounded(Path(folder)))
    print(*differences, sep="\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
