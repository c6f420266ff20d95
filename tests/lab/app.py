"""A hop of ours: passes events on as they come, and does what the request's header tells it to do wrong.

python -m tests.lab.app --hop NAME --port PORT --next URL [--buffer BYTES]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from aiohttp import web

from otel.demo.faults import Fault
from otel.demo.middle import FORWARDED, Begins, Middle, Rewrite, from_event, run
from tests.lab.told import HEADER, Told


class App(Middle):
    """One hop in the middle of the lab's chains."""

    forwarded = (*FORWARDED, HEADER)

    def planted(self, request: web.Request, body: bytes) -> tuple[Fault | None, Begins]:
        found = Told.parse(request.headers[HEADER]).at(self.hop)
        return (None, from_event(0)) if found is None else (found.fault, found.begins())


def main(module: str, *, rewriting: Callable[[], Rewrite] | None = None) -> None:
    """Run one that makes this of the events, by the command line that every app of ours has."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--hop", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--next", required=True, metavar="URL")
    parser.add_argument("--buffer", type=int, metavar="BYTES", help="of the kernel, each way")
    options = parser.parse_args()
    app = App(hop=options.hop, next_url=options.next, rewriting=rewriting, buffer_bytes=options.buffer)
    run(app, port=options.port)


if __name__ == "__main__":
    main("tests.lab.app")
