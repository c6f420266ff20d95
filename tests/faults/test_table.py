"""No fault is forgotten, and none is claimed twice over."""

from __future__ import annotations

import pytest

from tests.faults import ELSEWHERE, FAULTS, fault, planted, report, table

PLANTED = list(planted())


@pytest.mark.parametrize("number", FAULTS)
def test_every_fault_is_planted_here_or_it_is_said_where(number):
    assert bool([test for found, test, _ in PLANTED if found == number]) is not (number in ELSEWHERE)


def test_every_test_of_the_folder_says_what_it_plants():
    named = {test for _, test, _ in PLANTED}
    for text in table().splitlines():
        assert text.startswith("|")
    assert len(named) > len(FAULTS)


def test_a_claim_that_cannot_be_right_is_refused():
    for wrong in (lambda: fault(46, "x"), lambda: fault(44, "x"), lambda: fault(1, ""), lambda: report("101", "x")):
        with pytest.raises(ValueError):
            wrong()
