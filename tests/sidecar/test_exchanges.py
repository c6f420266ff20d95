"""Exchanges in virtual time: a fake clock, fake connections, one look after the other."""

import asyncio

import pytest

from otel.hop import Anchor, Ending, Place, TapRole
from sidecar.beside import Blocks
from sidecar.exchanges import LINGER_NS, Exchanges, Live
from sidecar.identity import Identity
from sidecar.kernel import TcpInfo
from sidecar.lag import Canary
from sidecar.recorder import Recorder
from tests.support.clock import FakeClock

MS = 1_000_000
STALL_NS = 2_000 * MS
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'


class FakeConnection:
    """A downstream connection whose peer acknowledges what the test says."""

    def __init__(self):
        self.is_open = True
        self.acked_bytes = 0
        self.state = 1
        self.buffered_bytes = 0
        self.asked_count = 0

    def tcp_info(self):
        self.asked_count += 1
        return TcpInfo(self.state, 0, 0, 0, 0, self.acked_bytes, 0, 41_000, 64_000) if self.is_open else None

    def sent_bytes(self):
        return 0


class FakeWriter:
    output_size = 0


class Kept:
    """Takes records as `Records` does."""

    def __init__(self):
        self.hops = []
        self.reasons = []

    def lost(self, reason):
        self.reasons.append(reason)

    def put(self, make, *, event_count):
        self.hops.append(make())


class Bench:
    def __init__(self):
        self.clock = FakeClock(monotonic_ns=1_000 * MS)
        self.kept = Kept()
        self.exchanges = Exchanges(self.clock, canary=Canary(self.clock), records=self.kept, stall_after_ns=STALL_NS)

    def begin(self):
        anchor = Anchor(self.clock.wall_ns(), self.clock.monotonic_ns(), "d")
        recorder = Recorder(
            Identity(request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16),
            place=Place("gateway", TapRole.INGRESS),
            anchor=anchor,
            method="GET",
            path="/v1/chat/completions",
        )
        live = Live(recorder, anchor, connection=FakeConnection())
        self.exchanges.begin(live)
        return live

    def answer(self, live, *events, size_bytes=100):
        """The head and these events are passed on, size_bytes each."""
        now_ns = self.clock.monotonic_ns()
        if live.writer is None:
            live.recorder.answered(now_ns, status=200, content_type="text/event-stream")
            live.begin_response(FakeWriter())
            live.writer.output_size = size_bytes
        for event in events:
            live.writer.output_size += size_bytes
            live.recorder.arrived(event, now_ns)
            live.recorder.taken(now_ns, live.writer.output_size)

    def end(self, live):
        live.recorder.upstream_ended(self.clock.monotonic_ns(), is_clean=True)
        live.recorder.downstream_ended(self.clock.monotonic_ns(), live.writer.output_size)
        self.exchanges.finish(live)

    def pass_ms(self, ms):
        for _ in range(ms // 100):
            self.clock.advance(100 * MS)
            self.exchanges.look(self.clock.monotonic_ns())


@pytest.fixture
async def bench():
    return Bench()


async def test_a_response_that_is_acknowledged_closes_its_record_at_once(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    live.connection.acked_bytes = live.writer.output_size
    bench.end(live)

    assert len(bench.kept.hops) == 1
    assert (bench.exchanges.running_count, bench.exchanges.lingering_count) == (0, 0)


async def test_a_record_stays_open_until_the_peers_kernel_has_everything(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.end(live)
    bench.pass_ms(1_000)
    assert bench.kept.hops == []
    live.connection.acked_bytes = live.writer.output_size
    bench.pass_ms(100)

    (hop,) = bench.kept.hops
    assert hop.moments.closed_ns == 1_100 * MS
    assert [sample.acked_count for sample in hop.timeline.samples] == [0] * 9 + [
        2
    ]  # the first look comes within a round trip


async def test_it_stays_open_for_five_seconds_at_most(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.end(live)
    bench.pass_ms(LINGER_NS // MS - 100)
    assert bench.kept.hops == []
    bench.pass_ms(100)

    assert bench.kept.hops[0].moments.closed_ns == LINGER_NS


async def test_when_the_connection_closes_first_the_evidence_ends_there(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.end(live)
    bench.pass_ms(200)
    live.connection.is_open = False
    bench.pass_ms(100)

    assert bench.kept.hops[0].moments.closed_ns == 300 * MS


async def test_the_kernel_is_asked_only_while_bytes_are_out(bench):
    live = bench.begin()
    bench.pass_ms(1_000)
    assert live.connection.asked_count == 0
    bench.answer(live, HELLO)
    live.connection.acked_bytes = live.writer.output_size
    bench.pass_ms(1_000)

    assert live.connection.asked_count == 1


async def test_a_silence_is_reported_at_its_onset_and_whenever_it_has_doubled(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    live.connection.acked_bytes = live.writer.output_size
    bench.pass_ms(6_000)
    bench.answer(live, HELLO)
    bench.pass_ms(3_000)

    assert [(hop.moments.closed_ns // MS, len(hop.timeline.stamps)) for hop in bench.kept.hops] == [
        (2_000, 1),
        (4_000, 0),
        (8_000, 1),
    ]
    assert bench.exchanges.stall_count == 2


async def test_an_answer_that_does_not_come_is_a_silence_too(bench):
    live = bench.begin()
    bench.pass_ms(1_000)
    live.recorder.request_forwarded(bench.clock.monotonic_ns())
    bench.pass_ms(3_000)

    assert [hop.moments.closed_ns // MS for hop in bench.kept.hops] == [3_000]


async def test_lag_stands_in_the_record_of_what_it_held_up(bench):
    live = bench.begin()
    bench.clock.advance(500 * MS)  # no canary wakes meanwhile
    bench.exchanges.finish(live)

    (lag,) = bench.kept.hops[0].timeline.lag
    assert (lag.start_ns, lag.end_ns) == (20 * MS, 500 * MS)


@pytest.mark.parametrize("state", [7, 8])
async def test_a_reader_that_is_gone_while_reading_is_paused_cancels_the_handler(bench, state):
    async def handler():
        live = bench.begin()
        live.is_uploading = True
        live.connection.state = state
        try:
            await asyncio.sleep(60)
        finally:
            bench.exchanges.finish(live)

    handling = asyncio.ensure_future(handler())
    await asyncio.sleep(0)
    bench.pass_ms(100)
    with pytest.raises(asyncio.CancelledError):
        await handling


async def test_everything_that_runs_can_be_stopped(bench):
    stopped = []

    async def handler():
        live = bench.begin()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(live.stopping)
            bench.exchanges.finish(live)

    handling = asyncio.gather(handler(), handler(), return_exceptions=True)
    await asyncio.sleep(0)
    bench.exchanges.stop_running(Ending.DRAINED)
    await bench.exchanges.wait_idle()
    await handling

    assert stopped == [Ending.DRAINED, Ending.DRAINED]


async def test_what_lingers_is_closed_when_the_process_ends(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.end(live)
    bench.exchanges.close_lingering()

    assert (len(bench.kept.hops), bench.exchanges.lingering_count) == (1, 0)


async def test_failures_of_looking_are_added_up(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    live.recorder._body.failure_count = 1
    live.connection.is_open = False
    bench.exchanges.finish(live)

    assert bench.exchanges.recording_failure_count == 1


async def test_one_connection_that_cannot_be_asked_spoils_nothing_else(bench):
    live, other = bench.begin(), bench.begin()
    for each in (live, other):
        bench.answer(each, HELLO)
    live.connection.tcp_info = None
    bench.pass_ms(200)
    bench.end(live)

    assert bench.exchanges.recording_failure_count == 1
    assert other.connection.asked_count == 2
    assert len(bench.kept.hops) == 1


async def test_a_segment_that_cannot_be_made_is_counted_and_ends_neither_the_stream_nor_the_looking(bench):
    live, other = bench.begin(), bench.begin()
    for each in (live, other):
        bench.answer(each, HELLO)
    live.recorder._identity = None  # no hop can be made without
    bench.exchanges.cut(live, bench.clock.monotonic_ns())
    bench.pass_ms(2_000)

    assert bench.kept.reasons == ["AttributeError", "AttributeError"]
    assert len(bench.kept.hops) == 1
    assert live.recorder.fresh_count == 0


async def test_the_record_says_what_was_seen_of_the_connection_and_what_was_left_out(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.pass_ms(100)
    live.evidence.dropped_count = 3
    live.recorder._blocks = Blocks(limit=0)
    live.recorder.blocked(0, 1, None)
    live.connection.acked_bytes = live.writer.output_size
    bench.end(live)

    timeline = bench.kept.hops[0].timeline
    assert (timeline.round_trip_ns, timeline.window_peak_bytes) == (41 * MS, 64_000)
    assert timeline.is_evidence_thinned
    assert (bench.exchanges.dropped_sample_count, bench.exchanges.dropped_block_count) == (3, 1)


@pytest.mark.parametrize("has_forgotten", [True, False])
async def test_lag_that_is_forgotten_is_evidence_left_out(bench, monkeypatch, has_forgotten):
    live = bench.begin()
    monkeypatch.setattr(Canary, "has_forgotten", lambda _, since_ns: has_forgotten and since_ns == 1_000 * MS)
    bench.exchanges.finish(live)

    assert bench.kept.hops[0].timeline.is_evidence_thinned is has_forgotten


async def test_looking_goes_on_by_itself(bench, running):
    live = bench.begin()
    bench.answer(live, HELLO)
    async with running(bench.exchanges.run()):
        async with asyncio.timeout(2):
            while not live.connection.asked_count:
                await asyncio.sleep(0.01)
