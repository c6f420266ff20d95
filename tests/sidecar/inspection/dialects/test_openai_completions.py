"""Text completions: pieces of text for each choice."""

import pytest

from otel.hop import EventClass
from sidecar.inspection.dialects.openai_completions import OPENAI_COMPLETIONS
from sidecar.inspection.events import Reading
from tests.support.dialects import event


def read(*choices, **members):
    return OPENAI_COMPLETIONS.read(event({"choices": list(choices), **members}))


def test_the_text_of_all_choices_counts():
    assert read({"text": "ab"}, {"text": "c", "index": 1}) == Reading(EventClass.CONTENT, 3)
    assert read({"text": "", "finish_reason": "length"}) == Reading(EventClass.CONTROL, finish="length")
    assert read({"text": "."}, finish_reason="stop") == Reading(EventClass.CONTENT, 1)


@pytest.mark.parametrize("choices", [[None], ["text"], [{"text": 7}], [{"text": ["a"]}], [{}]])
def test_what_is_no_text_counts_nothing(choices):
    assert read(*choices) == Reading(EventClass.CONTROL)


def test_a_choice_that_came_to_grief_is_an_error():
    assert read({"text": "", "finish_reason": "error"}) == Reading(EventClass.ERROR, error_type="error")
    assert OPENAI_COMPLETIONS.read(event({"object": "error", "type": "x"})).error_type == "x"


def test_the_mark_is_that_of_openai():
    assert OPENAI_COMPLETIONS.read(event(b" [DONE]")) == Reading(EventClass.TERMINAL)
    assert OPENAI_COMPLETIONS.read(event(b'{"choices":[{"text":"', is_cut=True)) == Reading(EventClass.OPAQUE)


@pytest.mark.parametrize(
    ("chunk", "is_known"),
    [
        ({"choices": [{"text": "a"}]}, True),
        ({"choices": [], "object": "text_completion"}, True),
        ({"choices": []}, False),
        ({"choices": [{"delta": {}}]}, False),
        ({"choices": "text"}, False),
        (None, False),
    ],
)
def test_it_is_known_by_the_text_of_its_choices(chunk, is_known):
    assert OPENAI_COMPLETIONS.begins(event(b""), chunk) is is_known
