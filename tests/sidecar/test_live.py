"""What is seen of an exchange from outside, and how it is stopped, with a connection that the test moves."""

import asyncio

import pytest

from otel.hop import Anchor, Place, TapRole
from sidecar.bounds.deadlines import OVERLOADED, SLOW_READER
from sidecar.identity import Identity
from sidecar.kernel import TICK_NS, TcpInfo
from sidecar.live import Live
from sidecar.recording.asked import Asked
from sidecar.recording.recorder import Recorder
from sidecar.recording.taking import Cause, Holdup, Sign
from tests.support.clock import FakeClock


class FakeConnection:
    is_open = True
    is_reading = True
    buffered_bytes = 0
    left = None
    looked_count = 0

    def left_by(self):
        self.looked_count += 1
        return self.left

    def sent_bytes(self):
        return 0

    def sent(self, size_bytes):
        """What it was given is known by now."""


class FakeResponse:
    output_size = 0


def a_live(connection):
    clock = FakeClock(monotonic_ns=1_000)
    anchor = Anchor(clock.wall_ns(), clock.monotonic_ns(), "d")
    recorder = Recorder(
        Asked(
            Identity(request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16),
            method="GET",
            path="/",
        ),
        place=Place("gateway", TapRole.INGRESS),
        anchor=anchor,
    )
    return Live(recorder, anchor, connection=connection)


@pytest.fixture
async def handling():
    """The exchange of a handler that runs; its end is asked of its task."""
    made = asyncio.get_running_loop().create_future()

    async def handler():
        made.set_result(a_live(FakeConnection()))
        await asyncio.sleep(60)

    task = asyncio.ensure_future(handler())
    live = await made
    yield live
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def uploading(live):
    live.is_uploading = True


def blocked(live):
    live.recorder.blocked_since_ns = 0


def paused(live):
    live.connection.is_reading = False


@pytest.mark.parametrize("left", ["fin", "reset"])
@pytest.mark.parametrize("when", [uploading, blocked, paused])
async def test_a_reader_that_is_gone_while_its_end_may_come_unseen_cancels_the_handler(handling, when, left):
    when(handling)
    handling.look(0)
    assert not handling.task.cancelling()
    handling.connection.left = left
    handling.look(100)
    handling.look(200)

    assert (handling.left_by, handling.task.cancelling()) == (left, 1)
    assert handling.stopping is None  # we did not end it


async def test_otherwise_the_event_loop_sees_it_and_nobody_else_looks(handling):
    handling.connection.left = "fin"
    handling.look(0)

    assert (handling.connection.looked_count, handling.task.cancelling()) == (0, 0)


async def test_what_is_stopped_already_is_not_ended_again(handling):
    paused(handling)
    handling.connection.left = "reset"
    handling.stop(OVERLOADED)
    handling.look(0)

    assert (handling.left_by, handling.task.cancelling()) == (None, 1)


async def test_the_first_reason_for_stopping_stands(handling):
    handling.stop_as(SLOW_READER)
    assert not handling.task.cancelling()
    handling.stop(OVERLOADED)

    assert (handling.stopping, handling.task.cancelling()) == (SLOW_READER, 1)


async def test_it_is_stuck_from_when_it_was_last_seen_to_take_something():
    live = a_live(FakeConnection())
    live.begin_response(FakeResponse())
    live.writer.output_size, live.connection.buffered_bytes = 1_000, 300
    assert live.waits(10) is None
    live.recorder.blocked_since_ns = 20
    seen = [live.waits(30).stuck_since_ns, live.waits(40).stuck_since_ns]
    live.connection.buffered_bytes = 299
    seen += [live.waits(50).stuck_since_ns, live.waits(60).stuck_since_ns]
    live.writer.output_size, live.connection.buffered_bytes = 1_010, 309  # more was written, and all of it waits
    seen += [live.waits(70).stuck_since_ns]

    assert seen == [20, 20, 50, 50, 50]


async def test_without_a_connection_or_a_response_nobody_is_stuck():
    for live in (a_live(None), a_live(FakeConnection())):
        blocked(live)
        assert live.waits(10**12) is None


async def test_what_it_waits_for_is_what_the_relay_said():
    live = a_live(None)
    live.body_wait_since_ns, live.asked_ns = 7, 5

    assert (live.waits(9).body_since_ns, live.waits(9).asked_ns) == (7, 5)


async def test_what_it_holds_is_what_waits_for_the_reader_unless_the_relay_knows_better():
    assert a_live(None).buffered_bytes() == 0
    live = a_live(FakeConnection())
    live.connection.buffered_bytes = 40
    assert live.buffered_bytes() == 40
    live.buffered_bytes = lambda: 50
    assert live.buffered_bytes() == 50


async def test_what_is_muted_collects_no_evidence():
    before, after = a_live(FakeConnection()), a_live(FakeConnection())
    before.begin_response(FakeResponse())
    assert before.evidence is not None
    for live in (before, after):
        live.mute()
    after.begin_response(FakeResponse())

    assert (before.evidence, after.evidence) == (None, None)
    assert before.is_settled
    assert after.is_settled


class Tcp(FakeConnection):
    """A connection whose kernel can be asked; under TLS nobody knows how much of what is ours it carries."""

    asked_count = 0
    window_bytes = 64_000
    acked_bytes = 0

    def __init__(self, *, is_tls):
        self._sent_bytes = None if is_tls else 0

    def sent_bytes(self):
        return self._sent_bytes

    def sent(self, size_bytes):
        """What it was given is known by now."""

    def tcp_info(self):
        self.asked_count += 1
        return TcpInfo(1, 0, 0, 0, 0, self.acked_bytes, 0, 41_000, self.window_bytes)


def write_and_look(live, tick, *, bytes_more=100):
    live.writer.output_size += bytes_more
    live.connection.acked_bytes = live.writer.output_size
    live.look(tick * TICK_NS)


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_reader_whose_window_stays_small_is_known_also_under_tls(is_tls):
    live = a_live(Tcp(is_tls=is_tls))
    live.begin_response(FakeResponse())
    for tick in range(5):
        write_and_look(live, tick)
    assert live.taking.holdup is None
    live.connection.window_bytes = 20_000
    for tick in range(5, 10):
        write_and_look(live, tick)
    assert live.taking.holdup == Holdup(Cause.SLOW_READER, Sign.WINDOW, 5 * TICK_NS)
    assert (live.evidence is None) is is_tls


@pytest.mark.parametrize("is_tls", [False, True])
async def test_the_kernel_is_asked_once_for_what_is_acknowledged_when_it_is(is_tls):
    live = a_live(Tcp(is_tls=is_tls))
    live.begin_response(FakeResponse())
    live.look(0)
    write_and_look(live, 1)
    for tick in range(2, 20):
        live.look(tick * TICK_NS)
    assert live.connection.asked_count == 1


async def test_of_what_is_muted_the_kernel_is_not_asked_and_nothing_is_held_up():
    live = a_live(Tcp(is_tls=False))
    live.begin_response(FakeResponse())
    for tick, window_bytes in enumerate([64_000, *[0] * 9]):
        live.connection.window_bytes = window_bytes
        write_and_look(live, tick)
    assert live.taking.holdup is not None
    live.mute()
    asked_count = live.connection.asked_count
    write_and_look(live, 20)
    assert (live.taking.holdup, live.connection.asked_count) == (None, asked_count)
