"""Recorded streams under every delivery and framing through real sidecars: equal bytes, and the right ending.

    python -m tests.batteries.captures DIR

DIR holds `captures/` with its README. Each stream is sent whole, byte by byte, cut at random, one block a write, and
cut inside every CRLF; with Content-Length, chunked, until the close, and in HTTP/1.0; on both event loops. Prints a row
per stream and one per difference; exit code 1 when there is one, 2 when DIR is no such folder.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from otel.hop import Ending
from tests.support.processes import Fleet, Sidecar, until
from tests.support.raw_peers import CLOSED, WHOLE, Asked, Got, raw_client, raw_upstream
from tests.support.sidecars import Records, collecting, is_quiet

CONTENT_TYPES = {
    ".sse": "text/event-stream",
    ".ndjson": "application/x-ndjson",
    ".bin": "application/vnd.amazon.eventstream",
}
ERRORS = {"01", "03"}
"""Streams with an error event."""
UNMARKED = {"14"}
"""Streams of an API that marks no end: only HTTP's framing proves them whole. Of all others even a close does."""
PATHS = {"07": "/v1/messages", "01": "/v1/chat/completions", "03": "/v1/chat/completions"}
RANDOM_CUTS = 3
SEED = 20_240_601
CLIENTS = 4
BREATH_EVERY = 32
"""Writes between two turns of the loop: often enough that the sidecar reads most of them apart."""

Deliver = Callable[[bytes, random.Random], list[bytes]]


@dataclass(frozen=True)
class Job:
    """One stream sent in one way."""

    name: str
    body: bytes
    content_type: str
    delivery: str
    framing: str
    number: int

    @property
    def id(self) -> str:
        return f"{self.name[:2]}-{self.number}"

    @property
    def path(self) -> str:
        return f"{PATHS.get(self.name[:2], '/v1/stream')}?job={self.number}"

    @property
    def pieces(self) -> list[bytes]:
        return DELIVERIES[self.delivery](self.body, random.Random(SEED + self.number))

    @property
    def ending(self) -> Ending:
        if self.name[:2] in ERRORS:
            return Ending.ERROR_EVENT
        is_provable = self.framing in {"length", "chunked"} or self.name[:2] not in UNMARKED
        return Ending.COMPLETE if is_provable else Ending.UNKNOWN_END


def whole(body: bytes, _: random.Random) -> list[bytes]:
    return [body]


def byte_by_byte(body: bytes, _: random.Random) -> list[bytes]:
    return [body[at : at + 1] for at in range(len(body))]


def at_random(body: bytes, rng: random.Random) -> list[bytes]:
    return between(body, rng.sample(range(1, len(body)), min(len(body) - 1, rng.randint(1, 60))))


def by_block(body: bytes, _: random.Random) -> list[bytes]:
    return between(body, [found.end() for found in re.finditer(rb"\r\n\r\n|\n\n|(?<=\})\n", body)])


def inside_line_ends(body: bytes, _: random.Random) -> list[bytes]:
    """Between the CR and the LF of each CRLF, and between the two LF of each blank line."""
    return between(body, [found.start() + 1 for found in re.finditer(rb"\r\n|\n\n", body)])


def between(body: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(set(cuts)), len(body)]
    return [body[start:end] for start, end in pairwise(places) if start < end]


DELIVERIES: dict[str, Deliver] = {
    "whole": whole,
    "bytes": byte_by_byte,
    "blocks": by_block,
    "line ends": inside_line_ends,
    **{f"random {number}": at_random for number in range(RANDOM_CUTS)},
}
HEADS = {
    "length": "HTTP/1.1 200 OK\r\nContent-Type: {type}\r\nContent-Length: {size}\r\n\r\n",
    "chunked": "HTTP/1.1 200 OK\r\nContent-Type: {type}\r\nTransfer-Encoding: chunked\r\n\r\n",
    "close": "HTTP/1.1 200 OK\r\nContent-Type: {type}\r\nConnection: close\r\n\r\n",
    "http/1.0": "HTTP/1.0 200 OK\r\nContent-Type: {type}\r\n\r\n",
}


def jobs_of(folder: Path) -> list[Job]:
    found = []
    for path in sorted((folder / "captures").iterdir()):
        if path.suffix in CONTENT_TYPES:
            ways = [(delivery, framing) for framing in HEADS for delivery in DELIVERIES]
            found += [
                (path.name, path.read_bytes(), CONTENT_TYPES[path.suffix], delivery, framing)
                for delivery, framing in ways
            ]
    return [Job(*each, number=number) for number, each in enumerate(found)]


def answering(jobs: list[Job]) -> Callable[[Asked], Awaitable[None]]:
    async def answer(asked: Asked) -> None:
        job = jobs[int(asked.target.rpartition("=")[2])]
        await asked.send(HEADS[job.framing].format(type=job.content_type, size=len(job.body)).encode())
        for number, piece in enumerate(job.pieces):
            await (asked.chunk(piece) if job.framing == "chunked" else asked.send(piece))
            if number % BREATH_EVERY == 0 or job.delivery != "bytes":
                await asyncio.sleep(0)
        if job.framing == "chunked":
            await asked.send(b"0\r\n\r\n")
        elif job.framing != "length":
            asked.close()

    return answer


async def carried(sidecar: Sidecar, jobs: list[Job]) -> dict[int, Got]:
    """What came of each job, a few at a time, on connections that are used again."""
    left, got = iter(jobs), dict[int, Got]()

    async def reader() -> None:
        for job in left:
            async with raw_client(sidecar.port) as client:
                client.send(f"GET {job.path} HTTP/1.1\r\nHost: h\r\nX-Request-Id: {job.id}\r\n\r\n".encode())
                got[job.number] = await client.answer(within_s=30)

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(reader())
    return got


async def differences(job: Job, got: Got, records: Records) -> str:
    if got.status != 200 or got.end not in {WHOLE, CLOSED}:
        return f"{got.status}, {got.end}"
    if bytes(got.body) != job.body:
        at = next((at for at, (a, b) in enumerate(zip(got.body, job.body, strict=False)) if a != b), len(got.body))
        return f"{len(got.body)} of {len(job.body)} bytes, the first difference at {at}"
    hop = await records.hop(job.id)
    if hop.end is None or hop.end.ending is not job.ending:
        return f"recorded as {hop.end and hop.end.ending}, not {job.ending}"
    if hop.end.framing_incomplete or (hop.traffic.bytes_in, hop.traffic.bytes_out) != (len(job.body),) * 2:
        return f"recorded {hop.traffic.bytes_in} bytes in and {hop.traffic.bytes_out} out of {len(job.body)}"
    return ""


async def run(folder: Path, jobs: list[Job], loop: str) -> list[tuple[Job, str]]:
    with Fleet(folder) as fleet:
        async with collecting() as records, raw_upstream(answering(jobs)) as upstream:
            sidecar = fleet.sidecar(loop, upstream.url, "--loop", loop, export=records.url)
            await fleet.ready()
            got = await carried(sidecar, jobs)
            await until(lambda: len(records.final) >= len(jobs), "every record is delivered", within_s=30)
            found = [
                (job, f"{loop}: {what}") for job in jobs if (what := await differences(job, got[job.number], records))
            ]
            if not is_quiet(sidecar.said) or len(records.final) != len(jobs):
                found.append((jobs[0], f"{loop}: {len(records.final)} records of {len(jobs)}, or something was lost"))
            events = {(hop.request_id[:2], hop.traffic.event_count) for hop in records.final}
            for name in sorted({job.name for job in jobs if not job.name.endswith(".bin")}):
                counts = {count for start, count in events if start == name[:2]}
                if len(counts) != 1:
                    found.append((jobs[0], f"{loop}: {name} has {sorted(counts)} events, by its delivery"))
            return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    if not (options.folder / "captures").is_dir():
        print(__doc__)
        return 2
    jobs = jobs_of(options.folder)
    found: list[tuple[Job, str]] = []
    for loop in ("uvloop", "asyncio"):
        with tempfile.TemporaryDirectory() as folder:
            found += asyncio.run(run(Path(folder), jobs, loop))
    for job, what in found:
        print(f"DIFFERS {job.name:60.60}{job.delivery:10}{job.framing:10}{what}")
    print(f"{len({job.name for job in jobs})} streams in {len(jobs)} ways on two loops, {len(found)} differ")
    return int(bool(found) or not jobs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
