"""The questions a person asks, answered by a real collector about streams that really ran.

`gapline why`, `timeline` and `stalls` end with the code that says what the answer was, and `--json` has every key that
others rely on. A request id may be anything that a header can carry: it passes unchanged, what is no plain text is
recorded as a digest, it is found by the raw id, and nothing that moves a terminal's cursor is ever printed or logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from urllib.parse import parse_qs

import aiohttp
import pytest
import pytest_asyncio

from otel.ids import recorded
from otel.otlp import decode_response, encode_request
from otel.span import hop_to_span
from tests.support import bodies
from tests.support.builders import a_hop
from tests.support.processes import Collector, Finished, Fleet, Sidecar, free_ports, gapline, get_json, until
from tests.support.schema_check import violations
from tests.support.wire import Asked, Worker, asking, get, worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio(loop_scope="module")]

HOPS = ["model-worker", "gateway"]
CHAT = "/v1/chat/completions"
PACE_S = 0.01
STALL_S = 1.2
NAMED, INCONCLUSIVE, NOT_FOUND, NO_ANSWER, USAGE, UNREADABLE = 10, 11, 12, 3, 2, 1

WHY_KEYS = {
    "request_id", "trace_id", "status", "verdict_final", "open", "as_of", "cause", "first_hop", "owner", "segment",
    "gap_s", "at_seq", "wait", "contributions", "others", "confidence", "missing", "observed_to", "evidence", "hops",
    "sentence",
}  # fmt: skip
HOP_KEYS = {"hop", "role", "events", "outcome", "ended_by", "phase", "hold_s", "bytes_in", "bytes_out"}
"""The contract: others rely on these, and an answer may have more."""

HOSTILE = {
    "300 characters": b"x" * 300,
    "201 characters": b"y" * 201,
    "200 characters": b"z" * 200,
    "unicode": "né-日本-🚀-\u202eright to left".encode(),
    "a terminal's escape as UTF-8 knows it": "\u009b31mred".encode(),
    "up and out": b"../../etc/passwd",
    "dots": b"..",
    "an encoded zero": b"a%00b",
    "an encoded slash": b"a%2f%2e%2e%2fb",
    "a query and a fragment": b"a?b=c&d#e",
    "a flag": b"--json",
    "white space": b"a b\tc",
    "SQL": b"' OR 1=1; --",
    "HTML": b'"><script>alert(1)</script>',
}


@dataclass
class Place:
    """A worker, two sidecars before it, and the collector that hears from them."""

    worker: Worker
    chain: list[Sidecar]
    collector: Collector

    async def stream(self, request_id: str | bytes, query: str = "") -> bytes:
        """Run one stream through the path; what came of it."""
        raw = request_id if isinstance(request_id, bytes) else request_id.encode()
        async with asking(self.chain[-1].port, get(f"{CHAT}?{query}", b"X-Request-Id: " + raw)) as reader:
            body = await reader.rest()
            assert reader.fields("x-request-id") == [raw]
            return body

    async def ask(self, *words: str | bytes) -> Finished:
        name, *rest = words
        return await gapline(name, "--collector", self.collector.query_url, *rest)


async def answer(asked: Asked) -> None:
    """A chat stream of `events`, with a `stall` in its middle, or `cut` off there."""
    query = parse_qs(asked.target.partition(b"?")[2].decode())
    events = bodies.chat_events(int(query.get("events", ["40"])[0]), model=query.get("model", ["tiny"])[0])
    await asked.head()
    for number, event in enumerate(events):
        is_middle = number == len(events) // 2
        if is_middle and "cut" in query:
            await asked.cut()
            return
        await asyncio.sleep(float(query.get("stall", [0])[0]) if is_middle else PACE_S)
        await asked.chunk(event)
    await asked.end()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    with Fleet(tmp_path_factory.mktemp("questions")) as fleet:
        async with worker({CHAT: answer}) as up:
            collector = fleet.collector("--stall-after", "500ms", "--log-level", "debug")
            chain: list[Sidecar] = []
            for hop in HOPS:
                upstream = chain[-1].url if chain else up.url
                flags = ("--log-level", "debug")
                chain.append(fleet.sidecar(hop, upstream, *flags, export=collector.otlp_url))
            await fleet.ready()
            made = Place(up, chain, collector)
            async with asyncio.TaskGroup() as group:
                group.create_task(made.stream("healthy"))
                group.create_task(made.stream("stalled", f"stall={STALL_S}&model=stalling"))
                group.create_task(made.stream("unsure", f"events=3&stall={STALL_S}&model=never-seen"))
                group.create_task(made.stream("broken", "cut=1"))
            for request_id in ("healthy", "stalled", "unsure", "broken"):
                await collector.verdict(request_id, hops=2)
            yield made


# --------------------------------------------------------------------------------------------------------- codes


@pytest.mark.parametrize(
    ("request_id", "code", "said"),
    [
        ("healthy", 0, ("healthy", "none", None)),
        ("stalled", NAMED, ("named", "source_stall", "model-worker")),
        ("broken", NAMED, ("named", "truncated", "model-worker")),
        ("unsure", INCONCLUSIVE, ("inconclusive", "none", None)),
    ],
)
async def test_why_ends_with_the_code_of_its_verdict_and_its_json_has_every_key(
    place: Place, request_id: str, code: int, said: tuple[str, str, str | None]
) -> None:
    told = await place.ask("why", request_id, "--json")
    assert (told.code, told.errors) == (code, b"")
    verdict = told.json
    assert (verdict["status"], verdict["cause"], verdict["first_hop"]) == said
    assert verdict["request_id"] == request_id
    assert verdict.keys() >= WHY_KEYS
    assert [hop["hop"] for hop in verdict["hops"]] == HOPS
    assert all(hop.keys() >= HOP_KEYS for hop in verdict["hops"])
    assert not await misfits(place, verdict, "Verdict")
    assert told.out.count(b"\n") == 1

    shown = await place.ask("why", request_id)
    assert (shown.code, shown.errors) == (code, b"")
    assert request_id in shown.out.decode()
    assert said[2] is None or said[2] in shown.out.decode()


async def test_the_terms_of_a_stall_are_its_wait_and_the_planted_one_is_the_sources(place: Place) -> None:
    verdict = (await place.ask("why", "stalled", "--json")).json
    terms = {term["segment"]: term["seconds"] for term in verdict["contributions"]}
    assert sum(terms.values()) == pytest.approx(verdict["gap_s"], abs=1e-4)
    assert terms["source"] == pytest.approx(STALL_S, abs=0.1)
    assert verdict["wait"] == "gap"
    assert verdict["at_seq"] == 21  # half of the 43 events of the answer


async def test_an_inconclusive_answer_says_what_is_missing(place: Place) -> None:
    verdict = (await place.ask("why", "unsure", "--json")).json
    assert any("rhythm" in missing for missing in verdict["missing"])
    assert verdict["confidence"] == 0


async def test_a_timeline_is_drawn_and_its_json_has_a_lane_for_each_hop(place: Place) -> None:
    told = await place.ask("timeline", "stalled", "--json")
    assert (told.code, told.errors) == (0, b"")
    assert [tap["hop"] for tap in told.json["taps"]] == HOPS
    assert all(len(tap["stamps"]) == 43 for tap in told.json["taps"])
    assert not await misfits(place, told.json, "Timeline")

    drawn = await place.ask("timeline", "stalled", "--ascii")
    assert drawn.code == 0
    assert drawn.out.isascii()
    assert all(hop in drawn.out.decode() for hop in HOPS)


async def test_stalls_are_listed_newest_first_and_by_what_is_asked_for(place: Place) -> None:
    async def listed(*flags: str) -> list[str]:
        told = await place.ask("stalls", "--json", *flags)
        assert (told.code, told.errors) == (0, b"")
        assert not await misfits(place, told.json, "Stalls")
        return [stall["request_id"] for stall in told.json["stalls"]]

    async def are_judged() -> bool:
        return {"stalled", "unsure", "broken"} <= set(await listed())

    await until(are_judged, "they are in the list")
    assert "healthy" not in await listed()
    assert await listed("--cause", "source_stall", "--hop", "model-worker") == ["stalled"]
    assert await listed("--model", "stalling", "--min-gap", "1s") == ["stalled"]
    assert await listed("--model", "stalling", "--min-gap", "5s") == []
    assert await listed("--cause", "truncated") == ["broken"]
    assert len(await listed("--limit", "1")) == 1
    shown = await place.ask("stalls")
    assert shown.code == 0
    assert "stalled" in shown.out.decode()


async def test_a_request_that_nobody_knows_is_12(place: Place) -> None:
    for question in ("why", "timeline"):
        told = await place.ask(question, "nobody-knows")
        assert (told.code, told.out) == (NOT_FOUND, b"")
        assert b"no hop of this request" in told.errors


async def test_a_collector_that_cannot_be_reached_is_3() -> None:
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    for words in (("why", "x"), ("timeline", "x"), ("stalls",)):
        told = await gapline(*words, "--collector", nowhere)
        assert (told.code, told.out) == (NO_ANSWER, b"")
        assert nowhere.encode() in told.errors


@pytest.mark.parametrize(
    "words",
    [
        ("why",),
        ("why", ""),
        ("why", "x", "--no-such-flag"),
        ("why", "x", "--collector", "ftp://host"),
        ("timeline", "x", "--from", "2", "--to", "1"),
        ("stalls", "--since", "yesterday"),
        ("stalls", "--limit", "0"),
        ("whi", "x"),
        (),
    ],
    ids=" ".join,
)
async def test_wrong_usage_is_2(words: tuple[str, ...]) -> None:
    told = await gapline(*words)
    assert (told.code, told.out) == (USAGE, b"")
    assert told.errors
    assert b"Traceback" not in told.errors


async def test_a_parameter_that_the_collector_refuses_is_2(place: Place) -> None:
    told = await place.ask("stalls", "--cause", "gremlins")
    assert (told.code, told.out) == (USAGE, b"")
    assert b"source_stall" in told.errors


@pytest.mark.parametrize(
    ("body", "code"), [(b"{}", UNREADABLE), (b"<html>welcome</html>", NO_ANSWER), (b"[]", NO_ANSWER)]
)
async def test_an_answer_that_is_none_is_said_to_be_none(body: bytes, code: int) -> None:
    async def other(asked: Asked) -> None:
        await asked.head(f"Content-Length: {len(body)}", content_type="application/json")
        await asked.raw(body)

    async with worker({"/v1/requests/x/verdict": other}) as up:
        told = await gapline("why", "x", "--collector", up.url)
    assert (told.code, told.out) == (code, b"")
    assert b"Traceback" not in told.errors


async def misfits(place: Place, told: object, name: str) -> list[str]:
    """In what the answer does not keep to the description that the collector itself gives."""
    document = await get_json(f"{place.collector.query_url}/v1/openapi.json")
    return list(violations(told, document["components"]["schemas"][name], document))


# -------------------------------------------------------------------------------------------------- hostile ids


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What moves a cursor, colours, hides or reorders; a line end does not."""


def shown_plainly(printed: bytes) -> str:
    text = printed.decode()  # and so it is UTF-8
    assert not CONTROLS.search(text), ascii(text)
    return text


@pytest.mark.parametrize("name", HOSTILE)
async def test_any_id_passes_unchanged_is_recorded_harmlessly_and_found_by_itself(place: Place, name: str) -> None:
    raw = HOSTILE[name]
    assert await place.stream(raw) == b"".join(bodies.chat_events(40))
    assert place.worker.of(raw).target.startswith(CHAT.encode())
    verdict = await place.collector.verdict(raw, hops=2)
    expected = recorded(raw.decode())
    is_plain = re.fullmatch(rb"[\x21-\x7e]{1,200}", raw) is not None
    assert expected == raw.decode() if is_plain else re.fullmatch(r"sha256:[0-9a-f]{32}", expected)
    assert verdict["request_id"] == expected

    await found_and_shown_plainly(place, raw, expected)
    assert is_plain or all(raw not in process.log.read_bytes() for process in (*place.chain, place.collector))


async def test_an_id_that_is_no_utf_8_passes_as_it_is_and_finds_its_request(place: Place) -> None:
    raw = b"latin-\xe9\xff-1"
    async with asking(place.chain[-1].port, get(CHAT, b"X-Request-Id: " + raw)) as reader:
        await reader.rest()
        assert reader.fields("x-request-id") == [raw]
    expected = recorded(raw.decode("utf-8", "surrogateescape"))
    assert (await place.collector.verdict(raw, hops=2))["request_id"] == expected
    await found_and_shown_plainly(place, raw, expected)
    told = await place.ask("stalls", "--model", raw)
    assert (told.code, told.errors) == (0, b"")
    shown_plainly(told.out)


async def found_and_shown_plainly(place: Place, raw: bytes, expected: str) -> None:
    told, *shown = await asyncio.gather(
        place.ask("why", "--json", "--", raw),
        place.ask("why", "--width", "400", "--", raw),
        place.ask("timeline", "--width", "400", "--", raw),
    )
    assert (told.code, told.errors) == (0, b"")
    assert told.json["request_id"] == expected
    assert [hop["hop"] for hop in told.json["hops"]] == HOPS
    for each in shown:
        assert each.code == 0
        assert expected in shown_plainly(each.out)
    for process in (*place.chain, place.collector):
        shown_plainly(process.log.read_bytes())


@pytest.mark.parametrize("raw", [b"\x1b[31mred\x1b[0m", b"bell\x07", b"nothing\x00more", b"del\x7f"], ids=repr)
async def test_an_id_with_a_control_character_is_refused_and_nowhere_quoted(place: Place, raw: bytes) -> None:
    gateway, before = place.chain[-1], len(place.worker.asked)
    refused = await gateway.metric('gapline_refused_heads_total{rule="bad_field"}')
    async with asking(gateway.port, get(CHAT, b"X-Request-Id: " + raw)) as reader:
        await reader.rest()
        assert reader.status == 400
    assert await gateway.metric('gapline_refused_heads_total{rule="bad_field"}') == refused + 1
    assert len(place.worker.asked) == before
    shown_plainly(gateway.log.read_bytes())

    if b"\x00" not in raw:  # which no command line can carry
        told = await place.ask("why", b"--", raw)
        assert told.code == NOT_FOUND
        shown_plainly(told.errors)


async def test_names_that_a_forger_of_spans_chose_move_no_cursor(place: Place) -> None:
    """Whoever can send spans can call a hop or a model what he likes; the terminal is someone else's."""
    evil = "\x1b]0;owned\x07\x9b2J\u202e"
    hop = a_hop("forged", request_id="forged")
    hop = replace(hop, place=replace(hop.place, hop=f"hop{evil}"), exchange=replace(hop.exchange, model=f"m{evil}"))
    forged = (hop, replace(a_hop("other", request_id="forged"), request_id=f"forged{evil}", aliases=(f"alias{evil}",)))
    rejected = 0
    for each in forged:
        body = encode_request([hop_to_span(each)])
        headers = {"Content-Type": "application/x-protobuf"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{place.collector.otlp_url}/v1/traces", data=body, headers=headers) as response,
        ):
            said = await response.read()
            assert response.status == 200
            rejected += decode_response(said, as_json=False)[0]
    assert rejected < len(forged), "nothing to show"
    questions = (("why", "forged"), ("timeline", "forged"), ("stalls", "--since", "3650d"))
    flags = ("--json", "--ascii", "--no-color")
    for told in await asyncio.gather(*(place.ask(*words, flag) for words in questions for flag in flags)):
        assert told.code in {0, NAMED, INCONCLUSIVE}, told.errors
        shown_plainly(told.out)
        shown_plainly(told.errors)
    shown_plainly(place.collector.log.read_bytes())
