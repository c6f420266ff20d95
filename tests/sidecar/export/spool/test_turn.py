"""A turn with nothing to do is known as one."""

from __future__ import annotations

import pytest

from sidecar.export.spool.turn import Place, Record, Turn


def test_a_turn_without_a_wish_is_empty():
    assert Turn().is_empty


@pytest.mark.parametrize(
    "wish",
    [
        {"done": [Place(1, 0)]},
        {"released": [Place(1, 0)]},
        {"fresh": [Record(1, is_open=False, body=b"span")]},
        {"load_bytes": 1},
        {"is_adopting": True},
    ],
    ids=lambda wish: next(iter(wish)),
)
def test_a_turn_with_any_wish_is_not(wish):
    assert not Turn(**wish).is_empty
