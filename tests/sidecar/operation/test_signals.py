import asyncio
import os
import signal

import pytest

from sidecar.operation.signals import Signals


class FakeAccount:
    def __init__(self):
        self.is_on = False
        self.reloads = 0

    async def reload(self):
        self.reloads += 1

    async def is_passthrough(self):
        return self.is_on

    async def switch_passthrough(self, *, is_on):
        self.is_on = is_on


@pytest.fixture
async def signals():
    yield Signals()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        loop.remove_signal_handler(number)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_stop_is_waited_for(signals, number):
    send(number)
    async with asyncio.timeout(1):
        await signals.stopped()


async def test_what_is_wished_is_done_while_it_runs(signals):
    account = FakeAccount()
    obeying = asyncio.ensure_future(signals.obey(account))
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR1):
        send(number)
        await asyncio.sleep(0.01)
    obeying.cancel()

    assert (account.reloads, account.is_on) == (2, True)


async def test_a_terminal_that_hangs_up_stops_what_was_started_from_it(monkeypatch, signals):
    account, terminals = FakeAccount(), [True, True, False]
    signals._has_terminal = True
    monkeypatch.setattr(os, "isatty", lambda _descriptor: terminals.pop(0))
    obeying = asyncio.ensure_future(signals.obey(account))
    for _ in range(3):
        send(signal.SIGHUP)
        await asyncio.sleep(0.01)
    async with asyncio.timeout(1):
        await signals.stopped()
    obeying.cancel()

    assert account.reloads == 2


async def test_work_that_is_done_is_done_although_something_was_wished(signals):
    send(signal.SIGHUP)
    send(signal.SIGUSR1)

    assert await signals.unless_stopped(asyncio.sleep(0.02)) is True


async def test_a_signal_to_stop_ends_the_work(signals):
    send(signal.SIGTERM)
    async with asyncio.timeout(1):
        assert await signals.unless_stopped(asyncio.sleep(60)) is False


async def test_what_work_raises_is_raised(signals):
    async def work():
        raise ValueError

    with pytest.raises(ExceptionGroup):
        await signals.unless_stopped(work())


async def test_only_a_signal_stops_what_is_stopping_already(signals):
    signals.stop()
    signals.stop()
    await signals.stopped()
    signals.stop()

    assert await signals.unless_stopped(asyncio.sleep(0.02)) is True
