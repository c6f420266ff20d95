"""The lines of an exchange have the same keys always, and say what its record says."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given

from otel.hop import Blocked, BodyDigests, End, Ending, Exchange, Hop, Phase, Side, State, Traffic
from sidecar.telling import accesslog
from sidecar.telling.accesslog import FULL, MASKED, OFF, line, start_line
from sidecar.telling.figures import figures
from tests.support.builders import a_hop, a_timeline, hops, ns

KEYS = {
    "hop", "request_id", "trace_id", "outcome", "cause", "ended_by", "phase", "cut", "error_type", "error_code",
    "error_detail", "finish_reasons", "guard_fired", "method", "path", "status", "model", "dialect",
    "total_duration_ms",
    "time_to_first_event_ms", "time_to_first_content_ms", "time_since_last_byte_ms", "max_gap_ms", "blocked_ms",
    "closed_after_ms", "events", "wasted_events", "bytes", "bytes_in", "missing_bytes", "request_bytes", "keepalives",
    "injected_bytes", "upstream_digest", "downstream_digest", "input_tokens", "output_tokens", "probe", "dimensions",
    "listener", "upstream", "queued_ms", "stamped",
}  # fmt: skip
START_KEYS = {"hop", "request_id", "trace_id", "method", "path", "probe", "dimensions", "listener", "upstream"}
ABOUT = {"listener": "listen", "upstream": "127.0.0.1:8000", "queued_ms": 12.5}


def told(hop: Hop, *names: str) -> tuple[object, ...]:
    found = line(hop)
    return tuple(found[name] for name in names)


@given(hops())
def test_every_line_has_the_same_keys(hop: Hop):
    assert set(line(hop)) == set(line(hop, ABOUT, is_stamped=False)) == KEYS


def test_both_lines_of_an_exchange_can_be_joined():
    assert set(start_line({})) == set(start_line({"silent_s": 1}, ABOUT | {"error_text": "x"})) == START_KEYS
    assert START_KEYS <= KEYS


def test_a_healthy_stream():
    hop = a_hop(timeline=a_timeline((0.3, 0.32, 0.84, 0.86)))
    assert told(hop, "hop", "request_id", "outcome", "cause", "ended_by", "phase", "cut") == (
        "gateway", "req-1", "complete", None, "upstream", "terminal", None,
    )  # fmt: skip
    assert told(hop, "model", "status", "method", "path", "events", "bytes", "bytes_in", "probe", "dimensions") == (
        "demo-model", 200, "POST", "/v1/chat/completions", 4, 800, 800, False, {},
    )  # fmt: skip
    assert told(hop, "time_to_first_event_ms", "time_to_first_content_ms", "max_gap_ms") == (300.0, 300.0, 520.0)
    assert told(hop, "time_since_last_byte_ms", "blocked_ms") == (0.2, 0.0)
    assert told(hop, "trace_id") == (hop.trace_id,)


def test_it_lasts_until_the_reader_has_it_or_has_left():
    hop = a_hop()
    done = replace(hop.moments, downstream_ended_ns=1_234_567_890, closed_ns=2_000_000_000)
    left = replace(done, downstream_ended_ns=None, client_left_ns=500_000_000, upstream_closed_ns=700_000_400)
    assert told(replace(hop, moments=done), "total_duration_ms", "closed_after_ms") == (1_234.568, None)
    assert told(replace(hop, moments=left), "total_duration_ms", "closed_after_ms") == (500.0, 200.0)


def test_a_request_without_an_answer_has_no_times_of_one():
    hop = a_hop(timeline=a_timeline(()), ending=Ending.REFUSED, ended_by=Side.SIDECAR, phase=Phase.CONNECT)
    hop = replace(hop, exchange=replace(hop.exchange, error_type="upstream_refused"))
    assert told(hop, "time_to_first_event_ms", "time_to_first_content_ms", "max_gap_ms") == (None, None, None)
    assert told(hop, "outcome", "cause", "error_type") == ("refused", "upstream_refused", "upstream_refused")


def test_what_the_sidecar_did_itself():
    hop = a_hop()
    hop = replace(
        hop,
        exchange=replace(hop.exchange, guard_fired=("next_event_timeout",), is_probe=True, dimensions=(("zone", "a"),)),
        traffic=replace(hop.traffic, keepalive_count=3, injected_bytes=39, wasted_count=2, missing_bytes=7),
        timeline=replace(hop.timeline, blocked=(Blocked(0, ns(0.5), None), Blocked(ns(0.6), ns(0.7), 9))),
        digests=BodyDigests("sha256:1", "sha256:2"),
    )
    assert told(hop, "guard_fired", "keepalives", "injected_bytes") == (("next_event_timeout",), 3, 39)
    assert told(hop, "probe", "dimensions", "wasted_events", "missing_bytes", "blocked_ms") == (
        True, {"zone": "a"}, 2, 7, 600.0,
    )  # fmt: skip
    assert told(hop, "upstream_digest", "downstream_digest") == ("sha256:1", "sha256:2")


def test_what_is_known_beside_the_record_is_said_and_nothing_else():
    found = line(a_hop(), ABOUT | {"error_text": "the user's own words", "more": "x"}, is_stamped=False)
    assert {key: found[key] for key in ABOUT} == ABOUT
    assert found["stamped"] is False
    assert not {"error_text", "more"} & found.keys()
    assert "words" not in str(found)


@pytest.mark.parametrize(
    ("error_text", "about", "detail"),
    [
        (MASKED, {}, "model … is overloaded"),
        (FULL, {}, "model … is overloaded"),
        (OFF, {}, None),
        (MASKED, {"error_text": "model jane is overloaded"}, "model … is overloaded"),
        (FULL, {"error_text": "model jane is overloaded"}, "model jane is overloaded"),
        (OFF, {"error_text": "model jane is overloaded"}, None),
        (MASKED, {"error_detail": "connection refused"}, "connection refused"),
        (OFF, {"error_detail": "connection refused"}, "connection refused"),
        (FULL, {"error_detail": None}, "model … is overloaded"),
    ],
)
def test_of_an_errors_text_as_much_is_told_as_was_allowed(error_text: str, about: dict, detail: str | None):
    hop = a_hop()
    hop = replace(hop, exchange=replace(hop.exchange, error_detail="model … is overloaded"))
    assert line(hop, about, error_text=error_text)["error_detail"] == detail


def test_figures_that_are_there_are_not_worked_out_again():
    hop = a_hop()
    known = replace(figures(hop), duration_ns=5_000_000, cause="fin")
    assert (line(hop, figures=known)["total_duration_ms"], line(hop, figures=known)["cause"]) == (5.0, "fin")


def test_a_line_at_the_start_says_what_is_known_then():
    glance = {"hop": "gateway", "request_id": "r", "trace_id": "1" * 32, "method": "GET", "path": "/", "probe": True}
    found = start_line(glance | {"dimensions": {"zone": "a"}, "status": None, "silent_s": 0.1}, ABOUT)
    assert found == glance | {"dimensions": {"zone": "a"}, "listener": "listen", "upstream": "127.0.0.1:8000"}


def test_every_fact_of_an_end_is_told():
    ends = {"ending": "outcome", "ended_by": "ended_by", "phase": "phase", "cut": "cut"}
    ends |= {"idle_ns": "time_since_last_byte_ms", "framing_incomplete": "cause"}
    assert ends.keys() == {field.name for field in fields(End)}
    cut = End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.EVENTS, ns(1.5), framing_incomplete=True, cut="reset")
    assert told(a_hop(end=cut), *dict.fromkeys(ends.values())) == (
        "upstream_cut", "upstream", "events", "reset", 1_500.0, "reset",
    )  # fmt: skip


def test_an_open_record_has_no_outcome():
    assert told(a_hop(state=State.OPEN), "outcome", "ended_by", "phase", "cut") == (None, None, None, None)


def test_ms_are_given_to_the_microsecond():
    assert (accesslog.ms(None), accesslog.ms(0), accesslog.ms(1_234_567_890)) == (None, 0.0, 1_234.568)


@given(hops())
def test_the_counts_are_those_of_the_record(hop: Hop):
    names = {
        "bytes": "bytes_out", "bytes_in": "bytes_in", "request_bytes": "request_bytes", "events": "event_count",
        "wasted_events": "wasted_count", "keepalives": "keepalive_count", "injected_bytes": "injected_bytes",
        "missing_bytes": "missing_bytes",
    }  # fmt: skip
    found = line(hop)
    assert all(found[key] == getattr(hop.traffic, name) for key, name in names.items())
    not_told = {"comment_count", "dataless_count", "has_unterminated_tail"}
    assert set(names.values()) | not_told == {field.name for field in fields(Traffic)}


def test_no_line_has_room_for_what_a_user_wrote():
    """Whoever adds a fact to a record says here whether its line tells it, and is asked whose words it may hold."""
    told_of = {
        "method", "path", "status", "dialect", "model", "error_type", "error_code", "error_detail", "is_probe",
        "dimensions", "guard_fired",
    }  # fmt: skip
    not_told = {
        "framing", "response_model", "response_id", "request_is_stream", "prompt_bucket", "is_stream",
        "has_terminal_rule", "finish_reasons",
    }  # fmt: skip
    assert told_of | not_told == {field.name for field in fields(Exchange)}
