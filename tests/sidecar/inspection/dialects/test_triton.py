"""Triton: text, and no end but that of the body."""

from otel.hop import EventClass
from sidecar.inspection.dialects.triton import TRITON
from sidecar.inspection.events import Reading
from tests.support.dialects import event


def test_text_is_text_and_the_flag_of_the_end_tells_nothing():
    for flag in (False, True):
        data = {"model_name": "ensemble", "id": "1", "sequence_end": flag, "text_output": "Once"}
        assert TRITON.read(event(data)) == Reading(EventClass.CONTENT, 4, "ensemble", "1")
    assert TRITON.read(event({"text_output": ""})) == Reading(EventClass.CONTROL)
    assert not TRITON.has_terminal_rule


def test_an_error_is_an_error_and_the_rest_is_not_known():
    assert TRITON.read(event({"error": "in ensemble, no such tensor"})) == Reading(
        EventClass.ERROR, error_detail="in …, no such tensor"
    )
    assert TRITON.read(event(b"text")) == Reading(EventClass.OPAQUE)


def test_it_is_known_by_its_text():
    assert TRITON.begins(event(b""), {"text_output": ""})
    assert not TRITON.begins(event(b""), {"text": ""})
    assert not TRITON.begins(event(b""), None)
