"""Every option of the sidecar: one table with its name, its rule, its default and its sentence of help.

Flags, `GAPLINE_SIDECAR_*` variables and keys of a TOML file follow from it.
"""

from __future__ import annotations

from typing import Final

from otel import settings
from otel.logs import AUTO, FORMATS
from otel.settings import REQUIRED, Address, Option
from sidecar.guard.holding import LIMIT_BYTES as HELD_BYTES
from sidecar.guard.keepalive import Form
from sidecar.guard.limits import rule
from sidecar.guard.policy import Mode
from sidecar.inspection.splitter import LIMIT_BYTES
from sidecar.option_values import (
    egress,
    engine_url,
    field_name,
    id_headers,
    keepalive_seconds,
    keepalive_text,
    listeners,
    memory_limit,
    millionths,
    optional,
    positive_seconds,
    signed_seconds,
    upstream_url,
    worker_count,
)
from sidecar.telling import probe
from sidecar.telling.accesslog import ERROR_TEXTS, MASKED
from sidecar.telling.dimensions import dimension
from sidecar.telling.genai import SEMCONV

SIGNED: Final = (
    "signature",
    "signature-input",
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
    "x-signature",
    "x-body-signature",
)
"""Fields of answers whose bytes somebody checks: RFC 9421, RFC 9530, their forerunners, and usual names."""

OPTIONS: Final = (
    Option(
        "listen",
        listeners,
        (Address("0.0.0.0", 24080),),  # noqa: S104
        "accept requests here; several with commas, or unix:/PATH",
        "HOST:PORT",
        is_list=True,
    ),
    Option(
        "upstream", upstream_url, REQUIRED, "pass every request on to this server; http, https or unix:/PATH", "URL"
    ),
    Option(
        "hop",
        settings.name,
        REQUIRED,
        "name of the service beside which this sidecar stands, as verdicts name it",
        "NAME",
    ),
    Option(
        "role",
        settings.choice("ingress", "egress"),
        "ingress",
        "ingress: before the service; egress: behind it",
        "ROLE",
    ),
    Option(
        "egress",
        settings.items(egress),
        (),
        "listen for what the service itself asks of NAME, and pass that on to URL; may be repeated",
        "NAME=HOST:PORT=URL",
        is_list=True,
    ),
    Option(
        "tls_cert",
        settings.path,
        None,
        "accept TLS with this certificate chain, PEM; read anew when it changes",
        "FILE",
    ),
    Option("tls_key", settings.path, None, "private key of that certificate, PEM", "FILE"),
    Option(
        "upstream_ca",
        settings.path,
        None,
        "trust these authorities for https upstreams, PEM, in place of the system's",
        "FILE",
    ),
    Option("upstream_cert", settings.path, None, "client certificate shown to https upstreams, PEM", "FILE"),
    Option("upstream_key", settings.path, None, "private key of that client certificate, PEM", "FILE"),
    Option(
        "admin",
        optional(settings.address),
        Address("0.0.0.0", 24090),  # noqa: S104
        "health and metrics for everybody, running streams and kill switch for this machine; or off",
        "HOST:PORT",
    ),
    Option("export", optional(settings.http_url), None, "send spans to this OTLP/HTTP endpoint; or off", "URL"),
    Option("export_token", str.strip, None, "bearer token for that endpoint; better set by its variable", "TOKEN"),
    Option(
        "export_queue",
        settings.size_bytes,
        32 << 20,
        "bytes of spans kept while the endpoint does not take them",
        "SIZE",
    ),
    Option(
        "spool",
        optional(settings.path),
        None,
        "keep spans in this directory until the endpoint has them; or off",
        "DIR",
    ),
    Option("spool_bytes", settings.size_bytes, 256 << 20, "most that the spool may hold", "SIZE"),
    Option(
        "exact", settings.switch, False, "keep times to 1 µs and every position; finer times can tell what was written"
    ),
    Option(
        "request_id_headers",
        id_headers,
        ("x-request-id",),
        "header fields that carry the request id, the first found wins",
        "NAMES",
    ),
    Option("connect_timeout", positive_seconds, 5.0, "time to connect to the upstream; after it 504", "TIME"),
    Option(
        "answer_timeout",
        settings.seconds,
        0.0,
        "time from a request to the head of its answer; after it 504; 0: none",
        "TIME",
    ),
    Option("request_head_timeout", positive_seconds, 60.0, "time to send the head of a request; after it 408", "TIME"),
    Option(
        "request_body_timeout",
        positive_seconds,
        300.0,
        "longest silence within the body of a request; after it 408",
        "TIME",
    ),
    Option(
        "slow_reader",
        settings.choice("pause", "end"),
        "pause",
        "pause: the upstream waits for a reader that takes nothing; end: end it after --write-deadline",
        "WHAT",
    ),
    Option(
        "write_deadline",
        positive_seconds,
        60.0,
        "how long a reader may take nothing, where --slow-reader is end",
        "TIME",
    ),
    Option(
        "guard",
        settings.choice(*(mode.value for mode in Mode)),
        Mode.OBSERVE.value,
        "observe: tell which streams the limits below would have ended; enforce: end them with an error",
        "MODE",
    ),
    Option(
        "first_event_timeout",
        settings.seconds,
        300.0,
        "longest that a streamed answer of a model may take to its first event; comments renew it; 0: no limit",
        "TIME",
    ),
    Option("next_event_timeout", settings.seconds, 90.0, "longest silence in one after that; 0: no limit", "TIME"),
    Option(
        "content_timeout",
        settings.seconds,
        0.0,
        "longest time in one without an event, be there comments and pings or not; 0: no limit",
        "TIME",
    ),
    Option(
        "guard_rule",
        settings.items(rule),
        (),
        "other limits for some, as path=/v1/messages;model=claude-*;first=600s;next=2m; may be repeated",
        "RULE",
        is_list=True,
    ),
    Option(
        "missing_terminal",
        settings.choice("pass", "error"),
        "pass",
        "an orderly end without the event that marks it; error: with --guard enforce it becomes an error",
        "WHAT",
    ),
    Option(
        "keepalive",
        keepalive_seconds,
        0.0,
        "put a comment into streams of events that are silent for so long, 0.1 s at least; 0: never",
        "TIME",
    ),
    Option("keepalive_text", keepalive_text, "keepalive", "what that comment says", "TEXT"),
    Option(
        "keepalive_form",
        settings.choice(*(form.value for form in Form)),
        Form.AUTO.value,
        "block: with a blank line behind it; line: without; auto: what no known reader stumbles over",
        "FORM",
    ),
    Option(
        "keepalive_early",
        settings.switch,
        False,
        "send comments also before the upstream has answered, behind a 200 of our own, where an API has only SSE",
    ),
    Option("keepalive_signed", settings.switch, False, "send comments also into streams that are signed"),
    Option(
        "signed_headers",
        settings.items(field_name),
        SIGNED,
        "fields of an answer that say that its bytes are signed",
        "NAMES",
        is_list=True,
    ),
    Option(
        "hold_head",
        settings.seconds,
        0.0,
        f"keep the head of a stream back until its first event, for so long or {HELD_BYTES >> 10} KiB at most, so that "
        "an early error keeps its status; 0: never",
        "TIME",
    ),
    Option("digests", settings.switch, False, "sum the bytes of each body as it came and as it was passed on, SHA-256"),
    Option("max_streams", settings.count, 0, "most exchanges that run at a time, further ones queue; 0: no limit", "N"),
    Option("max_queue", settings.count, 1024, "most exchanges that queue; further ones get 503 and Retry-After", "N"),
    Option("queue_timeout", positive_seconds, 10.0, "longest time in that queue; after it 503", "TIME"),
    Option(
        "max_connections", settings.count, 0, "most open connections of clients; 0: what the descriptors allow", "N"
    ),
    Option(
        "memory_limit",
        memory_limit,
        "auto",
        "memory from which new requests are refused; auto: that of the container; or off",
        "SIZE",
    ),
    Option("workers", worker_count, 1, "processes that share the listeners; auto: one for each CPU", "N"),
    Option(
        "passthrough", settings.switch, False, "start with the kill switch on: pass everything on and stamp nothing"
    ),
    Option("drain_timeout", settings.seconds, 30.0, "time that running streams have to finish after SIGTERM", "TIME"),
    Option("stall_after", positive_seconds, 2.0, "silence from which a running stream is reported as stalled", "TIME"),
    Option("log_format", settings.choice(*FORMATS), AUTO, "auto: text on a terminal, else json", "FORM"),
    Option("log_start", settings.switch, False, "log a line also when an exchange begins"),
    Option(
        "error_text",
        settings.choice(*ERROR_TEXTS),
        MASKED,
        "what the log says of an upstream's error: its technical words, all of it, or nothing",
        "WHAT",
    ),
    Option(
        "probe_agents",
        settings.items(probe.agent),
        probe.AGENTS,
        "requests whose user agent has such a word are labelled as probes",
        "WORDS",
        is_list=True,
    ),
    Option(
        "probe_paths",
        settings.items(probe.path),
        probe.PATHS,
        "and GET and HEAD requests of these paths",
        "PATHS",
        is_list=True,
    ),
    Option(
        "probe_headers",
        settings.items(probe.header),
        probe.HEADERS,
        "and requests with such a field",
        "NAME[=VALUE]",
        is_list=True,
    ),
    Option("probe_prompt", settings.size_bytes, 0, "and requests with a prompt of at most this size; 0: none", "SIZE"),
    Option(
        "dimensions",
        settings.items(dimension),
        (),
        "slice streams by what these fields of a request say, as tenant=x-tenant-id; may be repeated",
        "NAME=HEADER",
        is_list=True,
    ),
    Option(
        "client_key",
        str.strip,
        None,
        "record a hash of the client under this secret of at least 16 characters; better set by its variable",
        "SECRET",
    ),
    Option(
        "semconv",
        settings.choice(*SEMCONV),
        "server",
        "metrics also by the names of OpenTelemetry's GenAI conventions",
        "NAMES",
    ),
    Option(
        "export_logs",
        settings.choice("on", "off"),
        "on",
        "send news of streams that stall to the same endpoint, as OTLP log records",
        "WHAT",
    ),
    Option(
        "heartbeat",
        settings.seconds,
        10.0,
        "and so often news of each stream that runs for longer; 0: never",
        "TIME",
    ),
    Option(
        "engine_metrics",
        optional(engine_url),
        None,
        "where the engine beside it shows its Prometheus metrics: asked when a stream is silent; or off",
        "URL",
    ),
    Option(
        "event_limit",
        settings.size_bytes,
        LIMIT_BYTES,
        "bytes of one event that are looked at; all are passed on",
        "SIZE",
    ),
    Option(
        "clock_offset",
        signed_seconds,
        0.0,
        "shift both clocks of this process; for trying out, --clock-offset=-1h",
        "TIME",
    ),
    Option(
        "clock_drift",
        millionths,
        0.0,
        "have both run fast, or slow, by so many millionths; for trying out, --clock-drift=-200",
        "PPM",
    ),
    Option(
        "loop",
        settings.choice("auto", "uvloop", "asyncio"),
        "auto",
        "event loop; auto takes uvloop where it is there",
        "LOOP",
    ),
    Option(
        "tier",
        settings.choice("splice", "push", "pull"),
        "splice",
        "passing bodies on: chunks as they came; in the callback that received them; by a task of their own",
        "TIER",
    ),
    Option("compiled", settings.choice("auto", "on", "off"), "auto", "compiled parts; auto: where they are", "WHETHER"),
    Option(
        "log_level", settings.choice("debug", "info", "warning", "error"), "info", "least level that is logged", "LEVEL"
    ),
)

HEADINGS: Final = {
    "listen": "where it stands",
    "tls_cert": "TLS",
    "admin": "what it tells of itself",
    "export": "spans",
    "request_id_headers": "exchanges",
    "guard": "guarding",
    "keepalive": "keepalives",
    "hold_head": "held heads and digests",
    "max_streams": "bounds",
    "passthrough": "running",
    "log_format": "log",
    "probe_agents": "probes and slices",
    "semconv": "metrics",
    "export_logs": "news of what runs",
    "engine_metrics": "the engine",
    "event_limit": "fine tuning",
}
"""What stands above these options in the help, and holds for those that follow."""
