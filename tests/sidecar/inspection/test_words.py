"""The words are plain lower-case words, and none of them says who somebody is or what he wanted."""

from sidecar.inspection.words import NAMES, UNITS, WORDS


def test_a_word_is_of_small_letters_and_digits():
    assert all(word.isascii() and word.isalnum() and word == word.lower() for word in WORDS | UNITS)
    assert not any(word.isdigit() for word in WORDS)
    assert 2_000 < len(WORDS) < 4_000


def test_names_are_those_of_the_words_that_are_some():
    assert len(NAMES & WORDS) > len(NAMES) / 2
    assert not WORDS & {"i", "my", "she", "he", "john", "mary", "smith", "canary", "secret", "love", "doctor", "sk"}


def test_what_errors_are_told_in_is_there():
    told = "stream chunk parse missing field id at line column upstream timeout connection reset cuda memory overloaded"

    assert set(told.split()) <= WORDS
