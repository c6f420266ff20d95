"""Which of the hops that were found together belong to one request: a trace may hold many, an agent's.

Hops with one request id belong together, and so do those that share an alias. Where an app dropped the id, the
sidecar behind it made one. Then the answer's own id, which most apps pass on, tells where these hops belong; else the
trace does, and they are taken in where nobody else could own them. One request has one hop in a place, which tells the
hops of two requests apart.

An answer may be given again to others (a cache), and its id with it. Who waited about as long as it took was its
reader. Where an id is met twice before such an app as well as behind it, it tells no answers apart, and joins nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

from otel.hop import OUTPUT, Hop
from otel.store.base import KEYS_PER_HOP, answer_ids_of, key_of

MADE: Final = "generated"
"""`request_id_source` of a hop whose sidecar made the id, because none came."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Hops that are known to be of one request. is_made: their request id was made by one of them.

    waits: (key of the answer's id, how long the first output took) as its hops saw both. name: the same whatever the
    order in which the hops came.
    """

    name: str
    numbers: frozenset[int]
    keys: frozenset[str]
    waits: frozenset[tuple[str, int]]
    trace_ids: frozenset[str]
    places: frozenset[tuple[str, str]]
    is_made: bool


def requests_of(hops: Sequence[Hop]) -> tuple[tuple[Hop, ...], ...]:
    """The hops, request by request; within one in the order in which they came."""
    by_id: dict[str, list[int]] = {}
    for number, hop in enumerate(hops):
        by_id.setdefault(key_of(hop.request_id), []).append(number)
    groups = [_group(hops, numbers) for numbers in by_id.values()]
    named = _together(len(groups), lambda i, j: _share_an_alias(groups[i], groups[j]))
    merged = [_sum([groups[i] for i in numbers]) for numbers in named]
    answered, owning = _answered(merged), _owning(merged)
    requests = _together(len(merged), lambda i, j: (min(i, j), max(i, j)) in answered or owning(i, j))
    numbers = [sorted(chain.from_iterable(merged[i].numbers for i in request)) for request in requests]
    return tuple(tuple(hops[number] for number in request) for request in sorted(numbers))


def _group(hops: Sequence[Hop], numbers: Sequence[int]) -> _Group:
    members = [hops[number] for number in numbers]
    ids = (text for hop in members for text in (hop.request_id, *hop.aliases[: KEYS_PER_HOP - 1]))
    return _Group(
        name=key_of(members[0].request_id),
        numbers=frozenset(numbers),
        keys=frozenset(map(key_of, ids)),
        waits=frozenset((key_of(text), _waited_ns(hop)) for hop in members for text in answer_ids_of(hop)),
        trace_ids=frozenset(hop.trace_id for hop in members),
        places=frozenset((hop.place.hop, hop.place.role) for hop in members),
        is_made=any(hop.request_id_source == MADE for hop in members),
    )


def _sum(groups: Sequence[_Group]) -> _Group:
    if len(groups) == 1:
        return groups[0]
    return _Group(
        name=min(group.name for group in groups),
        numbers=frozenset().union(*(group.numbers for group in groups)),
        keys=frozenset().union(*(group.keys for group in groups)),
        waits=frozenset().union(*(group.waits for group in groups)),
        trace_ids=frozenset().union(*(group.trace_ids for group in groups)),
        places=frozenset().union(*(group.places for group in groups)),
        is_made=all(group.is_made for group in groups),
    )


def _share_an_alias(group: _Group, other: _Group) -> bool:
    return not group.keys.isdisjoint(other.keys) and not _collide(group, other)


def _collide(group: _Group, other: _Group) -> bool:
    """Both have a hop in one place, so they are two requests, or two attempts of one."""
    return not group.places.isdisjoint(other.places)


def _answered(groups: Sequence[_Group]) -> set[tuple[int, int]]:
    """Pairs of groups, the lower number first, that are one request since they passed on the same answer: of several
    that could be, those that waited about as long for it."""
    pairs = sorted(_sharing_an_answer(groups), key=lambda pair: (pair[0], *sorted(groups[i].name for i in pair[1:])))
    whole = {i: {i} for _, *pair in pairs for i in pair}
    found = set()
    for _, i, j in pairs:
        if whole[i] is not whole[j] and not any(_collide(groups[a], groups[b]) for a in whole[i] for b in whole[j]):
            whole[i] |= whole[j]
            whole.update(dict.fromkeys(whole[i], whole[i]))
            found.add((i, j))
    return found


def _sharing_an_answer(groups: Sequence[_Group]) -> Iterator[tuple[int, int, int]]:
    """(difference of their waits, group, group) for each two that passed on the same answer and may be one request."""
    waits: dict[str, dict[int, int]] = {}
    for i, group in enumerate(groups):
        for key, waited_ns in sorted(group.waits, reverse=True):
            waits.setdefault(key, {})[i] = waited_ns  # the shortest: the hop nearest the source
    for members in waits.values():
        able = {i: {j for j in members if j != i and not _collide(groups[i], groups[j])} for i in members}
        for i, j in combinations(members, 2):
            # where both have a rival, everybody says the same id
            is_met_twice = any(j in able[k] for k in members.keys() - able[i] - {i}) and any(
                i in able[k] for k in members.keys() - able[j] - {j}
            )
            if j in able[i] and not is_met_twice:
                yield abs(members[i] - members[j]), i, j


def _waited_ns(hop: Hop) -> int:
    first = next((stamp.arrived_ns for stamp in hop.timeline.stamps if stamp.event_class in OUTPUT), None)
    return hop.moments.closed_ns if first is None else first


def _owning(groups: Sequence[_Group]) -> Callable[[int, int], bool]:
    """Whether two groups of a trace are one request: nothing speaks against it, and no other could own the made one."""
    near = [0] * len(groups)  # sets of groups as bits, because an agent's trace has many
    against = [0] * len(groups)
    for i, group in enumerate(groups):
        for j, other in enumerate(groups):
            if i != j and not group.trace_ids.isdisjoint(other.trace_ids):
                near[i] |= 1 << j
                if _collide(group, other) or not (group.is_made or other.is_made):
                    against[i] |= 1 << j

    def owns(owner: int, owned: int) -> bool:
        return not groups[owned].is_made or not near[owned] & ~against[owned] & against[owner]

    def are_one(i: int, j: int) -> bool:
        return bool(near[i] & ~against[i] & 1 << j) and owns(i, j) and owns(j, i)

    return are_one


def _together(count: int, are_one: Callable[[int, int], bool]) -> list[list[int]]:
    """The numbers below count, those together that are one directly or through others."""
    found: list[list[int]] = []
    for i in range(count):
        linked = [numbers for numbers in found if any(are_one(number, i) for number in numbers)]
        found = [numbers for numbers in found if numbers not in linked]
        found.append([*chain.from_iterable(linked), i])
    return found
