"""Reading keys: an error names the key, a stranger is listed, and every text is clean."""

from __future__ import annotations

import pytest

from otel.view.keys import AnswerError, Keys


@pytest.mark.parametrize(
    ("answer", "read", "message"),
    [
        ({}, lambda k: k.text("sentence"), "sentence: missing from the answer"),
        ({"sentence": None}, lambda k: k.text("sentence"), "sentence: must be a text, is null"),
        ({"n": True}, lambda k: k.whole("n"), "n: must be a whole number, is true"),
        ({"n": 1.5}, lambda k: k.whole("n"), "n: must be a whole number, is a number"),
        ({"n": 10**13}, lambda k: k.whole("n"), "n: must be a whole number, is a number too large"),
        ({"s": "1"}, lambda k: k.seconds("s"), r"s: must be a number up to 1e\+12, is a text"),
        ({"s": float("nan")}, lambda k: k.seconds("s"), r"s: must be a number up to 1e\+12, is a number too large"),
        ({"s": False}, lambda k: k.seconds("s"), r"s: must be a number up to 1e\+12, is false"),
        ({"f": 1}, lambda k: k.flag("f"), "f: must be true or false, is a number"),
        ({"at": "yesterday"}, lambda k: k.instant("at"), "at: must be an RFC 3339 time, is 'yesterday'"),
        ({"hops": {}}, lambda k: k.each("hops"), "hops: must be a list, is an object"),
        ({"hops": [{}, 3]}, lambda k: k.each("hops"), r"hops\[1\]: must be an object, is a number"),
        ({"hops": [{"hop": 7}]}, lambda k: k.each("hops")[0].text("hop"), r"hops\[0\].hop: must be a text"),
        ({"rows": [[1]]}, lambda k: list(k.rows("rows", 2)), r"rows\[0\]: must be a list of 2, is a list of 1"),
        ({"verdict": None}, lambda k: k.inner("verdict"), "verdict: must be an object, is null"),
        ({"evidence": []}, lambda k: k.mapping("evidence"), "evidence: must be an object, is a list of 0"),
        ({"missing": ["a", 1]}, lambda k: k.texts("missing"), r"missing\[1\]: must be a text, is a number"),
    ],
)
def test_what_is_wrong_is_named(answer, read, message):
    with pytest.raises(AnswerError, match=message):
        read(Keys(answer))


def test_an_answer_must_be_an_object():
    with pytest.raises(AnswerError, match="answer: must be an object, is a list of 2"):
        Keys([1, 2])


def test_null_is_not_known_where_it_may_be():
    keys = Keys({"a": None, "b": None, "c": None, "d": None})
    assert (keys.maybe_text("a"), keys.maybe_seconds("b"), keys.maybe_whole("c"), keys.maybe("d")) == (None,) * 4


def test_what_an_older_collector_does_not_say_is_not_known():
    keys = Keys({"cut": "reset", "null": None, "wrong": 7})
    assert (keys.later_text("cut"), keys.later_text("null"), keys.later_text("absent")) == ("reset", None, None)
    assert keys.strangers() == ("wrong",)
    with pytest.raises(AnswerError, match="wrong: must be a text, is a number"):
        keys.later_text("wrong")


def test_strangers_are_listed_once_wherever_they_are():
    keys = Keys({"known": "x", "new": 1, "hops": [{"hop": "a", "depth": 1}, {"hop": "b", "depth": 2}], "old": 1})
    keys.text("known")
    for hop in keys.each("hops"):
        hop.text("hop")
    keys.ignore("old", "absent")
    assert keys.strangers() == ("new", "hops[].depth")


def test_texts_come_in_clean():
    keys = Keys({"a": "\x1b[2J", "b": ["\u202e"], "\x1b": 1})
    assert keys.text("a") == r"\x1b[2J"
    assert keys.texts("b") == (r"\u202e",)
    assert keys.strangers() == (r"\x1b",)
