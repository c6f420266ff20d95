"""What many APIs share of an error: the members, and where the type, the sentence and the status stand."""

from sidecar.guard.complaint import Complaint
from sidecar.inspection.dialects.problems import ErrorEvent, counted_problem, flat_problem, named, problem, unnamed

SAID = Complaint("next_event_timeout", "gw: silent", 504)


def test_the_type_the_sentence_and_the_status_have_their_places():
    assert problem(SAID) == {
        "error": {"type": "next_event_timeout", "message": "gw: silent", "param": None, "code": "504"}
    }
    assert counted_problem(SAID) == {"error": {"type": "next_event_timeout", "message": "gw: silent", "code": 504}}
    assert flat_problem(SAID) == {"error": "gw: silent", "error_type": "next_event_timeout"}


def test_an_event_carries_what_a_body_would():
    assert named(flat_problem)(SAID) == ErrorEvent("error", flat_problem(SAID))
    assert unnamed(problem)(SAID) == ErrorEvent(None, problem(SAID))
