"""Glances as log records: what a sidecar says is what is read, and what is none is refused by its rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from otel.glance import NAME_CHARS, GlanceError, Moment, glance_to_log, is_ours, log_to_glance
from otel.otlp_logs import LogRecord, Severity, decode_logs, decode_logs_json, encode_logs_json, encode_record
from otel.otlp_logs import request_of as request
from tests.support.glances import a_glance, glances


@given(glances())
def test_a_glance_is_read_as_it_was_taken(glance):
    assert log_to_glance(glance_to_log(glance)) == glance


@given(glances())
def test_and_so_it_is_over_the_wire(glance):
    record = glance_to_log(glance)
    assert decode_logs(request([encode_record(record)], resource={}, scope_name="gapline")) == [record]
    assert decode_logs_json(encode_logs_json([record], resource={}, scope_name="gapline")) == [record]


@pytest.mark.parametrize("moment", Moment)
def test_only_a_stall_is_a_warning(moment):
    severity = Severity.WARN if moment is Moment.STALLED else Severity.INFO
    assert glance_to_log(a_glance(moment)).severity == severity


def test_names_without_end_are_cut():
    read = log_to_glance(glance_to_log(a_glance(hop="h" * 999, model="m" * 999)))
    assert (len(read.hop), len(read.model or "")) == (NAME_CHARS, NAME_CHARS)


def test_what_a_later_version_adds_is_left():
    record = glance_to_log(a_glance())
    newer = replace(record, attributes={**record.attributes, "gapline.mood": "fine", "gapline.phase": "dreaming"})
    assert log_to_glance(newer) == a_glance(phase="dreaming")


def test_events_of_others_are_not_ours():
    record = LogRecord(event_name="gapline.stream.stalled.not", at_ns=1)
    assert not is_ours(record)
    with pytest.raises(GlanceError, match=r"'gapline.stream.stalled.not' is not one of gapline.stream.closed"):
        log_to_glance(record)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("gapline.request_id", None, "gapline.request_id: missing"),
        ("gapline.request_id", "a\nb", "not as request ids are recorded"),
        ("gapline.hop", None, "gapline.hop: missing"),
        ("gapline.hop", 7, "is not a text of at most 200"),
        ("gapline.phase", "x" * 201, "is not a text of at most 200"),
        ("gapline.events", -1, "is not an integer from 0"),
        ("gapline.events", True, "is not an integer from 0"),
        ("gapline.events", 1 << 60, "is not an integer from 0"),
        ("gapline.silent", float("nan"), "is not a number of seconds"),
        ("gapline.silent", float("inf"), "is not a number of seconds"),
        ("gapline.age", -0.5, "is not a number of seconds"),
        ("gapline.age", "1", "is not a number of seconds"),
        ("gapline.reader_blocked", "yes", "is not true or false"),
    ],
)
def test_what_is_no_glance_is_refused_by_its_attribute(name, value, rule):
    record = glance_to_log(a_glance())
    attributes = {key: kept for key, kept in {**record.attributes, name: value}.items() if kept is not None}
    with pytest.raises(GlanceError, match=rule) as caught:
        log_to_glance(replace(record, attributes=attributes))
    assert name in str(caught.value)


@pytest.mark.parametrize("change", [{"trace_id": ""}, {"span_id": ""}, {"trace_id": "0" * 32}, {"span_id": "0" * 16}])
def test_a_glance_belongs_to_a_span(change):
    with pytest.raises(GlanceError, match="no trace id or no span id"):
        log_to_glance(replace(glance_to_log(a_glance()), **change))
