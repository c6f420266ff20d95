"""Manifests are read as Kubernetes reads them, and written so that it reads the same."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from k8s.documents import Document, DocumentError, objects, pods_in, read, written
from tests.support import pods

DEPLOYMENT = """\
# kept as long as nothing changes
kind: Deployment
metadata: {name: a}
spec: {template: {spec: {containers: [{name: app}]}}}
"""


def test_what_does_not_change_is_written_as_it_was_read():
    text = f"{DEPLOYMENT}---\nkind: Service # comment\n"
    assert written(read(text)) == text


def test_separators_in_front_behind_and_without_anything_between_are_nothing():
    assert [document.value for document in read("---\n---\nkind: A\n--- \nkind: B\n---\n")] == [
        {"kind": "A"},
        {"kind": "B"},
    ]
    assert read("# only a comment\n")[0].value is None


def test_nothing_on_the_line_of_a_separator_is_lost_but_a_comment():
    assert [each.value for each in read("--- {kind: A}\n--- # Source: b.yaml\nkind: B\n---\r\nkind: C\r\n")] == [
        {"kind": "A"},
        {"kind": "B"},
        {"kind": "C"},
    ]


def test_a_line_of_dashes_within_a_text_is_no_separator():
    (document,) = read("data: |\n  a\n  ---\n  b\n")
    assert document.value == {"data": "a\n---\nb\n"}


@given(
    value=st.dictionaries(
        st.text(max_size=5), st.text(max_size=12) | st.integers() | st.none() | st.booleans(), max_size=5
    )
)
def test_what_is_written_is_read_as_it_was(value):
    assert yaml.safe_load(written([Document("", value, is_changed=True)])) == value


@pytest.mark.parametrize(
    "text", ["y", "No", "on", "1e3", "0x10", "0o7", "1_000", "12:30:00", "2026-01-01", "null", "~", ".5", "-", ""]
)
def test_text_that_could_be_taken_for_something_else_stands_in_quotes(text):
    line = written([Document("", {"value": text}, is_changed=True)])
    assert line.rstrip("\n") in {f'value: "{text}"', f"value: '{text}'"}


def test_a_date_is_text_as_for_kubernetes():
    assert read("value: 2026-01-01")[0].value == {"value": "2026-01-01"}


def test_json_stays_json():
    documents = read(json.dumps({"kind": "Pod", "list": [1, "y"]}))
    assert json.loads(written(documents, is_json=True)) == {"kind": "Pod", "list": [1, "y"]}


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
"""Nine lines that stand for a thousand million values."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", "document 1: line"),
        ("kind: A\n---\n- 1\n", "document 2: is a list, not an object"),
        ("kind: A\n--- {kind: B}\n", "document 1: line 2.*another document"),
        ("a: &a [*a]\nb: !!python/object:os.system x", "document 1"),
        ("[" * 5000, "document 1"),
        ("a: " + "9" * 5000, "document 1: .*digits"),
        ("kind: Pod\nself: &a [*a]\n", "document 1: its aliases stand for more than 1,000,000 values"),
        ("kind: List\nitems: &a [{kind: List, items: *a}]\n", "document 1: its aliases stand for more than"),
        (BOMB, "document 1: its aliases stand for more than"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text, said):
    with pytest.raises(DocumentError, match=said):
        read(text)


def found(value):
    return [(str(each), each.owner_kind) for each in pods_in(value)]


TEMPLATE = {"spec": {"containers": [pods.container()]}}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Deployment", {"template": TEMPLATE}, [("Deployment x", None)]),
        ("Rollout", {"template": TEMPLATE}, [("Rollout x", None)]),
        ("CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}, [("CronJob x", "Job")]),
        ("Job", {"template": TEMPLATE}, [("Job x", "Job")]),
        ("Service", {"ports": []}, []),
        ("Deployment", {"template": {"spec": {}}}, []),
        ("Deployment", None, []),
    ],
)
def test_pods_stand_in_templates(kind, spec, expected):
    assert found({"kind": kind, "metadata": {"name": "x"}, "spec": spec}) == expected


def test_lists_are_opened():
    listed = {"kind": "List", "items": [pods.pod(), {"kind": "List", "items": [pods.service()]}, 1]}
    assert found(listed) == [("Pod (no name)", None)]
    assert [each["kind"] for each in objects([Document("", listed)])] == ["Pod", "Service"]
