"""The rebuilder: every text passes, nothing else does but the end."""

from __future__ import annotations

from otel.demo.reader import has_text
from tests.lab.rebuilder import Rebuild
from tests.lab.shapes import EVENTS, Shape, answer


def test_texts_pass_one_for_one_without_role_thoughts_or_usage() -> None:
    events = [
        due.data for due in answer(Shape.REASONING, request_id="r", events=EVENTS[Shape.REASONING], seed=1).events
    ]
    rebuild = Rebuild()
    made = [out for event in events for out in rebuild(event).split(b"\n\n") if out]
    texts = [out for out in made if has_text(out)]
    assert len(texts) == sum(map(has_text, events)) == 78
    assert not any(b"reasoning_content" in out or b"assistant" in out or b"usage" in out for out in made)
    assert sum(out.startswith(b":") for out in made) == 7
    assert (b"stop" in made[-2], made[-1]) == (True, b"data: [DONE]")
