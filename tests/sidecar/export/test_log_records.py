"""News of streams against real sockets: it arrives, or is counted as what became of it, and no stream ever waits."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from otel import receiver as otel_receiver
from otel.glance import Glance, Moment, log_to_glance
from otel.live import LiveStreams
from otel.otlp_logs import decode_logs, encode_logs_response
from sidecar.clock import SystemClock
from sidecar.export import log_records as module
from sidecar.export.log_records import LogRecords
from sidecar.export.posting import Pace
from tests.support.clock import FakeClock
from tests.support.stores import TroubledStore

FAST = Pace(idle_s=0.0, batch_s=0.0, first_retry_s=0.01, last_retry_s=0.02, request_s=2.0)
WALL_NS = 1_764_500_000_000_000_000


def a_look(number: int = 1, **more: object) -> dict[str, Any]:
    """What the sidecar sees of a stream."""
    seen = {
        "listener": "listen",
        "hop": "gateway",
        "request_id": f"req-{number}",
        "trace_id": f"{number:032x}",
        "span_id": f"{number:016x}",
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "llama-3",
        "status": 200,
        "phase": "events",
        "events": 7,
        "silent_s": 2.5,
        "age_s": 12.0,
        "is_blocked": False,
        "is_queued": False,
    }
    return seen | more


@dataclass
class Receiver:
    """A receiver that answers what the script says, and 200 from then on; what it said 200 to, it has."""

    script: list[web.Response | int] = field(default_factory=list)
    url: str = ""
    has: list[Glance] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)
    largest: int = 1 << 30

    async def logs(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(request)
        if len(body) > self.largest:
            return web.Response(status=413)
        answer = self.script.pop(0) if self.script else 200
        if isinstance(answer, int):
            answer = web.Response(status=answer)
        if answer.status == 200:
            self.has += map(log_to_glance, decode_logs(body))
        return answer

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(glance.moment.name.lower(), glance.request_id) for glance in self.has]


@asynccontextmanager
async def serving(receiver: Receiver):
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/logs", receiver.logs)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(logs: LogRecords):
    task = asyncio.ensure_future(logs.run())
    try:
        yield logs
    finally:
        task.cancel()
        await asyncio.wait([task])


def log_records(url: str, **options: Any) -> LogRecords:
    told: dict[str, Any] = {"clock": SystemClock(), "pace": FAST, "resource": {"service.name": "gateway"}}
    return LogRecords(url, **told | {"heartbeat_s": 10.0} | options)


@pytest.fixture
async def receiver():
    async with serving(Receiver()) as made:
        yield made


@pytest.fixture
async def logs(receiver):
    async with running(log_records(receiver.url)) as made:
        yield made


def lost(logs: LogRecords) -> dict[str, int]:
    counters = logs.counters
    assert counters.offered == counters.accepted + counters.queued + sum(counters.lost.values())
    return {reason: count for reason, count in counters.lost.items() if count}


async def test_a_stall_and_its_end_are_told_as_they_were_seen(receiver, logs):
    logs.stalled(a_look(), WALL_NS)
    logs.resumed(a_look(silent_s=4.0, events=8), WALL_NS + 1)
    assert await logs.flush(2)
    stalled, resumed = receiver.has
    assert stalled == Glance(
        moment=Moment.STALLED,
        at_ns=WALL_NS,
        trace_id=f"{1:032x}",
        span_id=f"{1:016x}",
        request_id="req-1",
        hop="gateway",
        phase="events",
        listener="listen",
        model="llama-3",
        status=200,
        events=7,
        age_s=12.0,
        silent_s=2.5,
        is_stalled=True,
        heartbeat_s=10.0,
    )
    assert (resumed.moment, resumed.silent_s, resumed.is_stalled) == (Moment.RESUMED, 4.0, False)
    assert logs.counters.accepted == 2


async def test_the_end_is_told_of_what_was_told_of_before_and_of_nothing_else(receiver, logs):
    logs.closed(a_look(1), WALL_NS)
    logs.stalled(a_look(2), WALL_NS)
    logs.closed(a_look(2, ending="complete"), WALL_NS + 1)
    logs.closed(a_look(2), WALL_NS + 2)
    assert await logs.flush(2)
    assert receiver.told == [("stalled", "req-2"), ("closed", "req-2")]
    assert receiver.has[-1].ending == "complete"


async def test_a_heartbeat_says_whether_the_stream_is_stalled(receiver, logs):
    logs.stalled(a_look(1), WALL_NS)
    logs.open([a_look(1, is_stalled=True), a_look(2)], WALL_NS + 1)
    assert await logs.flush(2)
    assert [(glance.request_id, glance.is_stalled) for glance in receiver.has] == [
        ("req-1", True),
        ("req-1", True),
        ("req-2", False),
    ]


async def test_what_was_told_while_nothing_could_be_sent_leaves_no_stall_behind(receiver):
    clock = FakeClock()
    async with running(log_records(receiver.url, clock=clock)) as logs:
        logs.stalled(a_look(1), WALL_NS)
        assert await logs.flush(2)
        receiver.script += [404]
        logs.stalled(a_look(2), WALL_NS)
        assert await logs.flush(2)
        logs.resumed(a_look(1), WALL_NS + 1)
        clock.advance(601_000_000_000)
        logs.open([a_look(1, is_stalled=False)], WALL_NS + 2)
        assert await logs.flush(2)
    assert [(glance.moment.name, glance.is_stalled) for glance in receiver.has] == [("STALLED", True), ("OPEN", False)]


async def test_a_collector_shows_what_is_open(logs):
    del logs
    live = LiveStreams()
    store = TroubledStore()
    runner = otel_receiver.http_runner(
        otel_receiver.Receiver(store.write, notice=lambda glance: live.seen(glance, at_ns=0), token="s3cret")
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with running(log_records(url, headers={"Authorization": "Bearer s3cret"})) as made:
        made.stalled(a_look(1), WALL_NS)
        made.open([a_look(2), a_look(3)], WALL_NS)
        assert await made.flush(2)
        assert {stream.glance.request_id for stream in live.open_streams(0)} == {"req-1", "req-2", "req-3"}
        made.closed(a_look(2), WALL_NS + 1)
        assert await made.flush(2)
        assert len(live) == 2
    await runner.cleanup()


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503, 504])
async def test_what_may_be_tried_again_is(receiver, logs, status):
    receiver.script += [status, status]
    logs.stalled(a_look(), WALL_NS)
    assert await logs.flush(2)
    assert receiver.told == [("stalled", "req-1")]
    assert (logs.counters.retried, lost(logs)) == (2, {})


async def test_a_receiver_that_was_absent_is_told_of_once_and_that_it_is_back(receiver, logs, caplog):
    caplog.set_level(logging.INFO, "sidecar.export.posting")
    receiver.script += [503, 503]
    logs.stalled(a_look(), WALL_NS)
    assert await logs.flush(2)
    assert [record.message for record in caplog.records] == ["log records wait", "log records flow again"]
    assert {record.url for record in caplog.records} == {f"{receiver.url}/v1/logs"}


@pytest.mark.parametrize("status", [404, 405, 415, 501])
async def test_a_receiver_without_logs_is_left_alone_for_ten_minutes(receiver, status, caplog):
    caplog.set_level(logging.INFO)
    clock = FakeClock()
    receiver.script += [status]
    async with running(log_records(receiver.url, clock=clock)) as logs:
        logs.stalled(a_look(1), WALL_NS)
        assert await logs.flush(2)
        clock.advance(599_000_000_000)
        logs.stalled(a_look(2), WALL_NS)
        assert await logs.flush(2)
        assert (len(receiver.requests), lost(logs)) == (1, {"unsupported": 2})
        clock.advance(2_000_000_000)
        logs.stalled(a_look(3), WALL_NS)
        assert await logs.flush(2)
    assert receiver.told == [("stalled", "req-3")]
    assert [record.message for record in caplog.records] == ["the receiver takes no logs"]


async def test_what_is_refused_for_good_is_given_up(receiver, logs, caplog):
    receiver.script += [400]
    logs.stalled(a_look(1), WALL_NS)
    assert await logs.flush(2)
    logs.stalled(a_look(2), WALL_NS)
    assert await logs.flush(2)
    assert (receiver.told, lost(logs)) == ([("stalled", "req-2")], {"rejected": 1})
    assert "log records rejected" in caplog.messages


async def test_a_partial_success_is_counted(receiver, logs):
    receiver.script += [web.Response(body=encode_logs_response(1, "one is odd", as_json=False))]
    logs.open([a_look(1), a_look(2)], WALL_NS)
    assert await logs.flush(2)
    assert (logs.counters.accepted, lost(logs)) == (1, {"rejected": 1})


async def test_an_answer_that_is_no_otlp_takes_nothing_back(receiver, logs):
    receiver.script += [web.Response(body=b"\xff\xff ok")]
    logs.stalled(a_look(), WALL_NS)
    assert await logs.flush(2)
    assert (logs.counters.accepted, lost(logs)) == (1, {})


async def test_a_batch_that_is_too_large_is_halved(receiver, logs):
    receiver.largest = 1_500
    logs.open([a_look(number) for number in range(1, 21)], WALL_NS)
    assert await logs.flush(2)
    assert (len(receiver.has), lost(logs)) == (20, {})


async def test_one_record_that_is_too_large_is_given_up(receiver, logs):
    receiver.largest = 10
    logs.stalled(a_look(), WALL_NS)
    assert await logs.flush(2)
    assert lost(logs) == {"rejected": 1}


async def test_during_an_outage_only_the_youngest_heartbeat_waits():
    logs = log_records("http://127.0.0.1:9")
    for beat in range(5):
        logs.open([a_look(1, events=beat), a_look(2, events=beat)], WALL_NS + beat)
    logs.stalled(a_look(1), WALL_NS + 5)
    assert (logs.counters.queued, lost(logs)) == (2, {"superseded": 9})


async def test_nobody_there_means_waiting_and_not_losing(caplog):
    caplog.set_level(logging.INFO)
    async with running(log_records("http://127.0.0.1:9")) as logs:
        logs.stalled(a_look(), WALL_NS)
        assert not await logs.flush(0.1)
    assert (logs.counters.queued, lost(logs)) == (1, {})
    assert logs.counters.retried > 0
    assert caplog.messages == ["log records wait"]


async def test_what_is_left_at_the_end_is_counted_and_nothing_is_taken_after_it():
    logs = log_records("http://127.0.0.1:9")
    logs.stalled(a_look(1), WALL_NS)
    logs.close()
    logs.stalled(a_look(2), WALL_NS)
    assert (logs.counters.queued, lost(logs)) == (0, {"left": 2})


async def test_the_queue_is_bounded_and_its_loss_is_told_at_every_doubling(caplog):
    logs = log_records("http://127.0.0.1:9", queue_bytes=2_000)
    for number in range(1, 101):
        logs.stalled(a_look(number), WALL_NS)
    counters = logs.counters
    assert counters.queued_bytes <= 2_000
    assert lost(logs) == {"queue_full": 100 - counters.queued}
    assert 5 <= caplog.messages.count("log records dropped") <= 8


@pytest.mark.parametrize(
    "change",
    [{"span_id": "no hex"}, {"span_id": None}, {"trace_id": "ab"}, {"events": 1 << 70}, {"age_s": "old"}],
)
async def test_what_cannot_be_told_is_counted_and_never_raised(change):
    logs = log_records("http://127.0.0.1:9")
    logs.stalled(a_look(**change), WALL_NS)
    logs.stalled({}, WALL_NS)
    assert lost(logs) == {"unencodable": 2}


async def test_streams_told_of_are_remembered_up_to_a_number(monkeypatch):
    monkeypatch.setattr(module, "TOLD", 2)
    logs = log_records("http://127.0.0.1:9")
    for number in (1, 2, 3):
        logs.stalled(a_look(number), WALL_NS)
    logs.closed(a_look(1), WALL_NS)
    logs.closed(a_look(3), WALL_NS)
    assert logs.counters.queued == 4


async def test_without_heartbeats_none_is_promised(receiver):
    async with running(log_records(receiver.url, heartbeat_s=0.0)) as logs:
        logs.stalled(a_look(), WALL_NS)
        assert await logs.flush(2)
    assert receiver.has[0].heartbeat_s is None


async def test_nothing_of_the_request_but_ids_and_names_goes_out():
    logs = log_records("http://127.0.0.1:9")
    logs.stalled(a_look(path="/canary", method="CANARY", prompt="canary"), WALL_NS)
    (body,) = logs._queue.take(10_000)
    assert b"canary" not in body.lower()


async def test_records_in_a_steady_flow_wait_for_company(receiver):
    pace = Pace(idle_s=0.0, batch_s=0.2, first_retry_s=0.01, last_retry_s=0.02, request_s=2.0)
    async with running(log_records(receiver.url, pace=pace)) as logs:
        for number in range(1, 6):
            logs.stalled(a_look(number), WALL_NS)
            await asyncio.sleep(0.01)
        assert await logs.flush(2)
    assert (len(receiver.has), len(receiver.requests)) == (5, 2)
