import itertools

import orjson
import pytest

from otel.findings import Policy
from otel.instants import rfc3339
from otel.join import join
from otel.query import timeline_answer, verdict_answer
from otel.verdict import judge
from otel.view.openapi import document
from tests.support.builders import WALL_NS
from tests.support.chain import GATEWAY, PROXY, WORKER, Chain, run
from tests.support.schema_check import violations

S = 1_000_000_000
DOCUMENT = document(version="1.2.3")

CHAINS = {
    "healthy": Chain(),
    "stall": Chain(stalls=((PROXY, 60, 3 * S),)),
    "source stall": Chain(stalls=(("source", 60, 9 * S),)),
    "slow first": Chain(slow_first=((GATEWAY, 7 * S),)),
    "buffer": Chain(buffers=((PROXY, S),)),
    "slow reader": Chain(slow_reader=(50, 3 * S)),
    "lossy": Chain(lossy=(WORKER, 50, 3 * S)),
    "cut": Chain(cut=(PROXY, 40)),
    "left": Chain(leave=30),
    "frozen": Chain(freeze=(PROXY, 50, 3 * S)),
    "one event": Chain(events=1),
    "nothing": Chain(cut=("source", 0)),
    "two of three": Chain(names=(WORKER, GATEWAY)),
}


def answers(chain: Chain) -> tuple[dict, dict]:
    path = join(run(chain))
    verdict = judge(path, Policy())
    answer = verdict_answer(path, verdict, as_of=rfc3339(WALL_NS), is_final=True)
    return tuple(orjson.loads(orjson.dumps(each)) for each in (answer, timeline_answer(path, verdict, answer)))


def breaches(value: object, name: str) -> list[str]:
    return list(violations(value, DOCUMENT["components"]["schemas"][name], DOCUMENT))


@pytest.mark.parametrize("name", CHAINS)
def test_every_answer_is_as_described(name: str):
    verdict, timeline = answers(CHAINS[name])

    assert breaches(verdict, "Verdict") == []
    assert breaches(timeline, "Timeline") == []


def test_the_document_is_json_and_says_its_version():
    assert orjson.loads(orjson.dumps(DOCUMENT)) == DOCUMENT
    assert DOCUMENT["info"]["version"] == "1.2.3"
    assert DOCUMENT["openapi"] == "3.1.0"


def test_every_reference_leads_somewhere_and_every_schema_is_referred_to():
    text = orjson.dumps(DOCUMENT).decode()
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert names == set(DOCUMENT["components"]["schemas"])


def test_every_operation_has_a_name_of_its_own_and_says_what_may_go_wrong():
    operations = [path["get"] for path in DOCUMENT["paths"].values()]
    names = [operation["operationId"] for operation in operations]

    assert len(set(names)) == len(names)
    for operation in operations:
        assert {"200", "503"} <= operation["responses"].keys()
        is_open = operation.get("security") == []
        assert ("401" in operation["responses"]) is not is_open


def test_the_parameters_in_a_path_are_described():
    for path, methods in DOCUMENT["paths"].items():
        described = {p["name"] for p in methods["get"]["parameters"] if p["in"] == "path"}
        assert described == {part[1:-1] for part in path.split("/") if part.startswith("{")}


# ------------------------------------------------------------------- the checker itself is checked


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        ({"status": "fine"}, "answer.status: 'fine' is none of"),
        ({"gap_s": "3"}, "answer.gap_s: '3' is not number"),
        ({"at_seq": -1}, "answer.at_seq: -1 is out of range"),
        ({"open": 0}, "answer.open: 0 is not boolean"),
        ({"surprise": 1}, "answer.surprise: is not described"),
        ({"trace_id": "xyz"}, "answer.trace_id: 'xyz' does not match"),
        ({"as_of": "now"}, "answer.as_of: 'now' does not match"),
        ({"hops": [{}]}, "answer.hops[0].hop: is missing"),
        ({"segment": 1}, "answer.segment: 1 fits none"),
    ],
)
def test_an_answer_that_is_not_as_described_is_seen(change: dict, breach: str):
    verdict, _ = answers(CHAINS["stall"])

    assert breaches({**verdict, **change}, "Verdict")[0].startswith(breach)


def test_a_member_that_is_missing_is_seen():
    verdict, timeline = answers(CHAINS["stall"])
    for answer, name in ((verdict, "Verdict"), (timeline, "Timeline")):
        for member in answer:
            rest = {k: v for k, v in answer.items() if k != member}
            assert breaches(rest, name) == [f"answer.{member}: is missing"]
    row = timeline["taps"][0]["stamps"][0]
    for changed in (row[:-1], [*row, 0], [row[0], None, *row[2:]]):
        taps = [{**timeline["taps"][0], "stamps": [changed]}]
        assert len(breaches({**timeline, "taps": taps}, "Timeline")) == 1


def test_the_causes_and_states_of_the_examples_differ():
    seen = {(v["status"], v["cause"]) for v, _ in itertools.starmap(answers, ((c,) for c in CHAINS.values()))}

    assert len(seen) >= 8
