import re

from otel.exposition import exposition
from otel.findings import Cause, Policy, Status
from otel.judging import Clock, Judge, Rules
from otel.live import LiveStreams
from otel.receiver import Counters
from otel.settling import Settling
from otel.store.base import SECOND_NS, Stats
from otel.store.memory import MemoryStore
from otel.store.threads import AsyncStore
from otel.view.meters import meters
from tests.support.glances import a_glance


def a_judge() -> Judge:
    return Judge(
        AsyncStore(MemoryStore()),
        rules=Rules(policy=Policy(), stall_after_s=2.0),
        settling=Settling(settle_ns=SECOND_NS, final_ns=SECOND_NS),
        clock=Clock(lambda: 0, lambda: 0),
    )


def test_every_number_has_its_line():
    judge = a_judge()
    judge.verdicts[Status.NAMED, Cause.TRUNCATED] += 2
    judge.verdicts[Status.HEALTHY, Cause.NONE] += 7
    judge.stalls["gateway", Cause.BUFFERING] += 4
    judge.stalls["", Cause.NONE] += 1
    judge.failures = 3
    judge.settling.arrived("a", 0)
    received = Counters(
        requests=11,
        stored=5,
        duplicate=6,
        rejected=4,
        foreign=1,
        failed_requests=8,
        refused_requests=9,
        glances=13,
        rejected_logs=14,
        foreign_logs=15,
    )
    live = LiveStreams(limit=1)
    for number in (1, 2):
        live.seen(a_glance(number=number), at_ns=0)
    stats = Stats(hops=100, verdicts=20, used_bytes=4_096, file_bytes=8_192, wal_bytes=512)
    text = exposition(meters({"version": "1.2"}, received, judge, live, stats, now_ns=3 * SECOND_NS))

    lines = {line for line in text.splitlines() if not line.startswith("#")}
    assert lines == {
        'gapline_collector_build_info{version="1.2"} 1',
        "gapline_collector_requests_total 11",
        'gapline_collector_requests_not_taken_total{result="failed"} 8',
        'gapline_collector_requests_not_taken_total{result="refused"} 9',
        'gapline_collector_spans_total{result="stored"} 5',
        'gapline_collector_spans_total{result="duplicate"} 6',
        'gapline_collector_spans_total{result="rejected"} 4',
        "gapline_collector_spans_foreign_total 1",
        'gapline_collector_log_records_total{result="taken"} 13',
        'gapline_collector_log_records_total{result="rejected"} 14',
        'gapline_collector_log_records_total{result="foreign"} 15',
        "gapline_collector_live_streams 1",
        'gapline_collector_live_missing_total{reason="no_room"} 1',
        'gapline_collector_live_missing_total{reason="expired"} 0',
        "gapline_collector_live_late_total 0",
        'gapline_collector_verdicts_total{status="named",cause="truncated"} 2',
        'gapline_collector_verdicts_total{status="healthy",cause="none"} 7',
        'gapline_collector_stalls_total{hop="",cause="none"} 1',
        'gapline_collector_stalls_total{hop="gateway",cause="buffering"} 4',
        "gapline_collector_judge_waiting 1",
        "gapline_collector_judge_lag_seconds 2.0",
        "gapline_collector_judge_overlooked_total 0",
        "gapline_collector_judge_failures_total 3",
        "gapline_collector_store_hops 100",
        "gapline_collector_store_verdicts 20",
        'gapline_collector_store_bytes{part="used"} 4096',
        'gapline_collector_store_bytes{part="file"} 8192',
        'gapline_collector_store_bytes{part="wal"} 512',
    }


def test_counters_end_in_total_and_every_series_is_explained():
    for each in meters({}, Counters(), a_judge(), LiveStreams(), Stats(hops=0, verdicts=0, used_bytes=0), now_ns=0):
        assert re.fullmatch(r"gapline_collector_[a-z_]+", each.name)
        assert (each.kind == "counter") is each.name.endswith("_total")
        assert each.help.endswith(".")
