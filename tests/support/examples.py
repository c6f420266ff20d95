"""Named hops, one per kind of span, which together show every attribute of the schema."""

from __future__ import annotations

from dataclasses import replace

from otel.hop import (
    BodyDigests,
    End,
    Ending,
    EngineEvidence,
    EngineSnapshot,
    EventClass,
    Hop,
    Phase,
    RateLimits,
    Side,
    State,
    TapRole,
    Usage,
)
from tests.support.builders import a_conversation, a_hop, a_timeline, ns

_ARRIVED = [0.30, 0.32, 0.34, 3.34, 3.36]


def _failed() -> Hop:
    timeline = a_timeline(
        _ARRIVED,
        taken_after_s=[0.0001, 0.0001, 2.5, None, None],
        classes=[EventClass.CONTENT] * 4 + [EventClass.ERROR],
        blocked_s=[(0.34, 2.84)],
        window_peak_bytes=65_536,
        round_trip_ns=18_400_000,
    )
    hop = a_hop("inference-proxy", role=TapRole.EGRESS, timeline=timeline)
    return replace(
        hop,
        aliases=("chatcmpl-7",),
        parent_span_id="00f067aa0ba902b7",
        segment_index=1,
        exchange=replace(
            hop.exchange,
            model="demo",
            response_model="demo-model",
            request_is_stream=True,
            prompt_bucket="<16K",
            error_type="overloaded_error",
            error_code="529",
            error_detail="stream chunk parse: missing field id at line 1 column 184",
            is_probe=True,
            finish_reasons=("length", "error"),
            dimensions=(("client", "OpenAI/Python/1.52.0"), ("region", "eu-central-1")),
            guard_fired=("next_event_timeout",),
        ),
        moments=replace(hop.moments, client_left_ns=ns(3.0), upstream_closed_ns=ns(3.4), downstream_ended_ns=None),
        traffic=replace(
            hop.traffic,
            comment_count=2,
            dataless_count=1,
            wasted_count=2,
            has_unterminated_tail=True,
            missing_bytes=1_024,
            keepalive_count=3,
            injected_bytes=39,
        ),
        usage=Usage(input_tokens=43, output_tokens=10, total_tokens=53),
        limits=RateLimits(
            request_limit=500,
            request_remaining=0,
            request_reset_ns=ns(6.5),
            token_limit=200_000,
            token_remaining=1_117,
            token_reset_ns=ns(0.12),
            retry_after_ns=ns(20),
        ),
        digests=BodyDigests("sha256:" + "1f" * 32, "sha256:" + "e2" * 32),
        engine=EngineEvidence(
            server="vllm",
            silent_since_ns=ns(0.34),
            during=EngineSnapshot(
                asked_ns=ns(2.36), running_count=9, waiting_count=3, kv_cache_share=0.97, preemption_count=14
            ),
            earlier=EngineSnapshot(
                asked_ns=-ns(0.4), running_count=4, waiting_count=0, kv_cache_share=0.51, preemption_count=12
            ),
        ),
        end=End(Ending.ERROR_EVENT, Side.UPSTREAM, Phase.EVENTS, ns(0.2), framing_incomplete=True, cut="reset"),
    )


def _refused() -> Hop:
    hop = a_hop("gateway", timeline=a_timeline(()), ending=Ending.REFUSED, ended_by=Side.SIDECAR, phase=Phase.CONNECT)
    nothing = replace(hop.moments, headers_received_ns=None, upstream_ended_ns=None, request_forwarded_ns=None)
    exchange = replace(hop.exchange, status=502, framing="none", dialect="opaque", is_stream=False, model=None)
    return replace(hop, moments=nothing, exchange=replace(exchange, response_id=None, has_terminal_rule=False))


EXAMPLES = {
    "healthy": a_hop("gateway"),
    "failed": _failed(),
    "refused": _refused(),
    "open_segment": a_hop("model-worker", state=State.OPEN, timeline=a_timeline(_ARRIVED[:3], first_seq=4_096)),
    "client": a_hop("client", role=TapRole.CLIENT),
    "websocket": a_conversation("gateway", received_s=[0.5, 9.5], sent_s=[0.4, 9.0, 12.0]),
}
