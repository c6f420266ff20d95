"""Real readers before a sidecar that says keepalives: every event and every final object is what it is without them.

    python -m tests.batteries.readers [DIR] --streams 1000 [--seed N] [--only NUMBER] [--browser 24]

openai-python, anthropic, httpx-sse, httpx2, and from npm openai and eventsource-parser read drawn streams, and with
DIR the recorded ones in `DIR/captures`, through one sidecar with `--keepalive` and through one without; Chromium reads
a few. Bytes are compared after taking the keepalives out, and SDKs must raise their typed error for a stream that the
guard has ended. Packages of npm and Chromium are installed when they are not there. Prints the seed and every
difference; exit code 1 when there is one, or with CI_FULL=1 when a reader cannot be had.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.readers.bench import FLAGS, Bench, Findings
from tests.readers.npm import npm_readers
from tests.readers.reading import Missing
from tests.readers.sdks import python_readers
from tests.readers.stops import stops
from tests.readers.streams import REST_S, SSE, Stream, draw, recorded
from tests.readers.upstream import Speaker
from tests.support.processes import Fleet
from tests.support.raw_peers import raw_upstream
from tests.support.sidecars import is_quiet

LATE_EVERY = 12
"""One stream in so many is also read while its answer has not begun."""
AT_ONCE = 24
"""Streams at a time; each is read by up to seven readers, twice."""
RECORDED_FROM, STOPPING_FROM, LATE_FROM = 1_000_000, 2_000_000, 3_000_000
"""Numbers of streams that are not drawn."""
RECORDED_WAYS = 4
APIS = {
    **dict.fromkeys(("01", "03", "09", "10"), "chat"),
    **dict.fromkeys(("05", "08"), "responses"),
    "07": "messages",
}
TYPES = {".sse": "text/event-stream", ".ndjson": "application/x-ndjson", ".bin": "application/vnd.amazon.eventstream"}


async def run(folder: Path, streams: Sequence[Stream], findings: Findings, *, loop: str, shown: int) -> None:
    """All these streams through sidecars on this loop. shown: how many of them Chromium reads."""
    late = [
        replace(each, number=LATE_FROM + each.number, content_type=SSE, head_rest_s=REST_S)
        for each in streams[::LATE_EVERY]
        if each.content_type.lower().startswith(SSE) and not each.is_encoded  # nothing else fits behind our own head
    ]
    stopping = stops(STOPPING_FROM)
    speaker = Speaker([*streams, *late, *(stop.stream for stop in stopping)])
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(raw_upstream(speaker.answer))
        readers = await stack.enter_async_context(python_readers())
        try:
            readers += await stack.enter_async_context(npm_readers())
        except Missing as missing:
            findings.missing["npm"] = str(missing)
        fleet = stack.enter_context(Fleet(folder))
        sidecars = {name: fleet.sidecar(name, upstream.url, "--loop", loop, *more) for name, more in FLAGS.items()}
        await fleet.ready()
        bench = Bench(readers=readers, **sidecars, speaker=speaker, findings=findings)
        await at_once(bench.both(stream) for stream in streams)
        await at_once(bench.beginning_late(stream) for stream in late)
        await at_once(bench.stopping(stop) for stop in stopping)
        if shown:
            try:
                await bench.in_browser([stream for stream in streams if stream.events is not None][:shown])
            except Missing as missing:
                findings.missing["chromium"] = str(missing)
        noisy = [f"{name} on {loop}:\n{one.said[-2_000:]}" for name, one in sidecars.items() if not is_quiet(one.said)]
        findings.differences += noisy


async def at_once(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of them, a few at a time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(work: Coroutine[Any, Any, None]) -> None:
        async with places:
            await work

    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(one(work))


def recordings(folder: Path, seed: int) -> list[Stream]:
    """Each recorded body in a few ways."""
    paths = [path for path in sorted((folder / "captures").iterdir()) if path.suffix in TYPES] * RECORDED_WAYS
    return [
        recorded(
            RECORDED_FROM + number,
            path.name,
            path.read_bytes(),
            api=APIS.get(path.name[:2], ""),
            content_type=TYPES[path.suffix],
            seed=seed,
        )
        for number, path in enumerate(paths)
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?", help="with recorded streams in its folder `captures`")
    parser.add_argument("--streams", type=int, default=1_000, help="how many are drawn [1000]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="[drawn, and printed]")
    parser.add_argument("--only", type=int, help="the number of the one stream to read")
    parser.add_argument("--browser", type=int, default=24, help="how many of them Chromium reads [24]")
    options = parser.parse_args(arguments)
    if options.folder is not None and not (options.folder / "captures").is_dir():
        print(__doc__)
        return 2
    is_full = os.environ.get("CI_FULL") == "1"
    numbers = range(options.streams) if options.only is None else (options.only,)
    streams = [draw(options.seed, number) for number in numbers]
    streams += recordings(options.folder, options.seed) if options.folder is not None else []
    if options.only is not None:
        streams = [stream for stream in streams if stream.number == options.only]
    print(f"seed {options.seed}, {len(streams)} streams", flush=True)
    began, findings = time.monotonic(), Findings()
    for part, loop in enumerate(("uvloop", "asyncio")):
        own = streams if options.only is not None else streams[part::2]
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(run(Path(folder), own, findings, loop=loop, shown=options.browser * (part == 0)))
    if options.only is None and findings.keepalive_count < len(streams) // 4:
        findings.differences.append(f"only {findings.keepalive_count} keepalives: this proves nothing")
    for difference in findings.differences:
        print(f"DIFFERS {difference}")
    for name, why in findings.missing.items():
        print(f"{'MISSING' if is_full else 'SKIPPED'} {name}: {why}")
    print(
        f"{len(streams)} streams, {findings.read_count} readings, {findings.keepalive_count} keepalives "
        f"in {time.monotonic() - began:.0f} s, {len(findings.differences)} differ"
    )
    return int(bool(findings.differences) or (is_full and bool(findings.missing)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
