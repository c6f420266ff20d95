"""What looking at an event costs: with every event read, by its shape in Python, and compiled.

    python -m tests.batteries.part_costs

Prints nanoseconds an event, the least of many short runs: an event a read, reads of 32 KB, and the whole chunks of a
read. A benchmark, and no test: it never fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sidecar.http1.chunked import encode_chunk
from sidecar.inspection.body import Body
from sidecar.native import COMPILED, TWINS, Parts
from tests.support.parts import NOT_BUILT, READING_ALL

EVENTS = [
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764500000,"model":"m","choices":[{"index":0,'
    b'"delta":{"content":"hello%d"},"finish_reason":null}]}\n\n' % number
    for number in range(10)
]
FLOOD = b"".join(EVENTS * 20)[:32_768]
RUNS = 100


def least_ns(run: Callable[[], object], count: int) -> float:
    """The least time of many runs, divided by what each of them does."""
    found = []
    for _ in range(RUNS):
        began_ns = time.perf_counter_ns()
        run()
        found.append(time.perf_counter_ns() - began_ns)
    return min(found) / count


def passing(parts: Parts, reads: list[bytes]) -> Callable[[], object]:
    def run() -> None:
        body = Body("/v1/chat/completions", content_type="text/event-stream", content_encoding=None, parts=parts)
        for number, data in enumerate(reads):
            body.arrived(data, number, is_wasted=False)
            body.stamper.taken(number, number)

    return run


def main() -> None:
    chunk = encode_chunk(EVENTS[0])
    print(f"{'ns an event':24}{'an event a read':>18}{'reads of 32 KB':>18}{'whole chunks':>18}")
    for name, parts in (("every event read", READING_ALL), ("in Python", TWINS), ("compiled", COMPILED)):
        if parts is None:
            print(f"{name:24}{NOT_BUILT}")
            continue
        one = least_ns(passing(parts, EVENTS * 50), 500)
        flood = least_ns(passing(parts, [FLOOD] * 5), 5 * FLOOD.count(b"\n\n"))
        chunks = least_ns(lambda whole=parts.whole_chunks: [whole(chunk, 0) for _ in range(500)], 500)
        print(f"{name:24}{one:18,.0f}{flood:18,.0f}{chunks:18,.0f}")


if __name__ == "__main__":
    main()
