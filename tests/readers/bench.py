"""Read streams by every reader from several sidecars, and write down whatever differs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from tests.readers import browser
from tests.readers.bodies import cleaned, differences
from tests.readers.reading import Read, Reader
from tests.readers.stops import ENFORCING, HOLDING, RAISED, Stop
from tests.readers.streams import Stream
from tests.readers.upstream import Speaker
from tests.support.processes import Sidecar
from tests.support.raw_peers import CLOSED, WHOLE, asked_once

TEXT = "gapline says so"
"""Of the keepalives; no stream has a comment like it."""
KEEPING = ("--keepalive", "0.1", "--keepalive-text", TEXT)
FLAGS = {"plain": (), "keeping": KEEPING, "early": (*KEEPING, "--keepalive-early", *ENFORCING), "guarded": HOLDING}
"""What each of the sidecars is told."""
BY_THE_STANDARD = {"eventsource-parser": 2, browser.NAME: 3}
"""Readers that keep to the standard, and how much of each event they tell: its type, its data, its id."""
ASKED = b'{"model":"m","stream":true}'
WITHIN_S = 60.0


@dataclass
class Findings:
    """What was seen: how much was read, how many keepalives there were, what was wrong, and who could not be had."""

    read_count: int = 0
    keepalive_count: int = 0
    differences: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def differs(self, stream: Stream, who: str, what: str) -> None:
        self.differences.append(f"stream {stream.number} ({stream.name}), {who}: {what}")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """All that one run needs: who reads, from which sidecars, what the upstream says, and where findings go.

    plain: says no keepalives. keeping: says them. early: also before the answer has begun; it ends
    streams as well. guarded: ends them, and keeps heads back until the first event.
    """

    readers: Sequence[Reader]
    plain: Sidecar
    keeping: Sidecar
    early: Sidecar
    guarded: Sidecar
    speaker: Speaker
    findings: Findings

    async def both(self, stream: Stream) -> None:
        """A stream by every reader that takes it, and its bytes, with keepalives and without."""
        await self._compare(stream, self.keeping)

    async def beginning_late(self, stream: Stream) -> None:
        """The same of a stream for whose head the reader has to wait, with keepalives meanwhile."""
        await self._compare(stream, self.early)

    async def stopping(self, stop: Stop) -> None:
        """A stream that stops too soon, by every SDK that knows its API: before and behind a head of our own."""
        readers = [reader for reader in self.readers if reader.name in RAISED and reader.takes(stop.stream)]
        await asyncio.gather(*(self._stops(stop, *each) for each in product(readers, (self.guarded, self.early))))

    async def _stops(self, stop: Stop, reader: Reader, sidecar: Sidecar) -> None:
        read = await self._read(reader, sidecar, stop.stream)
        if what := stop.differences(reader.name, read, is_early=sidecar is self.early):
            self.findings.differs(stop.stream, f"{reader.name}, {sidecar.name}", what)

    async def in_browser(self, streams: Sequence[Stream]) -> None:
        """Streams by Chromium, with keepalives and without. Raises Missing where there is none."""
        program = await asyncio.to_thread(browser.chromium)
        self.speaker.pages[browser.PAGE] = browser.page(streams)
        for sidecar in (self.plain, self.keeping):
            try:
                read = await browser.read_in_browser(program, sidecar.url, self.speaker)
            except TimeoutError:
                self.findings.differences.append(f"{browser.NAME} read for ever, {sidecar.name}")
                continue
            self.findings.read_count += len(read)
            for stream in streams:
                self._by_the_standard(browser.NAME, stream, read[stream.number])

    async def _read(self, reader: Reader, sidecar: Sidecar, stream: Stream) -> Read:
        self.findings.read_count += 1
        return await reader.read(sidecar.url, stream)

    async def _compare(self, stream: Stream, keeping: Sidecar) -> None:
        readers = [reader for reader in self.readers if reader.takes(stream)]
        await asyncio.gather(
            self._bytes(self.plain, stream),
            self._bytes(keeping, stream),
            *(self._compared(reader, stream, keeping) for reader in readers),
        )

    async def _compared(self, reader: Reader, stream: Stream, keeping: Sidecar) -> None:
        without, kept = await asyncio.gather(*(self._read(reader, each, stream) for each in (self.plain, keeping)))
        if what := without.differences(kept):
            self.findings.differs(stream, reader.name, f"with keepalives {what}")
        self._by_the_standard(reader.name, stream, without)

    def _by_the_standard(self, reader: str, stream: Stream, read: Read) -> None:
        if (count := BY_THE_STANDARD.get(reader)) and stream.events is not None:
            wanted = Read.of({"events": [(event.type, event.data, event.id)[:count] for event in stream.events]})
            if what := wanted.differences(shortened(read, count)):
                self.findings.differs(stream, reader, what)

    async def _bytes(self, sidecar: Sidecar, stream: Stream) -> None:
        line, fields = f"POST {stream.path}?n={stream.number} HTTP/1.1", "Host: h\r\nContent-Type: application/json"
        head = f"{line}\r\n{fields}\r\nContent-Length: {len(ASKED)}\r\n\r\n"
        got = await asked_once(sidecar.port, head.encode() + ASKED, within_s=WITHIN_S)
        count = len(cleaned(bytes(got.body), TEXT).places)
        self.findings.keepalive_count += count
        if got.status != 200 or got.end not in {WHOLE, CLOSED}:
            self.findings.differs(stream, "its bytes", f"{got.status}, {got.end}")
        elif what := differences(stream, bytes(got.body), TEXT):
            self.findings.differs(stream, "its bytes", what)
        elif count and sidecar is self.plain:
            self.findings.differs(stream, "its bytes", "keepalives that nobody asked for")


def shortened(read: Read, count: int) -> Read:
    """Its events with so much of each, and without what it says of reconnecting."""
    events = [json.loads(event)[:count] for event in read.events]
    return Read.of({"events": [event for event in events if event[0] != "retry"], "error": read.error})
