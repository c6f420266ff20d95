"""What is seen of an exchange from outside, and how it is stopped, with a connection that the test moves."""

import asyncio

import pytest

from otel.hop import Anchor, Place, TapRole
from sidecar.bounds.deadlines import OVERLOADED, SLOW_READER
from sidecar.identity import Identity
from sidecar.live import Live
from sidecar.recording.asked import Asked
from sidecar.recording.recorder import Recorder
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
