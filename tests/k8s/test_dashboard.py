"""The dashboard: laid out without overlaps, and every query finds something in what real processes say."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from k8s.dashboard import COLUMNS, dashboard, queries
from k8s.tally import Tally
from otel.exposition import classic, openmetrics
from tests.k8s import tools
from tests.k8s.series import Scraped, families, faults_found
from tests.k8s.test_alerts import COLLECTOR, DAY_S, INJECTOR, NAMES, POD, ask, injector, said, serving, stalls_of
from tests.support.golden import golden
from tests.support.processes import Fleet, get, until

FILE = "../../k8s/manifests/chart/monitoring/dashboard.json"
CHOICES = {"$namespace": "llm", "$hop": ".*", "$model": ".*", "$__rate_interval": "5m"}


def test_the_file_is_what_the_code_says():
    text = json.dumps(dashboard(), indent=2) + "\n"
    assert golden(FILE, text) == text


def test_panels_lie_side_by_side_and_have_numbers_of_their_own():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < COLUMNS
    rows = [panel["gridPos"]["y"] for panel in panels if panel["type"] == "row"]
    assert all(above < below for above, below in pairwise(rows))


def test_every_panel_has_a_query_and_a_unit():
    for panel in dashboard()["panels"]:
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["fieldConfig"]["defaults"]["unit"]


def chosen(query: str) -> str:
    for variable, value in CHOICES.items():
        query = query.replace(variable, value)
    return query


def reviewed() -> str:
    """What an injector says that has answered."""
    tally = Tally(certificate_ends_s=90 * DAY_S)
    tally.decisions["injected", "named"] += 3
    tally.answered(4_000_000)
    return classic(openmetrics(tally.series()))


@pytest.mark.e2e
@pytest.mark.skipif(bool(tools.missing()), reason=tools.missing())
async def test_every_query_finds_something_in_what_real_processes_say(tmp_path):
    async with serving() as url:
        with Fleet(tmp_path) as fleet:
            collector = fleet.collector()
            sidecar = fleet.sidecar("worker", url, export=collector.otlp_url)
            await fleet.ready()
            for name in ("good", "unfinished", "failing"):
                await ask(sidecar, name)
            first = await said(sidecar)
            await until(lambda: stalls_of(collector.query_url), "a stall is counted")
            judged = (await get(f"{collector.query_url}/metrics"))[1]
            for name in ("good", "unfinished", "failing"):
                await ask(sidecar, name)
            second = await said(sidecar)
    asked = list(queries())
    reviews = [injector(), reviewed()]
    assert set(NAMES.findall(" ".join(asked))) <= families([first, judged, *reviews])
    scraped = [
        Scraped(POD, [(20, first), (20, second)]),
        Scraped(COLLECTOR, [(40, judged)]),
        Scraped(INJECTOR, [(20, reviews[0]), (20, reviews[1])]),
    ]
    cases = [
        {
            "expr": f"count({chosen(query)}) > bool 0",
            "eval_time": "22m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for query in asked
    ]
    assert faults_found(tmp_path, [], scraped, cases) == ""
