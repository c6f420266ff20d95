import pytest

from otel.exposition import openmetrics, single
from sidecar.operation.channel import ChannelError
from sidecar.operation.crew import Crew


class FakeWorker:
    """A worker that says what it was given to say; an error, where that is one."""

    def __init__(self, number, *, is_up=True, **said):
        self.number = number
        self.is_up = is_up
        self.said = {"is_ready": True, "streams": [], "switch_passthrough": None, "reload": None, **said}
        self.asked = []
        self.restart_count = number
        self.lost_count = 10 * number

    async def ask(self, question, **given):
        self.asked.append((question, given))
        if isinstance(self.said[question], Exception):
            raise self.said[question]
        return self.said[question]

    async def metrics(self):
        return openmetrics([single("a_total", "counter", "h", 10 + self.number)])


def crew_of(*workers):
    return Crew(workers, is_passthrough=False)


@pytest.mark.parametrize(
    ("second", "is_ready"),
    [
        (FakeWorker(1), True),
        (FakeWorker(1, is_up=False), False),
        (FakeWorker(1, is_ready=False), False),
        (FakeWorker(1, is_ready=ChannelError("hangs")), False),
    ],
)
async def test_all_are_ready_when_each_is(second, is_ready):
    assert await crew_of(FakeWorker(0), second).is_ready() is is_ready


async def test_one_that_drains_is_not_ready_and_asks_nobody():
    worker = FakeWorker(0)
    crew = crew_of(worker)
    crew.is_draining = True

    assert await crew.is_ready() is False
    assert worker.asked == []


async def test_metrics_are_those_of_all_and_of_the_crew():
    silent = FakeWorker(1, streams=ChannelError("hangs"))
    crew = crew_of(FakeWorker(0), silent, FakeWorker(2, is_up=False))
    await crew.streams()
    text = await crew.metrics()

    for line in (
        "a_total 33",
        "gapline_workers 3",
        "gapline_workers_up 2",
        "gapline_worker_restarts_total 3",
        "gapline_worker_lost_exchanges_total 30",
        "gapline_worker_silences_total 1",
    ):
        assert f"\n{line}\n" in text


async def test_streams_are_those_of_all_the_longest_first_and_each_names_its_worker():
    crew = crew_of(
        FakeWorker(0, streams=[{"request_id": "a", "age_s": 2.0}, {"request_id": "b", "age_s": 0.5}]),
        FakeWorker(1, streams=ChannelError("hangs")),
        FakeWorker(2, streams=[{"request_id": "c", "age_s": 1.0}]),
    )

    assert [(each["request_id"], each["worker"]) for each in await crew.streams()] == [("a", 0), ("c", 2), ("b", 0)]


async def test_the_kill_switch_is_told_to_all_that_run_and_kept_for_all_that_start():
    workers = FakeWorker(0), FakeWorker(1, switch_passthrough=ChannelError("hangs")), FakeWorker(2, is_up=False)
    crew = crew_of(*workers)
    await crew.switch_passthrough(is_on=True)

    assert [worker.asked for worker in workers] == [[("switch_passthrough", {"is_on": True})]] * 2 + [[]]
    assert await crew.is_passthrough() is True
    assert crew.is_passthrough_now is True


async def test_a_reload_is_told_to_all():
    workers = FakeWorker(0), FakeWorker(1)
    await crew_of(*workers).reload()

    assert [worker.asked for worker in workers] == [[("reload", {})]] * 2
