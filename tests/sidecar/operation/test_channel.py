import asyncio
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.operation import channel as module
from sidecar.operation.channel import PENDING, Birth, Channel, ChannelError, answer, birth_from

BIRTH = Birth(number=1, worker_count=2, sockets=((5, 6), (7,)), is_passthrough=False, file_text='hop = "é"\n')


class FakeAccount:
    """Answers by what it was told to answer; remembers what it was asked."""

    def __init__(self):
        self.is_on = False
        self.reloads = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def is_ready(self):
        return True

    async def metrics(self):
        await self.hold.wait()
        return "a_total 1\n"

    async def streams(self):
        return [{"request_id": "r\u2028-1", "age_s": 1.5}]

    async def is_passthrough(self):
        return self.is_on

    async def switch_passthrough(self, *, is_on):
        self.is_on = is_on

    async def reload(self):
        self.reloads += 1
        raise OSError("no such file: SECRET")


@pytest.fixture
async def ends():
    """The parent's channel and a worker's account, joined; `worker` ends when the channel does."""
    ours, theirs = socket.socketpair()
    account = FakeAccount()
    async with asyncio.TaskGroup() as group:
        channel = await Channel.over(ours, BIRTH)
        reading = group.create_task(channel.run())
        assert await asyncio.to_thread(birth_from, theirs) == BIRTH
        worker = group.create_task(answer(theirs, account))
        yield channel, account, worker
        account.hold.set()
        reading.cancel()


@given(
    st.builds(
        Birth,
        number=st.integers(0, 63),
        worker_count=st.integers(1, 64),
        sockets=st.lists(st.lists(st.integers(3, 99)).map(tuple)).map(tuple),
        is_passthrough=st.booleans(),
        file_text=st.none() | st.text(),
    )
)
def test_a_birth_arrives_as_it_was_and_what_follows_stays_for_others(birth):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(birth.line() + b"more\n")
        assert birth_from(theirs) == birth
        assert theirs.recv(100) == b"more\n"


def test_a_parent_that_ends_before_it_said_who_we_are_is_an_error():
    ours, theirs = socket.socketpair()
    with theirs:
        ours.send(BIRTH.line()[:10])
        ours.close()
        with pytest.raises(ChannelError, match="before it said who we are"):
            birth_from(theirs)


async def test_each_question_gets_its_answer(ends):
    channel, account, _ = ends

    assert await channel.ask("is_ready", timeout_s=1) is True
    assert await channel.ask("metrics", timeout_s=1) == "a_total 1\n"
    assert await channel.ask("streams", timeout_s=1) == [{"request_id": "r\u2028-1", "age_s": 1.5}]
    await channel.ask("switch_passthrough", timeout_s=1, is_on=True)
    assert account.is_on is True


@pytest.mark.parametrize(("question", "error"), [("reload", "OSError"), ("is_nothing", "ValueError")])
async def test_what_a_worker_could_not_is_told_by_its_kind_only(ends, question, error):
    channel, _, _ = ends

    with pytest.raises(ChannelError, match=f"^could not: {error}$"):
        await channel.ask(question, timeout_s=1)
    assert await channel.ask("is_ready", timeout_s=1) is True


async def test_a_late_answer_is_not_taken_for_that_of_the_next_question(ends):
    channel, account, _ = ends
    account.hold.clear()
    with pytest.raises(ChannelError, match=r"said nothing for 0\.01 s"):
        await channel.ask("metrics", timeout_s=0.01)
    account.hold.set()

    assert await channel.ask("streams", timeout_s=1) == await account.streams()


async def test_a_worker_that_hangs_is_not_asked_without_end(ends):
    channel, account, _ = ends
    account.hold.clear()
    for _ in range(PENDING):
        with pytest.raises(ChannelError, match="said nothing"):
            await channel.ask("metrics", timeout_s=0)
    with pytest.raises(ChannelError, match="hangs"):
        await channel.ask("is_ready", timeout_s=1)


async def test_an_answer_that_is_too_long_is_no_answer(ends, monkeypatch):
    channel, _, _ = ends
    monkeypatch.setattr(module, "LINE_BYTES", 40)

    with pytest.raises(ChannelError, match="TooLong"):
        await channel.ask("streams", timeout_s=1)
    assert await channel.ask("is_ready", timeout_s=1) is True


async def test_the_end_of_the_parent_ends_what_answers(ends):
    channel, _, worker = ends
    channel._writer.close()

    async with asyncio.timeout(1):
        await worker


async def test_the_end_of_a_worker_is_an_error_for_whoever_waits_and_whoever_comes():
    ours, theirs = socket.socketpair()
    channel = await Channel.over(ours, BIRTH)
    async with asyncio.TaskGroup() as group:
        group.create_task(channel.run())
        asking = group.create_task(_error_of(channel))
        await asyncio.sleep(0.01)
        theirs.close()

    assert asking.result() == "is gone"
    assert await _error_of(channel) == "is gone"


@pytest.mark.parametrize("line", [b'{"number": 0, "sa', b'{"number": 7, "said": 1}\n'])
async def test_a_half_line_or_a_stray_one_ends_nothing_but_the_channel(line):
    ours, theirs = socket.socketpair()
    channel = await Channel.over(ours, BIRTH)
    with theirs:
        theirs.send(line)
        theirs.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(1):
            await channel.run()

    assert await _error_of(channel) == "is gone"


async def _error_of(channel):
    with pytest.raises(ChannelError) as error:
        await channel.ask("is_ready", timeout_s=None)
    return str(error.value)


def test_a_birth_is_one_line():
    assert BIRTH.line().count(b"\n") == 1
    assert json.loads(BIRTH.line())["worker_count"] == 2
