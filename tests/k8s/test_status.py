"""What is written on a pod can be read, and leads back to the pod from before."""

from __future__ import annotations

import json

import pytest

from k8s.decisions import Edit, Reason, Skip, SkipError
from k8s.facts import Facts
from k8s.keys import STATUS
from k8s.renderer import injection
from k8s.status import DETAIL_CHARS, original, skipped_text, status_of
from tests.support import pods


def forged(path, old='"x"'):
    """A status that would have us put something back which we never change."""
    edits = f'[["app","{path}",{old},"registry.example/app:1"]]'
    return f'{{"version":1,"result":"injected","digest":"x","capture":"named","app":8000,"edits":{edits}}}'


def injected(pod):
    return injection(pod, namespace=pods.ASKED, facts=Facts(oldest_minor=33), config=pods.config()).pod


def test_the_annotation_tells_people_what_was_done():
    said = json.loads(injected(pods.pod())["metadata"]["annotations"][STATUS])
    assert said["result"] == "injected"
    assert (said["capture"], said["container"], said["app"], said["listen"]) == ("named", "app", 8000, 24_080)
    assert said["edits"] == [["app", "/ports/0/containerPort", 8000, 24_080]]
    assert len(said["notes"]) == 1


def test_it_is_read_as_it_was_written():
    found = status_of(injected(pods.pod()))
    assert found.edits == (Edit("app", ("ports", 0, "containerPort"), 8000, 24_080),)
    assert status_of(pods.pod()) is None
    assert (found.capture, found.app) == ("named", 8000)
    skipped = status_of(pods.pod(annotations={STATUS: skipped_text(Skip(Reason.JOB, "x"))}))
    assert (skipped.digest, skipped.reason, skipped.detail) == (None, "job", "x")


def test_a_long_reason_is_cut():
    text = json.loads(skipped_text(Skip(Reason.BAD_ANNOTATION, "x" * 10_000)))["detail"]
    assert len(text) == DETAIL_CHARS
    assert text.endswith("…")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "1",
        '{"version":2,"result":"injected"}',
        '{"version":1,"result":"injected","digest":"x","edits":[["a"]]}',
        '{"version":1,"result":"injected","digest":"x","edits":[["a","no-slash",1,2]]}',
        *map(forged, ("", "/image", "/name/0", "/ports", "/ports/0/name", "/env/0/valueFrom", "/env/-1/value")),
        forged("/env/0/value", '{"a":1}'),
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_told(text):
    with pytest.raises(SkipError, match="cannot be read"):
        original(pods.pod(annotations={STATUS: text}))


def test_lists_that_only_we_had_filled_are_gone_again():
    before = pods.pod()
    assert original(injected(before)) == before
    with_others = pods.pod(volumes=[{"name": "data", "emptyDir": {}}], initContainers=[pods.container("fetch")])
    assert original(injected(with_others)) == with_others
