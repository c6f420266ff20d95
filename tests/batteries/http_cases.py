"""Every case of an HTTP/1.1 proxy collection against a real sidecar process, on both event loops and with both parsers.

    python -m tests.batteries.http_cases DIR [--only q01,s08]

DIR holds `http_proxy_cases.json`. A request-side case is sent on a connection of its own, then once more behind a
good request; after a response-side case other clients follow, on a new connection and on the same one. Beside status,
bytes and end it is checked what reached the upstream and on which connection, what the record says, and at the end
that nothing runs, every request has one record or is counted as refused, and the runs agree. Where a case leaves the
choice, `POLICY` says ours. Prints a row per case that fails; exit code 1 when one does, 2 when DIR is no such folder.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel.hop import Ending, Hop
from tests.support.processes import Fleet, Sidecar, until
from tests.support.raw_peers import (
    CUT,
    MALFORMED,
    RESET,
    SILENT,
    Asked,
    Got,
    RawUpstream,
    asked_once,
    raw_client,
    raw_upstream,
    simple,
)
from tests.support.sidecars import Records, collecting, environ, exchange_count, fields_of, idle, is_quiet, pid_of

CHAT = "/v1/chat/completions"
ANSWER_S = 4.0
"""Longest that an answer may take: nothing here is to be waited for, so what is later hangs."""
LATE_S = 0.1
"""After an answer, for what might still come: further requests upstream, further bytes down."""
BODY_S = 1.0
"""A body that stays away so long is ended by the sidecar: some parsers wait for the rest of what is no length."""
PAUSE_S = 0.1
"""Between the two writes of a case that is split, and before a reset, so that what precedes it is read."""

POLICY: dict[str, dict[str, Any]] = {
    "q03": {"status": [400], "upstream": [0]},  # equal lengths are refused like different ones
    "q21": {"status": [200], "upstream": [1]},  # digits are decimal, whatever they begin with
    "q30": {"status": [200], "upstream": [1]},  # an empty element of a list is none (RFC 9110, 5.6.1)
    "q38": {"status": [400, 501], "upstream": [0]},  # of transfer codings only chunked is supported
    "q39": {"status": [200], "upstream": [1]},  # names of codings have no case
    "q87": {"status": [400], "upstream": [0]},  # a folded field of a request is refused
    "q96": {"status": [200, 400], "upstream": [0, 1]},  # what is behind a good request may take it along, never more
    "s06": {"status": [200]},  # surplus bytes are dropped with their connection
    "s23": {"trailers": [(b"X-C", b"abc")]},  # trailers pass
}
"""Our choice where a case allows more than one. q96: both are seen, depending on how the bytes are cut."""

MAY_DIFFER = {
    "q61": "the parser in Python takes any number of digits for a size, and the body that stays away is a 408",
    "q62": "as q61",
    "q96": "it depends on how the bytes are cut",
}
"""Cases in which the kinds of process may give different answers, each of them right, and why."""

OUTCOMES = {
    "truncated": ({Ending.UPSTREAM_CUT}, None),
    "truncated/protocol_error": ({Ending.UPSTREAM_CUT}, True),
    "truncated (missing_terminal)": ({Ending.MISSING_TERMINAL}, False),
    "complete": ({Ending.COMPLETE}, False),
    "complete with framing_incomplete": ({Ending.COMPLETE}, True),
}
"""Our words for those of the collection: the ending, and whether the framing is recorded as incomplete."""


@dataclass
class Case:
    """One case, and how its upstream is to answer."""

    id: str
    desc: str
    data: bytes
    raw: dict[str, Any]


@dataclass
class Run:
    """One sidecar, and what it got wrong."""

    name: str
    sidecar: Sidecar
    upstream: RawUpstream
    records: Records
    now: Case | None = None
    failures: list[tuple[str, str]] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)

    def check(self, case: Case, is_right: bool, what: str) -> None:
        if not is_right:
            self.failures.append((case.id, f"{case.desc}: {what}"))

    @property
    def port(self) -> int:
        return self.sidecar.port


def cases_of(folder: Path) -> tuple[list[Case], list[Case]]:
    found = json.loads((folder / "http_proxy_cases.json").read_text())
    sides = ("request_side", "response_side")
    first, second = ([Case(c["id"], c["desc"], base64.b64decode(c["bytes_b64"]), c) for c in found[s]] for s in sides)
    return first, second


def word_of(got: Got) -> int | str:
    """The status, or what there was in place of one."""
    if got.status is not None:
        return got.status
    return {CUT: "close", RESET: "close", SILENT: "hang", MALFORMED: "malformed"}[got.end]


# ---------------------------------------------------------------------------------------------------- the upstream


def answering(run_of: list[Run]) -> Any:
    async def answer(asked: Asked) -> None:
        run = run_of[0]
        if not asked.target.startswith(CHAT) or run.now is None or not run.now.id.startswith("s"):
            await asked.send(simple(body=asked.target.encode()))
            return
        case, split_at = run.now, run.now.raw.get("split_at")
        await asked.send(case.data[:split_at])
        if split_at:
            await asyncio.sleep(PAUSE_S)
            await asked.send(case.data[split_at:])
        match case.raw["upstream_end"]:
            case "rst":
                await asyncio.sleep(PAUSE_S)
                asked.reset()
            case "fin":
                asked.close()

    return answer


# ------------------------------------------------------------------------------------------------ the request side


async def request_case(run: Run, case: Case) -> None:
    run.now = case
    before = await accounted(run)
    await request_once(run, case, behind=False)
    await request_once(run, case, behind=True)
    after = await accounted(run)
    run.check(case, after >= before + 3, f"{after - before} of 3 requests are recorded or counted as refused")
    good = await asked_once(run.port, get("/after"), within_s=ANSWER_S)
    run.check(case, (good.status, bytes(good.body)) == (200, b"/after"), f"the next client got {word_of(good)}")


async def request_once(run: Run, case: Case, *, behind: bool) -> None:
    """Send the case, on a connection of its own or behind a good request."""
    where = " behind a good request" if behind else ""
    policy = POLICY.get(case.id, {})
    async with raw_client(run.port) as client:
        if behind:
            client.send(get("/before"))
            before = await client.answer(within_s=ANSWER_S)
            run.check(case, bytes(before.body) == b"/before", "the good request before it failed")
        first = len(run.upstream.asked)
        client.send(case.data)
        got = await client.answer(case.data.split(b" ", 1)[0], within_s=ANSWER_S)
        await asyncio.sleep(LATE_S)
        reached = run.upstream.asked[first:]
    word, whole_count = word_of(got), sum(asked.is_whole for asked in reached)
    run.seen.setdefault(case.id, f"{word}, {len(reached)} upstream")
    accepted = policy.get("status", case.raw["accept_status"])
    run.check(case, word in accepted, f"{word} is not one of {accepted}{where}")
    expected = policy.get("upstream", case.raw["accept_upstream_requests"])
    run.check(case, len(reached) in expected, f"{len(reached)} requests upstream, not {expected}{where}")
    if "upstream_complete_requests" in case.raw:
        run.check(case, whole_count in case.raw["upstream_complete_requests"], f"{whole_count} whole upstream{where}")
    if got.status is not None and got.status >= 400:
        run.check(case, got.end != MALFORMED and got.is_clean, f"its own answer ended {got.end}{where}")
        run.check(case, client.left_by is not None or got.status == 417, f"{got.status}, connection left open{where}")
    for asked in reached:
        for complaint in wrong_upstream(case, asked):
            run.check(case, False, complaint + where)


def wrong_upstream(case: Case, asked: Asked) -> Iterator[str]:
    """What must never be sent to an upstream."""
    if asked.is_whole and "upstream_body_b64" in case.raw:
        expected = base64.b64decode(case.raw["upstream_body_b64"])
        if asked.body != expected:
            yield f"the upstream got the body {bytes(asked.body)!r}, not {expected!r}"
    for name in case.raw.get("upstream_must_not_have", ()):
        if asked.field(name):
            yield f"the upstream got {name}"
    lengths, codings = asked.field("content-length"), asked.field("transfer-encoding")
    if len(lengths) + len(codings) > 1:
        yield f"the upstream got lengths {lengths} and codings {codings}"
    if re.search(rb"[\x00\r]", asked.head.replace(b"\r\n", b"")):
        yield "the upstream got a CR or NUL inside a head"


# ----------------------------------------------------------------------------------------------- the response side


async def response_case(run: Run, case: Case) -> None:
    run.now = case
    request_id = f"{case.id}-{run.name.replace(' ', '-')}"
    expect, policy = case.raw["expect"], POLICY.get(case.id, {})
    first = len(run.upstream.asked)
    async with raw_client(run.port, get(CHAT, request_id)) as client:
        got = await client.answer(within_s=ANSWER_S)
        for complaint in wrong_answer(got, expect, policy):
            run.check(case, False, complaint)
        size = f"{len(got.body)} bytes, " if got.status != 502 else ""
        run.seen[case.id] = f"{word_of(got)}, {size}{got.end}"
        run.check(case, len(run.upstream.asked) == first + 1, f"asked {len(run.upstream.asked) - first} times")
        connection = run.upstream.asked[first].connection if len(run.upstream.asked) > first else -1
        await asyncio.sleep(LATE_S)
        again = None
        if got.is_clean and client.left_by is None:
            client.send(get("/same"))
            again = await client.answer(within_s=ANSWER_S)
    others = [again] if again is not None else []
    others += [await asked_once(run.port, get(f"/next/{case.id}"), within_s=ANSWER_S) for _ in range(2)]
    bodies = ([b"/same"] if again is not None else []) + [f"/next/{case.id}".encode()] * 2
    for other, body in zip(others, bodies, strict=True):
        run.check(
            case, (other.status, bytes(other.body)) == (200, body), f"another got {word_of(other)} {other.body!r}"
        )
        if unseen := expect.get("next_client_must_not_see_b64"):
            run.check(case, base64.b64decode(unseen) not in other.body, "another got what was surplus")
    used = {asked.connection for asked in run.upstream.asked[first + 1 :]}
    if expect.get("upstream_conn_reused") is False:
        run.check(case, connection not in used, "the upstream connection was used again")
    hop = await run.records.hop(request_id)
    for complaint in wrong_record(hop, got, expect):
        run.check(case, False, complaint)
    run.seen[case.id] += f", {hop.end.ending.value if hop.end else None}"


def wrong_answer(got: Got, expect: dict[str, Any], policy: dict[str, Any]) -> Iterator[str]:
    """Where the answer is not what the case wants."""
    wanted = policy.get("status", expect["status"])
    wanted = wanted if isinstance(wanted, list) else [wanted]
    if word_of(got) not in wanted:
        yield f"{word_of(got)} is not one of {wanted}"
        return
    body = bytes(got.body)
    if "body_b64" in expect and body != base64.b64decode(expect["body_b64"]):
        yield f"body {body[:80]!r}"
    if "body_prefix_b64" in expect and not body.startswith(base64.b64decode(expect["body_prefix_b64"])):
        yield f"body {body[:80]!r}"
    if "body_b64_repeat" in expect:
        piece, count = expect["body_b64_repeat"]
        if body != base64.b64decode(piece) * count:
            yield f"body of {len(body)} bytes"
    if "body_b64_if_200" in expect and got.status == 200 and body != base64.b64decode(expect["body_b64_if_200"]):
        yield f"body {body[:80]!r}"
    if "clean_end" in expect and got.is_clean != expect["clean_end"]:
        yield f"the end is {got.end}"
    if got.end in {SILENT, MALFORMED}:
        yield f"the answer is {got.end}"
    if any(b"\0" in value for _, value in got.fields):
        yield "a NUL in a field"
    if "trailers" in policy and got.trailers != policy["trailers"]:
        yield f"trailers {got.trailers}"


def wrong_record(hop: Hop, got: Got, expect: dict[str, Any]) -> Iterator[str]:
    """Where the record does not say what happened."""
    if hop.end is None or hop.exchange.status != got.status:
        yield f"recorded status {hop.exchange.status}"
        return
    if "outcome" in expect:
        endings, is_incomplete = OUTCOMES[expect["outcome"]]
        if hop.end.ending not in endings:
            yield f"recorded as {hop.end.ending}, not {expect['outcome']}"
        if is_incomplete is not None and hop.end.framing_incomplete != is_incomplete:
            yield f"recorded with framing_incomplete={hop.end.framing_incomplete}"
    elif got.status == 502 and hop.end.ending is not Ending.UPSTREAM_CUT:
        yield f"a bad answer recorded as {hop.end.ending}"
    if got.status == 200 and hop.traffic.bytes_out != len(got.body):
        yield f"recorded {hop.traffic.bytes_out} bytes handed on, got {len(got.body)}"


# -------------------------------------------------------------------------------------------------------- the runs


def get(target: str, request_id: str | None = None) -> bytes:
    lines = [f"GET {target} HTTP/1.1", "Host: a"] + ([f"X-Request-Id: {request_id}"] if request_id else [])
    return "\r\n".join([*lines, "", ""]).encode()


async def one_run(
    fleet: Fleet, name: str, cases: tuple[list[Case], list[Case]], *, loop: str, variables: dict[str, str]
) -> Run:
    holder: list[Run] = []
    async with collecting() as records, raw_upstream(answering(holder)) as upstream:
        with environ(**variables):
            flags = ("--loop", loop, "--request-body-timeout", f"{BODY_S}s")
            sidecar = fleet.sidecar(name.replace(" ", "-"), upstream.url, *flags, export=records.url)
        run = Run(name, sidecar, upstream, records)
        holder.append(run)
        await sidecar.ready()
        is_compiled = "_http_parser." in Path(f"/proc/{pid_of(sidecar)}/maps").read_text()
        assert is_compiled == (not variables), f"{name}: the other parser was loaded"
        for case in cases[0]:
            await guarded(run, case, request_case(run, case))
        for case in cases[1]:
            await guarded(run, case, response_case(run, case))
        whole = Case("all", "after all cases", b"", {})
        await guarded(run, whole, afterwards(run, whole))
    return run


async def accounted(run: Run) -> int:
    """Requests that have a record or are counted as refused, once nothing is open."""
    await idle(run.sidecar)
    metrics = await run.sidecar.metrics()
    refused = sum(value for series, value in metrics.items() if series.startswith("gapline_refused_heads_total{"))
    return await exchange_count(run.sidecar) + round(refused)


async def guarded(run: Run, case: Case, work: Any) -> None:
    """One case that cannot be carried out is one failure, not the end of the run."""
    try:
        await work
    except (AssertionError, ConnectionError, TimeoutError) as error:
        run.failures.append((case.id, f"{case.desc}: {type(error).__name__}: {str(error)[:200]}"))


async def afterwards(run: Run, whole: Case) -> None:
    """Nothing is open, and every request is accounted for exactly once."""
    await idle(run.sidecar)
    lines = [fields_of(line) for line in run.sidecar.said.splitlines() if " exchange ended " in line]
    ended = await exchange_count(run.sidecar)
    run.check(whole, len(lines) == ended, f"{len(lines)} log lines, {ended} exchanges counted")
    await until(lambda: len(run.records.final) >= ended, "every record is delivered")
    spans = {hop.span_id for hop in run.records.final}
    run.check(whole, len(run.records.final) == len(spans) == ended, f"{len(spans)} records of {ended} exchanges")
    run.check(whole, ended >= len(run.upstream.asked), f"{len(run.upstream.asked)} upstream, {ended} records")
    run.check(whole, is_quiet(run.sidecar.said), "something was lost, see the log")
    run.check(whole, not (await run.sidecar.streams()), "streams are open")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="ids of cases, separated by commas")
    options = parser.parse_args(arguments)
    if not (options.folder / "http_proxy_cases.json").is_file():
        print(__doc__)
        return 2
    only = set(filter(None, options.only.split(",")))
    first, second = ([c for c in side if not only or c.id in only] for side in cases_of(options.folder))
    with tempfile.TemporaryDirectory() as folder:
        runs = asyncio.run(all_runs(Path(folder), (first, second)))
    return reported(runs, case_count=len(first) + len(second))


async def all_runs(folder: Path, cases: tuple[list[Case], list[Case]]) -> list[Run]:
    pure = {"AIOHTTP_NO_EXTENSIONS": "1"}
    kinds: list[tuple[str, str, dict[str, str]]] = [
        ("asyncio", "asyncio", {}),
        ("uvloop", "uvloop", {}),
        ("asyncio pure", "asyncio", pure),
        ("uvloop pure", "uvloop", pure),
    ]
    with Fleet(folder) as fleet:
        return await asyncio.gather(
            *(one_run(fleet, name, cases, loop=loop, variables=variables) for name, loop, variables in kinds)
        )


def reported(runs: list[Run], *, case_count: int) -> int:
    failed: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for case_id, what in run.failures:
            failed.setdefault((case_id, what), []).append(run.name)
    for case_id in sorted(set().union(*(run.seen for run in runs))):
        answers = {run.seen.get(case_id, "nothing") for run in runs}
        if len(answers) > 1 and case_id not in MAY_DIFFER:
            shown = "; ".join(f"{run.name}: {run.seen.get(case_id)}" for run in runs)
            failed[case_id, f"the runs differ: {shown}"] = []
    for (case_id, what), names in sorted(failed.items()):
        print(f"DIFFERS {case_id:5}{what}{' [' + ', '.join(names) + ']' if names else ''}")
    bad = len({case_id for case_id, _ in failed})
    print(f"{case_count} HTTP cases in {len(runs)} kinds of process, {bad} differ")
    return int(bool(failed) or not case_count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
