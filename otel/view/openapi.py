"""The query API as an OpenAPI 3.1 document: what can be asked, what the answers hold, which errors there are.

Everything of the API that is written down anywhere is written down here; tests hold routes and answers to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from otel.findings import Cause, Reach, Status
from otel.hop import Ending, EventClass, Phase, Side, TapRole

Schema = dict[str, Any]

LIMIT: Final = 100
LIMIT_MAX: Final = 1_000
"""Rows of one page of stalls; an answer stays under a megabyte."""
ID_CHARS: Final = 4_096
"""Longest id in a path. Longer ones than otel.ids records are looked up by their digest."""
LIVE_PATH: Final = "/api/live"
WAITS: Final = ("gap", "first_event", "end", "pace")

_SECONDS: Final = "seconds, or a time such as 250ms, 15m or 7d"


def document(*, version: str) -> Schema:
    """The document of this version, as JSON data."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gapline collector",
            "version": version,
            "description": "Which hop made the reader of a streamed answer wait, since when, and why.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "the collector's --token, where it has one",
                }
            },
            "schemas": _schemas(),
        },
    }


def _paths() -> Schema:
    request_id = _parameter("id", "a request id, an alias of it, or a trace id, percent-encoded", {"type": "string"})
    request_id |= {"in": "path", "required": True}
    stalls = [
        _parameter("since", f"only requests that began within this time before now: {_SECONDS}"),
        _parameter("model", "only this model"),
        _parameter("hop", "only where this hop is named; `client` is the reader's end"),
        _parameter("cause", "only this cause", _enum(Cause)),
        _parameter("min_gap", f"only waits of at least this: {_SECONDS}"),
        _parameter(
            "limit", "at most so many", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT}
        ),
        _parameter("before", "a place in the list, as the Link header (rel=next) of an answer before gives it"),
    ]
    live = [
        _parameter("stalled", "true: only streams that their sidecar calls stalled", _enum(("true", "false"))),
        _parameter("min_silence", f"only streams that have been silent for at least this: {_SECONDS}"),
        _parameter(
            "limit", "at most so many", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_MAX}
        ),
    ]
    return {
        "/v1/requests/{id}/verdict": _get(
            "verdict", "Who made the reader of this request wait", "Verdict", parameters=[request_id], errors=(400, 404)
        ),
        "/v1/requests/{id}/timeline": _get(
            "timeline",
            "Every stamp of this request, lane by lane",
            "Timeline",
            parameters=[request_id],
            errors=(400, 404),
        ),
        "/v1/stalls": _get(
            "stalls", "Requests that waited or broke off, newest first", "Stalls", parameters=stalls, errors=(400,)
        ),
        LIVE_PATH: _get(
            "live", "The streams that are open now, the oldest silence first", "Live", parameters=live, errors=(400,)
        ),
        "/v1/openapi.json": _get("openapi", "This document", None),
        "/healthz": _get("healthz", "The process runs", None, is_open=True),
        "/readyz": _get("readyz", "The store can be read", None, is_open=True),
        "/metrics": _get("metrics", "Counters and gauges in the Prometheus text format", None, media="text/plain"),
    }


def _parameter(name: str, description: str, schema: Schema | None = None) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema or {"type": "string"}}


def _get(
    operation_id: str,
    summary: str,
    answer: str | None,
    *,
    parameters: list[Schema] | None = None,
    errors: tuple[int, ...] = (),
    media: str = "application/json",
    is_open: bool = False,
) -> Schema:
    schema: Schema = {"$ref": f"#/components/schemas/{answer}"} if answer else {}
    if media == "text/plain":
        schema = {"type": "string"}
    refused = () if is_open else (401,)
    get: Schema = {
        "operationId": operation_id,
        "summary": summary,
        "parameters": parameters or [],
        "responses": {
            "200": {"description": "the answer", "content": {media: {"schema": schema}}},
            **{str(status): _error(status) for status in sorted({*errors, *refused, 403, 503})},
        },
    }
    if is_open:
        get["security"] = []
    return {"get": get}


def _error(status: int) -> Schema:
    meaning = {
        400: "a parameter is not right; the message lists all of them",
        401: "no token, or not the right one",
        403: "asked under a host name that is not this machine's, without a token",
        404: "no hop and no verdict of this request is known",
        503: "the store does not answer; try again later",
    }[status]
    return {
        "description": meaning,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }


# Schemas. Every member is required unless its name ends in `_opt`, which is cut off.


def _object(description: str, **members: Schema) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": {name.removesuffix("_opt"): schema for name, schema in members.items()},
        "required": [name for name in members if not name.endswith("_opt")],
    }


def _text(description: str, **more: str) -> Schema:
    return {"type": "string", "description": description, **more}


def _number(description: str) -> Schema:
    return {"type": "number", "description": description}


def _whole(description: str) -> Schema:
    return {"type": "integer", "description": description, "minimum": 0}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _list(items: Schema, description: str) -> Schema:
    return {"type": "array", "items": items, "description": description}


def _enum(words: Iterable[str], description: str = "") -> Schema:
    return {"type": "string", "enum": [str(word) for word in words], "description": description}


def _maybe(schema: Schema) -> Schema:
    """The same, or null for what is not known or does not apply."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    made = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        made["enum"] = [*schema["enum"], None]
    return made


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _row(description: str, *items: Schema) -> Schema:
    return {"type": "array", "description": description, "prefixItems": list(items), "items": False}


def _schemas() -> Schema:
    stretch = _row("[start_s, end_s] on the lane", _number("start"), _number("end"))
    when = {"format": "date-time"}
    named = {
        "cause": _enum(Cause, "why; `none` where nothing is named"),
        "first_hop": _maybe(_text("the first hop where the gap grew; `client` at the reader's end")),
        "owner": _maybe(_text("who is to look into it, in words")),
        "wait": _maybe(_enum(WAITS, "what the reader waited for: the next event, the first one, or the end")),
        "gap_s": _number("seconds that the reader waited"),
        "confidence": _number("0 to 1"),
        "open": _flag("the request is still running"),
        "sentence": _text("the verdict in one sentence"),
    }
    ids = {"request_id": _text("as recorded"), "trace_id": _text("32 hex digits", pattern="^[0-9a-f]{32}$")}
    status = _enum(Status, "inconclusive: `missing` says which evidence would tell")
    return {
        "Error": _object(
            "What went wrong.",
            error=_object("", type=_text("a word for programs"), message=_text("a sentence for people")),
        ),
        "Segment": _object(
            "A stretch of the path.", **{"from": _text("nearer the model"), "to": _text("nearer the reader")}
        ),
        "Verdict": _object(
            "The verdict on one request.",
            **ids,
            status=status,
            verdict_final=_flag("nothing more is expected to come in"),
            as_of=_text("time of the answer", **when),
            since=_maybe(_text("when the wait began or the answer broke off, by the last hop's clock", **when)),
            **named,
            segment=_maybe(_ref("Segment")),
            at_seq=_maybe(
                _whole("sequence number, at the last tap, of the event that ended the wait, or began the stretch")
            ),
            at_position=_maybe(_whole("characters of visible output delivered when the wait began")),
            at_position_exact=_maybe(_flag("that number is exact, not rounded down to the quantum")),
            contributions=_list(
                _ref("Contribution"), "every segment's share of the wait, source first; their sum is gap_s"
            ),
            others=_list(_ref("Other"), "further contributors above their own threshold"),
            missing=_list(_text("a sentence"), "evidence that is not there"),
            observed_to=_enum(Reach, "how far towards the reader the evidence goes"),
            evidence=_evidence(),
            hops=_list(_ref("Hop"), "source first"),
        ),
        "Contribution": _object(
            "One segment's share.",
            segment=_text("`source`, `self:HOP`, `HOPA>HOPB`, `HOP>client` or `ui` (inside of the client)"),
            owner=_text("who owns it, in words"),
            seconds=_number("below 0 where it made up for a wait"),
        ),
        "Other": _object(
            "A further contributor.",
            cause=_enum(Cause),
            first_hop=_text("the hop"),
            owner=_text("who owns it, in words"),
            segment=_maybe(_ref("Segment")),
            seconds=_number("its share"),
            wait=_maybe(_enum(WAITS)),
            gap_s=_number("the wait it is part of"),
            at_seq=_maybe(_whole("the event that ended that wait")),
        ),
        "Hop": _hop(ids["trace_id"]),
        "Timeline": _object(
            "All stamps of one request.",
            **ids,
            verdict=_ref("Verdict"),
            taps=_list(_ref("Tap"), "source first"),
            wait=_maybe(_object("the wait, on the last lane", start_s=_number("from"), end_s=_number("to"))),
        ),
        "Tap": _object(
            "One lane. Its times count from its own zero.",
            hop=_text("name"),
            role=_enum(TapRole),
            shift_s=_number("where this lane's zero lies on the picture's axis"),
            duration_s=_number("length of the exchange"),
            outcome=_maybe(_enum(Ending)),
            stamps=_list(_stamp(), "every event"),
            blocked=_list(stretch, "the reader took nothing"),
            lag=_list(stretch, "the sidecar itself was late"),
            gaps=_list(
                _object("", seq=_whole("the event that ended it"), start_s=_number("from"), end_s=_number("to")),
                "waits of 0.25 s and more",
            ),
            is_thinned=_flag("events beside no gap were left out"),
        ),
        "Stalls": _object(
            "One page. A Link header (rel=next) leads to the next one.",
            as_of=_text("time of the answer", **when),
            stalls=_list(_ref("Stall"), "newest first"),
            has_more=_flag("older ones match too"),
        ),
        "Live": _object(
            "The streams that are open now, as far as their sidecars told of them: the stalled and the long ones.",
            as_of=_text("time of the answer", **when),
            streams=_list(_ref("OpenStream"), "the oldest silence first"),
            open=_whole("how many are open in all, asked for or not"),
            has_more=_flag("more match than the limit allows"),
        ),
        "OpenStream": _open_stream(ids),
        "Stall": _object(
            "One request that waited or broke off.",
            **ids,
            at=_text("when it began", **when),
            model=_maybe(_text("as the request names it, else as the answer does")),
            status=status,
            **named,
        ),
    }


def _open_stream(ids: Schema) -> Schema:
    return _object(
        "One hop of a request that is running.",
        **ids,
        hop=_text("name"),
        listener=_maybe(_text("by which of the hop's listeners it came in")),
        model=_maybe(_text("as the request names it, else as the answer does")),
        status=_maybe(_whole("HTTP status")),
        phase=_text("how far it has come"),
        age_s=_number("since its request head"),
        silent_s=_number("since it last went on: at told_s ago, or until now where it is stalled"),
        told_s=_number("since its sidecar last told of it"),
        events=_whole("events so far, when it was told of"),
        is_blocked=_flag("its reader takes nothing"),
        is_stalled=_flag("it has stopped, and nobody has told that it goes on"),
        stall_cause=_maybe(_text("`slow_reader` or `network`, where its reader's side holds it up")),
        is_probe=_flag("probe traffic"),
    )


def _stamp() -> Schema:
    return _row(
        "[seq, arrived_s, taken_s, class, position]",
        _whole("sequence number"),
        _number("the event had arrived"),
        _maybe(_number("our kernel had all of it")),
        _enum([c.name.lower() for c in EventClass]),
        _whole("characters of visible output up to it"),
    )


def _evidence() -> Schema:
    return {
        "type": "object",
        "description": "What the verdict rests on: groups of numbers by name. Members come and go with versions.",
        "additionalProperties": True,
    }


def _hop(trace_id: Schema) -> Schema:
    return _object(
        "One hop in numbers.",
        hop=_text("name"),
        role=_enum(TapRole),
        events=_whole("dispatched events"),
        messages_sent_opt=_maybe(_whole("messages of the reader, in a WebSocket")),
        outcome=_maybe(_enum(Ending, "how it ended; null while it runs")),
        ended_by=_maybe(_enum(Side)),
        cut_opt=_maybe(_text("how that side ended it where not in order: fin, reset, framing or timeout")),
        phase=_maybe(_enum(Phase)),
        hold_s=_number("longest time between an event's arrival and its hand-over"),
        bytes_in=_whole("body bytes from upstream"),
        bytes_out=_whole("body bytes downstream"),
        bytes_missing_opt=_maybe(_whole("of the announced length, what never came")),
        status=_maybe(_whole("HTTP status")),
        model=_maybe(_text("as the request names it, else as the answer does")),
        duration_s=_number("length of the exchange"),
        first_event_s=_maybe(_number("request to first event")),
        longest_gap_s=_number("longest time between two events"),
        prompt_opt=_maybe(_text("size of the prompt, coarsely")),
        blocked_s=_number("time in which the reader took nothing"),
        lag_s=_number("time in which the sidecar itself was late"),
        comments=_whole("keepalive comments"),
        wasted_events=_whole("events that arrived after the client had left"),
        idle_at_end_s=_maybe(_number("time without a byte when it ended")),
        framing_incomplete=_flag("the HTTP framing broke off"),
        open=_flag("still running"),
        trace_id=trace_id,
        span_id=_text("16 hex digits", pattern="^[0-9a-f]{16}$"),
        started_at=_text("when the request head arrived, by the hop's own clock", format="date-time"),
    )
