import os

import pytest

from sidecar.operation.cpus import usable_cpus


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine of 8 CPUs whose files are those given."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))

    def of(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return of


MEMBER = "proc/self/cgroup"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 8),
        ({MEMBER: "0::/\n"}, 8),
        ({MEMBER: "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({MEMBER: "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({MEMBER: "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 3),
        ({MEMBER: "0::/\n", "sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
        ({MEMBER: "0::/\n", "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8),
        ({MEMBER: "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3),
        (
            {
                MEMBER: "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "200000 100000\n",
            },
            2,
        ),
        ({MEMBER: "0::/../x\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        (
            {
                MEMBER: "4:memory:/p\n3:cpu,cpuacct:/p\n0::/\n",
                "sys/fs/cgroup/cpu/p/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu/p/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            {
                MEMBER: "3:cpu,cpuacct:/p\n",
                "sys/fs/cgroup/cpu/p/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/p/cpu.cfs_period_us": "100000",
            },
            8,
        ),
        ({MEMBER: "0::/\n", "sys/fs/cgroup/cpu.max": "what\n"}, 8),
        ({MEMBER: "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"}, 8),
    ],
)
def test_a_worker_for_each_cpu_that_can_be_used(system, files, count):
    assert usable_cpus(system(files)) == count


def test_on_this_machine_there_is_at_least_one():
    assert 1 <= usable_cpus() <= os.cpu_count()
