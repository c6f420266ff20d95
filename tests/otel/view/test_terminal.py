"""`gapline why` as text: kept examples, the first line, what is said of evidence, and any answer within its width."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given

from otel.view.answers import Segment, read_verdict
from otel.view.palette import Look
from otel.view.terminal import clock, commands_after, lane_name, why
from tests.support import any_answers
from tests.support.answers import ANSWERS
from tests.support.golden import FOLDER, golden, names
from tests.support.screen import SGR, assert_fits

OTHER_VIEWS = {"stalls.txt", "stalls_80.txt", "stalls_none.txt"}


def kept(name):
    return json.loads((FOLDER / f"answers/{name}.json").read_text("utf-8"))


def verdict_of(name):
    return read_verdict(kept(name)["verdict"])


def drawn(name, **look):
    return why(verdict_of(name), Look(**look))


@pytest.mark.parametrize("name", ANSWERS)
def test_examples_look_as_they_are_kept(name):
    text = drawn(name)
    assert golden(f"views/{name}.why.txt", text) == text


def test_in_ascii_it_looks_as_it_is_kept():
    text = drawn("app_stall_at_the_proxy", width=80, is_ascii=True)
    assert golden("views/app_stall_at_the_proxy.why_80_ascii.txt", text) == text


def test_every_kept_view_has_an_example():
    of_answers = {name for name in names("views") if name.split(".")[0] in ANSWERS}
    others = {*OTHER_VIEWS, "thirty_thousand_events.timeline.txt"}
    assert names("views") - of_answers == others


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("name", ANSWERS)
def test_examples_fit(name, width):
    assert_fits(drawn(name, width=width), width)
    assert_fits(drawn(name, width=width, is_colour=True), width)


@given(any_answers.verdicts, any_answers.widths)
def test_any_answer_fits(answer, width):
    assert_fits(why(read_verdict(answer), Look(width=width)), width)


@given(any_answers.verdicts, any_answers.widths)
def test_any_answer_in_ascii_is_ascii_and_fits(answer, width):
    text = why(read_verdict(answer), Look(width=width, is_ascii=True))
    assert text.isascii()
    assert_fits(text, width)


@given(any_answers.verdicts)
def test_colour_adds_nothing_but_colour(answer):
    verdict = read_verdict(answer)
    plain, coloured = why(verdict, Look()), why(verdict, Look(is_colour=True))
    first, _, rest = SGR.sub("", coloured).partition("\n")
    assert rest == plain.partition("\n")[2]
    assert len(first) == len(plain.partition("\n")[0]) or first.endswith(" ")


@pytest.mark.parametrize(
    ("name", "badge"),
    [
        ("source_stall", "[source_stall · model-worker] "),
        ("open_stream", "[source_stall · model-worker · still open] "),
        ("healthy", "[healthy · as far as the reader's machine] "),
        ("inconclusive", "[cannot tell] "),
    ],
)
def test_the_first_line_is_badge_and_sentence(name, badge):
    text = drawn(name, width=200)
    assert text.startswith(badge + verdict_of(name).sentence[:60])


@pytest.mark.parametrize(
    ("observed_to", "badge"),
    [
        ("consumed", "[healthy]"),
        ("received", "[healthy · as far as the client]"),
        ("reader_kernel", "[healthy · as far as the reader's machine]"),
        ("our_kernel", "[healthy · as far as our own kernel]"),
        ("mars", "[healthy · mars]"),
    ],
)
def test_healthy_is_never_said_without_its_reach(observed_to, badge):
    text = why(replace(verdict_of("healthy"), observed_to=observed_to), Look())
    assert text.startswith(badge)


def test_what_is_missing_is_listed():
    assert drawn("inconclusive").count("  missing  ") == 2


def test_an_answer_that_can_still_change_says_so():
    early = replace(verdict_of("source_stall"), verdict_final=False)
    assert "3 hops have reported, not final yet, as of 03:12:09 UTC" in why(early, Look())
    assert "1 hop has reported, not final yet" in why(replace(early, hops=early.hops[:1]), Look())
    assert "open, as of" in drawn("open_stream")


@pytest.mark.parametrize(
    "note", ["no record from gateway, which usually stands on this path", "no tap between a and b"]
)
def test_a_hop_that_is_expected_and_has_not_reported_may_still_do_so(note):
    early = replace(verdict_of("source_stall"), verdict_final=False, missing=("something else", note))
    assert "not final: a hop may still report, as of" in why(early, Look())


@pytest.mark.parametrize(
    ("owner", "badge"),
    [
        ("model-worker or gateway app", "[app_stall · model-worker or gateway] "),
        ("gateway or client", "[app_stall · gateway or client] "),
        ("gateway app", "[app_stall · inference-proxy] "),
        (None, "[app_stall · inference-proxy] "),
    ],
)
def test_the_badge_names_all_that_the_owner_may_be(owner, badge):
    assert why(replace(verdict_of("app_stall_at_the_proxy"), owner=owner), Look()).startswith(badge)


@pytest.mark.parametrize(
    ("to_hop", "owner", "whose"),
    [
        ("gateway", "gateway app", "gateway's machine"),
        ("client", "client", "the reader's machine"),
        ("gateway", "inference-proxy or gateway app", "the next hop's machine"),
    ],
)
def test_whose_machine_had_the_bytes_is_said_where_it_is_known(to_hop, owner, whose):
    verdict = replace(verdict_of("app_stall_at_the_proxy"), segment=Segment("x", to_hop), owner=owner)
    assert f"the awaited bytes had reached {whose}" in why(verdict, Look())


def test_without_a_wait_nothing_is_said_of_rhythm_and_reach():
    assert "  seen  " in drawn("source_stall")
    assert "evidence" not in drawn("truncated")
    assert "  seen  " not in drawn("truncated")


def test_commands_are_left_out_where_nobody_is_there_to_ask():
    text = why(verdict_of("source_stall"), Look(), has_commands=False)
    assert drawn("source_stall").startswith(text)
    assert "gapline" not in text


@pytest.mark.parametrize(
    ("outcome", "cut", "shown"),
    [
        ("upstream_cut", "reset", "upstream_cut (reset)  "),
        ("upstream_cut", None, "upstream_cut  "),
        ("complete", "fin", "complete  "),
        (None, None, "open  "),
    ],
)
def test_how_it_was_cut_is_said_behind_the_outcome_of_a_hop(outcome, cut, shown):
    verdict = verdict_of("truncated")
    changed = replace(verdict, hops=(replace(verdict.hops[0], outcome=outcome, cut=cut),))
    assert shown in why(changed, Look(width=160))


def test_the_guilty_hop_is_marked_in_the_table():
    marked = [line for line in drawn("app_stall_at_the_proxy").splitlines() if line.startswith("▶ ")]
    assert [line.split()[1] for line in marked] == ["inference-proxy", "inference-proxy"]


def test_commands_to_copy_are_safe_to_paste():
    verdict = replace(verdict_of("source_stall"), request_id="$(reboot)", first_hop="a b", cause="x;y")
    commands = [command for command, _ in commands_after(verdict)]
    assert commands == ["gapline timeline '$(reboot)'", "gapline stalls --since 1h --cause 'x;y' --hop 'a b'"]


def test_commands_to_copy_ask_the_same_collector():
    text = why(verdict_of("healthy"), Look(width=120), at=" --collector http://c:1")
    assert text.count(" --collector http://c:1") == 2


@pytest.mark.parametrize("width", [60, 80])
def test_a_command_too_long_for_the_width_is_one_command_when_pasted(width):
    at = f" --collector http://collector.observability.svc.cluster.example:24070/{'p' * 80}"
    text = why(verdict_of("source_stall"), Look(width=width), at=at)
    assert_fits(text, width)
    begin = text.index("  gapline timeline")
    script = f"gapline() {{ printf '%s\\n' \"$@\"; }}\n{text[begin:]}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    asked = [word for command, _ in commands_after(verdict_of("source_stall")) for word in shlex.split(command + at)]
    assert done.stdout.split("\n")[:-1] == [word for word in asked if word != "gapline"]
    assert done.stderr == ""


def test_an_open_stream_can_be_watched():
    assert "watch gapline why req-7f3a9c21" in drawn("open_stream")


def test_the_date_is_said_where_it_is_another_day():
    assert clock("2026-01-17T03:12:09Z", "2026-01-17T04:00:00Z") == "03:12:09"
    assert clock("2026-01-16T23:12:09Z", "2026-01-17T04:00:00Z") == "01-16 23:12:09"


def test_a_tap_behind_its_app_is_named_so():
    assert lane_name("gateway", "ingress") == "gateway"
    assert lane_name("gateway", "egress") == "gateway (egress)"
