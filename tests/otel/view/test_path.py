"""The path on one line, and what was found under the place where it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel.view.answers import Other, Segment, read_verdict
from otel.view.palette import Look, Tone, render
from otel.view.path import path_lines
from tests.support.answers import ANSWERS
from tests.support.screen import assert_fits

LOOK = Look(width=100)


def verdict_of(name):
    return read_verdict(ANSWERS[name]()["verdict"])


def drawn(verdict, look=LOOK):
    return render(path_lines(verdict, look), look)


def test_a_stall_of_an_app_stands_under_the_arrow_into_its_hop():
    assert drawn(verdict_of("app_stall_at_the_proxy")) == (
        "  client ← gateway ← inference-proxy ← model-worker ← source\n"
        "                                     ▲ app_stall 2.00 s\n"
    )


def test_what_a_sidecar_did_stands_under_its_name():
    assert drawn(verdict_of("self_hold")) == (
        "  client ← gateway ← inference-proxy ← model-worker ← source\n                     ▲ self 1.20 s\n"
    )


def test_a_slow_reader_stands_before_the_client():
    line, mark = drawn(verdict_of("slow_reader")).splitlines()
    assert line[mark.index("▲")] == "←"
    assert line[: mark.index("▲")].strip() == "client"


def test_a_healthy_path_has_no_mark():
    assert drawn(verdict_of("healthy")).count("\n") == 1


def test_every_finding_has_a_line_of_its_own_and_the_named_one_is_first():
    lines = path_lines(verdict_of("five_hops"), Look(width=160))
    assert [line[1].tone for line in lines[1:]] == [Tone.FAULT, Tone.DOUBT]


def test_a_long_path_goes_on_below_with_its_marks_under_it():
    assert drawn(verdict_of("five_hops"), Look(width=80)) == (
        "  client ← edge-gateway.eu-central-1 ← tenant-gateway ← safety-filter\n"
        "                                     ▲ app_stall 0.40 s\n"
        "   ← model-router ← vllm-0 ← source\n"
        "   ▲ app_stall 1.70 s\n"
    )


def test_a_mark_at_the_right_edge_is_written_to_the_left_of_its_place():
    line, mark = drawn(verdict_of("source_stall"), Look(width=60)).splitlines()
    assert mark.endswith("source_stall 2.03 s ▲")
    assert line[len(mark) - 1] == "←"


def test_a_finding_without_a_place_on_the_path_is_not_drawn():
    elsewhere = Other(cause="network", first_hop="x", owner="x", segment=Segment("x", "y"), seconds=1.0)
    verdict = replace(verdict_of("healthy"), others=(elsewhere, replace(elsewhere, segment=None)))
    assert drawn(verdict).count("\n") == 1


def test_without_hops_there_is_no_path():
    assert path_lines(replace(verdict_of("healthy"), hops=()), LOOK) == []


@pytest.mark.parametrize("width", [60, 61, 72, 80, 100, 160])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_path_fits(name, width):
    assert_fits(drawn(verdict_of(name), Look(width=width)), width)
