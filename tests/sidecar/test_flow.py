"""A body on its way from an answer to a reader whose connection takes all, some or nothing, on a clock of the test."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Anchor, Place, TapRole
from sidecar.delivery import Delivery, Head
from sidecar.flow import Early, Flow, Tier
from sidecar.guard.keepalive import comment
from sidecar.guard.limits import GuardLimits, Rules
from sidecar.guard.policy import Keepalives, Policy
from sidecar.http1.chunked import ChunkedReader, encode_chunk
from sidecar.http1.framing import Framing, FramingKind
from sidecar.http1.head import ResponseHead
from sidecar.identity import Identity
from sidecar.kernel import Connection
from sidecar.live import Live
from sidecar.recording.asked import Asked
from sidecar.recording.recorder import SEGMENT_EVENTS, Recorder
from sidecar.upstream.answer import AHEAD_BYTES, Answer
from sidecar.upstream.errors import BrokenOff

MS = 1_000_000
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
ERROR = b'data: {"error":{"type":"overloaded","code":503}}\n\n'
SSE = "text/event-stream"
IDENTITY = Identity(
    request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16, parent_span_id="3" * 16
)
NO_LIMITS = Rules(GuardLimits.of_seconds(first_event=0, next_event=0, content=0), ())
PUSHED = [Tier.PUSH, Tier.SPLICE]


class Reader:
    """The connection to the reader: it takes what it has room for, and the rest once there is more."""

    def __init__(self):
        self.data, self.waiting, self.is_gone, self.is_full = b"", b"", False, False
        self.room = asyncio.Event()

    def write(self, data):
        if self.is_full:
            self.waiting += data
        else:
            self.data += data

    def takes_again(self):
        self.data, self.waiting, self.is_full = self.data + self.waiting, b"", False
        self.room.set()

    async def drain(self):
        if self.waiting:
            self.room.clear()
            await self.room.wait()

    def get_write_buffer_size(self):
        return len(self.waiting)

    def is_closing(self):
        return self.is_gone

    def get_extra_info(self, name):
        return None

    def set_write_buffer_limits(self, **limits):
        pass


class Upstream:
    def __init__(self):
        self.calls = []

    def pause(self):
        self.calls.append("pause")

    def resume(self):
        self.calls.append("resume")

    def abort(self):
        self.calls.append("abort")

    def kernel_bytes(self):
        return 5


class Passing:
    """One body that is being passed on. now_ns: the clock; each look at it takes a microsecond."""

    def __init__(self, tier, **policy):
        self.reader, self.upstream, self.now_ns = Reader(), Upstream(), 0
        anchor = Anchor(1_700_000_000 * 10**9, 0, "domain")
        self.recorder = Recorder(
            Asked(IDENTITY, method="POST", path="/v1/chat/completions"),
            place=Place("gateway", TapRole.INGRESS),
            anchor=anchor,
        )
        connection = Connection(self.reader)
        live = Live(self.recorder, anchor, connection=connection, listener="l", upstream="u", has_engine=False)
        request = SimpleNamespace(
            transport=self.reader,
            writer=self.reader,
            version=SimpleNamespace(major=1, minor=1),
            method="POST",
            keep_alive=True,
        )
        self.delivery = Delivery(request, live, policy=Policy(rules=NO_LIMITS, **policy), now=self.now)
        self.recorder.answered(0, status=200, content_type=SSE)
        self.delivery.begin(Head(200, "OK", [("Content-Type", SSE)]))
        head = ResponseHead((1, 1), 200, "OK", (("Content-Type", SSE),))
        self.answer = Answer(head, Framing(FramingKind.CHUNKED, None), self.upstream, at_ns=0)
        self.segments = []
        exchanges = SimpleNamespace(cut_long=lambda _, at_ns: self.segments.append(at_ns))
        self.flow = Flow(self.answer, self.delivery, live=live, exchanges=exchanges, tier=tier, now=self.now)
        self.running = asyncio.ensure_future(self.flow.run())

    def now(self):
        self.now_ns += 1_000
        return self.now_ns

    async def turns(self, count=3):
        for _ in range(count):
            await asyncio.sleep(0)

    def arrives(self, content, at_ns=None, framed=None):
        self.now_ns = self.now_ns if at_ns is None else at_ns
        self.answer.arrived(content, self.now_ns, framed)

    async def ends(self, error=None):
        self.answer.ended(self.now(), error=error)
        await self.turns(6)

    @property
    def body(self):
        """What the reader was given, without the framing, which has no fault."""
        chunks = ChunkedReader()
        pieces = chunks.feed(self.framed)
        assert chunks.error is None
        return b"".join(pieces)

    @property
    def framed(self):
        return (self.reader.data + self.reader.waiting).partition(b"\r\n\r\n")[2]

    def stamps(self):
        return self.recorder.seen.stamper.stamps()


@pytest.fixture(params=list(Tier), ids=lambda tier: tier.value)
async def tier(request):
    return request.param


async def passing(tier, **policy):
    found = Passing(tier, **policy)
    await found.turns()
    return found


@pytest.mark.parametrize("pushed", PUSHED)
async def test_a_piece_is_written_on_in_the_callback_that_received_it(pushed):
    it = await passing(pushed)
    it.arrives(HELLO, 5 * MS)

    assert it.body == HELLO
    (stamp,) = it.stamps()
    assert (stamp.arrived_ns, stamp.taken_ns) == (5 * MS, 5 * MS + 1_000)
    await it.ends()
    assert it.running.done()


async def test_pulled_it_is_written_on_by_the_task():
    it = await passing(Tier.PULL)
    it.arrives(HELLO, 5 * MS)
    assert it.body == b""
    await it.turns()

    assert it.body == HELLO
    assert it.stamps()[0].arrived_ns == 5 * MS
    await it.ends()


@given(st.lists(st.tuples(st.sampled_from("apfft"), st.integers(1, 40)), max_size=30))
async def test_every_byte_passes_once_and_in_order_however_the_reader_takes_them(steps):
    for each in Tier:
        it = await passing(each)
        sent = b""
        for number, (step, size) in enumerate(steps):
            if step == "a":  # a piece arrives
                data = b"%d" % (number % 10) * size
                sent += data
                it.arrives(data, it.now_ns + MS, encode_chunk(data))
            elif step == "p":  # time for the task
                await it.turns()
            elif step == "f":
                it.reader.is_full = True
            else:
                it.reader.takes_again()
        it.reader.takes_again()
        await it.ends()
        it.reader.takes_again()
        await it.turns(6)

        assert it.running.done()
        assert it.running.exception() is None
        assert it.body == sent
        assert it.recorder.seen.size_bytes == len(sent)


async def test_a_reader_that_does_not_take_makes_the_upstream_wait_and_is_recorded(tier):
    it = await passing(tier)
    it.reader.is_full = True
    it.arrives(HELLO, 5 * MS)
    await it.turns()
    since_ns = it.recorder.blocked_since_ns
    assert 5 * MS <= since_ns <= 5 * MS + 10_000
    for _ in range(3):
        it.arrives(b"x" * (AHEAD_BYTES // 2), 6 * MS)
        await it.turns()
    assert it.upstream.calls == ["pause"]
    assert it.body == HELLO  # the rest waits upstream and in front of us, not behind us
    assert it.stamps()[0].taken_ns is None

    it.now_ns = 80 * MS
    it.reader.takes_again()
    await it.turns(8)
    assert it.upstream.calls == ["pause", "resume"]
    assert it.stamps()[0].taken_ns > 80 * MS
    assert it.recorder.blocked_since_ns is None
    await it.ends()
    (blocked,) = it.recorder.close(90 * MS).timeline.blocked
    assert blocked.start_ns == since_ns
    assert blocked.end_ns >= 80 * MS


@pytest.mark.parametrize("pushed", PUSHED)
async def test_it_pushes_again_when_the_reader_has_caught_up(pushed):
    it = await passing(pushed)
    it.reader.is_full = True
    it.arrives(HELLO)
    await it.turns()
    it.arrives(HELLO)
    it.reader.takes_again()
    await it.turns(8)
    it.arrives(HELLO)
    await it.turns()
    it.arrives(HELLO)

    assert it.body == HELLO * 4
    await it.ends()


async def test_a_reader_that_has_left_is_told_to_the_task_and_took_nothing(tier):
    it = await passing(tier)
    it.reader.is_gone = True
    it.arrives(HELLO, 5 * MS)
    await it.turns()

    with pytest.raises(ConnectionResetError):
        await it.running
    (stamp,) = it.stamps()
    assert (stamp.arrived_ns, stamp.taken_ns) == (5 * MS, None)


@pytest.mark.parametrize("pushed", PUSHED)
async def test_what_went_wrong_in_the_callback_leaves_nothing_to_the_garbage_collector(pushed):
    it = await passing(pushed)
    it.reader.is_gone = True
    gc.collect()
    gc.disable()
    try:
        it.arrives(HELLO, 5 * MS)
        await it.turns()
        assert isinstance(it.running.exception(), ConnectionResetError)
        it.flow = it.running = None
        await it.turns()
        assert not any(isinstance(each, Flow) for each in gc.get_objects())
    finally:
        gc.enable()


@pytest.mark.parametrize("pushed", PUSHED)
async def test_our_own_fault_stays_away_from_the_connection_that_received(pushed):
    it = await passing(pushed)
    it.reader.write = lambda _: 1 // 0
    it.arrives(HELLO)  # raises nothing
    it.arrives(HELLO)  # waits, as for a reader that takes nothing

    with pytest.raises(ZeroDivisionError):
        await it.running
    assert len(it.answer.waiting()) == 1


async def test_what_came_before_a_break_is_passed_on_before_it(tier):
    it = await passing(tier)
    it.arrives(HELLO)
    it.arrives(HELLO)
    await it.ends(BrokenOff("a body is whole", "reset"))

    with pytest.raises(BrokenOff):
        await it.running
    assert it.body == HELLO * 2


async def test_cancelled_it_closes_the_upstream_and_leaves_what_waits(tier):
    it = await passing(tier)
    it.running.cancel()
    it.arrives(HELLO)  # what ends it has been decided, and may have been told to the reader
    with suppress(asyncio.CancelledError):
        await it.running

    assert it.upstream.calls == ["abort"]
    assert [piece.data for piece in it.answer.waiting()] == [HELLO]
    assert it.body == b""


async def test_whole_chunks_are_spliced_as_they_came_and_no_others():
    framed = b"00a\r\n" + b"x" * 10 + b"\r\n" + encode_chunk(b"y")
    it = await passing(Tier.SPLICE)
    it.arrives(b"x" * 10 + b"y", framed=framed)
    it.arrives(b"z")
    assert it.framed == framed + encode_chunk(b"z")
    await it.ends()

    it = await passing(Tier.PUSH)
    it.arrives(b"x" * 10 + b"y", framed=framed)
    assert it.framed == encode_chunk(b"x" * 10 + b"y")
    await it.ends()


async def test_nothing_is_spliced_where_something_may_be_put_in_between():
    beats = Keepalives(every_ns=MS, comment=comment("keepalive"))
    framed = b"0003c\r\n" + HELLO + b"\r\n"
    it = await passing(Tier.SPLICE, keepalives=beats)
    it.arrives(HELLO, framed=framed)

    assert it.framed == encode_chunk(HELLO)
    await it.ends()


async def test_a_head_that_is_held_lets_nothing_pass_before_its_first_event(tier):
    it = await passing(tier, hold_ns=10**12)
    it.arrives(HELLO[:20], 5 * MS)
    await it.turns()
    assert it.reader.data == b""
    it.arrives(HELLO[20:], 6 * MS)
    await it.turns()
    it.arrives(HELLO, 7 * MS)
    await it.turns()

    assert it.body == HELLO * 2
    assert [stamp.arrived_ns for stamp in it.stamps()] == [6 * MS, 7 * MS]
    await it.ends()


async def test_a_held_head_with_an_error_behind_it_becomes_an_answer_of_our_own(tier):
    it = await passing(tier, hold_ns=10**12)
    it.arrives(ERROR)
    await it.turns()

    with pytest.raises(Early):
        await it.running
    assert it.reader.data == b""


async def test_a_long_stream_is_reported_while_it_runs(tier):
    it = await passing(tier)
    it.arrives(HELLO * (SEGMENT_EVENTS - 1), 5 * MS)
    await it.turns()
    assert it.segments == []
    it.arrives(HELLO, 6 * MS)
    await it.turns()

    assert it.segments == [6 * MS]
    await it.ends()
