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

from otel.hop import EventClass
from sidecar.inspection.dialects import dialect_for, recognise
from sidecar.inspection.events import Event, Unit
from sidecar.inspection.splitter import LIMIT_BYTES, framing_of, splitter_for

# What is seen of the way each recorded stream ends: the dialect by its first event, whether an error event and the
# dialect's own end were seen. The streams of dialects without a file have neither.
ENDINGS = {
    "01": ("openai_chat", True, True),
    "03": ("openai_chat", True, False),
    "07": ("anthropic", False, True),
    "09": ("openai_chat", False, True),
    "10": ("openai_chat", False, True),
}
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
    if framing == "opaque":
        return "opaque", "" if [unit.size_bytes for unit in whole] == [len(body)] else "not one arrival"
    for reads in deliveries(body, [body]):
        if units_of(reads, framing) != whole:
            return "", f"differs in reads of {[len(read) for read in reads][:3]}... bytes"
    dispatched = [unit for unit in whole if unit.unit is Unit.EVENT]
    comment_count = sum(unit.unit is Unit.COMMENT for unit in whole)
    if len(dispatched) != int(events.split(maxsplit=1)[0]) or comment_count != int(comments.replace("-", "0")):
        return "", f"{len(dispatched)} events and {comment_count} comments, not {events} and {comments}"
    known = recognise(dispatched[0])
    dialect = known or dialect_for("/", framing)
    readings = [dialect.read(unit) for unit in dispatched]
    classes = [reading.event_class for reading in readings]
    seen = (dialect.name, EventClass.ERROR in classes, EventClass.TERMINAL in classes)
    expected = ENDINGS.get(path.name[:2], ("plain", False, False))
    if seen != expected:
        return "", f"dialect, error, end are {seen}, not {expected}"
    chars = sum(reading.visible_chars for reading in readings)
    ending = " ".join(word for word, is_seen in zip(("error", "end"), seen[1:], strict=True) if is_seen) or "no mark"
    return f"{len(dispatched)} events, {comment_count} comments, {dialect.name}, {chars} characters, {ending}", ""


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
