"""Fixtures and profiles only."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support import tiers

settings.register_profile("fast", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_configure():
    try:
        tiers.variables()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header():
    return f"sidecars: {tiers.told()}"
