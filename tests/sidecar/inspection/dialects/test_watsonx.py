"""watsonx: a reason other than `not_finished` is the end if no output follows, and chat is that of OpenAI."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.watsonx import WATSONX
from sidecar.inspection.events import Reading
from tests.support.dialects import event, seen


def read(**members):
    return WATSONX.read(event({"model_id": "ibm/g", **members}, b"message"))


def result(text, reason="not_finished", made=1, asked=0):
    return {
        "generated_text": text,
        "generated_token_count": made,
        "input_token_count": asked,
        "stop_reason": reason,
    }


def test_results_are_text_and_counts():
    assert read(results=[result("the sun", made=2, asked=8)]) == Reading(
        EventClass.CONTENT, 7, "ibm/g", usage=Usage(input_tokens=8, output_tokens=2)
    )
    assert read(results=[]) == Reading(EventClass.CONTROL, 0, "ibm/g")
    assert read(system={"warnings": [{"message": "words"}]}) == Reading(EventClass.CONTROL, 0, "ibm/g")


@pytest.mark.parametrize(
    ("reasons", "is_end"),
    [(["eos_token"], True), (["max_tokens"], True), (["NOT_FINISHED"], False), ([""], False), ([None], False)],
)
def test_a_reason_ends_a_result_unless_it_says_that_it_does_not(reasons, is_end):
    assert read(results=[result("a", reason) for reason in reasons]).is_end is is_end
    assert not read(results=[result("a", reasons[0]), result("b")]).is_end


def test_chat_is_that_of_openai_with_the_model_elsewhere():
    choice = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}

    assert read(id="c", choices=[choice]) == Reading(EventClass.CONTENT, 2, "ibm/g", "c")
    last = read(id="c", choices=[{**choice, "delta": {}, "finish_reason": "stop"}])
    assert last == Reading(EventClass.CONTROL, 0, "ibm/g", "c", finish="stop", is_end=True)
    assert read(choices=[{**choice, "finish_reason": "error"}]).event_class is EventClass.ERROR


def test_errors_come_in_a_list_or_by_name():
    errors = [{"code": "token_quota_reached", "message": "secret words"}]

    assert read(errors=errors, status_code=403) == Reading(EventClass.ERROR, error_type="token_quota_reached")
    assert WATSONX.read(event(b"words", b"error")) == Reading(EventClass.ERROR)


def test_output_after_a_reason_goes_on():
    def line(*results):
        return b"event: message\ndata: " + event({"model_id": "m", "results": list(results)}).data + b"\n\n"

    body = seen([line(result("a", "eos_token")), line(result("b"))], content_type="text/event-stream")
    assert (body.terminal_seq, body.has_terminal_rule) == (None, True)


def test_it_is_known_by_its_model():
    assert WATSONX.begins(event(b""), {"model_id": "m", "results": []})
    assert WATSONX.begins(event(b""), {"model_id": "m", "choices": []})
    assert not WATSONX.begins(event(b""), {"model_id": "m"})
    assert not WATSONX.begins(event(b""), None)


def test_an_error_of_a_list_says_why():
    assert read(errors=[{"code": "x", "message": "model not found"}]).error_detail == "model not found"
