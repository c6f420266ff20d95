"""A drawn corpus of streams through a real sidecar process: every byte arrives as it was sent, whatever the cuts.

    python -m tests.batteries.bytes --streams 20000 [--seed N] [--loop asyncio] [--only NUMBER]

Several readers at once, on connections that are used again, ask for answers of every kind (`tests.support.corpus`).
Status, fields, interim answers, body, trailers and end are compared, and what the upstream got of the request. Prints
the seed and the first difference; exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.corpus import PAUSE_S, Drawn, draw
from tests.support.processes import Fleet
from tests.support.raw_peers import Asked, RawUpstream, raw_client, raw_upstream
from tests.support.sidecars import exchange_count, idle, is_quiet
from tests.support.tiers import told

READERS = 6
WITHIN_S = 30.0


@dataclass(frozen=True)
class Difference:
    """One stream that did not arrive as it was sent, and how to see it again."""

    drawn: Drawn
    what: str

    def __str__(self) -> str:
        drawn = self.drawn
        return (
            f"seed {drawn.seed}, stream {drawn.number} ({drawn.kind}; {drawn.framing}, {drawn.method.decode()}): "
            f"{self.what}\n"
            f"    again: python -m tests.batteries.bytes --seed {drawn.seed} --only {drawn.number}"
        )


async def answer(asked: Asked) -> None:
    seed, number = map(int, asked.target.partition("?")[0].strip("/").split("/"))
    drawn = draw(seed, number)
    for at, piece in enumerate(drawn.writes):
        await asked.send(piece)
        await asyncio.sleep(PAUSE_S if at in drawn.pauses else 0)
    if drawn.framing in {"close", "http/1.0"}:
        asked.close()


async def carried(port: int, upstream: RawUpstream, drawn: Iterator[Drawn], found: list[Difference]) -> None:
    """One reader: one stream after the other, until there are no more or one was wrong."""
    each = next(drawn, None)
    while each is not None and not found:
        async with raw_client(port) as client:
            may_go_on = True
            while may_go_on and each is not None and not found:
                client.send(each.request)
                got = await client.answer(each.method, within_s=WITHIN_S)
                if what := each.differences(got) or _wrong_upstream(upstream, each):
                    found.append(Difference(each, what))
                may_go_on = got.values("connection") != [b"close"] and not each.is_old_client
                each = next(drawn, None)


def _wrong_upstream(upstream: RawUpstream, drawn: Drawn) -> str:
    """What is wrong with the request as it arrived; it is forgotten then, for there will be many."""
    target = drawn.request.split(b" ")[1].decode()
    (at,) = (at for at, asked in enumerate(upstream.asked) if asked.target == target)
    asked = upstream.asked.pop(at)
    if bytes(asked.body) != drawn.request_body:
        return f"the upstream got {len(asked.body)} of the {len(drawn.request_body)} bytes of the request"
    return "" if asked.method == drawn.method else f"the upstream was asked by {asked.method!r}"


async def run(folder: Path, *, seed: int, numbers: Sequence[int], loop: str) -> list[Difference]:
    """All these streams through one sidecar; the differences that were found before it was given up."""
    found: list[Difference] = []
    with Fleet(folder) as fleet:
        async with raw_upstream(answer) as upstream:
            sidecar = fleet.sidecar("here", upstream.url, "--loop", loop)
            await fleet.ready()
            async with asyncio.TaskGroup() as group:
                for reader in range(READERS):
                    own = (draw(seed, number) for number in numbers[reader::READERS])
                    group.create_task(carried(sidecar.port, upstream, own, found))
            await idle(sidecar)
            if not found:
                count = await exchange_count(sidecar)
                assert count == len(numbers), f"seed {seed}: {count} records of {len(numbers)} requests"
                assert is_quiet(sidecar.said), f"seed {seed}: something was lost:\n{sidecar.said[-2_000:]}"
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--streams", type=int, default=2_000, help="how many [2000]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="[drawn, and printed]")
    parser.add_argument("--only", type=int, help="the number of the one stream to send")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), help="[half of them on each]")
    options = parser.parse_args(arguments)
    numbers = range(options.streams) if options.only is None else (options.only,)
    loops = [options.loop] if options.loop else ["uvloop", "asyncio"]
    print(f"seed {options.seed}, {len(numbers)} streams, {told()}", flush=True)
    began, found = time.monotonic(), list[Difference]()
    for part, loop in enumerate(loops):
        own = numbers if options.only is not None else numbers[part :: len(loops)]
        with tempfile.TemporaryDirectory() as folder:
            found += asyncio.run(run(Path(folder), seed=options.seed, numbers=own, loop=loop))
    for difference in found:
        print(f"DIFFERS {difference}")
    print(f"{len(numbers)} streams in {time.monotonic() - began:.0f} s, {len(found)} differ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
