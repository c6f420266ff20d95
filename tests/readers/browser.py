"""Chromium's EventSource as a reader: a page reads the streams of its own origin and posts what it got."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from tests.readers.programs import program
from tests.readers.reading import Missing, Read
from tests.readers.streams import Stream
from tests.readers.upstream import TOLD, Speaker

NAME = "chromium"
PAGE = "/page"
WITHIN_S = 90
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

# A browser opens six connections to an origin; the answer of the page itself needs one.
SCRIPT = """
const AT_ONCE = 5
const read = (job) => new Promise((resolve) => {
  const events = []
  const source = new EventSource(`${job.path}?n=${job.n}`)
  const got = (event) => events.push([event.type, event.data, event.lastEventId])
  for (const type of job.types) if (type !== 'error') source.addEventListener(type, got)
  source.onerror = (event) => {
    if (event instanceof MessageEvent) return got(event)
    const error = source.readyState === EventSource.CONNECTING ? '' : 'failed'
    source.close()
    resolve({ n: job.n, events, error })
  }
})
const told = []
const worker = async () => { while (jobs.length) told.push(await read(jobs.shift())) }
Promise.all(Array.from({ length: AT_ONCE }, worker))
  .then(() => fetch(TOLD, { method: 'POST', body: JSON.stringify(told) }))
"""


def page(streams: Sequence[Stream]) -> bytes:
    """A page that reads these streams as soon as it is shown."""
    jobs = [{"n": stream.number, "path": stream.path, "types": stream.event_types} for stream in streams]
    head = f"const jobs = {json.dumps(jobs)}, TOLD = {json.dumps(TOLD)}\n".replace("</", "<\\/")
    return f"<!doctype html><title>readers</title><script>{head}{SCRIPT}</script>".encode()


def chromium() -> str:
    """The program. Raises Missing where it cannot be had."""
    return program(NAME, "chromium-browser", "google-chrome", package=NAME)


async def _ended(process: asyncio.subprocess.Process) -> None:
    raise Missing(f"{NAME} ended by itself, with {await process.wait()}")


async def read_in_browser(program: str, origin: str, speaker: Speaker) -> dict[int, Read]:
    """What the page made of its streams, by their numbers. speaker: who serves the page behind this origin.

    Raises Missing where Chromium does not run, TimeoutError where it does and its page tells nothing.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            *(program, *QUIET, f"--user-data-dir={folder}", f"{origin}{PAGE}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
                ending = group.create_task(_ended(process))
                told = json.loads(await speaker.told.get())
                ending.cancel()
        except* Missing as gone:
            raise gone.exceptions[0] from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return {each["n"]: Read.of(each) for each in told}
