"""Memory in use and its limits, read from made-up trees of files, and once from this machine."""

import gc
import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bounds.memory import cgroup_limit_bytes, limit_files, resident_bytes, settle, trimmer

V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"


@pytest.fixture
def limit_of(tmp_path):
    """The limit that is found where these files are."""

    def write(membership, **files):
        for name, text in {"proc/self/cgroup": membership, **files}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return cgroup_limit_bytes(tmp_path)

    return write


def test_in_a_container_the_limit_stands_at_the_top(limit_of):
    assert limit_of("0::/\n", **{f"{V2}/memory.max": "268435456\n"}) == 268_435_456


def test_the_least_limit_of_all_groups_above_holds(limit_of):
    files = {f"{V2}/a/b/memory.max": "max\n", f"{V2}/a/memory.max": "500\n", f"{V2}/memory.max": "900\n"}
    assert limit_of("0::/a/b\n", **files) == 500


def test_version_1_has_a_place_of_its_own_and_a_number_for_no_limit(limit_of):
    membership = "9:name=systemd:/\n4:cpu,memory:/docker/7f\n0::/\n"
    files = {f"{V1}/memory.limit_in_bytes": "9223372036854771712\n"}
    assert limit_of(membership, **files) is None
    assert limit_of(membership, **files, **{f"{V1}/docker/7f/memory.limit_in_bytes": "1000\n"}) == 1_000


def test_names_of_the_machine_outside_are_no_error(limit_of):
    assert limit_of("0::/kubepods/burstable/pod1/2\n", **{f"{V2}/memory.max": "77\n"}) == 77
    assert limit_of("0::/../../other\n", **{f"{V2}/memory.max": "77\n"}) == 77


@pytest.mark.parametrize("text", ["max\n", "", "0\n", "-1\n", "much"])
def test_what_is_no_limit_is_none(limit_of, text):
    assert limit_of("0::/\n", **{f"{V2}/memory.max": text}) is None


def test_where_there_are_no_control_groups_there_is_no_limit(tmp_path):
    assert cgroup_limit_bytes(tmp_path) is None


@given(st.text(max_size=200))
def test_whatever_stands_there_it_is_looked_for_below_the_mount_only(membership):
    for file in limit_files(membership):
        assert file.is_relative_to(V2)
        assert ".." not in file.parts


def test_memory_in_use_is_that_of_this_process():
    before = resident_bytes()
    with mmap.mmap(-1, 20_000_000) as held:  # what an allocator gives may have been ours before
        held.write(b"x" * 20_000_000)
        after = resident_bytes()

    assert 15_000_000 < after - before < 60_000_000


@pytest.mark.parametrize("text", ["", "12", "12 many"])
def test_memory_in_use_is_not_known_where_nothing_readable_says_it(tmp_path, text):
    assert resident_bytes(tmp_path / "nothing") is None
    (tmp_path / "statm").write_text(text)
    assert resident_bytes(tmp_path / "statm") is None


def test_memory_that_was_freed_between_what_stays_is_given_back():
    held = [bytes(20_000) for _ in range(3_000)]
    staying = held[::10]
    held.clear()
    before = resident_bytes()
    trimmer()()

    assert before - resident_bytes() > 20_000_000
    assert len(staying) == 300


def test_what_is_there_when_a_process_is_ready_is_looked_at_no_more():
    kept = [[]]
    settle()
    try:
        assert not any(each is kept for each in gc.get_objects())
    finally:
        gc.unfreeze()
    assert any(each is kept for each in gc.get_objects())
