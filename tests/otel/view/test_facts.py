"""Evidence in words: known facts have a phrase, unknown ones their own name."""

from __future__ import annotations

import pytest

from otel.view.facts import evidence_lines


def test_known_facts_have_a_phrase_and_a_unit():
    kernel = ("kernel", (("unacknowledged_s", 2.98), ("window_bytes", 0), ("lost_share", 0.02)))
    assert evidence_lines([kernel]) == [
        ("kernel", "unacknowledged for 2.98 s, smallest window 0 B, 2% of it with loss")
    ]


def test_unknown_facts_are_shown_by_their_name_with_the_unit_of_their_ending():
    facts = (
        ("queue_depth", 7),
        ("queue_wait_s", 0.5),
        ("expert_cache_share", 0.93),
        ("is_paged", True),
        ("load", 0.123456),
    )
    assert evidence_lines([("engine", facts)]) == [
        ("engine", "queue depth 7, queue wait 0.50 s, expert cache 93%, is paged yes, load 0.1235")
    ]


def test_a_group_gives_its_unit_to_what_is_in_it():
    assert evidence_lines([("queue_s", (("model-worker", 1.5), ("gateway", 0.0)))]) == [
        ("queue", "model-worker 1.50 s, gateway 0 s")
    ]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 preemptions since the last event"),
        (1, "1 preemption since the last event"),
        (2, "2 preemptions since the last event"),
    ],
)
def test_one_preemption_is_one(count, said):
    assert evidence_lines([("engine", (("preemptions_since_last_event", count),))]) == [("engine", said)]


def test_engines_have_the_names_that_people_know():
    facts = [("engine", (("server", server), ("running", 9))) for server in ("vllm", "sglang", "tgi", "another")]
    assert [line for _, line in evidence_lines(facts)] == [
        f"{name}, 9 running" for name in ("vLLM", "SGLang", "TGI", "another")
    ]


def test_what_is_not_known_is_left_out():
    assert evidence_lines([("", (("attempts", 0), ("detail", None))), ("kernel", ())]) == []


def test_what_is_as_usual_is_left_out():
    assert evidence_lines([("", (("attempts", 0), ("requests", 1)))]) == []
    assert evidence_lines([("", (("attempts", 2), ("requests", 3)))]) == [
        ("evidence", "2 other attempts under this id, 3 requests under this id")
    ]


def test_what_the_table_of_hops_has_is_not_said_twice():
    assert evidence_lines([("blocked_s", (("gateway", 2.0),)), ("lag_s", (("gateway", 0.0),))]) == []


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (("alignment", "ordinal"), "events matched one by one"),
        (("alignment", "position"), "events matched by position in the text"),
        (("alignment", "guess"), "events matched by guess"),
        (("bytes_were", "with the peer"), "the awaited bytes had reached gateway's machine"),
        (("bytes_were", "in the network"), "the awaited bytes were still on their way to gateway's machine"),
        (
            ("bytes_were", "in the network, as many as the peer's window lets pass"),
            "as many bytes were on their way as gateway's machine has room for",
        ),
        (
            ("bytes_were", "with the peer, or its word that it has room again was lost"),
            "the awaited bytes had reached gateway's machine, or its word that it has room again was lost",
        ),
        (("unread_from_s", 2.0), "not read from 2.00 s on"),
        (("bytes_were", "not sampled"), "the awaited bytes: not known where they were"),
        (("timer_s", 60.0), "it lasts 60.0 s"),
        (("silence_s", 60.012), "60.0 s without a byte"),
        (("silent_before", "model-worker"), "nothing more had come to model-worker"),
        (("other_attempts", "model-worker refused after 0.10 s"), "they were model-worker refused after 0.10 s"),
        (("error_said", "overloaded: try later"), "the error: overloaded: try later"),
        (("limits_passed", "content_timeout at gateway"), "limits that passed: content_timeout at gateway"),
        (("bytes_were", "on Mars"), "the awaited bytes were on Mars"),
    ],
)
def test_words_of_the_answer_are_said_for_people(fact, said):
    assert evidence_lines([("", (fact,))], peer="gateway's machine") == [("evidence", said)]


def test_without_a_wait_there_is_nothing_to_say_of_matching_and_rhythm():
    facts = (("alignment", "ordinal"), ("position_quantum", 32), ("source_limit_s", 0.25), ("source_rhythm_s", 0.03))
    assert evidence_lines([("", facts)], has_wait=False) == []
    assert evidence_lines([("", (*facts, ("attempts", 1)))], has_wait=False) == [
        ("evidence", "1 other attempts under this id")
    ]


def test_a_detail_speaks_for_itself():
    assert evidence_lines([("", (("detail", "its upstream broke off"), ("attempts", 2)))]) == [
        ("evidence", "its upstream broke off, 2 other attempts under this id")
    ]
