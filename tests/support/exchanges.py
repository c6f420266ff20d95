"""One exchange through a whole sidecar in a test: ask for it, and see the reply, the record and what was asked."""

from tests.support.script import (
    ask,
    get,
    sidecar,
    upstream,
)

SSE = "text/event-stream"


CHAT = "/v1/chat/completions"


HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'


DONE = b"data: [DONE]\n\n"


ERROR = b'data: {"error":{"type":"server_error","code":"overloaded","message":"secret"}}\n\n'


async def exchange(*steps, sent=None, **options):
    """One exchange: what the client got, and its record."""
    async with upstream(*steps) as up, sidecar(up.url, **options) as proxy:
        reply = await ask(proxy.port, sent or get(CHAT))
        return reply, await proxy.hop(), up.exchanges
