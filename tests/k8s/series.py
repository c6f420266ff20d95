"""What Prometheus would have of real processes: their /metrics at several moments, as promtool's unit tests take it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.k8s.tools import inside, tool

ABSENT: Final = "_"
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Scraped:
    """One target: the labels that Prometheus puts on all its series, and what it said, each for so many minutes.

    A series that an earlier scrape has not is absent until then, as it is for Prometheus.
    """

    target: Mapping[str, str]
    scrapes: Sequence[tuple[int, str]]

    def series(self) -> list[dict[str, str]]:
        found = [(minutes, samples(text)) for minutes, text in self.scrapes]
        keys = dict.fromkeys(key for _, each in found for key in each)
        return [
            {
                "series": self._labelled(key),
                "values": " ".join(each.get(key, ABSENT) for minutes, each in found for _ in range(minutes)),
            }
            for key in keys
        ]

    def _labelled(self, key: str) -> str:
        name, _, labels = key.rstrip("}").partition("{")
        return metric(name, self.target, labels)


def samples(text: str) -> dict[str, str]:
    """Every sample of an exposition by its name and labels, as they are written there."""
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))


def families(texts: Iterable[str]) -> set[str]:
    """The names of all samples."""
    return {_NAME.match(key)[0] for text in texts for key in samples(text)}


def metric(name: str, labels: Mapping[str, str], more: str = "") -> str:
    inner = [f"{label}={json.dumps(value)}" for label, value in labels.items()]
    return f"{name}{{{','.join([*inner, *([more] if more else [])])}}}"


def rules(manifest: Path) -> list[dict[str, Any]]:
    """The groups of a PrometheusRule, as Prometheus itself reads them."""
    [[found]] = inside("read", [manifest.read_text("utf-8")])
    return found["spec"]["groups"]


def faults_found(folder: Path, groups: object, scraped: Sequence[Scraped], cases: Sequence[Mapping[str, Any]]) -> str:
    """What promtool finds wrong with these cases, of expressions or of alerts; empty: nothing. JSON is YAML to it."""
    (folder / "rules.json").write_text(json.dumps({"groups": groups}))
    test = {
        "interval": "1m",
        "input_series": [series for each in scraped for series in each.series()],
        "promql_expr_test": [case for case in cases if "expr" in case],
        "alert_rule_test": [case for case in cases if "alertname" in case],
    }
    asked = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "cases.json").write_text(json.dumps(asked))
    done = tool("promtool", "test", "rules", str(folder / "cases.json"))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def firing(at_min: int, *alerts: Mapping[str, str]) -> dict[str, Any]:
    """The case that these alerts, and no others, fire at that minute."""
    expected = [{"labels": metric("ALERTS", {**each, "alertstate": "firing"}), "value": 1} for each in alerts]
    return {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{at_min}m", "exp_samples": expected}


def saying(at_min: int, alert: Mapping[str, str], summary: str, description: str) -> dict[str, Any]:
    """The case that the alert says this then."""
    labels = {label: value for label, value in alert.items() if label != "alertname"}
    told = {"exp_labels": labels, "exp_annotations": {"summary": summary, "description": description}}
    return {"alertname": alert["alertname"], "eval_time": f"{at_min}m", "exp_alerts": [told]}
