"""JSON Patch, both directions, compared with another program that does the same."""

from __future__ import annotations

import time

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.patch import PatchError, applied, difference, is_same, pointer, steps
from tests.support.any_pods import JSON

NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcdef"), "value": JSON}), max_size=5, unique_by=lambda x: x["name"]
)
ANY = JSON | NAMED | st.dictionaries(st.sampled_from(["spec", "a/b", "a~c", ""]), JSON | NAMED, max_size=4)


@given(before=ANY, after=ANY)
def test_a_difference_leads_from_the_one_to_the_other(before, after):
    patch = difference(before, after)
    assert is_same(applied(before, patch), after)
    assert (patch == []) == is_same(before, after)


@given(before=ANY, after=ANY)
def test_another_program_reads_it_alike(before, after):
    assert is_same(jsonpatch.apply_patch(before, difference(before, after)), after)


def test_a_named_object_in_front_of_others_is_one_insertion():
    before = [{"name": "a", "x": 1}, {"name": "b"}]
    after = [{"name": "new"}, {"name": "a", "x": 2}, {"name": "b"}]
    assert difference(before, after) == [
        {"op": "add", "path": "/0", "value": {"name": "new"}},
        {"op": "test", "path": "/1/name", "value": "a"},
        {"op": "replace", "path": "/1/x", "value": 2},
    ]


def test_true_is_not_one():
    assert difference({"a": True}, {"a": 1}) == [{"op": "replace", "path": "/a", "value": 1}]


@given(path=st.lists(st.text(max_size=4) | st.integers(0, 9), max_size=4))
def test_pointers_come_back(path):
    assert steps(pointer(path)) == [str(step) for step in path]


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"op": "move", "path": "/a"}, "must be add, replace, remove or test"),
        ({"op": "add", "path": "/a"}, "has no value"),
        ({"op": "remove", "path": ""}, "whole document"),
        ({"op": "replace", "path": "/b", "value": 1}, "there is no 'b'"),
        ({"op": "add", "path": "/list/3", "value": 1}, "there is no '3'"),
        ({"op": "remove", "path": "/list/01"}, "there is no '01'"),
        ({"op": "remove", "path": "/list/-"}, "there is no '-'"),
        ({"op": "remove", "path": "/a/b"}, "there is no 'b'"),
        ({"op": "test", "path": "/a", "value": True}, "is not True"),
        ({"op": "test", "path": "", "value": 1}, "the document is another"),
        ({"op": "test", "path": "a", "value": 1}, "must begin with a slash"),
    ],
)
def test_a_patch_that_does_not_fit_says_why(operation, said):
    with pytest.raises(PatchError, match=said):
        applied({"a": 1, "list": [0, 1]}, [operation])


def test_the_document_that_was_given_stays_as_it_is():
    before = {"a": [1]}
    assert applied(before, [{"op": "add", "path": "/a/-", "value": 2}]) == {"a": [1, 2]}
    assert before == {"a": [1]}


def test_a_list_of_very_many_names_takes_no_longer_than_its_length():
    """Whoever may make a pod may fill it with variables: compared each with each they take minutes."""
    before = [{"name": f"v{n}"} for n in range(40_000)]
    after = [{"name": "first"}, *before[1:], {"name": "last"}]
    begun = time.process_time()
    patch = difference({"env": before}, {"env": after})
    assert time.process_time() - begun < 5
    assert applied({"env": before}, patch) == {"env": after}
