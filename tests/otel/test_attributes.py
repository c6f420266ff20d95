"""Attributes: each value is written and read by one rule, and a broken rule is named with its attribute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import attributes
from otel.attributes import SpanError, read, read_dimensions, shown, texts, write, write_dimensions
from otel.hop import (
    Anchor,
    BodyDigests,
    End,
    Ending,
    EngineEvidence,
    EngineSnapshot,
    Exchange,
    Hop,
    Moments,
    Phase,
    Place,
    RateLimits,
    Side,
    TapRole,
    Traffic,
    Usage,
)
from otel.timeline import Packed
from tests.support.builders import anchors, digests, ends, exchanges, limits, moments, snapshots, traffics, usages

TABLES = {
    "HOP": Hop,
    "PLACE": Place,
    "ANCHOR": Anchor,
    "EXCHANGE": Exchange,
    "MOMENTS": Moments,
    "TRAFFIC": Traffic,
    "USAGE": Usage,
    "LIMITS": RateLimits,
    "DIGESTS": BodyDigests,
    "ENGINE": EngineEvidence,
    "ENGINE_DURING": EngineSnapshot,
    "ENGINE_EARLIER": EngineSnapshot,
    "END": End,
    "PACKED": Packed,
}
ELSEWHERE = {  # fields that are no attribute: parts of their own, or fields of the span itself
    "HOP": {
        "trace_id", "span_id", "parent_span_id", "place", "anchor", "exchange", "moments", "traffic", "timeline",
        "sent", "usage", "limits", "digests", "engine", "end",
    },
    "ENGINE": {"during", "earlier"},
    "EXCHANGE": {"dimensions"},
    "PLACE": {"resource"},
    "PACKED": {"parts"},
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_field_has_its_attribute(name):
    rows = getattr(attributes, name)
    assert {field for _, field, _ in rows} | ELSEWHERE.get(name, set()) == set(TABLES[name].__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ANCHOR", anchors()),
        ("EXCHANGE", exchanges().map(lambda exchange: replace(exchange, dimensions=()))),
        ("MOMENTS", moments()),
        ("TRAFFIC", traffics()),
        ("USAGE", usages()),
        ("LIMITS", limits()),
        ("DIGESTS", digests()),
        ("ENGINE_DURING", snapshots()),
        ("ENGINE_EARLIER", snapshots()),
        ("END", ends()),
    ],
)
def test_what_is_written_is_read(name, parts):
    @given(parts)
    def check(part):
        rows = getattr(attributes, name)
        assert TABLES[name](**read(rows, write(rows, part))) == part

    check()


def test_none_is_written_as_nothing():
    assert set(write(attributes.MOMENTS, Moments(closed_ns=1))) == {"gapline.closed"}
    assert "gen_ai.request.stream" not in write(attributes.EXCHANGE, Exchange(method="GET", path="/"))


def test_what_few_spans_have_is_left_out_where_there_is_none_of_it():
    written = write(attributes.TRAFFIC, Traffic()) | write(attributes.EXCHANGE, Exchange(method="GET", path="/"))
    rare = {"gapline.keepalives", "gapline.bytes_injected", "gapline.guard.fired", "gapline.error.detail"}
    assert not rare & set(written)


@given(exchanges())
def test_each_dimension_is_an_attribute_of_its_own(exchange):
    written = write_dimensions(exchange.dimensions)
    assert written == {f"gapline.dimension.{name}": value for name, value in exchange.dimensions}
    assert read_dimensions({"gapline.hop": "x", **dict(reversed(written.items()))}) == exchange.dimensions


@pytest.mark.parametrize("names", [("b", "a"), ("a", "a")])
def test_dimensions_that_are_out_of_order_or_doubled_have_no_attributes(names):
    with pytest.raises(SpanError, match=r"^gapline\.dimension\.: names are not in order, each once$"):
        write_dimensions([(name, "x") for name in names])


def test_a_dimension_that_is_no_text_is_named():
    with pytest.raises(SpanError, match=r"^gapline\.dimension\.region: 1 is not a string$"):
        read_dimensions({"gapline.dimension.region": 1})


@pytest.mark.parametrize("value", ["", "sha256:", "sha256:" + "0" * 63, "sha256:" + "A" * 64, "md5:" + "0" * 64, 7])
def test_a_digest_is_a_sha256(value):
    with pytest.raises(SpanError, match=r"^gapline\.digest\.upstream: .* is not"):
        read(attributes.DIGESTS, {"gapline.digest.upstream": value, "gapline.digest.downstream": "sha256:" + "0" * 64})


def test_enums_are_written_as_plain_strings():
    written = write(attributes.END, End(Ending.LOST, Side.SIDECAR, Phase.DRAIN, 0))
    assert type(written["gapline.ending"]) is str
    assert type(write(attributes.PLACE, Place("x", TapRole.EGRESS))["gapline.hop.role"]) is str


def test_a_missing_attribute_is_named():
    with pytest.raises(SpanError, match=r"^gapline\.clock\.wall_anchor_ns: missing$"):
        read(attributes.ANCHOR, {})


@pytest.mark.parametrize(
    ("rows", "name", "value", "rule"),
    [
        (attributes.ANCHOR, "gapline.clock.wall_anchor_ns", -1, "-1 is not an integer of at least 0"),
        (attributes.ANCHOR, "gapline.clock.wall_anchor_ns", True, "True is not an integer of at least 0"),
        (attributes.ANCHOR, "gapline.clock.wall_anchor_ns", "1", "'1' is not an integer of at least 0"),
        (attributes.PLACE, "gapline.hop", b"x", "b'x' is not a string"),
        (attributes.PLACE, "gapline.hop", "x" * 2_001, f"'{'x' * 58}… has more than 2000 characters"),
        (attributes.PLACE, "gapline.hop.role", "up", "'up' is not one of ingress, egress, client"),
        (attributes.HOP, "gapline.request_id", "a b", "'a b' is not as request ids are recorded"),
        (attributes.HOP, "gapline.request_id.aliases", "a", "'a' is not a list of request ids"),
        (attributes.MOMENTS, "gapline.closed", True, "True is not a number of seconds from 0 to 2251799.813685248"),
        (attributes.MOMENTS, "gapline.closed", -0.1, "-0.1 is not a number of seconds from 0 to 2251799.813685248"),
        (attributes.TRAFFIC, "gapline.unterminated_tail", 1, "1 is not true or false"),
    ],
)
def test_a_broken_rule_is_named_with_attribute_and_value(rows, name, value, rule):
    others = {
        "gapline.request_id": "x",
        "gapline.request_id.source": "header",
        "gapline.hop": "x",
        "gapline.request.bytes": 0,
        "gapline.bytes_in": 0,
        "gapline.bytes_out": 0,
        "gapline.events": 0,
        "gapline.comments": 0,
        "gapline.dataless": 0,
        "gapline.wasted_events": 0,
    }
    with pytest.raises(SpanError) as caught:
        read(rows, {**others, name: value})
    assert str(caught.value) == f"{name}: {rule}"


def test_rows_of_texts_read_strings_by_their_own_names():
    assert read(texts(["b", "a"]), {"a": "1", "b": "2", "c": "3"}) == {"b": "2", "a": "1"}


@given(st.text(max_size=300) | st.binary(max_size=300), st.integers(10, 100))
def test_what_is_shown_is_short_and_harmless(value, chars):
    assert len(shown(value, chars=chars)) <= chars
    assert shown(value, chars=chars).isprintable()
