"""Writer: text, and no end but that of the body."""

import pytest

from otel.hop import EventClass
from sidecar.inspection.dialects.writer import WRITER
from sidecar.inspection.events import Reading
from tests.support.dialects import event, seen


def test_a_value_is_text():
    assert WRITER.read(event({"value": "Grüße"})) == Reading(EventClass.CONTENT, 5)
    assert WRITER.read(event({"value": None})) == Reading(EventClass.CONTROL)
    assert WRITER.read(event({"error": {"code": 500}})) == Reading(EventClass.ERROR, error_code="500")


def test_it_is_told_from_the_completions_of_openai_at_the_same_path():
    body = seen([b'data: {"value":"a"}\n\n' * 58], content_type="text/event-stream", path="/v1/completions")

    assert (body.dialect.name, body.stamper.position, body.has_terminal_rule) == ("writer", 58, False)


@pytest.mark.parametrize(
    ("chunk", "is_known"),
    [({"value": "a"}, True), ({"value": "a", "id": 1}, False), ({"value": 1}, False), ({}, False), (None, False)],
)
def test_it_is_known_by_having_nothing_else(chunk, is_known):
    assert WRITER.begins(event(b""), chunk) is is_known
