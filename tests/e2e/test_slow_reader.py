"""Readers that never read, and readers that leave, cost nobody else anything.

Twenty readers ask and then read no byte, while the worker writes without end. The sidecar's resident memory grows by
at most 1 MB for each, a reader beside them gets its stream as if they were not there, and once they leave nothing of
them is left: no stream, no descriptor, no upstream connection. A reader that leaves while nothing flows, at whatever
point, has its upstream closed within a second, through one sidecar and through three.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import bodies
from tests.support.processes import Fleet, Sidecar, until
from tests.support.sidecars import ended_as
from tests.support.wire import Asked, Stuck, Worker, asking, get, post, worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

STUCK = 20
WRITE_BYTES = 16 << 10
OFFERED_BYTES = 200 << 20
GROWTH_BYTES = 1 << 20
"""Most that the sidecar may grow by for each stuck reader."""
CLOSED_WITHIN_S = 1.0
EVENT = bodies.chat_event({"content": "some words "})
FLOOD = EVENT * (WRITE_BYTES // len(EVENT))
PACED = bodies.chat_events(60)
PACE_S = 0.025
LATE_S = 0.25
"""A paced event this late is late: below it, it is the machine on which this runs."""


async def flood(asked: Asked) -> None:
    await asked.head()
    while asked.sent_bytes < OFFERED_BYTES:
        await asked.chunk(FLOOD)


async def pace(asked: Asked) -> None:
    clock = asyncio.get_running_loop().time
    await asked.head()
    began = clock()
    for number, event in enumerate(PACED):
        await asyncio.sleep(began + number * PACE_S - clock())
        await asked.chunk(event)
    await asked.end()


async def say_nothing(asked: Asked) -> None:
    await asked.hold()


async def say_one_thing(asked: Asked) -> None:
    await asked.head()
    await asked.chunk(EVENT)
    await asked.hold()


@dataclass
class Setting:
    fleet: Fleet
    worker: Worker


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    answers = {"/flood": flood, "/pace": pace, "/silent": say_nothing, "/one": say_one_thing}
    with Fleet(tmp_path) as fleet:
        async with worker(answers) as running:
            yield Setting(fleet, running)


async def paced(sidecar: Sidecar) -> tuple[bytes, float]:
    """A paced stream: what came, and the longest that any event was late."""
    clock = asyncio.get_running_loop().time
    async with asking(sidecar.port, get("/pace")) as reader:
        late_s, size = 0.0, 0
        began = None
        for number, event in enumerate(PACED):
            size += len(event)
            await reader.at_least(size)
            began = clock() if began is None else began
            late_s = max(late_s, clock() - began - number * PACE_S)
        return await reader.rest(), late_s


async def settled(value: Callable[[], object], *, for_s: float) -> None:
    """Until the value has not changed for so long."""
    clock = asyncio.get_running_loop().time
    last, since = value(), clock()
    while clock() - since < for_s:
        await asyncio.sleep(0.05)
        if (now := value()) != last:
            last, since = now, clock()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_readers_that_never_read_cost_little_and_harm_nobody(setting: Setting, loop: str) -> None:
    sidecar = setting.fleet.sidecar("gateway", setting.worker.url, "--loop", loop)
    await setting.fleet.ready()
    alone, late_alone_s = await paced(sidecar)
    descriptors, resident = sidecar.descriptor_count, sidecar.resident_bytes
    before = len(setting.worker.asked)

    stuck = [await Stuck.ask(sidecar.port, get("/flood")) for _ in range(STUCK)]
    try:
        peak = 0

        def watched() -> int:
            nonlocal peak
            peak = max(peak, sidecar.resident_bytes)
            assert peak - resident <= STUCK * GROWTH_BYTES, f"grown by {(peak - resident) >> 20} MiB"
            return sum(asked.sent_bytes for asked in setting.worker.asked[before:])

        await until(
            lambda: len(setting.worker.asked) - before == STUCK, "every stuck reader's request is at the worker"
        )
        await settled(watched, for_s=1.0)
        offered = watched()
        assert all(asked.sent_bytes < OFFERED_BYTES for asked in setting.worker.asked[before:]), "nothing held it back"
        streams = await sidecar.streams()
        assert len(streams) == STUCK
        assert all(stream["is_blocked"] for stream in streams)

        beside, late_beside_s = await paced(sidecar)
        watched()
        assert beside == alone == b"".join(PACED)
        assert late_beside_s < max(LATE_S, 2 * late_alone_s)
    finally:
        left_s = asyncio.get_running_loop().time()
        for number, reader in enumerate(stuck):
            reader.leave(by_reset=number % 2 == 0)

    flooded = [asked for asked in setting.worker.asked[before:] if asked.target == b"/flood"]
    async with asyncio.timeout(5):
        await asyncio.gather(*(asked.gone.wait() for asked in flooded))
    closed_s = max(asked.gone_s or left_s for asked in flooded) - left_s
    assert closed_s < CLOSED_WITHIN_S

    async def is_released() -> bool:
        metrics = await sidecar.metrics()
        is_idle = metrics["gapline_streams"] == metrics["gapline_lingering"] == 0 and not await sidecar.streams()
        return is_idle and ended_as(metrics, "client_disconnect") == STUCK

    await until(is_released, "nothing of them is left", within_s=5)
    # an idle upstream connection is kept for 4 s, and the question has a connection of its own
    await until(lambda: sidecar.descriptor_count <= descriptors, "every descriptor is given back", within_s=10)
    mib = [f"{size / (1 << 20):.1f}" for size in (resident, peak, sidecar.resident_bytes)]
    print(f"{loop}: resident MiB before, at most, after: {', '.join(mib)}")
    print(f"{loop}: grown by {(peak - resident) / STUCK / 1024:.0f} KiB for each stuck reader")
    print(f"{loop}: the worker could write {offered / STUCK / (1 << 20):.1f} MiB for each")
    print(f"{loop}: latest event alone {late_alone_s * 1e3:.1f} ms, beside them {late_beside_s * 1e3:.1f} ms")
    print(f"{loop}: all upstreams closed {closed_s * 1e3:.0f} ms after the readers left")


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_a_reader_that_leaves_while_nothing_flows_has_its_upstream_closed_within_a_second(
    setting: Setting, loop: str
) -> None:
    chain: list[Sidecar] = []
    for hop in ("model-worker", "inference-proxy", "gateway"):
        chain.append(setting.fleet.sidecar(hop, chain[-1].url if chain else setting.worker.url, "--loop", loop))
    await setting.fleet.ready()
    clock = asyncio.get_running_loop().time

    for count in (1, 3):
        for path in ("/silent", "/one"):
            before = len(setting.worker.asked)
            async with asking(chain[count - 1].port, post(path, body=b"x" * 1_000)) as reader:
                if path == "/one":
                    await reader.at_least(len(EVENT))
                await until(lambda before=before: len(setting.worker.asked) > before, "the request is at the worker")
                await asyncio.sleep(0.3)  # nothing flows
            left_s = clock()
            asked = setting.worker.asked[-1]
            async with asyncio.timeout(5):
                await asked.gone.wait()
            closed_s = (asked.gone_s or 0) - left_s
            assert closed_s < CLOSED_WITHIN_S
            print(f"{loop}: through {count}, {path}: upstream closed after {closed_s * 1e3:.1f} ms")
    for sidecar in chain:
        await until(lambda sidecar=sidecar: _is_idle(sidecar), f"{sidecar.name} has nothing left")
        endings = await sidecar.metrics()
        assert ended_as(endings, "client_disconnect") >= 2


async def _is_idle(sidecar: Sidecar) -> bool:
    return not await sidecar.streams() and await sidecar.metric("gapline_lingering") == 0
