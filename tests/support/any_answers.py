"""Any valid answer of a collector, for properties: hostile texts, odd numbers, every key of the right kind."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.answers import HOPS

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31m",
    "\u202egnp.exe\u2066",
    "a\r\nb\tc\x00",
    "e\u0301\u0300\u0489",
    "\u1100\u1161\u115f\u3164",
    "中文 模型 ｗｉｄｅ",
    "שלום עולם",
    "👩\u200d👩\u200d👧 \ufe0f\U000e0041",
    "$(reboot); `reboot` 'quoted'",
    "x" * 300,
    "",
)
ENDINGS = ("complete", "error_event", "upstream_cut", "missing_terminal", "client_disconnect", "timed_out_first_event")
CLASSES = ("content", "reasoning", "tool", "control", "keepalive", "usage", "error", "terminal", "opaque", "later-kind")
CAUSES = ("source_stall", "app_stall", "slow_reader", "self", "truncated", "hidden_output", "none", "a-later-cause")

texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40), st.sampled_from(HOPS))
names = st.one_of(st.sampled_from([*HOPS, "client", "source"]), texts)
times = st.one_of(st.floats(0, 100), st.floats(-1e12, 1e12), st.sampled_from([0, 0.25, 3600.0, 1e-9]))
counts = st.one_of(st.integers(0, 10_000), st.integers(-(10**12), 10**12))
instants = st.sampled_from(["2026-01-17T03:12:09Z", "2025-12-31T23:59:59.123456+00:00"])
segments = st.one_of(st.none(), st.fixed_dictionaries({"from": names, "to": names}))
stretches = st.lists(st.tuples(times, times).map(list), max_size=4)


def maybe(strategy):
    return st.one_of(st.none(), strategy)


LATER = {"cut": st.one_of(st.none(), st.sampled_from(["fin", "reset", "framing", "timeout"]), texts)}
"""Keys that an older collector does not answer with."""
hops = st.fixed_dictionaries(
    {
        "hop": names,
        "role": st.one_of(st.sampled_from(["ingress", "egress", "client"]), texts),
        "events": counts,
        "outcome": maybe(st.one_of(st.sampled_from(ENDINGS), texts)),
        "ended_by": maybe(texts),
        "phase": maybe(texts),
        "hold_s": maybe(times),
        "bytes_in": maybe(counts),
        "bytes_out": maybe(counts),
        "status": maybe(counts),
        "model": maybe(texts),
        "duration_s": maybe(times),
        "first_event_s": maybe(times),
        "longest_gap_s": maybe(times),
        "blocked_s": maybe(times),
        "lag_s": maybe(times),
        "comments": maybe(counts),
        "trace_id": texts,
        "span_id": texts,
    },
    optional=LATER,
)
evidence = st.dictionaries(
    texts,
    st.recursive(
        st.one_of(st.none(), st.booleans(), counts, times, texts),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
        max_leaves=6,
    ),
    max_size=4,
)
contributions = st.lists(
    st.fixed_dictionaries(
        {
            "segment": st.one_of(names, names.map("self:{}".format), st.tuples(names, names).map(">".join)),
            "owner": texts,
            "seconds": times,
        }
    ),
    max_size=7,
)
others = st.lists(
    st.fixed_dictionaries(
        {
            "cause": st.one_of(st.sampled_from(CAUSES), texts),
            "first_hop": names,
            "owner": texts,
            "segment": segments,
            "seconds": times,
        }
    ),
    max_size=3,
)
verdicts = st.fixed_dictionaries(
    {
        "request_id": texts,
        "trace_id": texts,
        "status": st.one_of(st.sampled_from(["named", "healthy", "inconclusive"]), texts),
        "verdict_final": st.booleans(),
        "open": st.booleans(),
        "as_of": instants,
        "since": maybe(instants),
        "cause": maybe(st.one_of(st.sampled_from(CAUSES), texts)),
        "first_hop": maybe(names),
        "owner": maybe(texts),
        "segment": segments,
        "gap_s": maybe(times),
        "at_seq": maybe(counts),
        "at_position": maybe(counts),
        "at_position_exact": maybe(st.booleans()),
        "wait": maybe(st.one_of(st.sampled_from(["gap", "first_event", "end"]), texts)),
        "contributions": contributions,
        "others": others,
        "confidence": st.floats(0, 1),
        "missing": st.lists(texts, max_size=3),
        "observed_to": st.one_of(st.sampled_from(["consumed", "received", "reader_kernel", "our_kernel"]), texts),
        "evidence": evidence,
        "hops": st.lists(hops, max_size=4),
        "sentence": st.one_of(texts, st.lists(texts, max_size=8).map(" ".join)),
    }
)
stamps = st.lists(
    st.tuples(counts, times, maybe(times), st.sampled_from(CLASSES), counts).map(list),
    max_size=12,
)
taps = st.fixed_dictionaries(
    {
        "hop": names,
        "role": st.sampled_from(["ingress", "egress", "client"]),
        "shift_s": st.one_of(st.floats(0, 1), times),
        "duration_s": times,
        "outcome": maybe(st.one_of(st.sampled_from(ENDINGS), texts)),
        "stamps": stamps,
        "blocked": stretches,
        "lag": stretches,
        "gaps": st.lists(st.fixed_dictionaries({"seq": counts, "start_s": times, "end_s": times}), max_size=4),
        "is_thinned": st.booleans(),
    }
)
timelines = st.fixed_dictionaries(
    {
        "request_id": texts,
        "trace_id": texts,
        "verdict": verdicts,
        "taps": st.lists(taps, max_size=4),
        "wait": maybe(st.fixed_dictionaries({"start_s": times, "end_s": times})),
    }
)
stalls = st.fixed_dictionaries(
    {
        "as_of": instants,
        "has_more": st.booleans(),
        "stalls": st.lists(
            st.fixed_dictionaries(
                {
                    "request_id": texts,
                    "trace_id": texts,
                    "at": instants,
                    "model": maybe(texts),
                    "status": st.one_of(st.sampled_from(["named", "inconclusive"]), texts),
                    "cause": maybe(st.sampled_from(CAUSES)),
                    "first_hop": maybe(names),
                    "owner": maybe(texts),
                    "wait": maybe(texts),
                    "gap_s": maybe(times),
                    "confidence": st.floats(0, 1),
                    "open": st.booleans(),
                    "sentence": texts,
                }
            ),
            max_size=4,
        ),
    }
)
widths = st.integers(60, 200)
