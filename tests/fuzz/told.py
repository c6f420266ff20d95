"""What must hold of the openings of connections, of frames and elements, and of what is told of errors, and to whom."""

from __future__ import annotations

import json
import re

from otel.hop import EventClass
from sidecar.downstream.sniff import PREFACE, Opening, opening_of
from sidecar.engine.reading import reading_of
from sidecar.forms import error_event
from sidecar.guard.complaint import TOKENS, Complaint
from sidecar.inspection.body import Body
from sidecar.inspection.error_body import error_body_for
from sidecar.inspection.events import Event, Unit
from sidecar.inspection.lexicon import LIMIT_CHARS, MASK, masked
from sidecar.inspection.splitter import splitter_for
from sidecar.inspection.words import UNITS, WORDS
from tests.fuzz.deliveries import Delivery, delivery_of

_TYPES = {"sse": "text/event-stream", "ndjson": "application/x-ndjson", "json_array": "application/json"}
_TYPES |= {"eventstream": "application/vnd.amazon.eventstream"}
_PATHS = {"sse": "/v1/messages", "ndjson": "/api/chat", "json_array": "/m:streamGenerateContent"}
_PATHS |= {"eventstream": "/model/m/converse-stream"}


# -------------------------------------------------------------------------------------------------- openings, framings


def check_sniff(data: bytes) -> None:
    """What was told stays so, and nobody is asked for more than it takes to tell."""
    payload = delivery_of(data).payload[:64]
    told = [opening_of(payload[:size]) for size in range(len(payload) + 1)]
    decided = [opening for opening in told if opening is not Opening.MORE]
    assert len(set(decided)) <= 1
    assert told == [Opening.MORE] * (len(told) - len(decided)) + decided
    assert len(told) - len(decided) <= len(PREFACE)


def check_eventstream(data: bytes) -> None:
    """Sizes add up, any cut gives the same frames up to one that breaks the rules, and limits hold."""
    _check_framing(delivery_of(data), "eventstream")


def check_json_array(data: bytes) -> None:
    """The same of an array's elements; of one that is JSON they are its objects and arrays."""
    delivery = delivery_of(data)
    units = _check_framing(delivery, "json_array")
    try:
        value = json.loads(delivery.payload)
    except (ValueError, RecursionError):
        return
    if isinstance(value, list) and not delivery.is_on(0):
        found = [json.loads(unit.data) for unit in units if unit.unit is Unit.EVENT]
        assert repr(found) == repr([item for item in value if isinstance(item, dict | list)])


def _check_framing(delivery: Delivery, framing: str) -> list[Event]:
    limit_bytes = 24 if delivery.is_on(0) else 1 << 20
    units, is_lost = _split(delivery.whole(), framing, limit_bytes)
    for cut in delivery.cuts():
        again, is_again_lost = _split(cut, framing, limit_bytes)
        assert is_again_lost == is_lost
        if not is_lost:
            assert again == units
    assert all(len(unit.data) <= limit_bytes for unit in units)
    return units


def _split(pieces: list[bytes], framing: str, limit_bytes: int) -> tuple[list[Event], bool]:
    splitter = splitter_for(framing, limit_bytes=limit_bytes)
    units: list[Event] = []
    fed_bytes = 0
    for piece in pieces:
        units += splitter.feed(piece)
        fed_bytes += len(piece)
        assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == fed_bytes
        assert not (splitter.is_lost and splitter.is_at_boundary)
    return units + splitter.finish(), splitter.is_lost


# ------------------------------------------------------------------------------------------------------------- errors


def check_engine(data: bytes) -> None:
    """Of any text only bounded numbers come, and neither lines of others nor its parts told again change them."""
    text = delivery_of(data).payload
    seen = reading_of(text, asked_ns=0)
    if seen is not None:
        found = seen.snapshot
        for count in (found.running_count, found.waiting_count, found.preemption_count):
            assert count is None or (isinstance(count, int) and 0 <= count <= 1e15)
        assert found.kv_cache_share is None or 0 <= found.kv_cache_share <= 1
    assert reading_of(b"# vllm:num_requests_running 7\nother 1\n" + text, asked_ns=0) == seen
    if text.endswith(b"\n") and text.count(b"\n") < 100:
        assert reading_of(text + text, asked_ns=0) == seen


def check_lexicon(data: bytes) -> None:
    """Only known words, short numbers and plain punctuation are left of any text, and of a refusal that has it."""
    text = delivery_of(data).payload.decode("utf-8", "replace")
    left = masked(text)
    assert len(left) <= LIMIT_CHARS
    plain = left.replace(MASK, " ")
    assert plain.isascii()
    assert not plain or plain.isprintable()
    assert not re.search(r"[0-9]{10}|[@\\$&~^]", plain)
    for word in re.findall(r"[A-Za-z0-9]+", plain):
        humps = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]", word)
        known = word.lower() in WORDS or (word.isalpha() and all(hump.lower() in WORDS for hump in humps))
        assert known or word.isdigit() or word.lstrip("0123456789").lower() in UNITS, word
    for content_type in ("application/json", "text/plain"):
        body = error_body_for(500, content_type, None)
        assert body is not None
        body.feed(data)
        reading = body.reading()
        assert reading is None or reading.error_detail is None or len(reading.error_detail) <= LIMIT_CHARS


def check_forms(data: bytes) -> None:
    """Wherever a body says that an event may stand, ours is one more event, an error of its type, and no end."""
    delivery = delivery_of(data)
    framing = list(_TYPES)[delivery.switches % 4]
    complaint = Complaint(TOKENS[delivery.switches // 4 % len(TOKENS)], repr(delivery.payload[:40]), 504)
    body = Body(_PATHS[framing], content_type=_TYPES[framing], content_encoding=None)
    for piece in next(delivery.cuts()):
        body.arrived(piece, 0, is_wasted=False)
    written = error_event(body.dialect, body.framing, complaint)
    if not body.is_at_boundary or written is None:
        return
    event_count, terminal_seq, error = body.stamper.count, body.terminal_seq, body.error
    body.arrived(written, 1, is_wasted=False)
    body.ended(is_clean=False)
    assert (body.stamper.count, body.terminal_seq, body.has_tail) == (event_count + 1, terminal_seq, False)
    told = body.error
    assert told is not None
    assert error is not None or told.error_type == complaint.type
    splitter = splitter_for(framing)
    units = splitter.feed(b"[{}" + written if framing == "json_array" else written)
    assert body.dialect.read(units[-1]).event_class is EventClass.ERROR
