"""TGI: the whole text beside the last token is the end, and is not counted again."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.tgi import TGI
from sidecar.inspection.events import Reading
from tests.support.dialects import classes, event, seen


def read(data, **options):
    return TGI.read(event(data, **options))


def token(text, *, special=False, **members):
    return {"index": 1, "token": {"id": 1, "text": text, "special": special}, "generated_text": None, **members}


def test_tokens_are_text_unless_they_are_special():
    assert read(token("Grüße")) == Reading(EventClass.CONTENT, 5)
    assert read(token("<s>", special=True)) == Reading(EventClass.CONTROL)
    assert read({"token": {"id": 1}}) == Reading(EventClass.CONTROL)


def test_the_last_token_says_why_and_counts():
    details = {"finish_reason": "length", "generated_tokens": 3, "input_length": 9}
    usage = Usage(input_tokens=9, output_tokens=3)
    last = token("!", generated_text="It is so!", details=details)

    assert read(last) == Reading(EventClass.CONTENT, 1, finish="length", usage=usage, is_end=True)
    assert read(token("</s>", special=True, generated_text="")) == Reading(EventClass.TERMINAL, is_end=True)
    assert read(token("a", details=None)) == Reading(EventClass.CONTENT, 1)


@pytest.mark.parametrize("data", [b"[DONE]", b"[DONE] ", b"[DONE]\n"])
def test_its_clients_take_the_mark_of_openai_too(data):
    assert read(data) == Reading(EventClass.TERMINAL)


def test_an_error_in_the_middle_has_another_shape():
    lines = b'data:{"token":{"id":1,"text":"a"}}\n\n' * 5
    lines += b'data:{"error":"Request failed during generation","error_type":"generation"}\n\n'
    body = seen([lines], content_type="text/event-stream", path="/generate_stream")

    assert (classes(body), body.dialect.name) == ("ccccce", "tgi")
    assert (body.error.error_type, body.terminal_seq) == ("generation", None)


def test_a_text_too_long_to_be_kept_is_the_end():
    last = b'{"index":9,"token":{"id":1,"text":"a","special":false},"generated_text":"' + b"x" * 300
    assert read(last, is_cut=True).is_end


def test_it_is_known_by_its_token():
    assert TGI.begins(event(b""), {"token": {}})
    assert not TGI.begins(event(b""), {"token": "secret"})
    assert not TGI.begins(event(b""), None)
