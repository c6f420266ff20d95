"""Our apps: the text is the same behind each of them, and only what each is there for is another."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo import script
from otel.demo.reader import has_text, receipt
from tests.lab import apps
from tests.lab.apps import DONE, END, KEEPALIVE, MERGED_EVENTS, PASSING, PIECE_BYTES, QUIET_S, WINDOW_EVENTS, Does

FRAME = script.frame_of(request_id="r", model="m")
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=8)
MEMBERS = st.lists(st.tuples(st.sampled_from(["content", "reasoning_content"]), TEXTS), max_size=200)


def answer_of(members: Iterable[tuple[str, str]]) -> list[bytes]:
    said = [script.chunk(FRAME, {member: text}) for member, text in members]
    role = script.chunk(FRAME, {"role": "assistant", "content": ""})
    return [role, *said, *(due.data for due in script.ending(FRAME, at_s=0.0, events=len(said)))]


STEADY = answer_of([("content", f"w{number} ") for number in range(150)])


async def passed(does: Does, events: Iterable[bytes], *, at_once: int = 1) -> list[bytes]:
    """What is written for these events, write by write."""
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    everything = list(events)
    async with PASSING[does](write) as take:
        for start in range(0, len(everything), at_once):
            await take(b"".join(everything[start : start + at_once]))
    return written


def events_of(written: Iterable[bytes]) -> list[bytes]:
    return [event + END for event in b"".join(written).split(END) if event]


def text_of(events: Iterable[bytes]) -> str:
    said = [json.loads(event.removeprefix(b"data: ")) for event in events if has_text(event.rstrip(b"\n"))]
    return "".join(choice["delta"]["content"] for each in said for choice in each["choices"])


@given(MEMBERS, st.sampled_from(Does), st.integers(1, 9))
async def test_the_text_and_the_end_are_the_same_behind_every_app(
    members: list[tuple[str, str]], does: Does, at_once: int
) -> None:
    events = answer_of(members)
    made = events_of(await passed(does, events, at_once=at_once))
    assert text_of(made) == text_of(events)
    assert made[-1] == DONE
    assert any(b'"finish_reason":"stop"' in event for event in made)


@pytest.mark.parametrize("does", [Does.NOTHING, Does.WINDOW, Does.COALESCE, Does.UNBOUNDED, Does.KEEPALIVE])
async def test_who_only_holds_changes_no_byte(does: Does) -> None:
    assert b"".join(await passed(does, STEADY)) == b"".join(STEADY)


async def test_a_window_passes_its_texts_together_and_the_role_before_them() -> None:
    written = await passed(Does.WINDOW, STEADY)
    assert [sum(map(has_text, events_of([each]))) for each in written] == [0, WINDOW_EVENTS, WINDOW_EVENTS, 22]


async def test_a_coalescer_passes_full_pieces_alone() -> None:
    written = await passed(Does.COALESCE, STEADY)
    assert {len(piece) for piece in written[:-1]} == {PIECE_BYTES}
    assert 0 < len(written[-1]) <= PIECE_BYTES


async def test_a_merger_makes_one_event_of_several_and_holds_a_remainder_until_the_end() -> None:
    texts = [event for event in events_of(await passed(Does.MERGE, STEADY)) if has_text(event.rstrip(b"\n"))]
    assert len(texts) == math.ceil(150 / MERGED_EVENTS)


async def test_a_splitter_makes_two_events_of_one() -> None:
    texts = [event for event in events_of(await passed(Does.SPLIT, STEADY)) if has_text(event.rstrip(b"\n"))]
    assert len(texts) == 300


async def test_a_stripper_and_a_rebuilder_keep_thoughts_to_themselves() -> None:
    events = answer_of([("reasoning_content", "hm"), ("content", "amber ")] * 20)
    for does in (Does.STRIP, Does.REBUILD):
        made = events_of(await passed(does, events))
        assert not any(receipt(event.rstrip(b"\n"), at_s=0.0).has_thought for event in made)
    assert sum(event.startswith(b":") for event in made) == 20 // apps.COMMENT_EVERY


async def test_usage_is_told_in_every_event_and_once_more() -> None:
    made = events_of(await passed(Does.USAGE, STEADY))
    said = [json.loads(event.removeprefix(b"data: ")) for event in made if event != DONE]
    assert len(made) == len(STEADY) + 1
    assert [each["usage"]["completion_tokens"] for each in said[:4]] == [0, 1, 2, 3]
    assert said[-1]["usage"]["completion_tokens"] == 150


async def test_a_keepalive_comes_in_a_silence_and_never_without_one() -> None:
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    async with PASSING[Does.KEEPALIVE](write) as take:
        await take(STEADY[0])
        await asyncio.sleep(QUIET_S * 2.5)
        await take(STEADY[1])
    assert written == [STEADY[0], KEEPALIVE, KEEPALIVE, STEADY[1]]


async def test_an_unbounded_app_takes_all_of_an_answer_that_nobody_reads() -> None:
    reads = asyncio.Event()
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        await reads.wait()
        written.append(data)

    async with PASSING[Does.UNBOUNDED](write) as take:
        async with asyncio.timeout(1):
            for event in STEADY:
                await take(event)
        reads.set()
    assert written == STEADY


async def test_a_reader_that_is_gone_ends_an_unbounded_app() -> None:
    async def write(data: bytes) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        async with PASSING[Does.UNBOUNDED](write) as take:
            await take(STEADY[0])


async def test_what_is_held_is_not_written_when_the_answer_breaks_off() -> None:
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    async def break_off_at(count: int) -> None:
        async with PASSING[Does.WINDOW](write) as take:
            for event in STEADY[:count]:
                await take(event)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        await break_off_at(30)
    assert written == STEADY[:1]
