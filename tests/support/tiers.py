"""Over which tier tests run: what the environment of a test run chooses for every sidecar that a test starts.

    GAPLINE_TEST_TIER=pull GAPLINE_TEST_COMPILED=off python -m pytest tests/faults

What is not chosen is the sidecar's own default, and a flag that a test gives itself wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from sidecar.config import PREFIX
from sidecar.flow import Tier
from sidecar.native import parts_for
from sidecar.options import OPTIONS

CHOSEN_BY: Final = {"GAPLINE_TEST_TIER": "tier", "GAPLINE_TEST_COMPILED": "compiled"}
"""Variables of a test run, and the sidecar's options that they choose."""
_MORE: Final = {"compiled": parts_for}
"""What an option's value is asked beside its own rule: whether it can be had here."""


def variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a sidecar gets. Raises ValueError for a value that its option does not have, or not here."""
    parse_of = {option.name: option.parse for option in OPTIONS}
    found = {}
    for variable, name in CHOSEN_BY.items():
        if value := environ.get(variable, ""):
            try:
                parse_of[name](value)
                _MORE.get(name, str)(value)
            except ValueError as error:
                raise ValueError(f"{variable}={value}: {error}") from None
            found[PREFIX + name.upper()] = value
    return found


def tiers(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Those for a test that tries each: the chosen one, or all."""
    chosen = variables(environ).get(PREFIX + "TIER")
    return [tier.value for tier in Tier] if chosen is None else [chosen]


def told(environ: Mapping[str, str] = os.environ) -> str:
    """The same for people, with what was not chosen."""
    chosen = variables(environ)
    return ", ".join(f"{name} {chosen.get(PREFIX + name.upper(), 'by default')}" for name in CHOSEN_BY.values())
