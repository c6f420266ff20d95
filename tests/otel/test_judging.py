import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import judging
from otel.findings import Cause, Policy, Status
from otel.grouping import requests_of
from otel.hop import Ending, Hop
from otel.join import join
from otel.judging import READ_TRIES, RETRY_NS, Clock, Judge, Rules, is_abnormal, row_of
from otel.settling import Settling
from otel.store.base import SECOND_NS, StallQuery, StoreError
from otel.store.memory import MemoryStore
from otel.store.threads import AsyncStore
from otel.verdict import judge
from tests.support.builders import a_hop, a_timeline
from tests.support.chain import GATEWAY, NAMES, PROXY, WORKER, Chain, run, shifted
from tests.support.links import LINKS, linked

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
    assert bench.judge.stalls == {(PROXY, Cause.APP_STALL): 1}


async def test_a_healthy_request_is_no_stall(bench: Bench):
    await bench.receive(*run(Chain()))
    await bench.after(3)

    assert bench.judge.verdicts == {(Status.HEALTHY, Cause.NONE): 1}
    assert not bench.judge.stalls


async def test_hops_that_are_too_many_are_counted_as_others(bench: Bench, monkeypatch):
    monkeypatch.setattr(judging, "HOPS", 0)
    await bench.receive(*run(STALLED))
    await bench.after(3)

    assert bench.judge.stalls == {(judging.OTHER, Cause.APP_STALL): 1}


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


async def test_while_an_expected_hop_is_absent_a_verdict_is_final_only_after_long():
    bench = Bench(expected_path=(WORKER, PROXY, GATEWAY))
    worker, proxy, _ = run(Chain())
    await bench.receive(worker, proxy)
    finals = []
    for _ in range(7):
        case = await bench.store.read(bench.judge.examine, "req-1")
        assert case is not None
        finals.append(case.answer["verdict_final"])
        await bench.after(10)

    assert finals == [False] * 6 + [True]
    await bench.store.close()


async def test_nothing_is_final_at_once_after_a_restart():
    memory = MemoryStore()
    memory.write(run(Chain()), received_ns=0)
    bench = Bench(memory)
    await bench.judge.recover()
    early = await bench.store.read(bench.judge.examine, "req-1")
    await bench.after(10)
    late = await bench.store.read(bench.judge.examine, "req-1")

    assert early is not None
    assert late is not None
    assert (early.answer["verdict_final"], late.answer["verdict_final"]) == (False, True)
    await bench.store.close()


# ------------------------------------------------------------------------- several requests under one id


def again(hops: list[Hop], *, after_s: float) -> list[Hop]:
    """The same id sent once more, so much later."""
    moved = []
    for hop in hops:
        anchor = replace(
            hop.anchor,
            wall_ns=hop.anchor.wall_ns + round(after_s * S),
            monotonic_ns=hop.anchor.monotonic_ns + round(after_s * S),
        )
        moved.append(replace(hop, anchor=anchor, span_id=f"{int(hop.span_id, 16) ^ round(after_s * 1e6):016x}"))
    return moved


@pytest.mark.parametrize("after_s", [60.0, 0.5, -60.0])
async def test_of_several_requests_under_one_id_the_worst_is_told(bench: Bench, after_s: float):
    long = run(STALLED)
    short = again(run(Chain(stalls=((PROXY, 30, 1 * S),))), after_s=after_s)
    await bench.receive(*long, *short)
    await bench.after(3)

    row = bench.memory.verdict_of("req-1")
    assert row is not None
    assert (row.cause, row.hop) == ("app_stall", PROXY)
    assert row.gap_s == pytest.approx(3.0, abs=0.1)
    assert orjson.loads(row.answer_json)["evidence"]["requests"] == 2


async def test_a_named_one_is_worse_than_a_healthy_one_that_comes_after(bench: Bench):
    await bench.receive(*run(STALLED), *again(run(Chain()), after_s=60))
    case = await bench.store.read(bench.judge.examine, "req-1")

    assert case is not None
    assert (case.answer["status"], case.answer["evidence"]["requests"]) == ("named", 2)


async def test_who_asks_by_the_trace_hears_of_its_worst_request(bench: Bench):
    stalled = run(STALLED)
    healthy = [replace(hop, trace_id=stalled[0].trace_id) for hop in run(Chain(request_id="req-2"))]
    await bench.receive(*healthy, *stalled)
    case = await bench.store.read(bench.judge.examine, stalled[0].trace_id)

    assert case is not None
    assert (case.answer["request_id"], case.answer["cause"]) == ("req-1", "app_stall")
    assert (len(case.answer["hops"]), case.answer["evidence"]["requests"]) == (3, 2)


async def test_another_request_of_the_trace_does_not_stand_in_for_a_missing_record(bench: Bench):
    slow = run(Chain(slow_first=((PROXY, 3 * S),)))
    fine = [replace(hop, trace_id=slow[0].trace_id) for hop in run(Chain(request_id="req-2"))]
    await bench.receive(*slow, fine[0], fine[2])
    case = await bench.store.read(bench.judge.examine, "req-2")

    assert case is not None
    assert [hop["hop"] for hop in case.answer["hops"]] == [WORKER, GATEWAY]
    assert case.answer["status"] == "healthy"


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


ABSURD = a_hop(request_id="absurd", timeline=replace(a_timeline(), quantum=1 << 70))


async def test_an_answer_that_cannot_be_written_down_costs_no_other_its_verdict(caplog: pytest.LogCaptureFixture):
    bench = Bench()
    await bench.receive(ABSURD, *run(STALLED))
    assert await bench.after(3) == 2
    assert bench.judge.failures == 1
    assert bench.memory.verdict_of("req-1") is not None
    assert [record.message for record in caplog.records] == ["request not judged"]

    assert await bench.after(600) == 0, "it is not tried again"
    await bench.judge.recover()
    assert await bench.after(0) == 2, "not even a restart ends in failure"
    assert bench.judge.failures == 2
    await bench.store.close()


class ChoosyStore(MemoryStore):
    """Cannot keep the verdict on one request, and cannot learn why."""

    def put_verdicts(self, rows, *, judged_ns):
        if any(row.request_id == "bad" for row in rows):
            raise OverflowError
        super().put_verdicts(rows, judged_ns=judged_ns)


async def test_a_verdict_that_cannot_be_kept_costs_no_other_its_place(caplog: pytest.LogCaptureFixture):
    bench = Bench(ChoosyStore())
    await bench.receive(a_hop(request_id="bad"), *run(STALLED))
    await bench.after(3)

    assert bench.judge.failures == 1
    assert bench.memory.verdict_of("req-1") is not None
    assert await bench.after(600) == 0
    await bench.store.close()


class UnreadableStore(MemoryStore):
    """Fails to read one request, for ever."""

    def hops_of(self, key):
        if key == "bad":
            raise StoreError("database disk image is malformed")
        return super().hops_of(key)


async def test_a_request_that_cannot_be_read_is_given_up_and_costs_no_other_its_verdict(
    caplog: pytest.LogCaptureFixture,
):
    bench = Bench(UnreadableStore())
    await bench.receive(a_hop(request_id="bad"), *run(STALLED))
    await bench.after(3)
    assert bench.memory.verdict_of("req-1") is not None
    assert bench.judge.failures == 0

    tries = [await bench.after(RETRY_NS / S) for _ in range(READ_TRIES + 3)]
    assert sum(tries) == READ_TRIES - 1
    assert bench.judge.failures == 1
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


# ----------------------------------------------------------------- what other requests, order and late hops may change

FAULTS = st.sampled_from([None, "source", PROXY, GATEWAY])
REQUESTS = st.dictionaries(
    st.sampled_from("ABC"), st.tuples(FAULTS, st.sampled_from(LINKS), st.sampled_from(LINKS)), min_size=1
)


def request_of(name: str, fault: str | None, inner: str, outer: str) -> list[Hop]:
    stalls = () if fault is None else ((fault, 20, 3 * S),)
    return linked(name, inner, outer, chain=Chain(events=40, stalls=stalls))


def answer_about(key: str, hops: Sequence[Hop]) -> dict[str, object]:
    bench = Bench()
    bench.memory.write(hops, received_ns=0)
    case = bench.judge.examine(key)
    assert case is not None
    return case.answer


@given(REQUESTS, st.randoms(use_true_random=False))
def test_neither_other_requests_nor_the_order_of_arrival_change_a_verdict(requests, shuffle):
    of_name = {name: request_of(name, *how) for name, how in requests.items()}
    hops = [hop for request in of_name.values() for hop in request]
    for request in of_name.values():
        alone = answer_about(request[-1].request_id, request)
        assert len(alone["hops"]) == len(NAMES)
        for hop in request:
            assert answer_about(hop.request_id, shuffle.sample(hops, len(hops))) == alone


@given(FAULTS, st.sampled_from(LINKS), st.sampled_from(LINKS), st.permutations(range(3)))
def test_a_late_hop_only_refines(fault, inner, outer, order):
    """What was named over fewer hops is a stretch of the path in which lies what is named over more."""
    request = request_of("A", fault, inner, outer)
    named = stretch_of(judge(join(request)))
    for count in (1, 2):
        present = [request[n] for n in sorted(order[:count])]
        (group, *rest) = requests_of(present)
        if rest:  # what joins them is yet to come
            continue
        found = stretch_of(judge(join(group)))
        if 2 not in order[:count]:
            assert found is None or named is not None  # nobody was there to see the reader wait
        else:
            assert (found is None) == (named is None)
        assert found is None or (found[0] <= named[0] and named[1] <= found[1])


def stretch_of(verdict) -> tuple[int, int] | None:
    order = ["source", *NAMES, "client"]
    segment = verdict.findings[0].segment if verdict.findings else None
    return segment and (order.index(segment.upstream), order.index(segment.downstream))
