"""Where something broke can be read; who asked, for what, and with which key cannot."""

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.inspection.lexicon import INPUT_CHARS, LIMIT_CHARS, MASK, masked
from sidecar.inspection.words import WORDS


@pytest.mark.parametrize(
    "text",
    [
        "stream chunk parse: missing field id at line 1 column 184",
        "missing field `id` at line 1 column 184",
        "Expecting value: line 1 column 1 (char 0)",
        "Invalid 'messages[0].content': expected string, got null",
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)",
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
        "upstream connect error or disconnect/reset before headers. reset reason: connection termination",
        "peer closed connection without sending complete message body (incomplete chunked read)",
        "litellm.APIConnectionError: OpenAIException - Connection error.",
        "the engine process died: RuntimeError: cancelled",
        "invalid character 0 after object key:value pair",
        "Overloaded",
        "stream idle timeout: no data for 30s, 184 bytes read",
        "Please reduce the length of the messages; it isn't allowed.",
        "HTTP/1.1 502 Bad Gateway",
        "no healthy upstream",
        "Slow Down: A sudden increase in your request rate is impacting service reliability.",
        "request was evicted due to preemption",
        "You exceeded your current quota, please check your plan and billing details.",
        "model runner has unexpectedly stopped, this may be due to resource limitations",
    ],
)
def test_what_is_only_about_the_failure_stays_whole(text):
    assert masked(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("dial tcp 10.0.0.1:8000: connect: connection refused", "dial tcp …: connect: connection refused"),
        ("Incorrect API key provided: sk-proj-aB3dE5.", "Incorrect API key provided: …."),
        (
            "Rate limit reached for gpt-4o in organization org-Ab on tokens",
            "Rate limit reached for … in organization …",
        ),
        ("The model `llama-3-70b` does not exist", "The model … does not exist"),
        ("Invalid value: 'please delete the file'. Supported values are 1", "Invalid value: …. Supported values are 1"),
        ("no such header X-Acme-Tenant in the request", "no such header … in the request"),
        ('failed to parse "the user said \\"stop the stream\\" twice" at 3', "failed to parse … at 3"),
        ("failed to read 'the rest of the message is cut", "failed to read …"),
        ("request from Anna Field failed with timeout of 3 s", "request from … failed with timeout of 3 s"),
        ("connection to Max Mustermann was closed by the server", "connection to … was closed by the server"),
        (
            "request failed at https://api.model.test/v1?key=value after 3 retries",
            "request failed at … after 3 retries",
        ),
        ("request 4111 1111 1111 1111 failed with timeout", "request … failed with timeout"),
        ("request failed: call +49 170 1234567 for support", "request failed: call +… for support"),
        ("request 123-45-6789 failed with timeout", "request … failed with timeout"),
        ("token 1234567890 is invalid", "token … is invalid"),
        ("token 123456789 is invalid", "token 123456789 is invalid"),
    ],
)
def test_what_is_about_somebody_goes(text, left):
    assert masked(text).startswith(left)


@pytest.mark.parametrize(
    "text",
    [
        "Write me a poem about the moon and my cat, please",
        "user@example.com",
        "error@error.com",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "Zugriff verweigert für Kundin Müller",
        "请求失败",
        "…",
    ],
)
def test_of_somebodys_own_words_nothing_stays(text):
    assert masked(text) == MASK


def test_nothing_is_nothing():
    assert masked("") == masked(" \n\t ") == ""


SECRETS = st.one_of(
    st.emails(),
    st.from_regex(r"\A(sk|pk|key|ghp|AKIA)[-_][A-Za-z0-9]{20,40}\Z"),
    st.from_regex(r"\A[1-9][0-9]{9,20}\Z"),
    st.uuids().map(str),
    st.ip_addresses(v=4).map(str),
)


@given(
    secret=SECRETS,
    before=st.lists(st.sampled_from(sorted(WORDS)), max_size=8),
    after=st.lists(st.sampled_from(sorted(WORDS)), max_size=8),
    marks=st.sampled_from([("", ""), ("(", ")"), ("'", "'"), ("key=", ""), ("", ","), ("`", "`"), ("<", ">.")]),
)
def test_no_secret_survives_among_words_of_errors(secret, before, after, marks):
    left = masked(" ".join([*before, marks[0] + secret + marks[1], *after]))

    assert secret not in left
    assert not re.search(r"[0-9]{10}|@", left)


@given(st.text(max_size=400), st.integers(0, 300))
@example("'" * 300, 200)
def test_whatever_stays_is_known_words_numbers_and_plain_punctuation(text, limit_chars):
    left = masked(text, limit_chars=limit_chars)

    assert len(left) <= limit_chars
    assert MASK + MASK not in left
    assert left.replace(MASK, "").isascii()
    assert left.replace(MASK, " ").isprintable()
    for word in re.findall(r"[A-Za-z]{2,}", left):
        humps = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]", word)
        known = word.lower() in WORDS or all(hump.lower() in WORDS for hump in humps)
        assert known or re.search(rf"[0-9]{word}", left) or re.search(rf"{word}[0-9]", left)
    assert not re.search(r"[0-9]{10}", left)


@given(st.text(max_size=200))
def test_what_was_masked_is_as_it_stays(text):
    once = masked(text)

    assert len(masked(once)) <= max(len(once), 1)


@given(st.text(alphabet="ab \"'`“”\\…\n1.", max_size=300))
def test_no_quotation_of_several_words_survives(text):
    assert "failed request" not in masked(f'{text}" "failed request" no')
    assert "failed request" not in masked("cause: 'failed request' no")


def test_a_long_text_is_read_at_its_beginning_only_and_what_is_cut_there_does_not_count():
    text = "error " * (INPUT_CHARS // 6 - 1)
    text += "1" * (INPUT_CHARS - len(text) - 1) + "1" * 20
    left = masked(text, limit_chars=INPUT_CHARS * 2)

    assert left.endswith("error …")
    assert masked("error " * 100).endswith(" error…")
    assert len(masked("error " * 100)) <= LIMIT_CHARS


@pytest.mark.parametrize("unit", ['"', "'", "`", "\\", "a'", "( ", "1 ", "… ", "a.b-", '"a" ', "aA", "Ab ", "..:"])
def test_no_text_costs_more_than_its_length(unit):
    rng = random.Random(7)
    text = unit * 1_000_000

    assert len(masked(text)) <= LIMIT_CHARS
    assert len(masked("".join(rng.choices([unit, "error ", "x\n"], k=100_000)))) <= LIMIT_CHARS
