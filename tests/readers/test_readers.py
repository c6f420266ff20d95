"""The SDKs of Python before real sidecars: a few streams with keepalives, and streams that the guard ends."""

from __future__ import annotations

import asyncio

import pytest

from tests.readers.bench import FLAGS, Bench, Findings
from tests.readers.stops import stops
from tests.readers.streams import draw
from tests.readers.upstream import Speaker
from tests.support.processes import Fleet
from tests.support.raw_peers import raw_upstream

pytestmark = [pytest.mark.e2e, pytest.mark.peers]
pytest.importorskip("httpx_sse", reason="the readers are installed with `pip install gapline[dev,peers]`")
pytest.importorskip("openai")
pytest.importorskip("anthropic")


async def test_sdks_read_with_keepalives_what_they_read_without(tmp_path):
    from tests.readers.sdks import python_readers

    streams = [draw(1, number) for number in range(30)]
    ended = stops(1_000)
    speaker = Speaker([*streams, *(stop.stream for stop in ended)])
    findings = Findings()
    with Fleet(tmp_path) as fleet:
        async with raw_upstream(speaker.answer) as upstream, python_readers() as readers:
            sidecars = {name: fleet.sidecar(name, upstream.url, *more) for name, more in FLAGS.items()}
            await fleet.ready()
            bench = Bench(readers=readers, **sidecars, speaker=speaker, findings=findings)
            await asyncio.gather(*map(bench.both, streams))
            await asyncio.gather(*map(bench.stopping, ended))
    assert findings.differences == []
    assert findings.keepalive_count > len(streams) // 4
