"""Metrics of engines as they come, and whatever else may come in their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EngineSnapshot
from sidecar.engine.reading import LINE_BYTES, SAMPLES, SERVERS, reading_of

VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="canary/model"} 9.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="canary/model"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="canary/model",reason="capacity"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="canary/model"} 0.9694
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="canary/model"} 14.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="canary/model"} 1.7e+09
"""
SGLANG = b"""\
sglang:num_running_reqs{model_name="m",tp_rank="0",pp_rank="0"} 12.0
sglang:num_running_reqs{model_name="m",tp_rank="1",pp_rank="0"} 12.0
sglang:num_queue_reqs{model_name="m",tp_rank="0",pp_rank="0",priority=""} 5.0
sglang:num_queue_reqs{model_name="m",tp_rank="0",pp_rank="0",priority="1"} 2.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
sglang:num_retracted_reqs{model_name="m",pid="7"} 1.0
sglang:num_retracted_requests_total{model_name="m",tp_rank="0"} 48.0
"""
TGI = b"tgi_batch_current_size 4\ntgi_queue_size 7\ntgi_batch_current_max_tokens 2048\n"


def read(text):
    seen = reading_of(text, asked_ns=5)
    return None if seen is None else (seen.server, *numbers(seen.snapshot))


def numbers(snapshot):
    return snapshot.running_count, snapshot.waiting_count, snapshot.kv_cache_share, snapshot.preemption_count


def test_each_known_engine_is_read_by_its_own_names():
    assert read(VLLM) == ("vllm", 9, 3, 0.969, 14)
    assert read(SGLANG) == ("sglang", 12, 5, 0.28, 48)
    assert read(TGI) == ("tgi", 4, 7, None, None)
    assert reading_of(TGI, asked_ns=5).snapshot.asked_ns == 5


def test_older_names_are_taken_where_the_newer_are_not_there():
    assert read(b"vllm:gpu_cache_usage_perc 0.5\n") == ("vllm", None, None, 0.5, None)
    assert read(b"vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n") == ("vllm", None, None, 0.25, None)
    assert read(SGLANG.replace(b"sglang:", b"sglang_")) == ("sglang", 12, 5, 0.28, 48)


def test_engines_behind_one_front_are_added_up_and_the_fullest_cache_counts():
    two = VLLM + VLLM.replace(b'engine="0"', b'engine="1"').replace(b" 0.9694", b" 0.1")
    assert read(two) == ("vllm", 18, 6, 0.969, 28)


def test_groups_that_share_the_work_are_added_up_and_the_ranks_of_one_group_are_not():
    ranks = b"".join(
        b'sglang:num_running_reqs{dp_rank="%d",tp_rank="%d"} 3\n' % (dp, tp) for dp in range(2) for tp in range(4)
    )
    assert read(ranks) == ("sglang", 6, None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"\x00\xff" * 100,
        b"<html><body>not found</body></html>",
        b"# TYPE vllm:num_requests_running gauge\n",
        b"my_vllm:num_requests_running 3\n",
        b"vllm:num_requests_running_now 3\n",
        b" vllm:num_requests_running 3\n",
        b"vllm:num_requests_running 3",  # cut off: there may have been more of the number
        b"vllm:num_requests_running NaN\n",
        b"vllm:num_requests_running +Inf\n",
        b"vllm:num_requests_running -1\n",
        b"vllm:num_requests_running 1_0\n",
        b"vllm:num_requests_running 0x10\n",
        b"vllm:num_requests_running 1e400\n",
        b"vllm:num_requests_running 1e16\n",
        b"vllm:num_requests_running 3 4 5\n",
        b"vllm:num_requests_running{} \n",
        b'vllm:num_requests_running{a="b" 3\n',
        b'vllm:num_requests_running{a="b} 3\n',
        b"vllm:num_requests_running{a=b} 3\n",
        b'vllm:num_requests_running{a="b",,} 3\n',
        b'vllm:num_requests_running{a="' + b"b" * LINE_BYTES + b'"} 3\n',
        b"vllm:num_requests_running 3\n" * (SAMPLES + 1),
        b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} NaN\n',
        b"vllm:kv_cache_usage_perc 97\n",
    ],
)
def test_what_is_no_number_of_an_engine_is_not_known(text):
    assert read(text) is None


@pytest.mark.parametrize(
    "line",
    [
        b"vllm:num_requests_running 3\n",
        b"vllm:num_requests_running{} 3\r\n",
        b"vllm:num_requests_running\t3.0 \n",
        b"vllm:num_requests_running 3 1764500000123\n",
        b"vllm:num_requests_running 3.0 # {} 1.0\n",
        b"vllm:num_requests_running 30e-1\n",
        b'vllm:num_requests_running{a="}",b="\\"} 7\\n",c="\\\\",} 3\n',
        b'vllm:num_requests_running { a = "b" , c = "" } 3\n'.replace(b"running {", b"running{"),
        b"# vllm:num_requests_running 8\nvllm:num_requests_running 3\n",
    ],
)
def test_a_sample_may_be_written_in_every_way_that_the_format_has(line):
    assert read(line) == ("vllm", 3, None, None, None)


def test_a_cache_that_is_full_by_a_rounding_error_is_full():
    assert read(b"sglang:token_usage 1.004\n") == ("sglang", None, None, 1.0, None)


LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).map(str.encode),
    st.binary(max_size=12).filter(lambda value: b"\n" not in value),
    max_size=4,
)


def written(name, labels, value):
    shown = b",".join(
        key + b'="' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"' for key, text in labels.items()
    )
    return name + (b"{" + shown + b"}" if labels else b"") + b" " + repr(value).encode() + b"\n"


@given(
    st.sampled_from(["vllm", "tgi"]),
    st.lists(st.tuples(LABELS, st.integers(0, 1 << 30)), min_size=1, max_size=6),
    st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=4),
)
def test_parts_add_up_whatever_their_labels_and_the_lines_between_them(server, parts, others):
    """Equal labels are one part told twice; then the greater counts."""
    greatest = {}
    lines = []
    for labels, value in parts:
        group = frozenset(labels.items())
        greatest[group] = max(value, greatest.get(group, 0))
        lines += [written(SERVERS[server].waiting[0], labels, value), *(b"#" + other + b"\n" for other in others)]

    assert read(b"".join(lines)) == (server, None, sum(greatest.values()), None, None)


@given(st.binary(max_size=300), st.sampled_from([VLLM, SGLANG, TGI]), st.integers(0, 1_000), st.integers(0, 60))
def test_no_bytes_raise_and_every_number_is_within_its_bounds(noise, text, at, cut):
    at = min(at, len(text))
    seen = reading_of(text[:at] + noise + text[at + cut :], asked_ns=0)
    if seen is not None:
        running, waiting, share, preemptions = numbers(seen.snapshot)
        assert all(count is None or 0 <= count <= 1e15 for count in (running, waiting, preemptions))
        assert share is None or 0 <= share <= 1
        assert seen.snapshot != EngineSnapshot(asked_ns=0)


def test_a_megabyte_of_nothing_but_names_takes_no_time():
    for text in (b"vllm:num_requests_running" * 40_000, b"vllm:num_requests_running 1\n" * 37_000, b"{" * (1 << 20)):
        assert read(text) is None
