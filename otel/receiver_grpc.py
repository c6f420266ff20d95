"""OTLP in over gRPC: the same receiver behind `TraceService/Export`. The only file that loads grpcio.

Requests are taken as bytes and decoded by `otel.otlp`, as over HTTP, so both have one codec.
"""

from __future__ import annotations

from typing import Final

import grpc

from otel.otlp import OtlpError, encode_response
from otel.receiver import Receiver, TryLaterError

MESSAGE_BYTES: Final = 16 << 20
"""grpcio's own limit is 4 MiB, and collectors batch by number of spans; this is what Tempo takes."""

_SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"


def grpc_server(receiver: Receiver) -> grpc.aio.Server:
    """A server of OTLP over gRPC; its owner adds ports, starts and stops it."""
    counters = receiver.counters

    async def export(body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        counters.requests += 1
        metadata = dict(context.invocation_metadata() or ())
        authorization = metadata.get("authorization")
        if not receiver.is_allowed(authorization if isinstance(authorization, str) else None):
            counters.refused_requests += 1
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is required")
        try:
            rejected, message = await receiver.take(body, as_json=False)
        except OtlpError as error:
            counters.refused_requests += 1
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TryLaterError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return encode_response(rejected, message, as_json=False)

    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),  # or a second collector on this port would start, and take half of the spans
    ]
    server = grpc.aio.server(options=options)
    handler = grpc.unary_unary_rpc_method_handler(export)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {"Export": handler}),))
    return server
