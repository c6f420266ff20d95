"""Questions are read as the API server asks them, and answered so that the pod is made."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.review import WARNING_CHARS, ReviewError, answer, read
from tests.support import pods
from tests.support.any_pods import GARBAGE
from tests.support.api_server import review


def body(**changes):
    made = review("uid-1", "team-a", pods.pod(), dry_run=True)
    made["request"] |= changes
    return json.dumps(made).encode()


def test_a_question_is_read():
    found = read(body())
    assert (found.uid, found.namespace, found.is_dry_run) == ("uid-1", "team-a", True)
    assert found.pod == pods.pod()


def test_a_pod_may_say_its_namespace_itself():
    pod = pods.pod()
    pod["metadata"]["namespace"] = "team-b"
    assert read(body(object=pod)).namespace == "team-a"
    assert read(body(object=pod, namespace=None)).namespace == "team-b"
    assert read(body(namespace=None)).namespace == ""


@pytest.mark.parametrize("name", ["team-a/secrets/x", "..", "Team", "a" * 64, "a\n", 7, {"a": "b"}])
def test_a_namespace_that_would_lead_to_another_path_is_refused(name):
    with pytest.raises(ReviewError, match="can be none"):
        read(body(namespace=name))
    with pytest.raises(ReviewError, match="can be none"):
        read(body(namespace="", object={"metadata": {"namespace": name}}))


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "UPDATE"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Pod"}},
        {"kind": {"group": "", "version": "v1", "kind": "Service"}},
        {"subResource": "ephemeralcontainers"},
        {"object": None},
        {"object": "text"},
    ],
)
def test_what_is_no_pod_that_is_being_made_has_none(change):
    assert read(body(**change)).pod is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[]", "is no AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', "is no AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "no request with a uid"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7}}', "no request with a uid"),
    ],
)
def test_what_is_no_question_says_why(text, said):
    with pytest.raises(ReviewError, match=said):
        read(text)


@given(text=st.binary(max_size=50) | GARBAGE.map(lambda value: json.dumps(value).encode()))
def test_nothing_else_is_raised(text):
    with suppress(ReviewError):
        assert read(text).uid


def test_an_answer_always_allows():
    assert json.loads(answer("u")) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }


def test_a_patch_is_packed_as_the_api_server_wants_it():
    response = json.loads(answer("u", [{"op": "add", "path": "/a", "value": "ü"}]))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(b64decode(response["patch"])) == [{"op": "add", "path": "/a", "value": "ü"}]


def test_a_warning_is_cut_before_the_api_server_cuts_it():
    (text,) = json.loads(answer("u", warning="x" * 500))["response"]["warnings"]
    assert len(text) == WARNING_CHARS
    assert text.startswith("gapline: x")
