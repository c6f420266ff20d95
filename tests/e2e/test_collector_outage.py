"""Nothing that was acknowledged is lost, and no stream ever feels that the collector is away.

The collector is killed with SIGKILL under load, several times, and started again on the same data: every span that it
acknowledged is there, once. It is absent, or takes connections and never answers, while streams run: they take as long
as ever, and when it is there again all their spans are delivered, none lost, by the sidecar's own count. With a spool
that holds although the sidecars are restarted in the middle of the outage, told to end or killed. A sidecar that is
told to end lets its streams finish, delivers what it knows and ends with 0; at the limit it breaks them off so that
nobody takes them for whole, and says `drained`.

CI_FULL=1 makes the outages a minute long, and the one with restarts ten minutes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from otel.hop import Ending
from otel.ids import trace_id_of
from otel.otlp import decode_response, encode_request
from otel.span import hop_to_span
from otel.store.sqlite import SqliteStore
from tests.support import bodies
from tests.support.builders import a_chain
from tests.support.processes import Collector, Fleet, Sidecar, free_ports, get_json, until
from tests.support.sidecars import ended_as
from tests.support.wire import Asked, asking, get, worker

IS_FULL = os.environ.get("CI_FULL") == "1"
OUTAGE_S = 60.0 if IS_FULL else 8.0
RESTARTED_OUTAGE_S = 600.0 if IS_FULL else 12.0
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900 if IS_FULL else 60)]

KILLS = 20 if IS_FULL else 5
SENDERS = 4
REQUESTS_PER_BODY = 3
CHAT = "/v1/chat/completions"
STREAMS = 4
EVENTS = bodies.chat_events(60)
PACE_S = 0.025
NOISE_S = 0.3
"""Two runs of the same paced stream differ by less on a busy machine with two cores."""


# ------------------------------------------------------------------------------------------- killed under load


class Sender:
    """Sends spans as an exporter does: a body until it is acknowledged, then the next one."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self.acknowledged: set[str] = set()
        self.failures = 0

    async def run(self, url: Callable[[], str]) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            while True:
                requests = [f"req-{next(self._numbers)}" for _ in range(REQUESTS_PER_BODY)]
                hops = [hop for request_id in requests for hop in a_chain("worker", "gateway", request_id=request_id)]
                body = encode_request(map(hop_to_span, hops))
                while not await self._is_taken(session, url(), body):
                    self.failures += 1
                    await asyncio.sleep(0.02)
                self.acknowledged.update(requests)

    async def _is_taken(self, session: aiohttp.ClientSession, url: str, body: bytes) -> bool:
        headers = {"Content-Type": "application/x-protobuf"}
        try:
            async with session.post(f"{url}/v1/traces", data=body, headers=headers) as response:
                answer = await response.read()
                return response.status == 200 and decode_response(answer, as_json=False) == (0, "")
        except (aiohttp.ClientError, TimeoutError):
            return False


@asynccontextmanager
async def sending(senders: list[Sender], url: Callable[[], str]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sender.run(url)) for sender in senders]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def test_after_kill_9_under_load_every_acknowledged_span_is_there(tmp_path: Path) -> None:
    numbers, ports = count(), free_ports(2)
    senders = [Sender(numbers) for _ in range(SENDERS)]
    with Fleet(tmp_path) as fleet:
        collector = fleet.collector(ports=(ports[0], ports[1]))
        await fleet.ready()

        def acknowledged() -> int:
            return sum(len(sender.acknowledged) for sender in senders)

        async with sending(senders, lambda: collector.otlp_url):
            for _ in range(KILLS):
                before = acknowledged()
                await until(lambda before=before: acknowledged() >= before + 60, "spans are taken")
                collector.signal(signal.SIGKILL)
                assert await collector.ended() == -signal.SIGKILL
                failures = sum(sender.failures for sender in senders)
                await until(lambda f=failures: sum(s.failures for s in senders) > f, "senders are refused")
                collector = fleet.collector(ports=(ports[0], ports[1]))
                await collector.ready()
            last = acknowledged()
            await until(lambda: acknowledged() >= last + 60, "spans are taken again")
        answers = [
            await get_json(f"{collector.query_url}/v1/requests/{request_id}/verdict")
            for sender in senders
            for request_id in sorted(sender.acknowledged)[::20]
        ]
        assert all({hop["hop"] for hop in answer["hops"]} == {"worker", "gateway"} for answer in answers)
        collector.signal(signal.SIGTERM)
        assert await collector.ended() == 0

    wanted = set[str]().union(*(sender.acknowledged for sender in senders))
    store = SqliteStore(collector.data)
    try:
        for request_id in wanted:
            hops = store.hops_of(trace_id_of(request_id))
            assert sorted(hop.place.hop for hop in hops) == ["gateway", "worker"], request_id
        assert store.stats().hops >= 2 * len(wanted)
    finally:
        store.close()
    refused = sum(sender.failures for sender in senders)
    print(f"{KILLS} kills; {2 * len(wanted)} spans acknowledged, all there; {refused} requests refused or broken off")


# -------------------------------------------------------------------------------------------------- absent, mute


async def pace(asked: Asked) -> None:
    clock = asyncio.get_running_loop().time
    await asked.head()
    began = clock()
    for number, event in enumerate(EVENTS):
        await asyncio.sleep(began + number * PACE_S - clock())
        await asked.chunk(event)
    await asked.end()


async def run_streams(sidecar: Sidecar, names: Iterator[str]) -> dict[str, float]:
    """Some streams side by side: how long each of them took, by request id."""

    async def one(request_id: str) -> float:
        clock = asyncio.get_running_loop().time
        began = clock()
        async with asking(sidecar.port, get(CHAT, f"X-Request-Id: {request_id}")) as reader:
            assert await reader.rest() == b"".join(EVENTS)
            assert reader.is_whole
        return clock() - began

    request_ids = [next(names) for _ in range(STREAMS)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(request_id)) for request_id in request_ids]
    return {request_id: task.result() for request_id, task in zip(request_ids, tasks, strict=True)}


@asynccontextmanager
async def nobody(_port: int) -> AsyncIterator[None]:
    """Connections are refused."""
    yield


@asynccontextmanager
async def somebody_mute(port: int) -> AsyncIterator[None]:
    """Connections are taken, and nothing is ever answered."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", port)
    try:
        yield
        assert writers, "the sidecar never tried"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize("outage", [nobody, somebody_mute])
async def test_streams_do_not_feel_that_the_collector_is_away_and_no_span_is_lost(tmp_path: Path, outage) -> None:
    ports = free_ports(2)
    otlp_url = f"http://127.0.0.1:{ports[0]}"
    clock = asyncio.get_running_loop().time
    with Fleet(tmp_path) as fleet:
        async with worker({CHAT: pace}) as up:
            collector = fleet.collector(ports=(ports[0], ports[1]))
            sidecar = fleet.sidecar("gateway", up.url, export=otlp_url)
            await fleet.ready()
            names = (f"stream-{number}" for number in count())
            present = await run_streams(sidecar, names)
            await until(lambda: _is_delivered(sidecar), "the first spans are delivered")
            collector.signal(signal.SIGTERM)
            assert await collector.ended() == 0

            absent: dict[str, float] = {}
            async with outage(ports[0]):
                began = clock()
                while clock() - began < OUTAGE_S:
                    absent |= await run_streams(sidecar, names)
            held = await sidecar.metrics()
            assert held["gapline_export_queue_spans"] >= len(absent) - STREAMS
            assert held["gapline_export_retries_total"] > 0

            collector = fleet.collector(ports=(ports[0], ports[1]))
            await collector.ready()
            back = clock()
            await until(lambda: _is_delivered(sidecar), "all spans are delivered", within_s=20)
            delivered_s = clock() - back

            metrics = await sidecar.metrics()
            exchanges = len(present) + len(absent)
            assert metrics["gapline_export_offered_total"] == metrics["gapline_export_accepted_total"] == exchanges
            assert ended_as(metrics, "complete") == exchanges
            lost = {series: value for series, value in metrics.items() if _counts_loss(series) and value}
            assert not lost
            for request_id in (*present, *absent):
                verdict = await collector.verdict(request_id)
                assert [hop["outcome"] for hop in verdict["hops"]] == ["complete"]

    slowest = [max(durations.values()) for durations in (present, absent)]
    print(f"{outage.__name__}: {len(absent)} streams in {OUTAGE_S:g} s; all delivered after {delivered_s:.1f} s")
    print(f"{outage.__name__}: longest stream {slowest[0]:.3f} s before, {slowest[1]:.3f} s without a collector")
    assert slowest[1] < slowest[0] + NOISE_S


async def _is_delivered(sidecar: Sidecar) -> bool:
    metrics = await sidecar.metrics()
    is_recorded = metrics["gapline_streams"] == metrics["gapline_lingering"] == 0
    return is_recorded and metrics["gapline_export_offered_total"] > 0 and metrics["gapline_export_queue_spans"] == 0


def _counts_loss(series: str) -> bool:
    return series.startswith((
        "gapline_export_dropped",
        "gapline_export_rejected",
        "gapline_records_lost",
        "gapline_recording_failures",
        "gapline_relay_failures",
        "gapline_kernel_samples_dropped",
        "gapline_spool_failures",
        "gapline_spool_torn",
    ))  # fmt: skip


# ---------------------------------------------------------------------------------------------------- restarted


class Lane:
    """A chain of two sidecars that is restarted in the middle; both keep their spans in the same spool."""

    def __init__(self, fleet: Fleet, name: str, upstream: str, *, export: str) -> None:
        self._fleet = fleet
        self._name = name
        self._upstream = upstream
        self._export = export
        self._ports = free_ports(2)
        self._names = (f"{name}-{number}" for number in count())
        self.spool = fleet.folder / f"{name}-spool"
        self.finished: set[str] = set()
        self.start()

    def start(self) -> None:
        flags = ("--spool", str(self.spool), "--export-queue", "32K")  # memory holds a few waves; the rest is on disk
        behind, before = self._ports
        names = (f"{self._name}-worker", f"{self._name}-gateway")
        upstreams = (self._upstream, f"http://127.0.0.1:{behind}")
        self.sidecars = [
            self._fleet.sidecar(name, upstream, *flags, export=self._export, port=port)
            for name, upstream, port in zip(names, upstreams, (behind, before), strict=True)
        ]

    async def ready(self) -> None:
        for sidecar in self.sidecars:
            await sidecar.ready()

    async def run(self, duration_s: float) -> None:
        """Streams through both, one wave after the other."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while clock() - began < duration_s:
            self.finished |= set(await run_streams(self.sidecars[-1], self._names))

    async def terminate(self) -> None:
        """Told to end while streams run: these finish, and count."""
        last = asyncio.ensure_future(run_streams(self.sidecars[-1], self._names))
        await until(self._are_streaming, "streams run")
        for sidecar in reversed(self.sidecars):
            sidecar.signal(signal.SIGTERM)
        self.finished |= set(await last)
        assert [await sidecar.ended(within_s=20) for sidecar in self.sidecars] == [0, 0]

    async def kill(self) -> None:
        """Killed while streams run, once what has finished is on disk: that is all that is promised."""
        last = asyncio.ensure_future(run_streams(self.sidecars[-1], self._names))
        await until(self._are_streaming, "streams run")
        await until(self._are_safe, "every span is on disk")
        for sidecar in self.sidecars:
            sidecar.signal(signal.SIGKILL)
        with pytest.raises(ExceptionGroup):
            await last
        for sidecar in self.sidecars:
            await sidecar.ended()

    async def are_delivered(self) -> bool:
        metrics = [await sidecar.metrics() for sidecar in self.sidecars]
        waiting = ("gapline_streams", "gapline_lingering", "gapline_export_queue_spans", "gapline_spool_spans")
        return not any(each[series] for each in metrics for series in waiting)

    async def _are_streaming(self) -> bool:
        return all([await sidecar.metric("gapline_streams") == STREAMS for sidecar in self.sidecars])

    async def _are_safe(self) -> bool:
        metrics = [await sidecar.metrics() for sidecar in self.sidecars]
        waiting = ("gapline_lingering", "gapline_spool_missing_spans")
        are_recorded = all(each["gapline_export_offered_total"] >= len(self.finished) for each in metrics)
        return are_recorded and not any(each[series] for each in metrics for series in waiting)


async def test_with_a_spool_no_restart_during_an_outage_loses_the_span_of_a_finished_stream(tmp_path: Path) -> None:
    ports = free_ports(2)
    clock = asyncio.get_running_loop().time
    with Fleet(tmp_path) as fleet:
        async with worker({CHAT: pace}) as up:
            export = f"http://127.0.0.1:{ports[0]}"
            told, killed = (Lane(fleet, name, up.url, export=export) for name in ("told", "killed"))

            async def live(lane: Lane, end: Callable[[], Awaitable[None]]) -> None:
                await lane.ready()
                await lane.run(RESTARTED_OUTAGE_S / 2)
                await end()
                lane.start()
                await lane.ready()
                await lane.run(RESTARTED_OUTAGE_S / 2)

            async with asyncio.TaskGroup() as group:
                group.create_task(live(told, told.terminate))
                group.create_task(live(killed, killed.kill))
            collector = fleet.collector(ports=(ports[0], ports[1]))
            await collector.ready()
            back = clock()
            for lane in (told, killed):
                await until(lane.are_delivered, "all spans are delivered", within_s=120 if IS_FULL else 20)
            delivered_s = clock() - back

            for lane in (told, killed):
                restored = [await sidecar.metric("gapline_spool_restored_total") for sidecar in lane.sidecars]
                assert sum(restored) > 0
                for sidecar in lane.sidecars:
                    metrics = await sidecar.metrics()
                    assert not {series: value for series, value in metrics.items() if _counts_loss(series) and value}
                    sidecar.signal(signal.SIGTERM)
                    assert await sidecar.ended() == 0
                assert list(lane.spool.iterdir()) == []
            collector.signal(signal.SIGTERM)
            assert await collector.ended() == 0

    store = SqliteStore(collector.data)
    try:
        for lane in (told, killed):
            for request_id in lane.finished:
                hops = store.hops_of(trace_id_of(request_id))
                assert sorted(hop.place.hop.rpartition("-")[2] for hop in hops) == ["gateway", "worker"], request_id
                assert {hop.end.ending for hop in hops} == {Ending.COMPLETE}
    finally:
        store.close()
    spans = 2 * (len(told.finished) + len(killed.finished))
    print(f"{spans} spans of an outage of {RESTARTED_OUTAGE_S:g} s with restarts; all there after {delivered_s:.1f} s")


# ------------------------------------------------------------------------------------------------------ drained


@asynccontextmanager
async def held_stream(tmp_path: Path, *flags: str) -> AsyncIterator[tuple[asyncio.Event, Sidecar, Collector]]:
    """A sidecar whose worker has sent half a stream, and sends the rest when the event is set."""
    rest, half = asyncio.Event(), len(EVENTS) // 2

    async def answer(asked: Asked) -> None:
        await asked.head()
        await asked.chunk(b"".join(EVENTS[:half]))
        await rest.wait()
        await asked.chunk(b"".join(EVENTS[half:]))
        await asked.end()

    with Fleet(tmp_path) as fleet:
        async with worker({CHAT: answer}) as up:
            collector = fleet.collector()
            sidecar = fleet.sidecar("gateway", up.url, *flags, export=collector.otlp_url)
            await fleet.ready()
            yield rest, sidecar, collector


async def test_a_sidecar_told_to_end_lets_its_stream_finish_and_delivers_its_record(tmp_path: Path) -> None:
    async with held_stream(tmp_path) as (rest, sidecar, collector):
        async with asking(sidecar.port, get(CHAT, "X-Request-Id: last")) as reader:
            await reader.at_least(1)
            sidecar.signal(signal.SIGTERM)
            await until(lambda: " draining " in sidecar.said, "it drains")
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", sidecar.port)
            assert sidecar.is_running
            rest.set()
            assert await reader.rest() == b"".join(EVENTS)
            assert reader.is_whole
        assert await sidecar.ended() == 0
        verdict = await collector.verdict("last")

    assert [(hop["outcome"], hop["events"]) for hop in verdict["hops"]] == [("complete", len(EVENTS))]


async def test_at_the_limit_a_stream_is_broken_off_never_ended_cleanly_and_recorded_as_drained(tmp_path: Path) -> None:
    async with held_stream(tmp_path, "--drain-timeout", "500ms") as (_rest, sidecar, collector):
        async with asking(sidecar.port, get(CHAT, "X-Request-Id: cut")) as reader:
            await reader.at_least(1)
            sidecar.signal(signal.SIGTERM)
            assert await reader.rest() == b"".join(EVENTS[: len(EVENTS) // 2])
            assert reader.is_whole is False
        assert await sidecar.ended() == 0
        verdict = await collector.verdict("cut")

    assert [(hop["outcome"], hop["ended_by"]) for hop in verdict["hops"]] == [("drained", "sidecar")]
