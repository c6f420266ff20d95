"""The lab's ASGI proxy on uvicorn, as it is measured: with as many connections to the next hop as there are readers.

Runs in an environment beside which there is nothing of gapline: PYTHON -m tests.bench.asgi PORT NEXT_URL
"""

from __future__ import annotations

import sys

import httpx

from tests.lab.asgi import Proxy


def main(port: int, next_url: str) -> None:
    import uvicorn  # the app itself needs no server

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    next_hop = httpx.AsyncClient(base_url=next_url, timeout=None, trust_env=False, limits=limits)
    uvicorn.run(Proxy(next_hop), host="127.0.0.1", port=port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
