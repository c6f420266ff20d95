"""Ollama: the line that says done is the end, whatever else stands in it."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.ollama import OLLAMA
from sidecar.inspection.events import Reading
from tests.support.dialects import classes, event, seen

NDJSON = "application/x-ndjson"


def read(**members):
    return OLLAMA.read(event(members))


@pytest.mark.parametrize(
    ("members", "event_class", "chars"),
    [
        ({"response": "Okay"}, EventClass.CONTENT, 4),
        ({"response": "", "thinking": "hm"}, EventClass.REASONING, 0),
        ({"message": {"content": "你好"}}, EventClass.CONTENT, 2),
        ({"message": {"content": "", "thinking": "hm"}}, EventClass.REASONING, 0),
        ({"message": {"content": "", "tool_calls": [{}]}}, EventClass.TOOL, 0),
        ({"message": {"content": ""}}, EventClass.CONTROL, 0),
        ({"message": None, "response": 7}, EventClass.CONTROL, 0),
        ({"response": 'it says "done":true', "done": False}, EventClass.CONTENT, 19),
        ({"message": {"content": "a", "done": True}}, EventClass.CONTENT, 1),
        ({"response": "a", "done": "true"}, EventClass.CONTENT, 1),
    ],
)
def test_a_line_is_classed_by_what_a_reader_sees(members, event_class, chars):
    assert read(model="m", **members) == Reading(event_class, chars, "m")


def test_the_last_line_says_why_and_counts():
    last = {"done": True, "done_reason": "stop", "prompt_eval_count": 16, "eval_count": 51, "context": [1, 2]}
    usage = Usage(input_tokens=16, output_tokens=51)

    assert read(response="", **last) == Reading(EventClass.TERMINAL, finish="stop", usage=usage, is_end=True)
    assert read(response="!", **last) == Reading(EventClass.CONTENT, 1, finish="stop", usage=usage, is_end=True)


def test_an_error_is_a_line_without_done():
    lines = b'{"response":"a","done":false}\n{"error":"an error was encountered while running the model"}\n'
    body = seen([lines], content_type=NDJSON)

    assert (classes(body), body.dialect.name, body.terminal_seq) == ("ce", "ollama", None)
    assert (body.error.error_type, body.error.error_code) == (None, None)


def test_a_last_line_of_two_megabytes_is_the_end():
    lines = b'{"model":"m","response":"a","done":false}\n'
    lines += b'{"model":"m","response":"","done":true,"done_reason":"stop","context":[' + b"12345," * 400_000 + b"1]}\n"
    body = seen([lines[at : at + 32_768] for at in range(0, len(lines), 32_768)], content_type=NDJSON)

    assert (classes(body), body.finish_reasons, body.terminal_seq) == ("c.", ("stop",), 1)


def test_a_last_line_without_its_end_is_the_end_and_half_a_line_is_not():
    line = b'{"model":"m","response":"","done":true}'

    assert seen([b'{"response":"a","done":false}\n' + line], content_type=NDJSON).terminal_seq == 0
    assert seen([b'{"response":"a","done":false}\n' + line[:-1]], content_type=NDJSON).terminal_seq is None


@pytest.mark.parametrize(
    ("chunk", "is_known"),
    [
        ({"done": False, "response": ""}, True),
        ({"done": False, "message": {}}, True),
        ({"done": "no", "response": ""}, False),
        ({"done": True}, False),
        (None, False),
    ],
)
def test_it_is_known_by_its_flag_and_its_text(chunk, is_known):
    assert OLLAMA.begins(event(b""), chunk) is is_known
