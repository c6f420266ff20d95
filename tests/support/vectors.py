"""The frozen vectors of the packed timeline: each a timeline as JSON and its payload as base64.

A file is written once, by `python -m tests.support.vectors`, and never again: whoever changes the layout makes a
new format with a folder of its own.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, replace
from pathlib import Path

from otel.grain import EXACT_UNIT_NS, LEFT_OUT, thinned
from otel.hop import Blocked, EventClass, Interval, KernelSample, Stamp, Timeline
from otel.timeline import encode
from tests.support.builders import a_timeline
from tests.support.golden import pretty

FOLDER = Path(__file__).parents[1] / "golden" / "timelines" / "v1"

_STEADY = [0.3 + 0.02 * i for i in range(20)]
_STALLED = [*_STEADY[:10], *(at + 2.5 for at in _STEADY[10:])]
_CUT = a_timeline(_STALLED, chars=7)
_PAUSES = [0.3, 0.8, 1.6, 2.0, 2.1, 2.2, 3.2, 4.3, 5.0, 5.4]
_MIXED = [EventClass.CONTENT] * 6 + [EventClass.KEEPALIVE] + [EventClass.CONTENT] * 3

NAMED = {
    "empty": Timeline(unit_ns=100_000, quantum=32),
    "steady_stream": a_timeline(_STEADY, chars=7),
    "stall": a_timeline(_STALLED, chars=7),
    "blocked_with_samples": a_timeline(
        _STALLED,
        taken_after_s=[0.0001] * 10 + [2.4, *[0.0101] * 8, None],
        blocked_s=[(0.5, 2.9), (3.0, 3.0012)],
        lag_s=[(0.31, 0.36)],
        samples=[
            KernelSample(750_000_000, 9, 3, 4_096, 110_592, 0, 0, 0),
            KernelSample(2_750_000_000, 9, 1, 70_240, 0, 1, 4, 2),
        ],
        window_peak_bytes=133_120,
        round_trip_ns=41_327_000,
    ),
    "unread_bytes_known": Timeline(unit_ns=100_000, quantum=32, blocked=(Blocked(0, 2_000_000_000, 786),)),
    "only_the_round_trip_known": Timeline(unit_ns=100_000, quantum=32, round_trip_ns=23_000),
    "only_the_window_known": Timeline(unit_ns=100_000, quantum=32, window_peak_bytes=65_536),
    "cut_short": replace(_CUT, stamps=_CUT.stamps[:7] + _CUT.stamps[-1:], is_cut_short=True),
    "cut_short_and_thinned": thinned(replace(_CUT, stamps=_CUT.stamps[:15] + _CUT.stamps[-1:], is_cut_short=True)),
    "evidence_thinned": a_timeline(_STALLED[:12], chars=7, blocked_s=[(0.5, 2.9)], is_evidence_thinned=True),
    "left_out": LEFT_OUT,
    "exact_before_the_longer_gaps": a_timeline(_PAUSES, chars=[5, 9, 41, 7, 3, 8, 30, 6, 2, 11], classes=_MIXED),
    "thinned": thinned(a_timeline(_STALLED, chars=7)),
    "exact_mode": a_timeline([0.3000007, 0.3204511, 0.34, 0.7123456], unit_ns=EXACT_UNIT_NS, quantum=1),
    "open_segment_from_4096": a_timeline(_STEADY[:4], classes=[EventClass.REASONING] * 4, first_seq=4_096),
    "every_class": a_timeline(_STEADY[:9], classes=list(EventClass)),
}


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.iterdir())


def load(name: str) -> tuple[Timeline, bytes]:
    vector = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    fields = vector["timeline"]
    timeline = Timeline(
        unit_ns=fields["unit_ns"],
        quantum=fields["quantum"],
        stamps=tuple(Stamp(**row | {"event_class": EventClass[row["event_class"]]}) for row in fields["stamps"]),
        blocked=tuple(Blocked(**row) for row in fields["blocked"]),
        lag=tuple(Interval(**row) for row in fields["lag"]),
        samples=tuple(KernelSample(**row) for row in fields["samples"]),
        window_peak_bytes=fields["window_peak_bytes"],
        round_trip_ns=fields["round_trip_ns"],
        is_thinned=fields["is_thinned"],
        is_cut_short=fields["is_cut_short"],
        is_evidence_thinned=fields["is_evidence_thinned"],
    )
    return timeline, base64.b64decode(vector["payload"])


def save(name: str, timeline: Timeline) -> None:
    """Freeze a new vector. Raises PermissionError for one that exists."""
    path = FOLDER / f"{name}.json"
    if path.exists():
        raise PermissionError(f"{path.name} exists, and format 1 is frozen")
    fields = asdict(timeline)
    for row in fields["stamps"]:
        row["event_class"] = row["event_class"].name
    vector = {"payload": base64.b64encode(encode(timeline)).decode("ascii"), "timeline": fields}
    path.write_text(pretty(vector) + "\n", "utf-8")


if __name__ == "__main__":
    for missing in sorted(set(NAMED) - set(names())):
        save(missing, NAMED[missing])
        print("froze", missing)
