"""llama.cpp: the event that says stop is the end."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.llama_cpp import LLAMA_CPP
from sidecar.inspection.events import Reading
from tests.support.dialects import event


def test_the_last_event_says_why_and_counts():
    last = {"content": "", "stop": True, "model": "q.gguf", "stop_type": "eos", "tokens_predicted": 2}

    assert LLAMA_CPP.read(event({"content": "It", "stop": False})) == Reading(EventClass.CONTENT, 2)
    assert LLAMA_CPP.read(event(last)) == Reading(
        EventClass.TERMINAL, 0, "q.gguf", finish="eos", usage=Usage(output_tokens=2), is_end=True
    )
    assert LLAMA_CPP.read(event({**last, "content": "!"})).event_class is EventClass.CONTENT


def test_an_error_gives_tokens():
    data = {"error": {"code": 500, "message": "secret words", "type": "server_error"}}

    assert LLAMA_CPP.read(event(data)) == Reading(EventClass.ERROR, error_type="server_error", error_code="500")


@pytest.mark.parametrize(
    ("chunk", "is_known"),
    [
        ({"content": "", "stop": False}, True),
        ({"content": "", "stop": ["\n"]}, False),
        ({"content": {}, "stop": True}, False),
        (None, False),
    ],
)
def test_it_is_known_by_its_text_and_its_flag(chunk, is_known):
    assert LLAMA_CPP.begins(event(b""), chunk) is is_known
