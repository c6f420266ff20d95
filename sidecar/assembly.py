"""Put the parts of one process together, as the configuration says."""

from __future__ import annotations

import asyncio
import platform
import socket
import ssl
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata

import aiohttp
from opentelemetry.sdk.resources import OTELResourceDetector

from otel.hop import Place, TapRole
from sidecar.bounds.admission import Admission
from sidecar.bounds.deadlines import Limits
from sidecar.bounds.memory import cgroup_limit_bytes
from sidecar.bounds.overload import Overload
from sidecar.callers import Callers
from sidecar.clock import Clock
from sidecar.config import Config
from sidecar.downstream.bind import Sockets, listeners_of, open_for
from sidecar.downstream.doors import Doors
from sidecar.downstream.listener import Listener
from sidecar.downstream.refusals import RefusedHeads
from sidecar.downstream.tunnel import dialer
from sidecar.engine.watch import EngineWatch
from sidecar.exchanges import Exchanges, Ticking
from sidecar.export.exporter import Exporter
from sidecar.export.log_records import LogRecords
from sidecar.export.records import Records
from sidecar.export.spool import Spool
from sidecar.flow import Tier
from sidecar.guard.keepalive import Form, comment
from sidecar.guard.limits import GuardLimits, Rules
from sidecar.guard.policy import Keepalives, Mode, Policy
from sidecar.guarding import Guard
from sidecar.inspection.body import Body
from sidecar.lag import Canary
from sidecar.native import parts_for
from sidecar.operation.account import OwnAccount
from sidecar.operation.admin import AdminSite
from sidecar.operation.metrics import Metrics, Side
from sidecar.relay import Relay
from sidecar.route import Route
from sidecar.telling.dimensions import Dimensions
from sidecar.telling.observations import Observations
from sidecar.telling.probe import ProbeRules
from sidecar.tls.contexts import H2, HTTP_1_1, ServerTls, upstream_context
from sidecar.upstream import Origin, Upstream, origin_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The parts of one process, put together. sides: in front of the service, then what it asks itself."""

    config: Config
    sides: tuple[Side, ...]
    account: OwnAccount
    admin: AdminSite
    exchanges: Exchanges
    records: Records
    canary: Canary
    logs: LogRecords | None
    engine: EngineWatch | None

    @property
    def listener(self) -> Listener:
        return self.sides[0].listener

    async def start(self) -> None:
        """Accept, and show what there is on the admin address. Raises OSError when that cannot be had."""
        if self.config.admin is not None:
            await self.admin.start(self.config.admin)
        for side in self.sides:
            await side.listener.start()

    async def drain(self, *, timeout_s: float) -> None:
        """Take nothing new, let what runs finish, and end the rest at the limit.

        What the service asks itself is taken until nothing runs any more: a running answer may need it.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        for side in self.sides:
            await side.listener.drain(timeout_s=max(0.0, until_s - loop.time()))

    async def close(self) -> None:
        """Close every connection, up and down."""
        for side in self.sides:
            await side.listener.close()
        await self.admin.close()
        for side in self.sides:
            await side.upstream.close()


@dataclass(frozen=True, slots=True)
class _All:
    """All that has to be told the time."""

    parts: tuple[Ticking, ...]

    def tick(self, at_ns: int) -> None:
        for part in self.parts:
            part.tick(at_ns)


def share(config: Config, count: int, number: int = 0) -> Config:
    """The configuration of one of so many workers, by its number: limits of the whole sidecar are divided among them.

    The admin address is the parent's.
    """
    memory_limit = _memory_limit_bytes(config)
    return replace(
        config,
        admin=None,
        max_streams=_part(config.max_streams, count, number),
        max_queue=_part(config.max_queue, count, number),
        max_connections=_part(config.max_connections, count, number),
        memory_limit=None if memory_limit is None else memory_limit // count,
        export_queue=_part(config.export_queue, count, number),
        spool_bytes=_part(config.spool_bytes, count, number),
    )


def _part(limit: int, count: int, number: int) -> int:
    """The first of them have what is left over, so that all parts are the whole."""
    return limit // count + (number < limit % count)


def most_workers(config: Config, count: int) -> int:
    """So many workers, or fewer: each needs a place for a stream and for a connection, since 0 stands for no limit."""
    return min([count, *(limit for limit in (config.max_streams, config.max_connections) if limit)])


def exporter_of(config: Config, clock: Clock) -> Exporter | None:
    """What delivers the spans, if anything does."""
    if config.export is None:
        return None
    headers = {"Authorization": f"Bearer {config.export_token}"} if config.export_token is not None else {}
    spool = None if config.spool is None else Spool(config.spool, limit_bytes=config.spool_bytes)
    return Exporter(config.export, clock=clock, headers=headers, queue_bytes=config.export_queue, spool=spool)


def build(
    config: Config,
    *,
    clock: Clock,
    exporter: Exporter | None,
    sockets: Sockets | None = None,
    most_connections: int | None = None,
) -> Sidecar:
    """Put the parts together; called in the event loop to which they will belong. Raises OSError, TlsError.

    sockets: where each listener listens; it takes them over. None opens them. most_connections: how many may be open
    where the configuration does not say.
    """
    instance = str(uuid.uuid4())
    resource = _resource(config.hop, instance)
    parts = parts_for(config.compiled)
    canary = Canary(clock)
    observations = Observations(config.semconv)
    dimensions = Dimensions(config.dimensions, config.client_key)
    probes = ProbeRules(config.probe_agents, config.probe_paths, config.probe_headers)
    callers = Callers(probes, dimensions, probe_bytes=config.probe_prompt)
    records = Records(exporter, is_exact=config.exact, observing=observations, error_text=config.error_text)
    logs = None if exporter is None else _logs_of(config, clock, resource)
    engine = None if config.engine_metrics is None else EngineWatch(config.engine_metrics, clock=clock)
    policy = policy_of(config)
    connection_limit = config.max_connections or most_connections
    doors = Doors(
        now=clock.monotonic_ns,
        limit=connection_limit,
        head_timeout_ns=_ns(config.request_head_timeout),
    )
    tls = None if config.tls_cert is None or config.tls_key is None else ServerTls(config.tls_cert, config.tls_key)
    exchanges = Exchanges(
        clock,
        canary=canary,
        records=records,
        limits=_limits(config),
        overload=Overload(_memory_limit_bytes(config)),
        doors=doors if tls is None else _All((doors, tls)),
        telling=logs,
        heartbeat_ns=_ns(config.heartbeat),
        tells_start=config.log_start,
        engine=engine,
    )
    exchanges.switch_passthrough(is_on=config.passthrough)
    if tls is not None:
        tls.tell()
    refused_heads = RefusedHeads(clock.monotonic_ns)

    def side(name: str, url: str, role: TapRole, *, own: Sequence[socket.socket], is_inner: bool) -> Side:
        """A listener and all that stands behind it. is_inner: it is the service that asks, in clear, by our address."""
        origin = origin_of(url)
        upstream = Upstream(
            origin,
            clock=clock.monotonic_ns,
            ssl=_context(config, origin, HTTP_1_1),
            connect_timeout_s=config.connect_timeout,
            whole_chunks=parts.whole_chunks,
            receiver=parts.receiver,
        )
        admission = Admission(
            clock, max_streams=config.max_streams, max_queue=config.max_queue, queue_timeout_s=config.queue_timeout
        )
        route = Route(
            hop=config.hop,
            listener=name,
            upstream=upstream,
            host=origin.authority if is_inner else None,
            id_headers=config.request_id_headers,
            exchanges=exchanges,
            admission=admission,
            doors=doors,
            guard=Guard(policy, hop=config.hop, counts=exchanges.guard_counts),
            tier=Tier(config.tier),
            clock=clock,
        )
        place = Place(config.hop, role, resource)
        listener = Listener(
            Relay(
                route,
                place=place,
                instance=instance,
                callers=callers,
                look=partial(Body, event_limit_bytes=config.event_limit, parts=parts),
            ),
            sockets=own,
            tls=None if is_inner else tls,
            exchanges=exchanges,
            doors=doors,
            name=name,
            refused_heads=refused_heads,
            dial=dialer(origin, tls=_context(config, origin, H2), connect_timeout_s=config.connect_timeout),
        )
        return Side(name, listener, admission, upstream)

    if sockets is None:
        (sockets,) = open_for(1, listeners_of(config))
    sides = [side("listen", config.upstream, TapRole(config.role), own=sockets[0], is_inner=False)]
    for egress, own in zip(config.egress, sockets[1:], strict=True):
        sides.append(side(f"egress:{egress.name}", egress.url, TapRole.EGRESS, own=own, is_inner=True))
    metrics = Metrics(
        build=_build(is_compiled=parts.is_compiled),
        exchanges=exchanges,
        records=records,
        canary=canary,
        doors=doors,
        connection_limit=connection_limit,
        refused_heads=refused_heads,
        sides=tuple(sides),
        tls=tls,
        exporter=exporter,
        observations=observations,
        dimensions=dimensions,
        logs=logs,
        engine=engine,
        now=clock.monotonic_ns,
    )
    account = OwnAccount(clock=clock, exchanges=exchanges, series=metrics.series, tls=tls)
    return Sidecar(
        config=config,
        sides=tuple(sides),
        account=account,
        admin=AdminSite(account),
        exchanges=exchanges,
        records=records,
        canary=canary,
        logs=logs,
        engine=engine,
    )


def policy_of(config: Config) -> Policy:
    """What the configuration asks to be done for readers."""
    limits = GuardLimits.of_seconds(
        first_event=config.first_event_timeout, next_event=config.next_event_timeout, content=config.content_timeout
    )
    keepalives = None
    if config.keepalive:
        keepalives = Keepalives(
            every_ns=_ns(config.keepalive),
            comment=comment(config.keepalive_text),
            form=Form(config.keepalive_form),
            is_early=config.keepalive_early,
            on_signed=config.keepalive_signed,
        )
    return Policy(
        rules=Rules(limits, config.guard_rule),
        mode=Mode(config.guard),
        is_missing_terminal_error=config.missing_terminal == "error",
        keepalives=keepalives,
        signed_headers=frozenset(config.signed_headers),
        hold_ns=_ns(config.hold_head) or None,
        has_digests=config.digests,
    )


def _logs_of(config: Config, clock: Clock, resource: tuple[tuple[str, str], ...]) -> LogRecords | None:
    """What sends news of running streams, None where nobody wants them."""
    if config.export is None or config.export_logs == "off":
        return None
    headers = {"Authorization": f"Bearer {config.export_token}"} if config.export_token else None
    return LogRecords(
        config.export, clock=clock, resource=dict(resource), heartbeat_s=config.heartbeat, headers=headers
    )


def _limits(config: Config) -> Limits:
    return Limits(
        stall_after_ns=_ns(config.stall_after),
        body_idle_ns=_ns(config.request_body_timeout),
        write_deadline_ns=_ns(config.write_deadline) if config.slow_reader == "end" else None,
        answer_ns=_ns(config.answer_timeout) or None,
    )


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _memory_limit_bytes(config: Config) -> int | None:
    if isinstance(config.memory_limit, str):  # auto
        return cgroup_limit_bytes()
    return config.memory_limit


def _context(config: Config, origin: Origin, protocols: Sequence[str]) -> ssl.SSLContext | None:
    """What TLS to the upstream is made with; None where there is none. Raises TlsError."""
    if origin.scheme != "https":
        return None
    return upstream_context(
        ca=config.upstream_ca, cert=config.upstream_cert, key=config.upstream_key, protocols=protocols
    )


def _resource(hop: str, instance: str) -> tuple[tuple[str, str], ...]:
    """The OTel resource: what the OTEL_* variables say, and the name of the hop where they name no service."""
    detected = {name: str(value) for name, value in OTELResourceDetector().detect().attributes.items()}
    return tuple(sorted(({"service.name": hop} | detected | {"service.instance.id": instance}).items()))


def _build(*, is_compiled: bool) -> dict[str, str]:
    try:
        version = metadata.version("gapline")
    except metadata.PackageNotFoundError:  # run from a source tree
        version = "unknown"
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    return {
        "version": version,
        "python": platform.python_version(),
        "aiohttp": aiohttp.__version__,
        "loop": loop,
        "compiled": "yes" if is_compiled else "no",
    }
