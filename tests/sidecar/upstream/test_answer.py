import asyncio

import pytest

from sidecar.http1.framing import Framing, FramingKind
from sidecar.http1.head import ResponseHead
from sidecar.upstream.answer import AHEAD_BYTES, AHEAD_PIECES, RESUME_BYTES, Answer, Piece, Upgraded
from sidecar.upstream.errors import BrokenOff

HEAD = ResponseHead((1, 1), 200, "OK", (("X-A", "1"),))


class Connection:
    """The connection under an answer, as far as that sees it."""

    def __init__(self):
        self.calls = []
        self.in_kernel = 0

    def pause(self):
        self.calls.append("pause")

    def resume(self):
        self.calls.append("resume")

    def abort(self):
        self.calls.append("abort")

    def kernel_bytes(self):
        return self.in_kernel


def answer_of(kind=FramingKind.CHUNKED, length_bytes=None, **options):
    connection = Connection()
    return Answer(HEAD, Framing(kind, length_bytes), connection, at_ns=7, **options), connection


async def test_the_head_is_there_at_once():
    answer, _ = answer_of(FramingKind.LENGTH, 3)

    assert (answer.status, answer.reason, answer.version, answer.fields) == (200, "OK", (1, 1), [("X-A", "1")])
    assert (answer.answered_at_ns, answer.ended_at_ns, answer.trailers) == (7, None, ())
    assert (answer.length_bytes, answer.missing_bytes, answer.is_upgraded, answer.upload_error) == (3, 3, False, None)


@pytest.mark.parametrize(
    ("kind", "length_bytes", "has_body", "is_delimited"),
    [
        (FramingKind.NONE, None, False, True),
        (FramingKind.LENGTH, 0, False, True),
        (FramingKind.LENGTH, 1, True, True),
        (FramingKind.CHUNKED, None, True, True),
        (FramingKind.CLOSE, None, True, False),
    ],
)
async def test_what_ends_the_body_is_known_from_the_head(kind, length_bytes, has_body, is_delimited):
    answer, _ = answer_of(kind, length_bytes)

    assert (answer.has_body, answer.is_delimited) == (has_body, is_delimited)


async def test_pieces_are_read_as_they_came_with_the_times_at_which_they_came():
    answer, _ = answer_of(FramingKind.LENGTH, 5)
    answer.arrived(b"ab", 10)
    answer.arrived(b"c", 20)

    assert (await answer.read(), await answer.read()) == (Piece(b"ab", 10), Piece(b"c", 20))
    assert (answer.arrived_bytes, answer.missing_bytes) == (3, 2)


async def test_a_reader_waits_for_the_next_piece():
    answer, _ = answer_of()
    asyncio.get_running_loop().call_soon(answer.arrived, b"a", 1)

    assert await answer.read() == Piece(b"a", 1)


async def test_a_whole_answer_ends_with_none_again_and_again():
    answer, _ = answer_of()
    answer.arrived(b"a", 1)
    answer.ended(2, error=None, trailers=(("X-Sum", "9"),))

    assert [await answer.read() for _ in range(3)] == [Piece(b"a", 1), None, None]
    assert (answer.ended_at_ns, answer.trailers) == (2, (("X-Sum", "9"),))


async def test_what_arrived_before_a_fault_is_read_before_it():
    answer, _ = answer_of()
    answer.arrived(b"a", 1)
    answer.ended(2, error=BrokenOff("a body is whole", "reset"))

    assert await answer.read() == Piece(b"a", 1)
    for _ in range(2):
        with pytest.raises(BrokenOff, match="reset"):
            await answer.read()


async def test_an_end_wakes_the_reader():
    answer, _ = answer_of()
    asyncio.get_running_loop().call_soon(lambda: answer.ended(1, error=None))

    assert await answer.read() is None


async def test_too_much_unread_pauses_the_connection_until_most_is_read():
    answer, connection = answer_of()
    size_bytes = AHEAD_BYTES // 4
    for _ in range(4):
        answer.arrived(b"x" * size_bytes, 1)
    assert connection.calls == []
    answer.arrived(b"x", 1)
    assert connection.calls == ["pause"]
    for _ in range(2):
        await answer.read()
    assert connection.calls == ["pause"]
    assert AHEAD_BYTES - 3 * size_bytes <= RESUME_BYTES + 1
    await answer.read()
    await answer.read()
    assert connection.calls == ["pause", "resume"]


async def test_many_small_pieces_pause_the_connection_too():
    answer, connection = answer_of()
    for _ in range(AHEAD_PIECES + 1):
        answer.arrived(b"x", 1)

    assert connection.calls == ["pause"]


async def test_all_that_waits_can_be_taken_at_once():
    answer, connection = answer_of()
    answer.arrived(b"a", 1)
    answer.arrived(b"b" * (AHEAD_BYTES + 1), 2)

    assert [at_ns for _, at_ns in answer.waiting()] == [1, 2]
    assert answer.waiting() == []
    assert connection.calls == ["pause", "resume"]


async def test_unread_bytes_are_those_here_and_those_in_our_kernel():
    answer, connection = answer_of()
    answer.arrived(b"abc", 1)
    connection.in_kernel = 10
    assert answer.unread_bytes() == 13
    connection.in_kernel = None
    assert answer.unread_bytes() is None
    answer.ended(2, error=None)
    assert answer.unread_bytes() == 3


async def test_a_cancelled_read_closes_the_connection_and_loses_nothing():
    answer, connection = answer_of()
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(answer.read())
        await asyncio.sleep(0)
        answer.arrived(b"a", 1)
        reading.cancel()

    assert connection.calls == ["abort"]
    assert answer.waiting() == [Piece(b"a", 1)]


class Sink:
    def __init__(self, *wants):
        self.wants, self.got = list(wants), []

    def __call__(self, data, at_ns, framed):
        self.got.append((data, at_ns, framed))
        return self.wants.pop(0) if self.wants else True


async def test_a_sink_gets_what_comes_in_the_callback_until_it_wants_no_more():
    answer, connection = answer_of()
    sink = Sink(True, False)
    async with asyncio.TaskGroup() as group:
        pushing = group.create_task(answer.pushed(sink))
        await asyncio.sleep(0)
        answer.arrived(b"a", 1, b"1\r\na\r\n")
        assert sink.got == [(b"a", 1, b"1\r\na\r\n")]
        answer.arrived(b"b", 2)
        answer.arrived(b"c", 3)
        assert not pushing.done()

    assert [data for data, *_ in sink.got] == [b"a", b"b"]
    assert (await answer.read(), answer.arrived_bytes) == (Piece(b"c", 3), 3)
    assert connection.calls == []


async def test_what_waits_is_read_before_a_sink_gets_anything():
    answer, _ = answer_of()
    sink = Sink()
    answer.arrived(b"a", 1)
    await answer.pushed(sink)
    answer.arrived(b"b", 2)

    assert (answer.waiting(), sink.got) == ([Piece(b"a", 1), Piece(b"b", 2)], [])


async def test_an_end_lets_go_of_the_sink():
    answer, _ = answer_of()
    asyncio.get_running_loop().call_soon(lambda: answer.ended(1, error=None))
    await answer.pushed(Sink())
    await answer.pushed(Sink())

    assert await answer.read() is None


async def test_after_its_end_the_connection_is_left_alone():
    answer, connection = answer_of()
    answer.arrived(b"x" * (AHEAD_BYTES + 1), 1)
    answer.ended(2, error=None)
    await answer.read()
    answer.abort()

    assert connection.calls == ["pause"]


async def test_the_end_of_a_read_waits_until_nobody_takes_from_the_upload():
    class Sending:
        error = ValueError("of the body")
        is_stopped = False

        async def stop(self):
            await asyncio.sleep(0)
            self.is_stopped = True

    sending = Sending()
    answer, _ = answer_of(sending=sending)
    answer.ended(1, error=None)

    assert await answer.read() is None
    assert sending.is_stopped
    assert answer.upload_error is sending.error


class Transport(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.calls = []

    def set_protocol(self, protocol):
        self.calls.append(protocol)

    def resume_reading(self):
        self.calls.append("resume")


async def test_an_upgrade_hands_the_connection_out_once_it_has_its_new_protocol():
    transport, protocol = Transport(), asyncio.Protocol()
    answer, connection = answer_of(FramingKind.NONE, upgraded=Upgraded(transport, b"rest"))
    upgraded = answer.upgraded()
    upgraded.switch(protocol)
    answer.abort()

    assert (answer.is_upgraded, upgraded.rest) == (True, b"rest")
    assert transport.calls == [protocol, "resume"]
    assert connection.calls == []


async def test_an_upgrade_that_was_lost_before_it_was_taken_says_so():
    answer, _ = answer_of(FramingKind.NONE, upgraded=Upgraded(Transport(), b""))
    answer.ended(1, error=BrokenOff("it lasts", "reset"))

    with pytest.raises(BrokenOff):
        answer.upgraded()
