"""The programs in C, compiled once for all tests that need them."""

from __future__ import annotations

import pytest

from tests.bench.building import built
from tests.readers.reading import Missing


@pytest.fixture(scope="session")
def c_programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    try:
        return built(cache=tmp_path_factory.mktemp("bench"))
    except Missing as error:
        pytest.skip(str(error))
