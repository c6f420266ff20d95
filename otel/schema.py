"""Attribute names, types, units and the version: one table, nothing else.

`otel/README.md` prints this table; every name must appear in a golden span. Names without our prefix are
OpenTelemetry semantic conventions; ours begin with `gapline.`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

VERSION: Final = 1
"""Version of this table. A reader refuses a newer one and reads every older one."""

SCOPE: Final = "gapline"
"""Instrumentation scope of our spans."""


class On(StrEnum):
    """Where an attribute stands."""

    RESOURCE = "resource"
    SPAN = "span"
    TIMELINE = "timeline event"
    NOTABLE = "notable event"
    VERDICT = "verdict span"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name, type (`string`, `int`, `double`, `boolean`, `string[]`), unit (UCUM) and meaning."""

    name: str
    type: str
    unit: str
    on: On
    meaning: str


TIMELINE_EVENT: Final = "gapline.timeline"
SENT_EVENT: Final = "gapline.timeline.sent"
"""The same for the messages of the reader, where both sides send them: the attributes have the same names."""
FIRST_EVENT: Final = "gapline.first_event"
STALL_EVENT: Final = "gapline.stall"
CLIENT_LEFT_EVENT: Final = "gapline.client_left"
VERDICT_SPAN: Final = "stream diagnosis"
PART_PREFIX: Final = "gapline.timeline.part."
DIMENSION_PREFIX: Final = "gapline.dimension."
PREFIXES: Final = (PART_PREFIX, DIMENSION_PREFIX)
"""Names in the table that stand for all attributes that begin so."""

_S, _T, _N, _V, _R = On.SPAN, On.TIMELINE, On.NOTABLE, On.VERDICT, On.RESOURCE

ATTRIBUTES: Final = (
    Attribute("service.name", "string", "", _R, "the service beside which the sidecar stands"),
    Attribute("service.instance.id", "string", "", _R, "one sidecar process"),
    Attribute("gapline.schema", "int", "", _S, "version of this table"),
    Attribute("gapline.request_id", "string", "", _S, "request id as recorded: at most 200 characters of ASCII"),
    Attribute("gapline.request_id.source", "string", "", _S, "`header` or `generated`"),
    Attribute("gapline.request_id.normalised", "string", "", _S, "the join key made from it"),
    Attribute("gapline.request_id.aliases", "string[]", "", _S, "other ids of the same request that this hop saw"),
    Attribute("gapline.hop", "string", "", _S, "name of the hop"),
    Attribute("gapline.hop.role", "string", "", _S, "`ingress`, `egress` or `client`"),
    Attribute("gapline.state", "string", "", _S, "`open` for a segment, `final` for the one record of an exchange"),
    Attribute("gapline.segment.index", "int", "", _S, "segments cut before this record"),
    Attribute("gapline.clock.wall_anchor_ns", "int", "ns", _S, "wall clock when the request head arrived"),
    Attribute("gapline.clock.monotonic_anchor_ns", "int", "ns", _S, "monotonic clock at the same moment"),
    Attribute("gapline.clock.domain", "string", "", _S, "boot id and time namespace: equal means one monotonic clock"),
    Attribute("http.request.method", "string", "", _S, "request method"),
    Attribute("url.path", "string", "", _S, "request path, never the query"),
    Attribute("http.response.status_code", "int", "", _S, "status of the response as passed on"),
    Attribute("error.type", "string", "", _S, "the ending when it is a failure"),
    Attribute("gen_ai.request.model", "string", "", _S, "model as the request names it, else as the answer does"),
    Attribute("gen_ai.response.model", "string", "", _S, "model as the answer names it"),
    Attribute("gen_ai.request.stream", "boolean", "", _S, "true for a stream of events"),
    Attribute("gen_ai.response.id", "string", "", _S, "the answer's own id"),
    Attribute("gen_ai.response.finish_reasons", "string[]", "", _S, "why the model stopped, tokens, each once"),
    Attribute("gen_ai.usage.input_tokens", "int", "{token}", _S, "tokens read, as the answer counts them"),
    Attribute("gen_ai.usage.output_tokens", "int", "{token}", _S, "tokens made, as the answer counts them"),
    Attribute("gapline.usage.total_tokens", "int", "{token}", _S, "all tokens, as the answer counts them"),
    Attribute(
        "gen_ai.response.time_to_first_chunk",
        "double",
        "s",
        _S,
        "request head to first event with output, arrived",
    ),
    Attribute("gapline.request.stream", "boolean", "", _S, "whether the request asked for a stream, where it said"),
    Attribute("gapline.request.prompt_bucket", "string", "", _S, "size of the prompt by powers of four: `<16K`"),
    Attribute(
        "gapline.framing",
        "string",
        "",
        _S,
        "`sse`, `ndjson`, `json_array`, `eventstream`, `websocket`, `opaque` or `none`",
    ),
    Attribute("gapline.dialect", "string", "", _S, "the API whose rules classed the events"),
    Attribute("gapline.terminal_rule", "boolean", "", _S, "the dialect marks its end in band"),
    Attribute("gapline.error.type", "string", "", _S, "type of an error event or failure, a token, never text"),
    Attribute("gapline.error.code", "string", "", _S, "code of an error event, a token, never text"),
    Attribute("gapline.error.detail", "string", "", _S, "what the error said, of its words only those of errors"),
    Attribute("gapline.guard.fired", "string[]", "", _S, "limits that passed and rules that were broken, each once"),
    Attribute("gapline.dimension.", "string", "", _S, "dimension.NAME: a token of who asked, as the operator allowed"),
    Attribute("gapline.ratelimit.requests.limit", "int", "{request}", _S, "rate limit in requests, as the head said"),
    Attribute("gapline.ratelimit.requests.remaining", "int", "{request}", _S, "of it, what is left"),
    Attribute("gapline.ratelimit.requests.reset", "double", "s", _S, "time until it is whole again"),
    Attribute("gapline.ratelimit.tokens.limit", "int", "{token}", _S, "rate limit in tokens, as the head said"),
    Attribute("gapline.ratelimit.tokens.remaining", "int", "{token}", _S, "of it, what is left"),
    Attribute("gapline.ratelimit.tokens.reset", "double", "s", _S, "time until it is whole again"),
    Attribute("gapline.ratelimit.retry_after", "double", "s", _S, "how long the upstream asks to wait"),
    Attribute("gapline.probe", "boolean", "", _S, "probe traffic"),
    Attribute("gapline.request_forwarded", "double", "s", _S, "anchor to request head handed to upstream"),
    Attribute("gapline.headers_received", "double", "s", _S, "anchor to upstream response head read"),
    Attribute("gapline.upstream_ended", "double", "s", _S, "anchor to end of the upstream body"),
    Attribute("gapline.downstream_ended", "double", "s", _S, "anchor to last response byte taken by our kernel"),
    Attribute("gapline.client_left", "double", "s", _S, "anchor to the downstream connection seen closing early"),
    Attribute("gapline.upstream_closed", "double", "s", _S, "anchor to our upstream connection closed after that"),
    Attribute("gapline.closed", "double", "s", _S, "anchor to the record closed or cut"),
    Attribute("gapline.request.bytes", "int", "By", _S, "request body bytes passed up"),
    Attribute("gapline.bytes_in", "int", "By", _S, "response body bytes read from upstream"),
    Attribute("gapline.bytes_missing", "int", "By", _S, "of the announced upstream body, what never came"),
    Attribute("gapline.bytes_out", "int", "By", _S, "response body bytes handed downstream"),
    Attribute("gapline.keepalives", "int", "{comment}", _S, "keepalive comments that the sidecar wrote, where it did"),
    Attribute("gapline.bytes_injected", "int", "By", _S, "of the bytes handed downstream, the sidecar's own, if any"),
    Attribute("gapline.digest.upstream", "string", "", _S, "`sha256:` of the body as it came from upstream"),
    Attribute("gapline.digest.downstream", "string", "", _S, "`sha256:` of the body as it was written downstream"),
    Attribute("gapline.engine.server", "string", "", _S, "engine beside the sidecar: `vllm`, `sglang` or `tgi`"),
    Attribute("gapline.engine.silent_since", "double", "s", _S, "anchor to the silence in which it was asked"),
    Attribute("gapline.engine.asked", "double", "s", _S, "anchor to when it was asked"),
    Attribute("gapline.engine.running", "int", "{request}", _S, "requests that it ran then"),
    Attribute("gapline.engine.waiting", "int", "{request}", _S, "requests that waited in it"),
    Attribute("gapline.engine.kv_cache", "double", "1", _S, "share of its KV cache in use"),
    Attribute("gapline.engine.preemptions", "int", "{preemption}", _S, "its preemptions since it began"),
    Attribute("gapline.engine.earlier.ago", "double", "s", _S, "how long before that it was asked for the following"),
    Attribute("gapline.engine.earlier.running", "int", "{request}", _S, "the same when the silence began"),
    Attribute("gapline.engine.earlier.waiting", "int", "{request}", _S, "likewise"),
    Attribute("gapline.engine.earlier.kv_cache", "double", "1", _S, "likewise"),
    Attribute("gapline.engine.earlier.preemptions", "int", "{preemption}", _S, "likewise"),
    Attribute("gapline.events", "int", "{event}", _S, "dispatched events, each with a sequence number"),
    Attribute("gapline.comments", "int", "{block}", _S, "SSE blocks of comments only: no sequence number"),
    Attribute("gapline.dataless", "int", "{block}", _S, "SSE blocks without data: no event, no sequence number"),
    Attribute("gapline.wasted_events", "int", "{event}", _S, "events that still arrived after the client had left"),
    Attribute("gapline.unterminated_tail", "boolean", "", _S, "the body ended inside an event"),
    Attribute("gapline.gap.max", "double", "s", _S, "longest time between two events"),
    Attribute("gapline.gap.max_seq", "int", "", _S, "sequence number of the event that ended it"),
    Attribute("gapline.blocked", "double", "s", _S, "time in which the reader took nothing"),
    Attribute("gapline.ending", "string", "", _S, "how it ended"),
    Attribute("gapline.ended_by", "string", "", _S, "`upstream`, `downstream` or `sidecar`"),
    Attribute("gapline.phase", "string", "", _S, "how far it had come"),
    Attribute("gapline.idle_at_end", "double", "s", _S, "time since the last byte from upstream when it ended"),
    Attribute("gapline.framing_incomplete", "boolean", "", _S, "the HTTP framing of the upstream body broke off"),
    Attribute("gapline.end.cut", "string", "", _S, "how that side cut it: `fin`, `reset`, `framing`, `timeout`"),
    Attribute("gapline.timeline.format", "int", "", _T, "version of the packed format"),
    Attribute("gapline.timeline.unit_ns", "int", "ns", _T, "unit of its times"),
    Attribute("gapline.timeline.events", "int", "{event}", _T, "rows in it"),
    Attribute("gapline.timeline.bytes", "int", "By", _T, "payload before base64"),
    Attribute("gapline.timeline.crc32", "int", "", _T, "checksum of the payload"),
    Attribute("gapline.timeline.parts", "int", "", _T, "number of parts"),
    Attribute("gapline.timeline.part.", "string", "", _T, "part.00, part.01, …: base64, at most 2,000 characters each"),
    Attribute("gapline.timeline.left_out", "boolean", "", _T, "the parts were left out: a receiver refused their size"),
    Attribute("gapline.event.seq", "int", "", _N, "sequence number of the event"),
    Attribute("gapline.event.gap", "double", "s", _N, "time between it and the event before it"),
    Attribute("gapline.diagnosis.status", "string", "", _V, "`named`, `healthy` or `inconclusive`"),
    Attribute("gapline.diagnosis.cause", "string", "", _V, "the cause"),
    Attribute("gapline.diagnosis.first_hop", "string", "", _V, "the first hop where the gap grew"),
    Attribute("gapline.diagnosis.gap", "double", "s", _V, "the wait the reader felt"),
    Attribute("gapline.diagnosis.confidence", "double", "1", _V, "0 to 1"),
)
