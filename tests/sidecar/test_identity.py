from hypothesis import given
from hypothesis import strategies as st

from otel.ids import trace_id_of
from sidecar.identity import IdField, id_field_of, identity_of

NAMES = ("x-correlation-id", "x-request-id")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def made():
    return "made"


def identity(*fields, names=NAMES, unique=("hop", 1)):
    return identity_of(fields, names, id_field=id_field_of(fields, names, make_id=made), unique=unique)


def test_the_first_configured_name_that_has_a_value_carries_the_id():
    fields = [("X-Request-Id", "b"), ("x-correlation-ID", "a")]

    assert id_field_of(fields, NAMES, make_id=made) == IdField("X-Correlation-Id", "a", is_made=False)
    assert identity(*fields).request_id == "a"
    assert identity(*fields).aliases == ("b",)


def test_a_made_id_stands_in_the_first_name():
    assert id_field_of([("X-Request-Id", " ")], NAMES, make_id=made) == IdField(
        "X-Correlation-Id", "made", is_made=True
    )
    assert identity().request_id_source == "generated"


def test_the_trace_is_the_parents_or_follows_from_the_id():
    assert identity(("traceparent", PARENT)).trace_id == PARENT[3:35]
    assert identity(("traceparent", PARENT)).parent_span_id == PARENT[36:52]
    assert identity(("X-Request-Id", "a")).trace_id == trace_id_of("a")
    assert identity(("X-Request-Id", "a")).parent_span_id is None


def test_a_second_exchange_of_a_request_has_a_span_of_its_own():
    one, two = (identity(("X-Request-Id", "a"), unique=("hop", number)) for number in (1, 2))

    assert (one.trace_id, one.request_id) == (two.trace_id, two.request_id)
    assert one.span_id != two.span_id


@given(st.text(max_size=400))
def test_whatever_the_id_what_is_recorded_is_printable_and_short(value):
    found = identity(("X-Request-Id", value), ("X-Correlation-Id", value[::-1]))

    for recorded in (found.request_id, *found.aliases):
        assert recorded.isascii()
        assert recorded.isprintable()
        assert 0 < len(recorded) <= 200
