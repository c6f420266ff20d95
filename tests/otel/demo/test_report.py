"""What the demo tells: one object, a few lines, and what to try."""

from __future__ import annotations

import json
from typing import Any

from otel.demo import check, faults, report
from otel.demo.answer import Answer, Receipt
from otel.demo.conduct import Question, Run
from otel.demo.topology import Topology

ANSWER = Answer(200, (Receipt(0.1, 6), Receipt(2.125, 6)), 2.2, is_whole=True, is_done=True, held_off_s=None)


def run(fault: str = "gateway:stall=2", **changes: Any) -> Run:
    verdict = {
        "status": "named",
        "first_hop": "gateway",
        "cause": "app_stall",
        "wait": "gap",
        "contributions": [
            {"segment": "source", "owner": "model-worker app", "seconds": 0.025},
            {"segment": "inference-proxy>gateway", "owner": "gateway app", "seconds": 2.003},
        ],
        **changes,
    }
    question = Question(faults.parse(fault), events=120, seed=1, worker_pid=1)
    return Run(question, "r-1", ANSWER, verdict, check.judge(question.fault, verdict, ANSWER))


def test_the_object_has_what_was_planted_expected_said_and_measured() -> None:
    told = json.loads(json.dumps(report.run_object(run())))
    assert told["fault"] == "gateway:stall=2"
    assert told["expected"]["first_hop"] == "gateway"
    assert (told["named_right"], told["cause_right"]) == (True, True)
    assert told["verdict"]["cause"] == "app_stall"
    assert round(told["reader"]["waited_s"], 6) == 2.025
    assert told["checks"]["term"]["ok"]
    assert round(told["checks"]["sum"]["error_s"], 6) == 0.003


def test_many_runs_are_counted_and_the_largest_errors_are_kept() -> None:
    wrong = run(first_hop="inference-proxy")
    told = report.runs_object([run(), wrong, run(cause="network")])
    assert (told["runs"], told["named_right"], told["cause_right"]) == (3, 2, 1)
    assert round(told["largest_term_error_s"], 6) == 0.003
    assert len(told["results"]) == 3


def test_healthy_runs_have_no_term_to_be_wrong_about() -> None:
    healthy = run("none", status="healthy", first_hop=None, cause="none")
    assert report.runs_object([healthy])["largest_term_error_s"] is None
    assert "planted was healthy, the verdict says healthy" in report.judged(healthy)


def test_people_read_whether_it_was_right_and_by_how_much() -> None:
    assert report.judged(run()).splitlines() == [
        "RIGHT: planted was gateway, the verdict says gateway, app_stall",
        "       its term: 2.003 s, planted 2.000 s (+3 ms)",
        "       all terms: 2.028 s, measured by the client 2.025 s (+3 ms)",
    ]


def test_what_is_wrong_stands_out() -> None:
    assert report.judged(run(first_hop="client")).startswith("WRONG: planted was gateway, the verdict says client")
    assert "the cause should be app_stall" in report.judged(run(cause="self"))
    assert "MORE THAN 50 ms" in report.judged(run("gateway:stall=1.9"))


def test_what_to_try_names_the_running_addresses_and_the_request() -> None:
    text = report.what_to_try(Topology((), "http://127.0.0.1:1", "http://127.0.0.1:2"), "r-1")
    assert "curl -N http://127.0.0.1:1/v1/chat/completions" in text
    assert "gapline timeline r-1 --collector http://127.0.0.1:2" in text
