"""Backpressure: whoever stops is named, and nobody whom it stopped, through any number of hops and any buffers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from otel.findings import Cause, Policy, Status
from otel.join import join
from otel.verdict import judge
from tests.support.chain import MS
from tests.support.pressure import ENDLESS, Path, Station, Stop, run

KNOWN = Policy(rhythm_elsewhere_ns=60 * MS)
_ROOM = st.one_of(st.integers(1, 40), st.just(ENDLESS))
_STATIONS = st.lists(st.builds(Station, app=_ROOM, inside=_ROOM, send=_ROOM, receive=_ROOM), min_size=3, max_size=5)
_GAPS = st.sampled_from([(20 * MS,), (5 * MS,), (35 * MS,), (1 * MS, 1 * MS, 1 * MS, 60 * MS)])
_PATHS = st.builds(Path, stations=_STATIONS, gaps=_GAPS, is_paced=st.booleans(), is_exact=st.booleans())


def verdict_on(path: Path, *stops: Stop, slow: tuple[int, int] | None = None):
    return judge(join(run(replace(path, stops=stops, slow=slow)), expected_path=path.names), KNOWN)


def guilty(verdict) -> set[str]:
    return {finding.first_hop for finding in verdict.findings}


@given(_PATHS)
def test_nobody_is_accused_where_nobody_stops(path):
    verdict = verdict_on(path)
    assert verdict.status is Status.HEALTHY
    assert not verdict.findings


@given(path=_PATHS, event=st.integers(10, 150), ms=st.integers(400, 8_000))
def test_a_source_that_stops_is_named_and_nobody_else(path, event, ms):
    verdict = verdict_on(path, Stop(0, event, ms * MS))
    assert (verdict.cause, guilty(verdict)) == (Cause.SOURCE_STALL, {"model-worker"})


@given(
    path=_PATHS, at=st.integers(1, 4), event=st.integers(10, 150), ms=st.integers(400, 8_000), is_reading=st.booleans()
)
def test_an_app_that_stops_is_named_and_nobody_above_it(path, at, event, ms, is_reading):
    assume(at < len(path.stations))
    verdict = verdict_on(path, Stop(at, event, ms * MS, is_reading))
    assert (verdict.cause, guilty(verdict)) == (Cause.APP_STALL, {path.names[at]})
    assert abs(verdict.findings[0].term_ns - ms * MS) <= 100 * MS


@given(path=_PATHS, event=st.integers(10, 150), ms=st.integers(400, 8_000))
def test_a_reader_that_stops_is_named_where_it_can_be_seen_and_nobody_else_ever(path, event, ms):
    verdict = verdict_on(path, Stop(len(path.stations), event, ms * MS))
    assert guilty(verdict) <= {"client"}
    if verdict.findings:
        assert verdict.cause is Cause.SLOW_READER


@given(path=_PATHS, at=st.integers(1, 4), every=st.integers(45, 300))
def test_an_app_that_is_always_slow_is_named_and_nobody_whom_it_slows(path, at, every):
    assume(at < len(path.stations))
    verdict = verdict_on(path, slow=(at, every * MS))
    assert (verdict.cause, guilty(verdict)) == (Cause.THROTTLING, {path.names[at]})


@given(path=_PATHS, every=st.integers(45, 300))
def test_a_reader_that_is_always_slow_is_named_or_nobody(path, every):
    verdict = verdict_on(path, slow=(len(path.stations), every * MS))
    assert guilty(verdict) <= {"client"}
    if verdict.findings:
        assert verdict.cause is Cause.SLOW_READER


@given(
    path=_PATHS, event=st.integers(10, 60), later=st.integers(70, 150), at=st.integers(1, 4), ms=st.integers(400, 4_000)
)
def test_of_two_that_stop_both_are_named_and_nobody_else(path, event, later, at, ms):
    assume(at < len(path.stations))
    verdict = verdict_on(path, Stop(0, event, 3_000 * MS), Stop(at, later, ms * MS))
    assert guilty(verdict) == {"model-worker", path.names[at]}
