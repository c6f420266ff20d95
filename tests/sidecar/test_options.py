"""The table of options: what it says of itself is true."""

import pytest

from otel.settings import REQUIRED, shown
from sidecar.options import OPTIONS

_TOLD = [option for option in OPTIONS if option.default not in (REQUIRED, None, ()) and not option.is_switch]


@pytest.mark.parametrize("option", _TOLD, ids=lambda option: option.name)
def test_the_default_that_is_shown_is_the_default(option):
    assert option.parse(shown(option)) == option.default


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_its_help_is_one_plain_sentence(option):
    assert option.help[0] == option.help[0].lower()
    assert not option.help.endswith(".")


def test_no_name_stands_there_twice():
    names = [option.name for option in OPTIONS]

    assert len(names) == len(set(names))
