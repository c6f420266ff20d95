"""Which limits hold for which path and model, and the text in which rules are given."""

import time
from contextlib import suppress
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.guard.limits import GuardLimits, Rule, Rules, rule

S = 1_000_000_000
CHAT = "/v1/chat/completions"
BASE = GuardLimits.of_seconds(first_event=300, next_event=90, content=0)

globs = st.text("abc/*?[].-", min_size=1, max_size=6)
limits_ns = st.none() | st.integers(0, 10_000_000).map(lambda ms: ms * 1_000_000)
switches = st.none() | st.booleans()
rules_of_any_kind = st.builds(
    Rule,
    path=st.none() | globs.map(lambda glob: "/" + glob),
    model=st.none() | globs,
    first_event_ns=limits_ns,
    next_event_ns=limits_ns,
    content_ns=limits_ns,
    is_signed=switches,
    is_off=switches,
)


def limits(*texts: str, path: str = CHAT, model: str | None = "m", is_inference: bool = True) -> GuardLimits | None:
    return Rules(BASE, [rule(text) for text in texts]).limits_for(path, model, is_inference=is_inference)


# ------------------------------------------------------------------------------------------------------- the options


def test_the_limits_of_the_options_are_seconds_and_zero_is_none():
    assert GuardLimits(first_event_ns=300 * S, next_event_ns=90 * S) == BASE


def test_a_time_that_would_round_to_no_limit_is_refused():
    with pytest.raises(ValueError, match="at least 1ms"):
        GuardLimits.of_seconds(first_event=0.0004, next_event=90, content=0)


# --------------------------------------------------------------------------------------------------- a rule as a text


def test_a_rule_says_what_its_text_says():
    assert rule("path=/v1/*; model=o3*;first=10m;next=1.5s;content=0;signed=true;off=false") == Rule(
        path="/v1/*",
        model="o3*",
        first_event_ns=600 * S,
        next_event_ns=1_500_000_000,
        content_ns=0,
        is_signed=True,
        is_off=False,
    )


@pytest.mark.parametrize("text", ["first=600s", "path=/v1/*;model=o3*;next=1500ms", "path=*;signed=true", "off=true"])
def test_a_rule_is_written_as_it_was_read(text):
    assert str(rule(text)) == text


@given(rules_of_any_kind)
def test_whatever_a_rule_says_survives_being_written(made):
    if {made.first_event_ns, made.next_event_ns, made.content_ns, made.is_signed, made.is_off} == {None}:
        with pytest.raises(ValueError, match="must say"):
            rule(str(made))
    else:
        assert rule(str(made)) == made


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must say first="),
        (" ; ", "must say first="),
        ("path=/v1/*", "must say first="),
        ("frist=10s", r"'frist=10s' is none of path=…, model=…, first=…"),
        ("first", r"'first' is none of"),
        ("first=soon", "'first=soon': must be a time"),
        ("first=-1", "'first=-1': must be a time"),
        ("first=0.1ms", "'first=0.1ms': must be 0, for none, or at least 1ms"),
        ("first=1s;first=2s", "first= must not stand there twice"),
        ("signed=perhaps", "'signed=perhaps': is not true or false"),
        ("path=v1/chat;first=1s", "'path=v1/chat': a path must begin with / or"),
        ("path=;first=1s", "a path must begin with / or"),
        ("model=;first=1s", "a glob must be 1 to 300 characters"),
        ("model=" + "m" * 301 + ";first=1s", "a glob must be 1 to 300 characters"),
        ("model=a\nb;first=1s", "none of them a control character"),
    ],
)
def test_a_text_that_is_no_rule_is_refused_by_the_rule_that_it_breaks(text, why):
    with pytest.raises(ValueError, match=why):
        rule(text)


@given(st.text("pathmodelfirstnextcontentsignedoff=;*/0123456789truefalse ", max_size=40))
def test_a_text_is_a_rule_that_can_be_written_again_or_refused(text):
    with suppress(ValueError):
        made = rule(text)
        assert rule(str(made)) == made


# ------------------------------------------------------------------------------------------------------ which rule fits


def test_without_a_rule_the_options_hold():
    assert limits() == BASE


def test_a_rule_changes_what_it_says_and_nothing_else():
    assert limits("model=m;first=600") == GuardLimits(first_event_ns=600 * S, next_event_ns=90 * S)
    assert limits("model=other;first=600") == BASE


def test_of_several_that_fit_the_first_that_says_something_of_a_field_decides_it():
    assert limits("model=m;first=1", "first=2;next=3", "next=4;content=5") == GuardLimits(
        first_event_ns=1 * S, next_event_ns=3 * S, content_ns=5 * S
    )


def test_a_rule_may_take_a_limit_away_and_the_stream_stays_guarded():
    assert limits("first=0", "next=0") == GuardLimits()


def test_a_rule_may_take_the_guard_away_and_an_earlier_one_keep_it():
    assert limits("model=m;off=true") is None
    assert limits("model=m;off=false", "off=true") == BASE


def test_a_model_that_is_not_known_fits_no_glob():
    assert limits("model=*;first=1", model=None) == BASE
    assert limits("first=1", model=None) == GuardLimits(first_event_ns=1 * S, next_event_ns=90 * S)


def test_a_star_goes_over_slashes_and_capital_letters_are_others():
    assert limits("model=meta-llama/*;first=0;next=0", model="meta-llama/Llama/3") == GuardLimits()
    assert limits("model=llama;off=true", model="Llama") == BASE


@given(st.lists(rules_of_any_kind, max_size=4), st.text("abc/", max_size=4), st.none() | st.text("abc", max_size=3))
def test_each_field_is_decided_by_the_first_rule_that_fits_and_says_it(made, path, model):
    path = "/" + path
    fitting = [
        each
        for each in made
        if (each.path is None or fnmatchcase(path, each.path))
        and (each.model is None or (model is not None and fnmatchcase(model, each.model)))
    ]
    expected = {}
    for name in ("first_event_ns", "next_event_ns", "content_ns", "is_off", "is_signed"):
        expected[name] = getattr(BASE, name, None)
        for each in reversed(fitting):
            if getattr(each, name) is not None:
                expected[name] = getattr(each, name)
    is_off, is_signed = expected.pop("is_off"), expected.pop("is_signed")

    rules = Rules(BASE, made)

    found = rules.limits_for(path, model, is_inference=True)
    assert found == (None if is_off else GuardLimits(**{name: limit_ns or None for name, limit_ns in expected.items()}))
    assert rules.is_signed(path, model) is bool(is_signed)
    assert rules.limits_for(path, model, is_inference=False) in {None, found}


# ----------------------------------------------------------------------------------------- what is no inference answer


@pytest.mark.parametrize(
    ("text", "is_guarded"),
    [
        ("path=/events;next=5", True),
        ("path=/ev*;off=false", True),
        ("path=/other;next=5", False),
        ("next=5", False),
        ("path=*;next=5", False),
        ("path=/events;signed=true", False),
        ("path=/events;next=5;off=true", False),
    ],
)
def test_what_is_no_streamed_answer_of_a_model_is_guarded_only_where_a_rule_names_its_path(text, is_guarded):
    assert (limits(text, path="/events", model=None, is_inference=False) is not None) is is_guarded


def test_signed_is_what_a_rule_says_first():
    rules = Rules(BASE, [rule("path=/tee/open*;signed=false"), rule("path=/tee/*;signed=true")])

    assert [rules.is_signed(path, None) for path in ("/tee/x", "/tee/open", "/v1")] == [True, False, False]


def test_a_hostile_model_name_costs_no_time():
    rules = Rules(BASE, [rule("model=" + "*a" * 100 + "*b;first=1")])
    began_s = time.perf_counter()

    assert rules.limits_for(CHAT, "a" * 20_000, is_inference=True) == BASE
    assert time.perf_counter() - began_s < 1
