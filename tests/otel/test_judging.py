import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.findings import Cause, Policy, Status
from otel.hop import Ending, Hop
from otel.judging import RETRY_NS, Clock, Judge, Rules, is_abnormal, of_request, row_of
from otel.settling import Settling
from otel.store.base import SECOND_NS, StallQuery, StoreError
from otel.store.memory import MemoryStore
from otel.store.threads import AsyncStore
from tests.support.builders import a_hop
from tests.support.chain import GATEWAY, PROXY, WORKER, Chain, run, shifted

S = SECOND_NS
STALLED = Chain(stalls=((PROXY, 60, 3 * S),))


class Hands:
    """Two clocks that are moved by hand."""

    def __init__(self) -> None:
        self.now_ns = 0

    def clock(self) -> Clock:
        return Clock(wall_ns=lambda: 1_800_000_000 * S + self.now_ns, monotonic_ns=lambda: self.now_ns)


class Bench:
    """A judge over a memory store, with its clocks in hand."""

    def __init__(self, store: MemoryStore | None = None, **rules) -> None:
        self.hands = Hands()
        self.memory = store or MemoryStore()
        self.store = AsyncStore(self.memory)
        self.judge = Judge(
            self.store,
            rules=Rules(policy=Policy(), stall_after_s=2.0, **rules),
            settling=Settling(settle_ns=2 * S, final_ns=10 * S),
            clock=self.hands.clock(),
        )

    async def receive(self, *hops: Hop) -> None:
        await self.store.write(hops, received_ns=self.hands.now_ns)
        self.judge.arrived(hops)

    async def after(self, seconds: float) -> int:
        """Let time pass; how many requests were judged then."""
        self.hands.now_ns += round(seconds * S)
        return await self.judge.judge_due()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.store.close()


async def test_a_request_is_judged_when_its_hops_have_settled(bench: Bench):
    for hop in run(STALLED):
        await bench.receive(hop)
        assert await bench.after(1) == 0
    assert await bench.after(1) == 1

    row = bench.memory.verdict_of("req-1")
    assert row is not None
    assert (row.status, row.cause, row.hop, row.wait, row.is_abnormal) == ("named", "app_stall", PROXY, "gap", True)
    assert row.gap_s == pytest.approx(3.0, abs=0.1)
    assert bench.memory.stalls(StallQuery()) == (row,)
    assert orjson.loads(row.answer_json)["sentence"] == row.sentence


async def test_a_late_hop_refines_the_verdict_and_is_counted_with_it(bench: Bench):
    worker, proxy, gateway = run(STALLED)
    await bench.receive(proxy, gateway)
    await bench.after(3)
    await bench.receive(worker)
    await bench.after(3)

    row = bench.memory.verdict_of("req-1")
    assert row is not None
    assert (row.cause, row.hop) == ("app_stall", PROXY)
    assert bench.memory.stats().verdicts == 1
    assert bench.judge.verdicts[Status.NAMED, Cause.APP_STALL] >= 1


async def test_a_verdict_that_is_only_confirmed_counts_once(bench: Bench):
    hops = run(STALLED)
    for _ in range(3):
        await bench.receive(*hops)
        await bench.after(3)

    assert bench.judge.verdicts == {(Status.NAMED, Cause.APP_STALL): 1}


async def test_whoever_asks_gets_the_verdict_as_it_stands_now(bench: Bench):
    worker, proxy, gateway = run(STALLED)
    await bench.receive(gateway)
    first = await bench.store.read(bench.judge.examine, "req-1")
    await bench.receive(worker, proxy)
    second = await bench.store.read(bench.judge.examine, "req-1")

    assert first is not None
    assert second is not None
    assert [hop["hop"] for hop in first.answer["hops"]] == [GATEWAY]
    assert [hop["hop"] for hop in second.answer["hops"]] == [WORKER, PROXY, GATEWAY]
    assert second.answer["first_hop"] == PROXY
    assert await bench.store.read(bench.judge.examine, "unknown") is None


async def test_a_verdict_is_final_when_no_hop_is_expected_any_more(bench: Bench):
    await bench.receive(*run(Chain()))

    async def is_final() -> bool:
        case = await bench.store.read(bench.judge.examine, "req-1")
        assert case is not None
        return case.answer["verdict_final"]

    assert not await is_final()
    await bench.after(9.9)
    assert not await is_final()
    await bench.after(0.2)
    assert await is_final()


async def test_hops_of_one_trace_and_two_ids_have_one_verdict(bench: Bench):
    worker, proxy, gateway = run(STALLED)
    made_up = [replace(hop, request_id="made-up", request_id_source="generated") for hop in (worker, proxy)]
    await bench.receive(*made_up)
    await bench.after(3)
    await bench.receive(gateway)
    await bench.after(3)

    (row,) = bench.memory.stalls(StallQuery())
    assert row.request_id == "req-1"
    assert set(row.request_ids) == {"req-1", "made-up"}
    assert bench.memory.verdict_of("made-up") == row


async def test_an_id_that_begins_like_two_prefixes_is_judged(bench: Bench):
    await bench.receive(*(replace(hop, request_id="chatcmpl-req-7") for hop in run(STALLED)))
    await bench.after(3)

    assert bench.memory.verdict_of("chatcmpl-req-7") is not None


async def test_two_requests_of_one_trace_have_two_verdicts(bench: Bench):
    stalled = run(STALLED)
    healthy = [replace(hop, trace_id=stalled[0].trace_id) for hop in run(Chain(request_id="req-2"))]
    await bench.receive(*stalled, *healthy)
    assert await bench.after(3) == 2

    first, second = (bench.memory.verdict_of(key) for key in ("req-1", "req-2"))
    assert first is not None
    assert second is not None
    assert (first.status, second.status) == ("named", "healthy")


async def test_an_expected_hop_without_a_record_is_missing():
    bench = Bench(expected_path=(WORKER, PROXY, GATEWAY))
    worker, _, gateway = run(Chain())
    await bench.receive(worker, gateway)
    case = await bench.store.read(bench.judge.examine, "req-1")

    assert case is not None
    assert any(PROXY in sentence for sentence in case.answer["missing"])
    await bench.store.close()


async def test_after_a_restart_the_last_requests_are_judged():
    memory = MemoryStore()
    memory.write(run(STALLED), received_ns=1_000 * S)
    memory.write([a_hop(request_id="long-ago")], received_ns=1)
    bench = Bench(memory)
    await bench.judge.recover()
    assert await bench.after(0) == 1

    assert memory.verdict_of("req-1") is not None
    assert memory.verdict_of("long-ago") is None
    await bench.store.close()


class FailingStore(MemoryStore):
    """Fails on demand, as a full disk does."""

    is_full = True

    def put_verdicts(self, rows, *, judged_ns):
        if self.is_full:
            raise StoreError("database or disk is full")
        super().put_verdicts(rows, judged_ns=judged_ns)


async def test_what_the_store_could_not_keep_is_judged_again(caplog: pytest.LogCaptureFixture):
    memory = FailingStore()
    bench = Bench(memory)
    await bench.receive(*run(STALLED))
    await bench.after(3)
    assert memory.verdict_of("req-1") is None
    assert [record.message for record in caplog.records] == ["verdicts not stored"]

    memory.is_full = False
    assert await bench.after(RETRY_NS / S) == 1
    assert memory.verdict_of("req-1") is not None
    await bench.store.close()


class BrokenStore(MemoryStore):
    """Has one request whose hops cannot be judged."""

    def hops_of(self, key):
        if key == "bad":
            raise ZeroDivisionError
        return super().hops_of(key)


async def test_a_request_that_cannot_be_judged_costs_no_other_its_verdict(caplog: pytest.LogCaptureFixture):
    bench = Bench(BrokenStore())
    await bench.receive(a_hop(request_id="bad"), *run(STALLED))
    await bench.after(3)

    assert bench.judge.failures == 1
    assert bench.memory.verdict_of("req-1") is not None
    assert [record.message for record in caplog.records] == ["request not judged"]
    await bench.store.close()


async def test_the_loop_judges_by_itself():
    bench = Bench()
    async with asyncio.timeout(5):
        task = asyncio.get_running_loop().create_task(bench.judge.run())
        await bench.receive(*run(STALLED))
        bench.hands.now_ns += 3 * S
        while bench.memory.verdict_of("req-1") is None:
            await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bench.store.close()


# -------------------------------------------------------------------------------- pure parts


def test_a_hop_found_through_the_trace_counts_where_no_direct_one_stands():
    mine, theirs = (a_hop("gateway", request_id=name, trace_id="1" * 32) for name in ("mine", "theirs"))
    worker = a_hop("model-worker", request_id="made-up", trace_id="1" * 32)

    assert of_request((theirs, mine, worker), "MINE") == (mine, worker)
    assert of_request((theirs, mine, worker), "1" * 32) == (theirs, mine, worker)


@given(st.permutations(run(STALLED)))
def test_of_request_keeps_all_hops_of_a_request_that_is_alone(hops: list[Hop]):
    assert sorted(of_request(hops, "req-1"), key=lambda hop: hop.span_id) == sorted(hops, key=lambda hop: hop.span_id)


@pytest.mark.parametrize("hop", [WORKER, PROXY, GATEWAY])
@pytest.mark.parametrize("hours", [-1, 1, 100_000])
async def test_a_request_happened_when_most_of_its_clocks_say(bench: Bench, hop: str, hours: int):
    off = hours * 3_600 * S
    right = [hop.anchor.wall_ns for hop in run(Chain())]
    hops = [shifted(each, wall_ns=off) if each.place.hop == hop else each for each in run(Chain())]
    await bench.receive(*hops)
    case = await bench.store.read(bench.judge.examine, "req-1")

    assert case is not None
    assert min(right) <= row_of(case, now_ns=max(right), stall_after_s=2.0).at_ns <= max(right)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"status": "healthy", "wait": "gap", "gap_s": 99.0}, False),
        ({"status": "named", "wait": "gap", "gap_s": 2.0}, True),
        ({"status": "named", "wait": "gap", "gap_s": 1.9}, False),
        ({"status": "named", "wait": None, "gap_s": 0.0}, True),
        ({"status": "inconclusive", "wait": "gap", "gap_s": 2.0}, True),
        ({"status": "inconclusive", "wait": None, "gap_s": 0.0}, False),
    ],
)
def test_what_belongs_in_the_list_of_stalls(answer: dict, expected: bool):
    assert is_abnormal(answer, stall_after_s=2.0) is expected


async def test_a_truncated_answer_belongs_in_the_list(bench: Bench):
    await bench.receive(*run(Chain(cut=(PROXY, 40))))
    await bench.after(3)

    (row,) = bench.memory.stalls(StallQuery())
    assert (row.cause, row.hop, row.is_open) == ("truncated", PROXY, False)
    assert Ending.UPSTREAM_CUT.value in {hop["outcome"] for hop in orjson.loads(row.answer_json)["hops"]}
