"""Amounts of CPU and memory as Kubernetes writes them, so that they can be compared: `100m`, `0.5`, `1e3`, `64Mi`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def quantity(value: object) -> Fraction:
    """The amount, exactly. Raises ValueError with the rule."""
    found = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if found is None or isinstance(value, bool):
        raise ValueError("must be an amount such as 100m, 0.5 or 64Mi")
    number, unit = Fraction(found[1]), found[2]
    if unit is None:
        return number
    if unit in _BINARY:
        return number * (1 << _BINARY[unit])
    power = _POWERS[unit] if unit in _POWERS else int(unit[1:])
    return number * Fraction(10) ** power


def quantity_text(value: str) -> str:
    """The same text, checked to be an amount above zero. Raises ValueError with the rule."""
    if quantity(value) <= 0:
        raise ValueError("must be more than zero")
    return value


def is_within(request: str | None, limit: str | None) -> bool:
    """Whether the one is not above the other; true where there is only one of them. Raises ValueError."""
    return request is None or limit is None or quantity(request) <= quantity(limit)
