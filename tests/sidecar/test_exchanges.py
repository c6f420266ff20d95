"""Exchanges in virtual time: a fake clock, fake connections, one look after the other."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from otel.hop import Anchor, EngineSnapshot, Place, TapRole
from sidecar.bounds.deadlines import ANSWER_LATE, BODY_IDLE, DRAINED, OVERLOADED, SLOW_READER, Limits
from sidecar.bounds.overload import WORTH_BYTES, Overload
from sidecar.engine.history import History
from sidecar.engine.reading import Seen
from sidecar.exchanges import LINGER_NS, REPORT_NS, SEGMENT_NS, TRIM_NS, Exchanges
from sidecar.export.records import REPORT_EVENTS
from sidecar.identity import Identity
from sidecar.kernel import TcpInfo
from sidecar.lag import Canary
from sidecar.live import Live
from sidecar.recording.asked import Asked
from sidecar.recording.beside import Blocks
from sidecar.recording.recorder import Recorder
from sidecar.rounds import BATCH
from tests.support.clock import FakeClock

MS = 1_000_000
STALL_NS = 2_000 * MS
LIMITS = Limits(
    stall_after_ns=STALL_NS, body_idle_ns=300_000 * MS, write_deadline_ns=60_000 * MS, answer_ns=100_000 * MS
)
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'


class FakeConnection:
    """A downstream connection whose peer acknowledges what the test says."""

    def __init__(self):
        self.is_open = True
        self.acked_bytes = 0
        self.is_reading = True
        self.left = None
        self.buffered_bytes = 0
        self.asked_count = 0
        self.window_bytes = 64_000
        self.lost_segments = 0

    def tcp_info(self):
        self.asked_count += 1
        out = 3 if self.lost_segments else 0
        info = TcpInfo(1, 0, 0, out, self.lost_segments, self.acked_bytes, 0, 41_000, self.window_bytes)
        return info if self.is_open else None

    def sent_bytes(self):
        return 0

    def sent(self, size_bytes):
        """What it was given is known by now."""

    def left_by(self):
        return self.left


class FakeWriter:
    output_size = 0


class Kept:
    """Takes records as `Records` does."""

    def __init__(self):
        self.hops = []
        self.muted = []
        self.reasons = []

    def lost(self, reason):
        self.reasons.append(reason)

    def put(self, make, *, event_count, is_muted=False, about=None):
        self.about = about
        self.hops.append(make())
        self.muted.append(is_muted)


class News:
    """Takes what is told of running streams as `LogRecords` does."""

    def __init__(self):
        self.told = []
        self.causes = []

    def stalled(self, glance, at_wall_ns):
        self._take("stalled", glance)

    def resumed(self, glance, at_wall_ns):
        self._take("resumed", glance)

    def closed(self, glance, at_wall_ns):
        self._take("closed", glance)

    def open(self, glances, at_wall_ns):
        for glance in glances:
            self._take("open", glance)

    def _take(self, moment, glance):
        self.causes.append(glance["stall_cause"])
        self.told.append((moment, glance["silent_s"], glance["is_stalled"], glance.get("ending")))


class Engine:
    """An engine that is asked as `EngineWatch` asks it, and answers when the test says."""

    def __init__(self):
        self.history = History()
        self.missed_count = 0
        self.ticks = []
        self.asked = []

    def tick(self, at_ns):
        self.ticks.append(at_ns)

    def ask(self, since_ns, at_ns, take):
        self.asked.append((since_ns, at_ns, take))

    def evidence(self, seen, *, since_ns, anchor_ns):
        return self.history.evidence(seen, since_ns=since_ns, anchor_ns=anchor_ns)

    def say(self, at_ns, running):
        """Answer the oldest question."""
        seen = Seen("vllm", EngineSnapshot(asked_ns=at_ns, running_count=running))
        self.history.add(seen)
        self.asked.pop(0)[2](seen)


class Memory:
    """A process that uses what the test says; some of it is given back when it is asked to."""

    LIMIT_BYTES = 1_000_000

    def __init__(self):
        self.used_bytes = 0
        self.free_bytes = 0
        self.trim_count = 0

    def use(self, percent):
        self.used_bytes = self.LIMIT_BYTES * percent // 100

    def trim(self):
        self.trim_count += 1
        self.used_bytes -= self.free_bytes
        self.free_bytes = 0


class Bench:
    def __init__(self, limits=LIMITS):
        self.clock = FakeClock(monotonic_ns=1_000 * MS)
        self.kept = Kept()
        self.memory = Memory()
        self.news = News()
        self.engine = Engine()
        self.stopped = []
        self.exchanges = Exchanges(
            self.clock,
            canary=Canary(self.clock),
            records=self.kept,
            limits=limits,
            overload=Overload(Memory.LIMIT_BYTES),
            used_bytes=lambda: self.memory.used_bytes,
            trim=self.memory.trim,
            telling=self.news,
            heartbeat_ns=5_000 * MS,
            engine=self.engine,
        )

    def begin(self, *, has_engine=True):
        anchor = Anchor(self.clock.wall_ns(), self.clock.monotonic_ns(), "d")
        recorder = Recorder(
            Asked(
                Identity(request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16),
                method="GET",
                path="/v1/chat/completions",
            ),
            place=Place("gateway", TapRole.INGRESS),
            anchor=anchor,
        )
        live = Live(recorder, anchor, connection=FakeConnection(), has_engine=has_engine)
        self.exchanges.begin(live)
        return live

    @asynccontextmanager
    async def handler(self):
        """A handler of its own for an exchange; how it was stopped is noted."""
        begun = asyncio.get_running_loop().create_future()

        async def handle():
            live = self.begin()
            begun.set_result(live)
            try:
                await asyncio.sleep(600)
            finally:
                self.stopped.append(live.stopping)
                self.exchanges.finish(live)

        handling = asyncio.ensure_future(handle())
        try:
            yield await begun
        finally:
            handling.cancel()
            await asyncio.gather(handling, return_exceptions=True)

    async def settle(self):
        for _ in range(3):
            await asyncio.sleep(0)

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


async def test_a_silence_is_told_in_the_log_at_its_onset_and_when_it_is_over(bench, caplog):
    caplog.set_level("INFO")
    live = bench.begin()
    bench.answer(live, HELLO)
    live.connection.acked_bytes = live.writer.output_size
    bench.pass_ms(6_000)
    bench.answer(live, HELLO)
    bench.pass_ms(3_000)
    bench.end(live)

    assert [(line.message, line.silent_s) for line in caplog.records] == [
        ("stream stalled", 2.0),
        ("stream goes on", 6.0),
        ("stream stalled", 2.0),
        ("stalled stream ended", 3.0),
    ]
    told = caplog.records[0]
    assert (told.hop, told.request_id, told.phase, told.is_blocked) == ("gateway", "r", "events", False)


async def test_what_collects_news_is_told_of_a_stall_of_what_runs_on_and_how_it_ended(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    live.connection.acked_bytes = live.writer.output_size
    bench.pass_ms(6_000)
    bench.answer(live, HELLO)
    live.connection.acked_bytes = live.writer.output_size
    bench.pass_ms(1_000)
    bench.end(live)

    assert bench.news.told == [
        ("stalled", 2.0, True, None),
        ("open", 5.0, True, None),
        ("resumed", 6.0, False, None),
        ("closed", 1.0, False, "missing_terminal"),
    ]


async def test_of_what_was_never_told_no_end_is_told(bench):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.pass_ms(1_000)
    bench.end(live)

    assert bench.news.told == []


class TestAReaderThatTakesTooLittle:
    """It is told of while it does, by its cause, whatever comes from upstream."""

    @staticmethod
    def stream(bench, live, ms, *, is_acked=True):
        """Events come all the time."""
        for _ in range(ms // 100):
            bench.answer(live, HELLO)
            if is_acked:
                live.connection.acked_bytes = live.writer.output_size
            bench.pass_ms(100)

    async def test_is_told_of_in_log_news_and_list_and_so_is_that_it_takes_again(self, bench, caplog):
        caplog.set_level("INFO")
        live = bench.begin()
        self.stream(bench, live, 1_000)
        live.connection.window_bytes = 20_000
        self.stream(bench, live, 600)
        seen = live.glance(bench.clock.monotonic_ns())
        live.connection.window_bytes = 64_000
        self.stream(bench, live, 2_000)

        assert (seen["is_stalled"], seen["stall_cause"], seen["silent_s"]) == (True, "slow_reader", 0.5)
        assert [(line.message, line.stall_cause, line.silent_s) for line in caplog.records] == [
            ("stream stalled", "slow_reader", 0.3),
            ("stream goes on", None, 0.6),
        ]
        assert bench.news.told == [("stalled", 0.3, True, None), ("resumed", 0.6, False, None)]
        assert bench.news.causes == ["slow_reader", None]
        assert (bench.exchanges.holdup_counts["slow_reader"], bench.exchanges.stall_count) == (1, 0)

    async def test_asks_no_engine_and_is_reported_at_its_onset_and_as_it_grows(self, bench):
        live = bench.begin()
        self.stream(bench, live, 500)
        live.connection.window_bytes = 0
        self.stream(bench, live, 5_000, is_acked=False)

        assert bench.engine.asked == []
        assert [hop.moments.closed_ns // MS for hop in bench.kept.hops] == [1_000, 2_000, 3_300]

    async def test_is_asked_of_at_every_look_and_one_that_keeps_up_at_every_other(self, bench):
        live = bench.begin()
        self.stream(bench, live, 2_000)
        assert live.connection.asked_count == 10
        live.connection.window_bytes = 0
        self.stream(bench, live, 2_000, is_acked=False)
        assert live.connection.asked_count >= 29

    async def test_is_told_from_a_network_that_loses(self, bench, caplog):
        live = bench.begin()
        self.stream(bench, live, 500)
        live.connection.lost_segments = 2
        self.stream(bench, live, 2_000, is_acked=False)

        assert [(line.message, line.stall_cause) for line in caplog.records] == [("stream stalled", "network")]

    async def test_is_no_silence_of_the_upstream_while_it_does_nor_right_after(self, bench, caplog):
        """The upstream is paused behind a write that is blocked, so nothing has come for as long."""
        caplog.set_level("INFO")
        live = bench.begin()
        self.stream(bench, live, 500)
        live.connection.window_bytes = 0
        bench.answer(live, HELLO)
        live.recorder.blocked_since_ns = bench.clock.monotonic_ns()
        bench.pass_ms(4_000)
        live.connection.window_bytes, live.recorder.blocked_since_ns = 64_000, None
        live.connection.acked_bytes = live.writer.output_size
        bench.pass_ms(2_000)

        assert [(line.message, line.stall_cause) for line in caplog.records] == [
            ("stream stalled", "slow_reader"),
            ("stream goes on", None),
        ]
        bench.pass_ms(500)
        assert (caplog.records[-1].message, caplog.records[-1].stall_cause) == ("stream stalled", None)
        assert bench.exchanges.stall_count == 1

    async def test_goes_on_being_asked_about_though_nothing_is_outstanding(self, bench):
        live = bench.begin()
        self.stream(bench, live, 500)
        live.connection.window_bytes = 20_000
        self.stream(bench, live, 500)
        live.connection.window_bytes = 64_000
        bench.pass_ms(1_200)

        assert live.stalled is None

    async def test_of_what_is_no_stream_is_no_news(self, bench, caplog):
        live = bench.begin()
        now_ns = bench.clock.monotonic_ns()
        live.recorder.answered(now_ns, status=200, content_type="application/octet-stream")
        live.begin_response(FakeWriter())
        for window_bytes in (64_000, *[0] * 20):
            live.connection.window_bytes = window_bytes
            live.writer.output_size += 1_000
            live.recorder.arrived(b"x" * 1_000, bench.clock.monotonic_ns())
            bench.pass_ms(100)

        assert live.taking.holdup is not None
        assert (caplog.records, bench.news.told) == ([], [])


async def test_who_waits_in_line_is_no_stalled_stream(bench, caplog):
    live = bench.begin()
    live.queued_since_ns = bench.clock.monotonic_ns()
    bench.pass_ms(3_000)

    assert (bench.exchanges.stall_count, caplog.records, bench.kept.hops) == (0, [], [])
    bench.exchanges.finish(live)
    assert bench.kept.about["queued_ms"] == 3_000.0


async def test_a_client_that_owes_its_body_is_no_stalled_stream(bench, caplog):
    live = bench.begin()
    live.body_wait_since_ns = bench.clock.monotonic_ns()
    bench.pass_ms(3_000)

    assert (bench.exchanges.stall_count, caplog.records) == (0, [])


async def test_an_answer_that_does_not_come_is_a_silence_too(bench):
    live = bench.begin()
    bench.pass_ms(1_000)
    live.recorder.request_forwarded(bench.clock.monotonic_ns())
    bench.pass_ms(3_000)

    assert [hop.moments.closed_ns // MS for hop in bench.kept.hops] == [3_000]


async def test_the_line_of_a_stall_says_whether_it_is_a_probe(bench, caplog):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.pass_ms(3_000)

    assert [(line.message, line.probe) for line in caplog.records] == [("stream stalled", False)]


async def test_lag_stands_in_the_record_of_what_it_held_up(bench):
    live = bench.begin()
    bench.clock.advance(500 * MS)  # no canary wakes meanwhile
    bench.exchanges.finish(live)

    (lag,) = bench.kept.hops[0].timeline.lag
    assert (lag.start_ns, lag.end_ns) == (20 * MS, 500 * MS)


async def test_everything_that_runs_can_be_stopped(bench):
    async with bench.handler(), bench.handler():
        bench.exchanges.stop_running()
        await bench.exchanges.wait_idle()

    assert bench.stopped == [DRAINED, DRAINED]
    assert bench.exchanges.stop_counts[DRAINED] == 2


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
    bench.pass_ms(300)
    bench.end(live)

    assert bench.exchanges.recording_failure_count == 1
    assert other.connection.asked_count == 2
    assert len(bench.kept.hops) == 1


async def test_reports_of_long_streams_take_turns_so_that_making_them_is_not_all_that_is_done(bench):
    first, other = bench.begin(), bench.begin()
    for each in (first, other):
        bench.answer(each, HELLO * 5_000)
    due_ns = bench.clock.monotonic_ns()
    bench.exchanges.cut_long(first, due_ns)
    bench.exchanges.cut_long(other, due_ns + 5_000 * REPORT_NS - 1)
    assert len(bench.kept.hops) == 1
    bench.exchanges.cut_long(other, due_ns + 5_000 * REPORT_NS)
    bench.exchanges.cut_long(first, due_ns + SEGMENT_NS)  # nothing of it is new, so that nobody waits for it
    assert [hop.traffic.event_count for hop in bench.kept.hops] == [5_000] * 3


async def test_no_report_is_so_long_that_others_wait_while_it_is_made(bench):
    live = bench.begin()
    bench.answer(live, HELLO * (REPORT_EVENTS + 1))
    bench.exchanges.cut_long(live, bench.clock.monotonic_ns())
    assert bench.kept.hops == []

    bench.exchanges.cut(live, bench.clock.monotonic_ns())  # as of one that stalls, and brings nothing meanwhile
    bench.answer(live, HELLO * REPORT_EVENTS)
    bench.exchanges.cut_long(live, bench.clock.monotonic_ns())
    assert [len(hop.timeline.stamps) for hop in bench.kept.hops] == [REPORT_EVENTS + 1, REPORT_EVENTS]


async def test_a_segment_that_cannot_be_made_is_counted_and_ends_neither_the_stream_nor_the_looking(bench):
    live, other = bench.begin(), bench.begin()
    for each in (live, other):
        bench.answer(each, HELLO)
    live.recorder.asked.identity = None  # no hop can be made without
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


async def test_a_look_that_makes_way_for_events_is_not_late_and_one_that_was_held_up_is(bench, running, monkeypatch):
    for _ in range(20 * BATCH):
        bench.begin()
    looks = []

    def look_at_doors(at_ns):
        looks.append(at_ns)
        if len(looks) == 2:
            bench.clock.advance(300 * MS)  # all stands still

    monkeypatch.setattr(bench.exchanges, "_look_at_doors", look_at_doors)
    monkeypatch.setattr(bench.exchanges, "_look_at_lingering", lambda _: None)
    look_at_running = bench.exchanges._look_at_running

    def look_at_batch(batch, at_ns):
        look_at_running(batch, at_ns)
        bench.clock.advance(20 * MS)  # for events, which pass

    monkeypatch.setattr(bench.exchanges, "_look_at_running", look_at_batch)
    async with running(bench.exchanges.run()):
        while len(looks) < 3:
            await asyncio.sleep(0.01)

    assert looks[1] - looks[0] == 20 * 20 * MS
    assert bench.exchanges.late_ns == 300 * MS


async def test_looking_goes_on_by_itself(bench, running):
    live = bench.begin()
    bench.answer(live, HELLO)
    async with running(bench.exchanges.run()):
        async with asyncio.timeout(2):
            while not live.connection.asked_count:
                await asyncio.sleep(0.01)


class TestEngine:
    def stalled(self, bench, **about):
        """A stream that has been silent since 0 ms of its own time, for 2 s."""
        live = bench.begin(**about)
        bench.answer(live, HELLO)
        live.connection.acked_bytes = live.writer.output_size
        bench.pass_ms(2_000)
        return live

    async def test_is_told_with_every_look_at_what_runs_that_something_does(self, bench):
        bench.pass_ms(200)
        assert bench.engine.ticks == []
        bench.begin()
        bench.pass_ms(200)
        assert len(bench.engine.ticks) == 2
        bench.exchanges.switch_passthrough(is_on=True)
        bench.pass_ms(200)
        assert len(bench.engine.ticks) == 2

    async def test_is_asked_once_at_the_onset_of_a_silence_and_its_answer_is_reported_at_once(self, bench):
        live = self.stalled(bench)
        (question,) = bench.engine.asked
        assert question[:2] == (live.anchor.monotonic_ns, bench.clock.monotonic_ns())
        bench.clock.advance(50 * MS)
        bench.engine.say(bench.clock.monotonic_ns(), running=9)
        bench.pass_ms(100)
        bench.pass_ms(2_000)
        bench.end(live)
        bench.exchanges.close_lingering()

        told = [(hop.moments.closed_ns // MS, hop.engine and hop.engine.during) for hop in bench.kept.hops]
        said = EngineSnapshot(asked_ns=2_050 * MS, running_count=9)
        assert told[:2] == [(2_000, None), (2_150, said)]
        assert told[-1][1] == said
        assert bench.kept.hops[-1].engine.silent_since_ns == 0
        assert bench.engine.asked == []
        assert bench.exchanges.stall_count == 1

    async def test_an_answer_that_is_there_already_is_in_the_first_report(self, bench):
        at_ns = bench.clock.monotonic_ns() + 1_500 * MS
        bench.engine.ask = lambda _since_ns, _at_ns, take: take(
            Seen("vllm", EngineSnapshot(asked_ns=at_ns, running_count=4))
        )
        self.stalled(bench)
        bench.pass_ms(1_000)

        (hop,) = bench.kept.hops
        assert hop.engine.during == EngineSnapshot(asked_ns=1_500 * MS, running_count=4)

    async def test_what_comes_when_the_silence_is_over_is_missed_and_counted(self, bench):
        live = self.stalled(bench)
        bench.answer(live, HELLO)
        bench.engine.say(bench.clock.monotonic_ns(), running=9)
        gone = self.stalled(bench)
        bench.end(gone)
        (*_, (_, _, take)) = bench.engine.asked
        take(Seen("vllm", EngineSnapshot(asked_ns=bench.clock.monotonic_ns())))
        bench.exchanges.close_lingering()

        assert bench.engine.missed_count == 2
        assert [hop.engine for hop in bench.kept.hops] == [None] * len(bench.kept.hops)

    async def test_is_not_asked_why_a_reader_takes_nothing_nor_what_another_service_does(self, bench):
        blocked = bench.begin()
        bench.answer(blocked, HELLO)
        blocked.recorder.blocked_since_ns = bench.clock.monotonic_ns()
        other = bench.begin(has_engine=False)
        bench.answer(other, HELLO)
        bench.pass_ms(3_000)

        assert bench.engine.asked == []

    async def test_of_two_silences_the_record_has_the_longer(self, bench):
        live = self.stalled(bench)
        bench.engine.say(bench.clock.monotonic_ns(), running=1)
        bench.pass_ms(3_000)
        for _ in range(2):
            bench.answer(live, HELLO)
            live.connection.acked_bytes = live.writer.output_size
            bench.pass_ms(2_100)
            bench.engine.say(bench.clock.monotonic_ns(), running=2)
        bench.end(live)
        bench.exchanges.close_lingering()

        assert bench.kept.hops[-1].engine.during.running_count == 1

    async def test_of_what_is_not_looked_at_any_more_nothing_is_kept(self, bench):
        live = self.stalled(bench)
        bench.engine.say(bench.clock.monotonic_ns(), running=1)
        bench.exchanges.switch_passthrough(is_on=True)
        bench.end(live)
        bench.exchanges.close_lingering()

        assert bench.kept.hops[-1].engine is None


class TestLimits:
    async def test_a_reader_that_takes_nothing_for_too_long_is_given_up(self, bench):
        async with bench.handler() as live:
            bench.answer(live, HELLO)
            live.connection.buffered_bytes = 40
            live.recorder.blocked_since_ns = bench.clock.monotonic_ns()
            bench.pass_ms(59_900)
            await bench.settle()
            assert bench.stopped == []
            bench.pass_ms(100)
            await bench.settle()

        assert bench.stopped == [SLOW_READER]
        assert bench.exchanges.stop_counts[SLOW_READER] == 1

    async def test_a_reader_that_takes_a_little_now_and_then_is_not(self, bench):
        async with bench.handler() as live:
            bench.answer(live, HELLO, size_bytes=1_000)
            live.connection.buffered_bytes = 400
            live.recorder.blocked_since_ns = bench.clock.monotonic_ns()
            for _ in range(4):
                bench.pass_ms(59_000)
                live.connection.buffered_bytes -= 1
            await bench.settle()
            assert bench.stopped == []

    async def test_each_time_that_it_stops_taking_counts_from_its_own_beginning(self, bench):
        async with bench.handler() as live:
            bench.answer(live, HELLO)
            live.connection.buffered_bytes = 40
            live.recorder.blocked_since_ns = bench.clock.monotonic_ns()
            bench.pass_ms(59_000)
            live.recorder.blocked_since_ns = bench.clock.monotonic_ns()  # took all, and was given as much again
            bench.pass_ms(59_000)
            live.recorder.blocked_since_ns = None
            bench.pass_ms(59_000)
            await bench.settle()
            assert bench.stopped == []

    async def test_without_a_write_deadline_a_reader_may_pause_for_ever(self):
        bench = Bench(Limits(stall_after_ns=STALL_NS, body_idle_ns=1))
        async with bench.handler() as live:
            bench.answer(live, HELLO)
            live.connection.buffered_bytes = 40
            live.recorder.blocked_since_ns = bench.clock.monotonic_ns()
            bench.pass_ms(600_000)
            await bench.settle()
            assert bench.stopped == []

    async def test_a_client_that_owes_its_body_is_not_waited_for_any_longer(self, bench):
        async with bench.handler() as live:
            live.asked_ns = live.body_wait_since_ns = bench.clock.monotonic_ns()
            bench.pass_ms(300_000)
            await bench.settle()

        assert bench.stopped == [BODY_IDLE]

    async def test_an_upstream_that_does_not_answer_is_not_waited_for_any_longer(self, bench):
        async with bench.handler() as live:
            live.asked_ns = bench.clock.monotonic_ns()
            bench.pass_ms(99_900)
            await bench.settle()
            assert bench.stopped == []
            bench.pass_ms(100)
            await bench.settle()

        assert bench.stopped == [ANSWER_LATE]

    async def test_what_is_being_stopped_is_not_stopped_again_for_another_reason(self, bench):
        async with bench.handler() as live:
            live.asked_ns = bench.clock.monotonic_ns()
            bench.pass_ms(100_100)
            bench.exchanges.stop_running()
            await bench.settle()

        assert bench.stopped == [ANSWER_LATE]
        assert (bench.exchanges.stop_counts[ANSWER_LATE], bench.exchanges.stop_counts[DRAINED]) == (1, 0)


class TestOverload:
    async def test_at_85_percent_nothing_new_is_taken_until_below_75(self, bench, caplog):
        seen = []
        bench.begin()
        for percent in (84, 85, 75, 74):
            bench.memory.use(percent)
            bench.pass_ms(100)
            seen.append(bench.exchanges.is_overloaded)

        assert seen == [False, True, True, False]
        assert [record.message for record in caplog.records] == ["short of memory", "memory is enough again"]
        assert bench.exchanges.overload.entered_count == 1

    async def test_above_95_percent_the_heaviest_go_as_few_as_free_it_and_the_light_ones_stay(self, bench):
        async with AsyncExitStack() as stack:
            lives = [await stack.enter_async_context(bench.handler()) for _ in range(5)]
            for live, held in zip(lives, (1, 0, 3, 2, 0.9), strict=True):
                live.connection.buffered_bytes = round(held * WORTH_BYTES)
            stopping = []
            for percent in (94, 95, 99, 99):
                bench.memory.use(percent)
                bench.pass_ms(1_000)
                stopping.append("".join("x" if live.stopping is OVERLOADED else "-" for live in lives))

        assert stopping == ["-----", "--x--", "x-xx-", "x-xx-"]  # each second anew: what was given up must be free then
        assert bench.exchanges.stop_counts[OVERLOADED] == 3

    async def test_what_the_relay_holds_counts_where_it_says_so(self, bench):
        async with bench.handler() as live, bench.handler() as other:
            live.connection.buffered_bytes = WORTH_BYTES
            other.buffered_bytes = lambda: 2 * WORTH_BYTES
            bench.memory.use(95)
            bench.pass_ms(100)

            assert (live.stopping, other.stopping) == (None, OVERLOADED)

    async def test_with_the_last_exchange_it_ends(self, bench):
        async with bench.handler():
            bench.memory.use(90)
            bench.pass_ms(100)
            assert bench.exchanges.is_overloaded
        bench.pass_ms(100)

        assert not bench.exchanges.is_overloaded

    async def test_nobody_is_given_up_for_memory_that_is_held_for_nothing(self, bench):
        async with bench.handler() as live, bench.handler() as other:
            for each in (live, other):
                each.connection.buffered_bytes = WORTH_BYTES
            bench.memory.use(95)
            bench.pass_ms(100)
            assert live.stopping is OVERLOADED
            bench.memory.free_bytes = Memory.LIMIT_BYTES // 100  # what the first one's end has freed
            bench.pass_ms(100)

            assert other.stopping is None
            assert bench.exchanges.is_overloaded

    async def test_memory_that_is_held_for_nothing_is_given_back_before_anybody_is_refused(self, bench):
        bench.begin()
        bench.memory.use(90)
        bench.memory.free_bytes = Memory.LIMIT_BYTES * 30 // 100
        bench.pass_ms(100)
        assert (bench.exchanges.is_overloaded, bench.memory.trim_count) == (False, 1)

        bench.memory.use(80)
        bench.pass_ms(3 * TRIM_NS // MS)
        assert bench.memory.trim_count == 4  # which takes milliseconds, so once a second at most

    async def test_without_a_limit_memory_is_not_even_looked_at(self):
        clock = FakeClock()
        exchanges = Exchanges(clock, canary=Canary(clock), records=Kept(), limits=LIMITS, used_bytes=lambda: 1 / 0)
        exchanges.look(0)

        assert not exchanges.is_overloaded

    async def test_where_memory_cannot_be_known_nothing_is_refused(self, bench):
        bench.memory.used_bytes = None
        bench.pass_ms(100)

        assert not bench.exchanges.is_overloaded


class TestKillSwitch:
    async def test_it_mutes_what_runs_and_what_comes_and_nothing_after_it(self, bench):
        before = bench.begin()
        bench.exchanges.switch_passthrough(is_on=True)
        during = bench.begin()
        assert bench.exchanges.muted_count == 2
        bench.exchanges.switch_passthrough(is_on=False)
        after = bench.begin()

        assert [live.recorder.is_muted for live in (before, during, after)] == [True, True, False]
        assert bench.exchanges.muted_count == 2

    async def test_what_is_muted_is_not_asked_about_and_neither_stalls_nor_lingers(self, bench):
        live = bench.begin()
        bench.answer(live, HELLO)
        bench.exchanges.switch_passthrough(is_on=True)
        bench.pass_ms(10_000)
        bench.end(live)

        assert live.connection.asked_count == 0
        assert bench.exchanges.stall_count == 0
        assert bench.exchanges.lingering_count == 0
        assert bench.kept.muted == [True]

    async def test_its_limits_hold(self, bench):
        async with bench.handler() as live:
            bench.exchanges.switch_passthrough(is_on=True)
            live.asked_ns = bench.clock.monotonic_ns()
            bench.pass_ms(100_000)
            await bench.settle()

        assert bench.stopped == [ANSWER_LATE]


async def test_the_doors_are_told_the_time_at_every_look(bench):
    ticks_ms = []

    class Doors:
        def tick(self, at_ns):
            ticks_ms.append(at_ns // MS)

    bench.exchanges.doors = Doors()
    bench.pass_ms(300)

    assert ticks_ms == [1_100, 1_200, 1_300]


async def test_a_look_that_fails_is_counted_and_keeps_nobody_from_theirs(bench, caplog):
    live = bench.begin()
    bench.answer(live, HELLO)
    bench.exchanges.doors = object()  # cannot be told anything
    bench.memory.used_bytes = "much"
    bench.pass_ms(300)

    assert bench.exchanges.look_failure_count == 6
    assert live.connection.asked_count == 2


async def test_a_stream_of_very_many_events_is_reported_once_a_second_at_most(bench):
    live = bench.begin()
    at_ns = bench.clock.monotonic_ns()

    for later_ns in (0, SEGMENT_NS // 2, SEGMENT_NS - 1, SEGMENT_NS, SEGMENT_NS + 1):
        bench.exchanges.cut_long(live, at_ns + later_ns)

    assert len(bench.kept.hops) == 2
