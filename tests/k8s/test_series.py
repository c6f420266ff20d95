"""What promtool is told of a process: each sample with its target's labels, for as long as a scrape is the last."""

from __future__ import annotations

import json

import pytest

from tests.k8s import tools
from tests.k8s.series import Scraped, families, faults_found, firing, metric, samples

TEXT = '# HELP a_total x\n# TYPE a_total counter\na_total{b="c d"} 2\nplain 1.5\n'
RULE = {"name": "g", "rules": [{"alert": "High", "expr": "plain > 1"}]}


def test_samples_are_read_with_their_labels():
    assert samples(TEXT) == {'a_total{b="c d"}': "2", "plain": "1.5"}
    assert families([TEXT, "other_bucket 1"]) == {"a_total", "plain", "other_bucket"}


def test_a_target_labels_every_series():
    assert metric("up", {"job": 'a"b'}) == 'up{job="a\\"b"}'
    found = Scraped({"job": "j"}, [(1, TEXT)]).series()
    assert [each["series"] for each in found] == ['a_total{job="j",b="c d"}', 'plain{job="j"}']


def test_a_series_is_absent_before_its_first_scrape_and_after_its_last():
    found = Scraped({}, [(2, "a 1\n"), (3, "a 2\nb 7\n"), (1, "b 8\n")]).series()
    assert found == [{"series": "a{}", "values": "1 1 2 2 2 _"}, {"series": "b{}", "values": "_ _ 7 7 7 8"}]


@pytest.mark.skipif(bool(tools.missing()), reason=tools.missing())
def test_a_case_that_does_not_hold_is_a_fault(tmp_path):
    scraped = [Scraped({"job": "j"}, [(3, "plain 1\n"), (3, "plain 2\n")])]
    told = {"alertname": "High", "job": "j"}
    assert faults_found(tmp_path, [RULE], scraped, [firing(2), firing(3, told)]) == ""
    assert "High" in faults_found(tmp_path, [RULE], scraped, [firing(4)])
    assert faults_found(tmp_path, [RULE], scraped, [firing(2, told)])
    assert json.loads((tmp_path / "cases.json").read_text())["tests"]
