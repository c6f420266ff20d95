"""Cores and classes: who is bound to which, and what is told where that cannot be."""

from __future__ import annotations

from tests.bench.machine import Cores, cores, here, machine, processor_of

ROOT = {"is_root": True, "has_taskset": True, "has_chrt": True}


def test_proxy_and_load_have_a_core_each() -> None:
    found = cores([3, 1, 2], **ROOT)
    assert found == Cores("1", "3", is_first=True)
    assert found.of_proxy == ("taskset", "-c", "1", "chrt", "-r", "10")
    assert found.of_load == ("taskset", "-c", "3", "chrt", "-r", "10")


def test_a_proxy_of_several_workers_has_all_cores_but_one() -> None:
    assert cores([0, 1, 2, 3], **ROOT, most=4).proxy == "0,1,2"
    assert cores([0, 1, 2, 3], **ROOT, most=2) == Cores("0,1", "3", is_first=True)


def test_without_root_nothing_runs_first() -> None:
    found = cores([0, 1], **ROOT | {"is_root": False})
    assert found.of_proxy == ("taskset", "-c", "0")
    assert "other work disturbs" in found.told


def test_one_core_is_for_both_and_nothing_takes_it_from_the_rest() -> None:
    found = cores([0], **ROOT)
    assert (found.of_proxy, found.of_load, found.is_first) == ((), (), False)
    assert "no core for each side" in found.told


def test_a_machine_without_taskset_binds_nobody() -> None:
    assert cores([0, 1], **ROOT | {"has_taskset": False}).proxy is None


def test_the_processor_is_named_where_the_kernel_names_it() -> None:
    assert processor_of("processor\t: 0\nmodel name\t: AMD EPYC 7763\nflags\t: a b\n") == "AMD EPYC 7763"
    assert processor_of("Hardware\t: BCM2835\n") is None


def test_this_machine_can_be_told_of() -> None:
    assert here().told
    assert all(machine().values())
