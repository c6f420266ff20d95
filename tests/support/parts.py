"""The twins and the compiled parts, for tests that both must pass; and neither, which reads every event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.native import COMPILED, TWINS, Parts

READING_ALL = replace(TWINS, lane=None)
"""What both are held against."""
NOT_BUILT = "the compiled parts are not built here: `make setup` does so where it finds a compiler and Python.h"


def each_kind() -> pytest.MarkDecorator:
    """Run the test with each kind of parts."""
    compiled = pytest.param(COMPILED, id="compiled", marks=pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT))
    return pytest.mark.parametrize("parts", [pytest.param(TWINS, id="twins"), compiled])


def built() -> Parts:
    """The compiled parts; skips where there are none."""
    return COMPILED if COMPILED is not None else pytest.skip(NOT_BUILT)
