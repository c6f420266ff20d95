"""OTLP in over gRPC: the same receiver behind the services of spans and logs. The only file that loads grpcio.

Requests are taken as bytes and decoded by `otel.otlp`, as over HTTP, so both have one codec.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import grpc

from otel.otlp import OtlpError
from otel.receiver import BODY_S, SIGNALS, Receiver, Signal, TryLaterError

MESSAGE_BYTES: Final = 16 << 20
"""grpcio's own limit is 4 MiB, and collectors batch by number of spans; this is what Tempo takes."""
READ_AT_ONCE: Final = 4
"""Messages that come in at a time; grpcio takes one whole or not at all, and the others wait on the wire."""

Export = Callable[[AsyncIterator[bytes], "grpc.aio.ServicerContext[bytes, bytes]"], Awaitable[bytes]]


def grpc_server(receiver: Receiver) -> grpc.aio.Server:
    """A server of OTLP over gRPC; its owner adds ports, starts and stops it."""
    turns = asyncio.Semaphore(READ_AT_ONCE)
    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),  # or a second collector on this port would start, and take half of the spans
    ]
    server = grpc.aio.server(options=options)
    for signal in SIGNALS:
        # on the wire the same as a unary request, but taken as a stream its message waits until we read it
        handler = grpc.stream_unary_rpc_method_handler(_export(receiver, signal, turns))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(signal.service, {"Export": handler}),))
    return server


def _export(receiver: Receiver, signal: Signal, turns: asyncio.Semaphore) -> Export:
    counters = receiver.counters

    async def export(bodies: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        counters.requests += 1
        metadata = dict(context.invocation_metadata() or ())
        authorization = metadata.get("authorization")
        if not receiver.is_allowed(authorization if isinstance(authorization, str) else None):
            counters.refused_requests += 1
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is required")
        try:
            with receiver.hold() as held:
                async with turns, asyncio.timeout(BODY_S):
                    body = await anext(bodies, b"")
                    held.add(len(body))
                rejected, message = await signal.take(receiver)(body, as_json=False)
        except TimeoutError:
            counters.failed_requests += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the message did not come in within {BODY_S:g} s")
        except OtlpError as error:
            counters.refused_requests += 1
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TryLaterError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return signal.answer(rejected, message, as_json=False)

    return export
