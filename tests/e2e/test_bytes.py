"""Thousands of drawn streams, cut anywhere, through a real sidecar process: output equals input byte for byte.

CI_FULL=1 makes them 20,000. GAPLINE_BYTES_SEED takes the seed that a failure printed.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.batteries.bytes import run
from tests.support.corpus import draw

IS_FULL = os.environ.get("CI_FULL") == "1"
STREAMS = 20_000 if IS_FULL else 2_000
SEED = int(os.environ.get("GAPLINE_BYTES_SEED") or random.randrange(1 << 31))
LOOPS = ("uvloop", "asyncio")


@pytest.mark.e2e
@pytest.mark.timeout(1_200 if IS_FULL else 120)
@pytest.mark.parametrize("loop", LOOPS)
async def test_every_stream_arrives_as_it_was_sent(tmp_path: Path, loop: str) -> None:
    print(f"GAPLINE_BYTES_SEED={SEED}")
    numbers = range(STREAMS)[LOOPS.index(loop) :: len(LOOPS)]

    found = await run(tmp_path, seed=SEED, numbers=numbers, loop=loop)

    assert not found, f"\n{found[0]}"


def test_the_same_number_is_always_the_same_stream() -> None:
    assert draw(1, 2) == draw(1, 2)
    assert draw(1, 2).writes != draw(2, 2).writes


def test_the_corpus_has_every_kind_of_body_and_of_framing() -> None:
    drawn = [draw(SEED, number) for number in range(400)]

    assert {each.framing for each in drawn} == {"chunked", "length", "close", "http/1.0", "http/1.0 length"}
    assert {each.kind.partition(",")[0] for each in drawn} == {"sse", "odd sse", "ndjson", "binary", "framing alike"}
    assert {each.method for each in drawn} == {b"GET", b"POST", b"HEAD"}
    for name in ("trailers", "interims", "request_body", "is_old_client", "ends_with_close", "pauses"):
        assert any(getattr(each, name) for each in drawn), name
    assert any("gzip" in each.kind for each in drawn)
