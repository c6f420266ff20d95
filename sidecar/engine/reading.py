"""Read the few numbers of an inference engine that explain a silence out of its Prometheus metrics.

Known engines are those of the table below; any other text, whatever is in it, is no engine. Of a text of a megabyte
only the lines that begin with a name of the table are looked at. A number of which one line cannot be read is not
known: a sum that lacks a part is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from otel.hop import EngineSnapshot

LINE_BYTES: Final = 4_096
"""A longer line is no sample of an engine: the longest label of one is the name of a model."""
SAMPLES: Final = 1_024
"""Of one number: engines have one for each of their parts, and the largest have some hundred."""
MOST: Final = 1e15
"""Beyond it a double does not count every whole number, and no engine has come so far."""
SHARE_ERROR: Final = 0.01
"""So much more than all of the cache is rounding of the engine's; still more is a number of another unit."""

_LABEL: Final = re.compile(rb'[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,|(?=\}))')
_VALUE: Final = re.compile(
    rb"[ \t]+([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(?:[ \t]+[-+]?[0-9.]+)?[ \t]*(?:#[^\n]*)?\r?"
)
_REPEATING: Final = frozenset({b"tp_rank", b"pp_rank", b"moe_ep_rank", b"pid", b"priority"})
"""Labels whose values tell the same numbers again, or parts of those that stand beside them: ranks of one group, the
processes that report, and the classes of requests."""
_NO_REPEATS: Final = frozenset[bytes]()

Group = frozenset[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """How an engine calls its numbers; of several names the first that is there, since versions differ."""

    running: tuple[bytes, ...]
    waiting: tuple[bytes, ...]
    kv_cache: tuple[bytes, ...] = ()
    preemptions: tuple[bytes, ...] = ()
    repeating: frozenset[bytes] = _NO_REPEATS


SERVERS: Final = {
    "vllm": _Names(
        running=(b"vllm:num_requests_running",),
        waiting=(b"vllm:num_requests_waiting",),
        kv_cache=(b"vllm:kv_cache_usage_perc", b"vllm:gpu_cache_usage_perc"),
        preemptions=(b"vllm:num_preemptions_total",),
    ),
    "sglang": _Names(
        running=(b"sglang:num_running_reqs", b"sglang_num_running_reqs"),
        waiting=(b"sglang:num_queue_reqs", b"sglang_num_queue_reqs"),
        kv_cache=(b"sglang:token_usage", b"sglang_token_usage"),
        # not num_retracted_reqs: that is a gauge of the last batch
        preemptions=(b"sglang:num_retracted_requests_total", b"sglang_num_retracted_requests_total"),
        repeating=_REPEATING,
    ),
    "tgi": _Names(running=(b"tgi_batch_current_size",), waiting=(b"tgi_queue_size",)),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What an engine said; the time in the snapshot is a reading of the monotonic clock."""

    server: str
    snapshot: EngineSnapshot


def reading_of(text: bytes, *, asked_ns: int) -> Seen | None:
    """What the metrics say, None where they are those of no known engine. Any bytes may be given; never raises."""
    for server, names in SERVERS.items():
        snapshot = EngineSnapshot(
            asked_ns=asked_ns,
            running_count=_count(text, names.running, names.repeating),
            waiting_count=_count(text, names.waiting, names.repeating),
            kv_cache_share=_share(text, names.kv_cache, names.repeating),
            preemption_count=_count(text, names.preemptions, names.repeating),
        )
        if snapshot != EngineSnapshot(asked_ns=asked_ns):
            return Seen(server, snapshot)
    return None


def _count(text: bytes, names: Iterable[bytes], repeating: frozenset[bytes]) -> int | None:
    """Of all parts of the engine together."""
    total = _over(text, names, repeating, sum)
    return None if total is None or total > MOST else round(total)


def _share(text: bytes, names: Iterable[bytes], repeating: frozenset[bytes]) -> float | None:
    """Of the part whose cache is the fullest: it is the one that makes its requests wait."""
    share = _over(text, names, repeating, max)
    return None if share is None or share > 1 + SHARE_ERROR else round(min(1.0, share), 3)


def _over(
    text: bytes, names: Iterable[bytes], repeating: frozenset[bytes], together: Callable[[Iterable[float]], float]
) -> float | None:
    """The samples of the first of these names that has any, put together; None where one of them cannot be read."""
    rest = next((found for name in names if (found := list(_rest_of_lines(text, name)))), [])
    if not rest or len(rest) > SAMPLES:
        return None
    greatest: dict[Group, float] = {}
    for line in rest:
        if (sample := _sample(line, repeating)) is None:
            return None
        group, value = sample
        greatest[group] = max(value, greatest.get(group, 0.0))
    return together(greatest.values())


def _rest_of_lines(text: bytes, name: bytes) -> Iterator[bytes | None]:
    """What stands behind the name in each line that is a sample of it, None where the line is too long or was cut."""
    at, count = 0, 0
    while count <= SAMPLES and (at := text.find(name, at)) >= 0:
        start, at = at, at + len(name)
        if (start and text[start - 1] != 0x0A) or text[at : at + 1] not in {b"{", b" ", b"\t"}:
            continue
        count += 1
        end = text.find(b"\n", at, at + LINE_BYTES)
        yield None if end < 0 else text[at:end]


def _sample(rest: bytes | None, repeating: frozenset[bytes]) -> tuple[Group, float] | None:
    """The labels that tell its part of the engine, and the value, which is a finite number of at least 0."""
    if rest is None:
        return None
    labels, at = {}, 0
    if rest.startswith(b"{"):
        at = 1
        while (label := _LABEL.match(rest, at)) is not None:
            labels[label[1]] = label[2]
            at = label.end()
        if rest[at : at + 1] != b"}":
            return None
        at += 1
    number = _VALUE.fullmatch(rest, at)
    if number is None or not 0 <= (value := float(number[1])) <= MOST:
        return None
    return frozenset(pair for pair in labels.items() if pair[0] not in repeating), value
