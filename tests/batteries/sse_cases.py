"""Run collected cases of other people's SSE suites, and recorded streams, through the splitter and the dialects.

    python -m tests.batteries.sse_cases DIR

DIR holds `wpt_eventsource.json`, `sse_decoder_cases.json` and `captures/` with its README. Every case is read whole,
byte by byte, in the pieces it was given in, and cut once at every place. Prints a row per case; exit code 1 when one
differs, 2 when DIR is not such a folder.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from sidecar.inspection.body import Body
from sidecar.inspection.events import Event, Unit
from sidecar.inspection.splitter import LIMIT_BYTES, framing_of, splitter_for

# How each recorded stream is known and ends, with its visible characters: C complete, for its own mark; E for an error
# event, which outranks whatever ends it; - for HTTP's framing only, where nothing marks the end.
ENDINGS = {
    "01": ("openai_chat", "E", 0),
    "02": ("replicate", "C", 241),
    "03": ("openai_chat", "E", 5),
    "04": ("bedrock", "C", 32),
    "05": ("openai_responses", "C", 0),
    "06": ("gemini", "C", 32),
    "07": ("anthropic", "C", 12),
    "08": ("openai_responses", "C", 0),
    "09": ("openai_chat", "C", 39),
    "10": ("openai_chat", "C", 120),
    "11": ("cohere", "C", 0),
    "12": ("ollama", "C", 188),
    "13": ("watsonx", "C", 45),
    "14": ("writer", "-", 264),
    "15": ("mcp", "C", 0),
}
WORDS = {"C": "end marked", "E": "error event", "-": "ends with its framing"}
CONTENT_TYPES = {
    ".sse": "text/event-stream",
    ".ndjson": "application/x-ndjson",
    ".bin": "application/vnd.amazon.eventstream",
}


def units_of(reads: list[bytes], framing: str) -> list[Event]:
    """All units of a body in these reads; raises AssertionError when bytes are not accounted for."""
    splitter = splitter_for(framing)
    units = []
    fed_bytes = 0
    for read in reads:
        units += splitter.feed(read)
        fed_bytes += len(read)
        assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == fed_bytes
    units += splitter.finish()
    assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == fed_bytes
    return units


def deliveries(body: bytes, given: list[bytes]) -> Iterator[list[bytes]]:
    yield [body]
    yield given
    yield [body[i : i + 1] for i in range(len(body))]
    for cut in range(1, len(body)):
        yield [body[:cut], body[cut:]]


def as_expected(units: list[Event]) -> list[dict[str, str]]:
    """Dispatched events as the case files write them."""
    return [
        {
            "type": unit.name.decode("utf-8", "replace") or "message",
            "data": unit.data.decode("utf-8", "replace"),
            "lastEventId": unit.id.decode("utf-8", "replace"),
        }
        for unit in units
        if unit.unit is Unit.EVENT
    ]


def case_rows(folder: Path) -> Iterator[tuple[str, str, str]]:
    for case in json.loads((folder / "wpt_eventsource.json").read_text())["cases"]:
        framing = framing_of(case["response_content_type"])
        body = base64.b64decode(case["body_b64"])
        if case["connection"] == "failed":
            yield case["id"], "not SSE", "" if framing == "opaque" else f"framing {framing}, not opaque"
        elif framing != "sse":
            yield case["id"], "SSE", f"framing {framing}, not sse"
        else:
            yield case["id"], *compared(body, [body], case["expected_events"])
    for case in json.loads((folder / "sse_decoder_cases.json").read_text())["cases"]:
        if generate := case.get("generate"):
            yield case["id"], *compared_generated(generate, case["expected_data_length"])
            yield case["id"] + "-10MB", *compared_generated(generate | {"count": 10 << 20}, 10 << 20)
            continue
        given = [base64.b64decode(piece) for piece in case["chunks_b64"]]
        expected = case["whatwg_events"] if "implementation_specific" in case else case["expected_events"]
        yield case["id"], *compared(b"".join(given), given, expected)


def compared(body: bytes, given: list[bytes], expected: list[dict[str, str]]) -> tuple[str, str]:
    whole = units_of([body], "sse")
    if (found := as_expected(whole)) != expected:
        return "", f"whole: {found} is not {expected}"
    count = 0
    for reads in deliveries(body, given):
        if units_of(reads, "sse") != whole:
            return "", f"differs in reads of {[len(read) for read in reads]} bytes"
        count += 1
    return f"{len(expected)} events, {count} deliveries", ""


def compared_generated(generate: dict[str, object], data_bytes: int) -> tuple[str, str]:
    body = f"{generate['prefix']}{str(generate['char']) * int(str(generate['count']))}{generate['suffix']}".encode()
    reads = [body[i : i + 16_384] for i in range(0, len(body), 16_384)]
    for delivery in ([body], reads):
        units = units_of(delivery, "sse")
        is_cut = data_bytes > LIMIT_BYTES
        if [(unit.is_cut, len(unit.data)) for unit in units] != [(is_cut, min(data_bytes, LIMIT_BYTES))]:
            return "", f"{[(unit.is_cut, len(unit.data)) for unit in units]}"
    return f"1 event, {len(units[0].data)} of {data_bytes} bytes kept", ""


def capture_rows(folder: Path) -> Iterator[tuple[str, str, str]]:
    for line in (folder / "captures" / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        path = folder / "captures" / cells[0]
        if path.suffix in CONTENT_TYPES and path.is_file():
            yield path.name, *compared_capture(path, cells[3], cells[4])


def compared_capture(path: Path, events: str, comments: str) -> tuple[str, str]:
    body = path.read_bytes()
    framing = framing_of(CONTENT_TYPES[path.suffix])
    whole = units_of([body], framing)
    for reads in deliveries(body, [body]):
        if units_of(reads, framing) != whole:
            return "", f"differs in reads of {[len(read) for read in reads][:3]}... bytes"
    dispatched = [unit for unit in whole if unit.unit is Unit.EVENT]
    comment_count = sum(unit.unit is Unit.COMMENT for unit in whole)
    if len(dispatched) != int(events.split(maxsplit=1)[0]) or comment_count != int(comments.replace("-", "0")):
        return "", f"{len(dispatched)} events and {comment_count} comments, not {events} and {comments}"
    found = [seen(reads, CONTENT_TYPES[path.suffix]) for reads in ([body], [body[i : i + 1] for i in range(len(body))])]
    if found != [ENDINGS[path.name[:2]]] * 2:
        return "", f"dialect, end and characters are {found[0]} and {found[1]}, not {ENDINGS[path.name[:2]]}"
    dialect, end, chars = found[0]
    return f"{len(dispatched)} events, {comment_count} comments, {dialect}, {chars} characters, {WORDS[end]}", ""


def seen(reads: list[bytes], content_type: str) -> tuple[str, str, int]:
    """The dialect of a stream whose path tells none, how it ended, and its visible characters."""
    body = Body("/", content_type=content_type, content_encoding=None)
    for at_ns, read in enumerate(reads):
        body.arrived(read, at_ns, is_wasted=False)
    body.ended(is_clean=True)
    if body.error is not None:
        end = "E"
    elif body.terminal_seq is not None:
        end = "C"
    else:
        end = "missing" if body.has_terminal_rule else "-"
    return body.dialect.name, end, body.stamper.position


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if len(arguments) == 1 else None
    if folder is None or not (folder / "wpt_eventsource.json").is_file():
        print(__doc__)
        return 2
    failed_count = row_count = 0
    for name, found, difference in (*case_rows(folder), *capture_rows(folder)):
        row_count += 1
        failed_count += bool(difference)
        print(f"{'DIFFERS' if difference else 'ok':8}{name:60.60} {difference or found}")
    print(f"{row_count} cases, {failed_count} differ")
    return 1 if failed_count or not row_count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
