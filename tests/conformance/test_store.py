"""One battery for every store: whatever passes it may stand behind the collector. `memory` is the oracle."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from otel.hop import Ending, EventClass, Hop, State
from otel.ids import recorded, span_id_of, trace_id_of
from otel.store.base import (
    HOPS_PER_ANSWER,
    LINKS,
    PRUNE_CHUNK,
    SECOND_NS,
    Cursor,
    Pruned,
    RetentionPolicy,
    StallQuery,
    Store,
    VerdictRow,
    key_of,
)
from otel.store.memory import MemoryStore
from otel.store.sqlite import SqliteStore
from tests.conformance.capabilities import EXCUSES
from tests.support import builders
from tests.support.builders import a_chain, a_hop, a_timeline

DAY_NS = 86_400 * SECOND_NS
NOW_NS = builders.WALL_NS
KEEP_ALL = RetentionPolicy(healthy_s=1e9, abnormal_s=1e9, verdicts_s=1e9, max_bytes=1 << 60)
NO_EVENTS = a_timeline(())

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda directory: MemoryStore(),
    "sqlite": SqliteStore,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    excuse = EXCUSES[request.param].get(request.function.__name__)
    if excuse:
        pytest.skip(f"{request.param}: {excuse}")
    made = STORES[request.param](tmp_path)
    yield made
    made.close()


def a_row(request_id: str = "req-1", **members) -> VerdictRow:
    row = VerdictRow(
        trace_id=trace_id_of(request_id),
        request_id=request_id,
        at_ns=NOW_NS,
        model="demo-model",
        status="named",
        cause="app_stall",
        hop="inference-proxy",
        owner="app of inference-proxy",
        wait="gap",
        gap_s=2.5,
        confidence=0.9,
        is_open=False,
        is_abnormal=True,
        sentence="inference-proxy held the answer for 2.5 s.",
        answer_json=b'{"cause":"app_stall"}',
    )
    return replace(row, **members)


def write(store: Store, *hops: Hop, received_ns: int = NOW_NS) -> int:
    return sum(store.write(hops, received_ns=received_ns))


def put(store: Store, *rows: VerdictRow, judged_ns: int = NOW_NS) -> None:
    store.put_verdicts(rows, judged_ns=judged_ns)


def prune(store: Store, policy: RetentionPolicy = KEEP_ALL, *, now_ns: int = NOW_NS) -> Pruned:
    """Prune to the end; how much was deleted altogether."""
    hops = verdicts = 0
    for _ in range(1_000):
        pruned = store.prune(now_ns, policy)
        hops, verdicts = hops + pruned.hops, verdicts + pruned.verdicts
        if pruned.is_done:
            return Pruned(hops, verdicts, is_done=True)
    raise AssertionError("prune never ends")


# ------------------------------------------------------------------------------------------- hops


def test_a_hop_comes_back_as_it_was_written(store: Store):
    hop = a_hop()

    assert write(store, hop) == 1

    assert store.hops_of("req-1") == (hop,)


@given(hop=builders.hops())
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("name", STORES)
def test_every_hop_comes_back_as_it_was_written(name: str, hop: Hop):
    with tempfile.TemporaryDirectory() as directory:
        store = STORES[name](Path(directory))
        write(store, hop)

        assert store.hops_of(hop.request_id) == (hop,)
        assert store.hops_of(hop.trace_id) == (hop,)
        store.close()


def test_a_timeline_of_10_000_events_survives(store: Store):
    classes = [EventClass(i % len(EventClass)) for i in range(10_000)]
    hop = a_hop(timeline=a_timeline([i * 0.0213 for i in range(10_000)], classes=classes, taken_after_s=0.0002))

    write(store, hop)

    assert store.hops_of("req-1") == (hop,)


def test_a_duplicate_is_not_new_and_changes_nothing(store: Store):
    hop = a_hop()
    write(store, hop)

    assert write(store, hop, replace(hop, segment_index=7)) == 0
    assert write(store, hop, a_hop("model-worker")) == 1
    assert store.hops_of("req-1") == (hop, a_hop("model-worker"))


def test_it_says_of_each_hop_whether_it_was_new(store: Store):
    write(store, a_hop("b"))

    assert store.write([a_hop("a"), a_hop("b"), a_hop("c"), a_hop("a")], received_ns=1) == (True, False, True, False)
    assert store.write([], received_ns=1) == ()


def test_a_duplicate_within_one_write_is_written_once(store: Store):
    assert write(store, a_hop(), a_hop()) == 1
    assert store.stats().hops == 1


def test_a_span_id_is_one_within_its_trace_only(store: Store):
    hop = a_hop()
    stranger = a_hop(request_id="req-2", span_id=hop.span_id)

    assert write(store, hop, stranger) == 2
    assert store.hops_of("req-1") == (hop,)
    assert store.hops_of("req-2") == (stranger,)


def test_a_segment_and_its_final_hop_are_both_kept(store: Store):
    segment = a_hop(state=State.OPEN, span_id="0123456789abcdef")
    write(store, segment)
    write(store, a_hop())

    assert store.hops_of("req-1") == (segment, a_hop())


def test_order_of_arrival_does_not_decide_what_is_found(store: Store):
    chain = a_chain("gateway", "inference-proxy", "model-worker")
    for i, hops in enumerate(itertools.permutations(chain)):
        renamed = [replace(hop, request_id=f"r{i}", trace_id=trace_id_of(f"r{i}")) for hop in hops]
        for hop in renamed:
            write(store, hop)

        assert store.hops_of(f"r{i}") == tuple(renamed)


def test_a_late_hop_is_found_with_the_others(store: Store):
    write(store, a_hop("gateway"), received_ns=NOW_NS)
    write(store, a_hop("model-worker"), received_ns=NOW_NS + DAY_NS)

    assert store.hops_of("req-1") == (a_hop("gateway"), a_hop("model-worker"))


def test_an_unknown_key_finds_nothing(store: Store):
    write(store, a_hop())

    assert store.hops_of("req-2") == ()
    assert store.hops_of(trace_id_of("req-2")) == ()
    assert store.verdict_of("req-1") is None


def test_writing_nothing_is_nothing(store: Store):
    assert write(store) == 0
    put(store)
    assert store.stats().hops == 0


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ("9F1C2D3E-4F50-1a6b-8c7d-9e0fa1b2c3d4", "9f1c2d3e-4f50-4a6b-8c7d-9e0fa1b2c3d4"),
        ("abc-1", "chatcmpl-ABC-1"),
        ("req_77", "77"),
    ],
)
def test_an_id_is_found_in_any_spelling(store: Store, sent: str, asked: str):
    hop = a_hop(request_id=sent)
    write(store, hop)

    assert store.hops_of(asked) == (hop,)


def test_a_hop_is_found_by_an_alias_and_by_its_trace(store: Store):
    hop = a_hop(aliases=("chatcmpl-XYZ", "upstream-7"))
    write(store, hop)

    assert store.hops_of("xyz") == store.hops_of("UPSTREAM-7") == (hop,)
    assert store.hops_of(hop.trace_id.upper()) == (hop,)


def test_a_dropped_request_id_is_bridged_by_the_trace(store: Store):
    gateway = a_hop("gateway", request_id="from-client")
    worker = a_hop("model-worker", request_id="made-up", trace_id=gateway.trace_id)
    write(store, gateway, worker)

    assert store.hops_of("from-client") == store.hops_of("made-up") == (gateway, worker)


def test_a_dropped_traceparent_is_bridged_by_request_id_or_alias(store: Store):
    gateway = a_hop("gateway", trace_id="1" * 32, aliases=("chatcmpl-9",))
    proxy = a_hop("inference-proxy", trace_id="2" * 32)
    worker = a_hop("model-worker", request_id="chatcmpl-9", trace_id="3" * 32)
    write(store, worker, proxy, gateway)

    assert store.hops_of("1" * 32) == store.hops_of("2" * 32) == (worker, proxy, gateway)


def test_dropped_ids_are_bridged_by_the_answers_own(store: Store):
    gateway, worker = answered("chatcmpl-9fK2mQ7xLw0ZtR4s", "gateway"), answered("9fK2mQ7xLw0ZtR4s", "model-worker")
    write(store, gateway, worker)

    assert store.hops_of("r-gateway") == store.hops_of("r-model-worker") == (gateway, worker)
    assert store.hops_of("chatcmpl-9fK2mQ7xLw0ZtR4s") == (gateway, worker)


@pytest.mark.parametrize("answer_id", ["chatcmpl-417", "0" * 32, ""])
def test_an_id_that_many_answers_have_bridges_nothing(store: Store, answer_id: str):
    gateway, worker = answered(answer_id, "gateway"), answered(answer_id, "model-worker")
    write(store, gateway, worker)

    assert store.hops_of("r-gateway") == (gateway,)
    assert store.hops_of(answer_id) == ()


def answered(answer_id: str, place: str) -> Hop:
    """A hop with a request id and a trace of its own, and this id of the answer."""
    hop = a_hop(place, request_id=f"r-{place}")
    return replace(hop, exchange=replace(hop.exchange, response_id=answer_id))


def test_hops_are_joined_where_every_one_gave_the_request_another_id(store: Store):
    hops = [a_hop(request_id=f"r{i}", aliases=(f"r{i + 1}",)) for i in range(LINKS + 2)]
    write(store, *hops)

    assert store.hops_of("r0") == tuple(hops[: LINKS + 1])


def test_nearer_neighbours_come_before_farther_ones(store: Store):
    near = [a_hop(request_id="mine", trace_id="1" * 32, aliases=("next",), timeline=NO_EVENTS)]
    near += [a_hop(request_id="next", aliases=("far",), timeline=NO_EVENTS)]
    far = [a_hop(request_id="far", span_id=span_id_of("t", i), timeline=NO_EVENTS) for i in range(HOPS_PER_ANSWER)]
    write(store, *near, *far)

    assert store.hops_of("mine") == (*near, *far[2:])


HOSTILE = [
    "",
    "'; DROP TABLE hops; --",
    "a\0b",
    "x" * 5_000,
    "caf\udce9",
    "🙂",
    "%",
    "_",
    "\x1b[2J",
    "../..",
    "[1]",
    '"',
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_id_is_just_an_id(store: Store, hostile: str):
    hop = a_hop(request_id=recorded(hostile))
    write(store, a_hop(), hop)
    put(store, a_row(), a_row(recorded(hostile)))

    assert store.hops_of(hostile) == store.hops_of(recorded(hostile)) == (hop,)
    assert store.verdict_of(hostile) == a_row(recorded(hostile))
    assert store.hops_of("req-1") == (a_hop(),)


def test_an_id_that_everybody_sends_finds_the_latest(store: Store):
    hops = [a_hop(timeline=NO_EVENTS, span_id=span_id_of("t", i)) for i in range(HOPS_PER_ANSWER + 8)]
    write(store, *hops)

    assert store.hops_of("req-1") == tuple(hops[8:])


def test_hops_that_would_not_fit_into_memory_together_are_left_out(store: Store, monkeypatch):
    monkeypatch.setattr("otel.store.base.EVENTS_PER_ANSWER", 1_000)
    few, many = a_timeline([0.3 + 0.02 * k for k in range(200)]), a_timeline([0.3 + 0.02 * k for k in range(2_000)])
    hops = [a_hop(timeline=few, span_id=span_id_of("t", i)) for i in range(8)]
    alone = a_hop(request_id="alone", trace_id="2" * 32, timeline=many)
    write(store, *hops, alone)

    assert store.hops_of("req-1") == tuple(hops[-4:]), "the latest written"
    assert store.hops_of("alone") == (alone,), "one can always be judged"


def test_hops_found_by_the_key_come_before_neighbours(store: Store):
    mine = a_hop(request_id="mine", trace_id="1" * 32, timeline=NO_EVENTS)
    others = [
        a_hop(request_id=f"r{i}", trace_id="1" * 32, span_id=span_id_of("t", i), timeline=NO_EVENTS)
        for i in range(HOPS_PER_ANSWER)
    ]
    write(store, mine, *others)

    assert store.hops_of("mine") == (mine, *others[1:])


def test_the_latest_requests_reach_back_from_the_newest_hop(store: Store):
    for second, request_id in enumerate(("A", "B", "A", "C")):
        hop = a_hop(request_id=request_id, span_id=span_id_of("t", second))
        write(store, hop, received_ns=NOW_NS + second * SECOND_NS)

    assert store.latest_requests(within_ns=2 * SECOND_NS, limit=9) == ("C", "A", "B")
    assert store.latest_requests(within_ns=SECOND_NS, limit=9) == ("C", "A")
    assert store.latest_requests(within_ns=DAY_NS, limit=1) == ("C",)


def test_an_empty_store_has_no_latest_requests(store: Store):
    assert store.latest_requests(within_ns=DAY_NS, limit=9) == ()


# --------------------------------------------------------------------------------------- verdicts


def test_a_verdict_comes_back_as_it_was_put(store: Store):
    row = a_row(trace_ids=("1" * 32,), request_ids=("ALIAS-1", "req-1"), model=None, hop=None, is_open=True)
    put(store, row)

    assert store.verdict_of("req-1") == row


def test_a_verdict_is_found_by_every_id_of_its_hops(store: Store):
    row = a_row(trace_ids=("1" * 32, "2" * 32), request_ids=("req-1", "chatcmpl-77"))
    put(store, row)

    assert [store.verdict_of(key) for key in (row.trace_id, "2" * 32, "77", "REQ-1")] == [row] * 4


def test_a_later_verdict_takes_the_place_of_the_earlier(store: Store):
    put(store, a_row(is_open=True))
    put(store, a_row(cause="truncated"))

    assert store.verdict_of("req-1") == a_row(cause="truncated")
    assert store.stalls(StallQuery()) == (a_row(cause="truncated"),)
    assert store.stats().verdicts == 1


def test_a_verdict_over_more_hops_takes_the_place_of_those_over_fewer(store: Store):
    trace_id = trace_id_of("from-client")
    put(store, a_row("made-up", trace_id=trace_id), a_row("elsewhere", trace_id="1" * 32))
    whole = a_row("from-client", trace_ids=(trace_id, "1" * 32), request_ids=("made-up", "elsewhere"))
    put(store, whole)

    assert store.stalls(StallQuery()) == (whole,)
    assert store.verdict_of("made-up") == store.verdict_of("elsewhere") == whole


def test_requests_of_one_trace_have_verdicts_of_their_own(store: Store):
    first, second = (a_row(f"call-{i}", trace_id="1" * 32, at_ns=NOW_NS + i) for i in range(2))
    put(store, first, second)

    assert store.stalls(StallQuery()) == (second, first)
    assert store.verdict_of("1" * 32) == second


def test_stalls_are_the_abnormal_newest_first(store: Store):
    rows = [a_row(f"r{i}", at_ns=NOW_NS + i, is_abnormal=i != 2) for i in range(4)]
    put(store, *rows)

    assert store.stalls(StallQuery()) == (rows[3], rows[1], rows[0])
    assert store.stalls(StallQuery(limit=2)) == (rows[3], rows[1])


@pytest.mark.parametrize(
    ("query", "taken"),
    [
        (StallQuery(since_ns=NOW_NS), {"b", "c"}),
        (StallQuery(since_ns=NOW_NS + 1), {"c"}),
        (StallQuery(model="m1"), {"a"}),
        (StallQuery(model="' OR 1=1 --"), set()),
        (StallQuery(hop="gateway"), {"b"}),
        (StallQuery(cause="truncated"), {"c"}),
        (StallQuery(min_gap_s=2.5), {"a", "b"}),
        (StallQuery(min_gap_s=2.6), {"a"}),
        (StallQuery(model="m2", hop="gateway", min_gap_s=3.0), set()),
        (StallQuery(limit=0), set()),
    ],
)
def test_stalls_are_filtered(store: Store, query: StallQuery, taken: set[str]):
    put(
        store,
        a_row("a", at_ns=NOW_NS - 1, model="m1", gap_s=4.0),
        a_row("b", at_ns=NOW_NS, model="m2", hop="gateway"),
        a_row("c", at_ns=NOW_NS + 1, model=None, hop=None, cause="truncated", gap_s=0.0),
    )

    assert {row.request_id for row in store.stalls(query)} == taken


def test_pages_neither_skip_nor_repeat_rows_of_the_same_moment(store: Store):
    rows = [a_row(f"r{i}", at_ns=NOW_NS + i // 5, trace_id=f"{i % 2}" * 32) for i in range(10)]
    put(store, *rows)

    pages: list[VerdictRow] = []
    before: Cursor | None = None
    while page := store.stalls(StallQuery(limit=3, before=before)):
        pages += page
        before = page[-1].cursor

    assert pages == sorted(rows, key=lambda row: row.cursor, reverse=True)


# -------------------------------------------------------------------------------------- retention

POLICY = RetentionPolicy(max_bytes=1 << 60)


def test_a_healthy_trace_goes_after_its_days(store: Store):
    write(store, a_hop(request_id="old"), received_ns=NOW_NS - 7 * DAY_NS - SECOND_NS)
    write(store, a_hop(request_id="young"), received_ns=NOW_NS - 7 * DAY_NS + SECOND_NS)

    assert prune(store, POLICY) == Pruned(1, 0, is_done=True)

    assert store.hops_of("old") == ()
    assert store.hops_of(trace_id_of("old")) == ()
    assert store.hops_of("young") != ()
    assert store.stats().hops == 1


def test_an_abnormal_hop_keeps_its_trace(store: Store):
    gateway = a_hop("gateway", ending=Ending.UPSTREAM_CUT)
    worker = a_hop("model-worker")
    write(store, gateway, worker, received_ns=NOW_NS - 29 * DAY_NS)
    prune(store, POLICY)

    assert store.hops_of("req-1") == (gateway, worker)

    prune(store, POLICY, now_ns=NOW_NS + 2 * DAY_NS)

    assert store.hops_of("req-1") == ()


def test_an_abnormal_verdict_keeps_every_trace_it_is_about(store: Store):
    hops = [a_hop("gateway"), a_hop("model-worker", request_id="made-up")]
    write(store, *hops, received_ns=NOW_NS - 29 * DAY_NS)
    put(store, a_row(trace_ids=(hops[1].trace_id,), request_ids=("made-up",)))
    prune(store, POLICY)

    assert store.hops_of("req-1") == (hops[0],)
    assert store.hops_of("made-up") == (hops[1],)


def test_a_verdict_that_turns_healthy_keeps_nothing(store: Store):
    write(store, a_hop(), received_ns=NOW_NS - 29 * DAY_NS)
    put(store, a_row())
    put(store, a_row(status="healthy", is_abnormal=False))

    assert prune(store, POLICY).hops == 1


def test_one_abnormal_request_keeps_the_trace_that_it_shares_with_healthy_ones(store: Store):
    write(store, a_hop(), received_ns=NOW_NS - 29 * DAY_NS)
    put(store, a_row())
    put(store, a_row("another", trace_id=trace_id_of("req-1"), status="healthy", is_abnormal=False))

    assert prune(store, POLICY).hops == 0


def test_a_trace_goes_whole_by_the_age_of_its_first_hop(store: Store):
    write(store, a_hop("gateway"), received_ns=NOW_NS - 8 * DAY_NS)
    write(store, a_hop("model-worker"), received_ns=NOW_NS)

    assert prune(store, POLICY).hops == 2


def test_verdicts_go_after_their_own_days(store: Store):
    put(store, a_row("old"), judged_ns=NOW_NS - 91 * DAY_NS)
    put(store, a_row("young"), judged_ns=NOW_NS - 89 * DAY_NS)

    assert prune(store, POLICY) == Pruned(0, 1, is_done=True)

    assert store.verdict_of("old") is None
    assert store.verdict_of("young") == a_row("young")
    assert store.stats().verdicts == 1


def test_the_wall_clocks_of_hops_do_not_decide_what_goes(store: Store):
    write(store, a_hop(wall_ns=1), a_hop("model-worker", wall_ns=(1 << 62)), received_ns=NOW_NS)

    assert prune(store, POLICY).hops == 0


def test_a_pruned_hop_may_be_written_again(store: Store):
    write(store, a_hop(), received_ns=NOW_NS - 8 * DAY_NS)
    prune(store, POLICY)

    assert write(store, a_hop(), received_ns=NOW_NS) == 1
    assert prune(store, POLICY).hops == 0
    assert store.hops_of("req-1") == (a_hop(),)


def test_one_call_deletes_no_more_than_a_chunk(store: Store):
    hops = [a_hop(timeline=NO_EVENTS, span_id=span_id_of("t", i)) for i in range(PRUNE_CHUNK + 3)]
    write(store, *hops, received_ns=NOW_NS - 8 * DAY_NS)

    assert store.prune(NOW_NS, POLICY) == Pruned(PRUNE_CHUNK, 0, is_done=False)
    assert store.hops_of("req-1") == tuple(hops[-3:])
    assert store.prune(NOW_NS, POLICY) == Pruned(3, 0, is_done=True)


def _many(store: Store, count: int) -> None:
    events = a_timeline([0.2 + i * 0.0217 for i in range(200)])
    for i in range(count):
        hop = a_hop(request_id=f"r{i}", timeline=events)
        write(store, hop, received_ns=NOW_NS - (count - i) * SECOND_NS)


def _found(store: Store, count: int) -> list[int]:
    return [i for i in range(count) if store.hops_of(f"r{i}")]


def test_past_the_size_the_oldest_go(store: Store):
    _many(store, 120)
    limit = store.stats().used_bytes // 2
    prune(store, RetentionPolicy(max_bytes=limit))

    left = _found(store, 120)
    assert store.stats().used_bytes <= limit
    assert left == list(range(left[0], 120))
    assert 30 < len(left) < 90


def test_within_the_size_nothing_goes(store: Store):
    _many(store, 20)

    assert prune(store, RetentionPolicy(max_bytes=store.stats().used_bytes)) == Pruned(0, 0, is_done=True)


def test_past_the_size_all_times_shrink_by_one_factor(store: Store):
    _many(store, 120)
    put(store, *(a_row(f"r{i}", is_abnormal=True) for i in range(0, 120, 2)))
    prune(store, RetentionPolicy(healthy_s=600, abnormal_s=1_200, max_bytes=store.stats().used_bytes // 2))

    left = _found(store, 120)
    healthy = [i for i in left if i % 2]
    abnormal = [i for i in left if not i % 2]
    assert 120 - abnormal[0] == pytest.approx(2 * (120 - healthy[0]), abs=4)


def test_nothing_at_all_may_be_kept(store: Store):
    _many(store, 5)
    put(store, a_row())
    prune(store, RetentionPolicy(healthy_s=0, abnormal_s=0, verdicts_s=0), now_ns=NOW_NS + 2 * SECOND_NS)

    assert (store.stats().hops, store.stats().verdicts) == (0, 0)


# ----------------------------------------------------------------------------------- housekeeping


def test_stats_count_what_is_there(store: Store):
    before = store.stats().used_bytes
    uneven = a_timeline([i * 0.02 + i * i % 97 / 10_000 for i in range(8_000)])
    write(store, *a_chain("gateway", "inference-proxy"), a_hop("model-worker", timeline=uneven))
    put(store, a_row(), a_row("req-2"))

    stats = store.stats()
    assert (stats.hops, stats.verdicts) == (3, 2)
    assert stats.used_bytes > before


def test_tidying_changes_no_answer(store: Store):
    write(store, a_hop())
    put(store, a_row())
    store.tidy()

    assert store.hops_of("req-1") == (a_hop(),)
    assert store.stalls(StallQuery()) == (a_row(),)


def test_closing_twice_is_allowed(store: Store):
    store.close()
    store.close()


def test_every_excuse_is_from_a_test_of_this_battery():
    for excuses in EXCUSES.values():
        assert set(excuses) <= set(globals())
        assert all(reason.strip() for reason in excuses.values())
    assert EXCUSES.keys() == STORES.keys()


# ------------------------------------------------------------------------- against the oracle

_IDS = st.sampled_from(["A", "b", "chatcmpl-a", "REQ_b", "é"])
_TRACES = st.sampled_from(["1" * 32, "2" * 32, "3" * 32])
_TIMES = st.integers(NOW_NS - 100 * DAY_NS, NOW_NS)


@st.composite
def _small_hops(draw: st.DrawFn) -> Hop:
    trace_id = draw(_TRACES)
    return a_hop(
        request_id=recorded(draw(_IDS)),
        aliases=tuple(draw(st.lists(_IDS.map(recorded), max_size=1))),
        trace_id=trace_id,
        span_id=span_id_of(trace_id, draw(st.integers(0, 5))),
        ending=draw(st.sampled_from((Ending.COMPLETE, Ending.UPSTREAM_CUT))),
        timeline=NO_EVENTS,
    )


@st.composite
def _small_rows(draw: st.DrawFn) -> VerdictRow:
    return a_row(
        draw(_IDS),
        trace_id=draw(_TRACES),
        trace_ids=tuple(draw(st.lists(_TRACES, max_size=2))),
        request_ids=tuple(draw(st.lists(_IDS, max_size=2))),
        at_ns=draw(_TIMES),
        gap_s=draw(st.sampled_from((0.0, 0.5, 2.0))),
        cause=draw(st.sampled_from(("app_stall", "truncated"))),
        is_abnormal=draw(st.booleans()),
    )


class Comparison(RuleBasedStateMachine):
    """Whatever is done to both, a store answers as the oracle does."""

    subject: Callable[[Path], Store]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.subject_store = self.subject(Path(self.stack.enter_context(tempfile.TemporaryDirectory())))
        self.stack.callback(self.subject_store.close)
        self.oracle = MemoryStore()

    def both(self, act: Callable[[Store], object]) -> None:
        assert act(self.subject_store) == act(self.oracle)

    @rule(hops=st.lists(_small_hops(), max_size=4), received_ns=_TIMES)
    def write(self, hops: Sequence[Hop], received_ns: int) -> None:
        self.both(lambda store: store.write(hops, received_ns=received_ns))

    @rule(rows=st.lists(_small_rows(), max_size=3), judged_ns=_TIMES)
    def put(self, rows: Sequence[VerdictRow], judged_ns: int) -> None:
        self.both(lambda store: store.put_verdicts(rows, judged_ns=judged_ns))

    @rule(days=st.integers(0, 40))
    def prune(self, days: int) -> None:
        self.both(lambda store: store.prune(NOW_NS + days * DAY_NS, POLICY))

    @rule()
    def tidy(self) -> None:
        self.both(lambda store: store.tidy())

    @rule(key=st.one_of(_IDS, _TRACES))
    def look_up(self, key: str) -> None:
        self.both(lambda store: store.hops_of(key))
        self.both(lambda store: store.verdict_of(key))

    @rule(since_ns=_TIMES, gap=st.sampled_from((0.0, 0.5)), limit=st.integers(0, 5), before=st.none() | _small_rows())
    def list_stalls(self, since_ns: int, gap: float, limit: int, before: VerdictRow | None) -> None:
        query = StallQuery(since_ns=since_ns, min_gap_s=gap, limit=limit, before=before and before.cursor)
        self.both(lambda store: store.stalls(query))

    @rule(within_ns=st.integers(0, 100 * DAY_NS), limit=st.integers(1, 4))
    def list_requests(self, within_ns: int, limit: int) -> None:
        self.both(lambda store: store.latest_requests(within_ns=within_ns, limit=limit))

    @invariant()
    def same_counts(self) -> None:
        self.both(lambda store: (store.stats().hops, store.stats().verdicts))

    def teardown(self) -> None:
        self.stack.close()


@pytest.mark.parametrize("name", [name for name in STORES if name != "memory"])
def test_a_store_answers_as_the_oracle_does(name: str):
    machine = type(f"Comparison_{name}", (Comparison,), {"subject": staticmethod(STORES[name])})
    steps = settings(max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=steps)


def test_a_key_is_the_same_however_it_is_spelled():
    assert key_of("chatcmpl-ABC") == key_of("abc") == key_of("ABC")
