"""The schema is one table: every name in it is written by the code, and the code writes no other."""

from __future__ import annotations

import pytest

from otel import attributes, schema
from otel.otlp import decode_request_json
from otel.span import hop_to_span
from tests.support.examples import EXAMPLES
from tests.support.golden import FOLDER

TYPES = {"string": str, "int": int, "double": float, "boolean": bool, "string[]": tuple}
ROWS = {row.name: row for row in schema.ATTRIBUTES}
SPANS = [span for path in sorted((FOLDER / "spans").iterdir()) for span in decode_request_json(path.read_bytes())]


def written():
    """(where, name, value) of every attribute of every golden span."""
    for span in SPANS:
        yield from ((schema.On.RESOURCE, *pair) for pair in span.resource.items())
        yield from ((schema.On.SPAN, *pair) for pair in span.attributes.items())
        for event in span.events:
            is_timeline = event.name in {schema.TIMELINE_EVENT, schema.SENT_EVENT}
            where = schema.On.TIMELINE if is_timeline else schema.On.NOTABLE
            yield from ((where, *pair) for pair in event.attributes.items())


def row_of(name: str) -> schema.Attribute:
    return ROWS[named(name)]


def named(name: str) -> str:
    """The name in the table: of some attributes it is only how they begin."""
    return next((prefix for prefix in schema.PREFIXES if name.startswith(prefix)), name)


def test_names_are_unique():
    assert len(ROWS) == len(schema.ATTRIBUTES)


@pytest.mark.parametrize("row", schema.ATTRIBUTES, ids=lambda row: row.name)
def test_rows_are_complete(row):
    assert row.type in TYPES
    assert row.meaning
    assert row.unit or row.type != "double"
    standard = ("service.", "http.", "url.", "error.", "gen_ai.")
    assert row.name.startswith(("gapline.", *standard))


@pytest.mark.parametrize("name", [row.name for row in schema.ATTRIBUTES if row.on is not schema.On.VERDICT])
def test_every_attribute_is_in_a_golden_span(name):
    assert name in {row_of(found).name for _, found, _ in written()}


def test_every_attribute_of_a_golden_span_is_in_the_table_with_its_type_and_place():
    for where, name, value in written():
        assert row_of(name).on is where
        assert type(value) is TYPES[row_of(name).type]


def test_every_kind_of_notable_event_is_in_a_golden_span():
    names = {event.name for span in SPANS for event in span.events}
    timelines = {schema.TIMELINE_EVENT, schema.SENT_EVENT}
    assert names == {schema.FIRST_EVENT, schema.STALL_EVENT, schema.CLIENT_LEFT_EVENT} | timelines


def test_the_code_and_the_table_have_the_same_names():
    tables = (attributes.SCHEMA, attributes.HOP, attributes.PLACE, attributes.ANCHOR, attributes.EXCHANGE)
    tables += (attributes.MOMENTS, attributes.TRAFFIC, attributes.USAGE, attributes.LIMITS, attributes.END)
    tables += (attributes.DIGESTS, attributes.ENGINE, attributes.ENGINE_DURING, attributes.ENGINE_EARLIER)
    coded = {name for table in tables for name, _, _ in table}
    derived = {"gapline.request_id.normalised", "error.type", "gen_ai.response.time_to_first_chunk", "gapline.blocked"}
    derived |= {"gapline.gap.max", "gapline.gap.max_seq", schema.DIMENSION_PREFIX}
    assert coded | derived == {row.name for row in schema.ATTRIBUTES if row.on is schema.On.SPAN}
    assert coded | derived == {named(name) for hop in EXAMPLES.values() for name in hop_to_span(hop).attributes}
