"""The exporter against real sockets: whatever the receiver does, spans arrive or are counted as what became of them."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from otel import otlp, schema
from otel import receiver as receiver_module
from otel.hop import State
from otel.receiver import Receiver as OtlpReceiver
from otel.receiver import http_runner
from otel.span import Span, hop_to_span, span_to_hop
from sidecar.clock import SystemClock
from sidecar.export import posting
from sidecar.export.exporter import Exporter, Pace
from sidecar.export.spool import Spool
from tests.support.builders import a_hop, a_timeline
from tests.support.stores import TroubledStore

FAST = Pace(idle_s=0.0, batch_s=0.0, first_retry_s=0.01, last_retry_s=0.02, request_s=2.0)
SPAN = hop_to_span(a_hop())
SEGMENT = hop_to_span(a_hop(state=State.OPEN))
SIZE = len(otlp.encode_request([SPAN]))


def numbered(number: int, span: Span = SPAN) -> Span:
    return replace(span, span_id=f"{number:016x}")


def number_of(span: Span) -> int:
    return int(span.span_id, 16)


@dataclass
class Receiver:
    """A receiver that answers what the script says, and 200 from then on; what it said 200 to, it has."""

    script: list[web.Response | int] = field(default_factory=list)
    url: str = ""
    has: list[int] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    largest: int = 1 << 30

    async def traces(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(request)
        self.sizes.append(len(body))
        if len(body) > self.largest:
            return web.Response(status=413)
        answer = self.script.pop(0) if self.script else 200
        if isinstance(answer, int):
            answer = web.Response(status=answer)
        if answer.status == 200:
            spans = otlp.decode_request(body)
            self.spans += spans
            self.has += [number_of(span) for span in spans]
        return answer


@asynccontextmanager
async def serving(receiver: Receiver, port: int = 0):
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/traces", receiver.traces)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    receiver.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(exporter: Exporter):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(exporter.run())
        try:
            yield exporter
        finally:
            task.cancel()


def an_exporter(url: str, **options: object) -> Exporter:
    return Exporter(url, clock=SystemClock(), **{"pace": FAST, "jitter": lambda: 0.5, **options})


@pytest.fixture
async def receiver():
    async with serving(Receiver()) as made:
        yield made


@pytest.fixture
async def exporter(receiver):
    async with running(an_exporter(receiver.url)) as made:
        yield made
        assert is_balanced(made)


def is_balanced(exporter: Exporter) -> bool:
    now = exporter.counters
    left = now.accepted + now.rejected + sum(now.dropped.values()) + now.queued + now.spooled
    return now.offered + now.restored == left


async def test_a_hop_arrives_as_it_was_recorded(receiver, exporter):
    hop = a_hop(timeline=a_timeline([0.3 + 0.02 * i for i in range(500)]))
    assert exporter.offer(hop_to_span(hop))
    assert await exporter.flush(2)
    assert [span_to_hop(span) for span in receiver.spans] == [hop]
    assert receiver.requests[0].content_type == "application/x-protobuf"


async def test_spans_offered_together_travel_together_and_in_order(receiver, exporter):
    for number in range(1, 51):
        exporter.offer(numbered(number))
    assert await exporter.flush(2)
    assert receiver.has == list(range(1, 51))
    assert len(receiver.requests) == 1
    assert exporter.counters.accepted == 50


async def test_headers_that_were_given_go_with_every_request(receiver):
    async with running(an_exporter(receiver.url, headers={"Authorization": "Bearer s3cret"})) as exporter:
        exporter.offer(SPAN)
        assert await exporter.flush(2)
    assert receiver.requests[0].headers["Authorization"] == "Bearer s3cret"


class TestTryAgainLater:
    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    async def test_what_the_receiver_cannot_take_now_is_sent_again(self, receiver, exporter, status):
        receiver.script = [status, status]
        exporter.offer(numbered(1))
        assert await exporter.flush(2)
        assert receiver.has == [1]
        assert exporter.counters.retried == 2
        assert exporter.counters.accepted == 1

    async def test_retry_after_is_honoured(self, receiver, exporter):
        receiver.script = [web.Response(status=503, headers={"Retry-After": "1"})]
        exporter.offer(SPAN)
        assert not await exporter.flush(0.5)
        assert len(receiver.requests) == 1
        assert await exporter.flush(2)

    async def test_retry_after_may_be_a_date_of_the_receivers_clock(self, receiver, exporter):
        dates = {"Date": "Mon, 01 Jan 2001 00:00:00 GMT", "Retry-After": "Mon, 01 Jan 2001 00:00:01 GMT"}
        receiver.script = [web.Response(status=429, headers=dates)]
        exporter.offer(SPAN)
        assert not await exporter.flush(0.5)
        assert await exporter.flush(2)

    @pytest.mark.parametrize("value", ["soon", "-1", "Mon, 99 Jan 2001 00:00:00 GMT"])
    async def test_a_retry_after_that_says_nothing_changes_nothing(self, receiver, exporter, value):
        receiver.script = [web.Response(status=503, headers={"Retry-After": value})]
        exporter.offer(SPAN)
        assert await exporter.flush(1)

    async def test_a_connection_broken_off_is_tried_again(self, receiver, exporter):
        class Broken(web.Response):
            async def prepare(self, request):
                request.transport.abort()
                return await super().prepare(request)

        receiver.script = [Broken(status=503)]
        exporter.offer(numbered(1))
        assert await exporter.flush(2)
        assert receiver.has == [1]

    async def test_a_receiver_that_hangs_is_left_and_asked_again(self, receiver):
        class Hanging(web.Response):
            async def prepare(self, request):
                await asyncio.sleep(0.4)

        receiver.script = [Hanging(status=503)]
        async with running(an_exporter(receiver.url, pace=replace(FAST, request_s=0.1))) as exporter:
            exporter.offer(numbered(1))
            assert await exporter.flush(2)
        assert receiver.has == [1]

    async def test_a_receiver_absent_for_a_while_loses_nothing(self, caplog):
        caplog.set_level(logging.INFO, "sidecar.export.posting")
        async with serving(Receiver()) as gone:
            port = int(gone.url.rpartition(":")[2])
        async with running(an_exporter(gone.url)) as exporter:
            for number in range(1, 301):
                assert exporter.offer(numbered(number))
                assert is_balanced(exporter)
            assert not await exporter.flush(0.2)
            assert exporter.counters.queued == 300
            assert exporter.counters.oldest_age_s >= 0.2
            async with serving(Receiver(), port) as back:
                assert await exporter.flush(3)
        assert sorted(back.has) == list(range(1, 301))
        assert exporter.counters.accepted == 300
        assert exporter.counters.dropped == {}
        assert [record.message for record in caplog.records] == ["spans wait", "spans flow again"]
        assert caplog.records[0].reason == "connection refused"

    async def test_attempts_come_at_growing_distances(self, receiver):
        waits: list[float] = []

        async def note(event, timeout_s):
            if timeout_s > 0:
                waits.append(timeout_s)

        receiver.script = [503] * 6
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(posting, "wait", note)
            async with running(
                an_exporter(receiver.url, pace=Pace(idle_s=0, batch_s=0), jitter=lambda: 0.0)
            ) as exporter:
                exporter.offer(SPAN)
                await exporter._is_empty.wait()
        assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0]


class TestRefusedForGood:
    @pytest.mark.parametrize("status", [400, 404, 415, 500, 301])
    async def test_what_was_refused_is_counted_and_not_sent_again(self, receiver, exporter, status):
        receiver.script = [web.Response(status=status, headers={"Location": "/v1/traces"})]
        exporter.offer(SPAN)
        exporter.offer(SPAN)
        assert await exporter.flush(2)
        assert len(receiver.requests) == 1
        assert exporter.counters.rejected == 2
        assert exporter.counters.accepted == 0

    async def test_partial_success_is_read_and_counted(self, receiver, exporter, caplog):
        receiver.script = [web.Response(body=otlp.encode_response(2, "no room for those\n", as_json=False))]
        for number in range(1, 6):
            exporter.offer(numbered(number))
        assert await exporter.flush(2)
        assert exporter.counters.accepted == 3
        assert exporter.counters.rejected == 2
        (record,) = caplog.records
        assert (record.message, record.spans, record.said) == ("spans rejected", 2, r"'no room for those\n'")

    @pytest.mark.parametrize("body", [b"\xff\xff", b"<html>", b"x" * 1_000_000])
    async def test_an_answer_of_200_that_cannot_be_read_is_still_a_yes(self, receiver, exporter, body):
        receiver.script = [web.Response(body=body)]
        exporter.offer(SPAN)
        assert await exporter.flush(2)
        assert exporter.counters.accepted == 1


class TestTooLarge:
    async def test_a_batch_is_halved_until_it_fits(self, receiver, exporter):
        receiver.largest = 3 * SIZE
        for number in range(1, 33):
            exporter.offer(numbered(number))
        assert await exporter.flush(2)
        assert receiver.has == list(range(1, 33))
        assert exporter.counters.rejected == 0

    async def test_what_was_learned_is_kept(self, receiver, exporter):
        receiver.largest = 3 * SIZE
        for number in range(1, 33):
            exporter.offer(numbered(number))
        assert await exporter.flush(2)
        receiver.sizes.clear()
        for number in range(33, 65):
            exporter.offer(numbered(number))
        assert await exporter.flush(2)
        assert max(receiver.sizes) <= 3 * SIZE

    async def test_a_single_span_goes_without_its_timeline_and_says_so(self, receiver, exporter):
        receiver.largest = SIZE + 100
        long = hop_to_span(a_hop(timeline=a_timeline([0.3 + 0.02 * i for i in range(1_000)])))
        for span in (numbered(1), numbered(2, long), numbered(3)):
            exporter.offer(span)
        assert await exporter.flush(2)
        assert receiver.has == [1, 2, 3]
        (timeline,) = [event for event in receiver.spans[1].events if event.name == schema.TIMELINE_EVENT]
        assert timeline.attributes["gapline.timeline.left_out"] is True
        assert exporter.counters.timelines_left_out == 1
        assert exporter.counters.accepted == 3

    async def test_what_is_too_large_even_so_is_rejected(self, receiver, exporter):
        receiver.largest = 100
        exporter.offer(SPAN)
        assert await exporter.flush(2)
        assert exporter.counters.rejected == 1
        assert len(receiver.requests) == 2


class TestBounds:
    async def test_a_full_queue_drops_segments_before_records_and_says_so_seldom(self, caplog):
        exporter = an_exporter("http://127.0.0.1:9", queue_bytes=10 * SIZE)
        for _ in range(5):
            exporter.offer(SEGMENT)
        for _ in range(60):
            exporter.offer(SPAN)
            assert is_balanced(exporter)
            assert exporter.counters.queued_bytes <= 10 * SIZE
        assert exporter.counters.queued == 10
        assert exporter.counters.dropped == {"segment_gave_way": 5, "queue_full": 50}
        assert [record.message for record in caplog.records] == ["spans dropped"] * 6

    async def test_a_request_stays_below_its_limit(self, receiver, exporter, monkeypatch):
        monkeypatch.setattr(exporter, "_request_bytes", 5 * SIZE)
        for number in range(1, 21):
            exporter.offer(numbered(number))
        assert await exporter.flush(2)
        assert max(receiver.sizes) <= 5 * SIZE
        assert receiver.has == list(range(1, 21))

    async def test_an_offer_does_not_hold_the_loop_however_long_the_stream(self):
        exporter = an_exporter("http://127.0.0.1:9")
        long = hop_to_span(a_hop(timeline=a_timeline([0.25 * i for i in range(60_000)], chars=40)))
        clock = SystemClock()
        costs_ns = []
        for _ in range(5):
            before_ns = clock.monotonic_ns()
            exporter.offer(long)
            costs_ns.append(clock.monotonic_ns() - before_ns)
        assert min(costs_ns) < 2_000_000


class TestPace:
    async def test_a_span_after_a_pause_waits_a_moment_for_company(self, receiver):
        async with running(an_exporter(receiver.url, pace=Pace(idle_s=0.05, batch_s=0.3))) as exporter:
            exporter.offer(numbered(1))
            await asyncio.sleep(0.02)
            exporter.offer(numbered(2))
            await exporter._is_empty.wait()
            exporter.offer(numbered(3))
            await asyncio.sleep(0.15)
            exporter.offer(numbered(4))
            await exporter._is_empty.wait()
        assert receiver.has == [1, 2, 3, 4]
        assert len(receiver.requests) == 2

    async def test_a_full_request_does_not_wait(self, receiver, monkeypatch):
        async with running(an_exporter(receiver.url, pace=Pace(idle_s=30.0, batch_s=30.0))) as exporter:
            monkeypatch.setattr(exporter, "_request_bytes", 3 * SIZE)
            for number in range(1, 4):
                exporter.offer(numbered(number))
            async with asyncio.timeout(2):
                await exporter._is_empty.wait()
        assert receiver.has == [1, 2, 3]


class TestCompression:
    async def test_there_is_none_on_loopback(self, receiver, exporter):
        exporter.offer(SPAN)
        assert await exporter.flush(2)
        assert "Content-Encoding" not in receiver.requests[0].headers

    @pytest.mark.parametrize("count", [1, 100])
    async def test_elsewhere_bodies_are_gzipped(self, receiver, monkeypatch, count):
        monkeypatch.setattr(posting, "is_loopback", lambda endpoint: False)
        async with running(an_exporter(receiver.url)) as exporter:
            for number in range(1, count + 1):
                exporter.offer(numbered(number))
            assert await exporter.flush(2)
        assert receiver.has == list(range(1, count + 1))
        assert receiver.requests[0].headers["Content-Encoding"] == "gzip"
        assert receiver.requests[0].content_length < receiver.sizes[0]

    async def test_small_bodies_are_not(self, receiver, monkeypatch):
        monkeypatch.setattr(posting, "is_loopback", lambda endpoint: False)
        async with running(an_exporter(receiver.url)) as exporter:
            exporter.offer(Span(trace_id="ab" * 16, span_id="cd" * 8, name="x", start_ns=1, end_ns=2))
            assert await exporter.flush(2)
        assert "Content-Encoding" not in receiver.requests[0].headers


class TestShutdown:
    async def test_flush_of_nothing_is_done_at_once(self, exporter):
        assert await exporter.flush(0)

    async def test_flush_gives_up_in_time_and_the_rest_stays_counted(self):
        async with running(an_exporter("http://127.0.0.1:9")) as exporter:
            exporter.offer(SPAN)
            async with asyncio.timeout(1):
                assert not await exporter.flush(0.1)
            assert exporter.counters.queued == 1

    async def test_cancelled_in_mid_request_nothing_is_lost_or_counted_twice(self, receiver):
        class Hanging(web.Response):
            async def prepare(self, request):
                await asyncio.sleep(0.4)

        receiver.script = [Hanging(status=503)]
        async with running(an_exporter(receiver.url)) as exporter:
            exporter.offer(SPAN)
            while not receiver.requests:
                await asyncio.sleep(0.001)
            assert exporter.counters.queued == 1
        assert exporter.counters.queued == 1
        assert is_balanced(exporter)

    async def test_an_exporter_may_run_again(self, receiver):
        exporter = an_exporter(receiver.url)
        async with running(exporter):
            exporter.offer(numbered(1))
            assert await exporter.flush(2)
        exporter.offer(numbered(2))
        async with running(exporter):
            assert await exporter.flush(2)
        assert receiver.has == [1, 2]


class TestSpool:
    """What one exporter cannot deliver, the next one does."""

    NOBODY = "http://127.0.0.1:9"

    async def test_what_was_not_delivered_before_the_end_is_delivered_by_the_next(self, receiver, tmp_path):
        async with running(an_exporter(self.NOBODY, spool=Spool(tmp_path, limit_bytes=1 << 20))) as first:
            await first._spooling.is_open.wait()
            for number in range(1, 51):
                assert first.offer(numbered(number))
        assert first.counters.unspooled == 0
        async with running(an_exporter(receiver.url, spool=Spool(tmp_path, limit_bytes=1 << 20))) as second:
            await until(lambda: second.counters.accepted == 50)
            assert is_balanced(second)
            assert second.counters.restored == 50
        assert receiver.has == list(range(1, 51))
        assert list(tmp_path.iterdir()) == []

    async def test_memory_may_be_small_for_the_rest_waits_on_disk_in_order(self, receiver, tmp_path):
        spool = Spool(tmp_path, limit_bytes=1 << 20)
        async with serving(Receiver()) as gone:
            port = int(gone.url.rpartition(":")[2])
        async with running(an_exporter(gone.url, spool=spool, queue_bytes=8 * SIZE)) as exporter:
            for number in range(1, 101):
                assert exporter.offer(numbered(number))
                await until(lambda: exporter.counters.unspooled < 3)
                assert exporter.counters.queued_bytes <= 8 * SIZE
                assert is_balanced(exporter)
            assert exporter.counters.spooled > 90
            async with serving(Receiver(), port) as back:
                assert await exporter.flush(5)
        assert back.has == list(range(1, 101))
        assert exporter.counters.accepted == 100
        assert exporter.counters.dropped == {}
        assert list(tmp_path.iterdir()) == []

    async def test_what_is_on_disk_does_not_wait_for_company(self, receiver, tmp_path):
        async with running(an_exporter(self.NOBODY, spool=Spool(tmp_path, limit_bytes=1 << 20))) as first:
            await first._spooling.is_open.wait()
            for number in range(1, 51):
                first.offer(numbered(number))
        spool, slow = Spool(tmp_path, limit_bytes=1 << 20), Pace(idle_s=0.0, batch_s=5.0)
        async with running(an_exporter(receiver.url, spool=spool, queue_bytes=8 * SIZE, pace=slow)):
            await until(lambda: len(receiver.has) > 45)
        assert receiver.has == list(range(1, len(receiver.has) + 1))

    async def test_what_is_older_goes_first(self, receiver, tmp_path):
        async with running(an_exporter(self.NOBODY, spool=Spool(tmp_path, limit_bytes=1 << 20))) as first:
            await first._spooling.is_open.wait()
            first.offer(numbered(1))
        second = an_exporter(receiver.url, spool=Spool(tmp_path, limit_bytes=1 << 20))
        second.offer(numbered(2))
        async with running(second):
            assert await second.flush(2)
            await until(lambda: second.counters.accepted == 2)
        assert receiver.has == [1, 2]

    async def test_a_spool_that_cannot_be_used_changes_nothing(self, receiver, tmp_path, caplog):
        (tmp_path / "file").touch()
        async with running(an_exporter(receiver.url, spool=Spool(tmp_path / "file", limit_bytes=1 << 20))) as exporter:
            exporter.offer(numbered(1))
            assert await exporter.flush(2)
            assert is_balanced(exporter)
        assert receiver.has == [1]
        assert [each.message for each in caplog.records] == ["spool fails"]
        assert exporter.counters.spool_failures

    async def test_what_is_lost_on_disk_is_said(self, tmp_path, caplog):
        spool = Spool(tmp_path, limit_bytes=1 << 20)
        async with running(an_exporter(self.NOBODY, spool=spool, queue_bytes=8 * SIZE)) as exporter:
            for number in range(1, 11):
                exporter.offer(numbered(number))
                await until(lambda: exporter.counters.unspooled < 3)
            await until(lambda: exporter.counters.unspooled == 0)
            shutil.rmtree(tmp_path)
            exporter.offer(numbered(11))
            await until(lambda: exporter.counters.unspooled == 0)
            dropped = exporter.counters.dropped
            assert is_balanced(exporter)
        assert dropped == {"spool_unreadable": 6}
        assert "spans dropped" in [record.message for record in caplog.records]


async def until(condition) -> None:
    async with asyncio.timeout(3):
        while not condition():
            await asyncio.sleep(0.005)


@given(st.lists(st.sampled_from(["ok", "later", "never", "crash"]), max_size=5), st.integers(1, 12))
@settings(max_examples=15)
async def test_with_our_receiver_every_span_is_stored_or_rejected_whatever_its_store_does(script, count):
    store = TroubledStore(script=list(script))
    runner = http_runner(OtlpReceiver(store.write, notice=lambda glance: None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    patient = replace(FAST, first_retry_s=0.0)
    hops = [a_hop(request_id=f"r{number}") for number in range(count)]
    try:
        async with running(an_exporter(f"http://127.0.0.1:{port}", pace=patient)) as exporter:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(receiver_module, "RETRY_AFTER_S", 0)
                for hop in hops:
                    assert exporter.offer(hop_to_span(hop))
                assert await exporter.flush(5)
    finally:
        await runner.cleanup()
    counters = exporter.counters
    assert counters.accepted + counters.rejected == count
    assert len(store.hops) == counters.accepted
    assert counters.dropped == {}


def test_a_sidecar_never_loads_grpc():
    code = "import sys, sidecar.export.exporter; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_where_the_system_gives_no_thread_for_the_spool_memory_goes_on(monkeypatch, tmp_path):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    exporter = Exporter("http://127.0.0.1:9", clock=SystemClock(), spool=Spool(tmp_path, limit_bytes=1 << 20))
    running = asyncio.ensure_future(exporter.run())
    await asyncio.sleep(0.1)
    try:
        assert not running.done()
    finally:
        running.cancel()
