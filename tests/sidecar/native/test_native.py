"""Which parts are used."""

import pytest

from sidecar import native
from sidecar.native import COMPILED, TWINS, parts_for
from tests.support.parts import each_kind


def test_what_was_built_is_used_unless_it_is_not_wanted(monkeypatch):
    assert parts_for("off") is TWINS
    assert parts_for("auto") is (COMPILED or TWINS)
    monkeypatch.setattr(native, "COMPILED", None)
    assert parts_for("auto") is TWINS
    with pytest.raises(ValueError, match="not built here"):
        parts_for("on")


@each_kind()
def test_parts_say_what_they_are(parts):
    assert parts.is_compiled is (parts is not TWINS)
    assert parts_for("on" if parts.is_compiled else "off") is parts
    assert parts.whole_chunks(b"1\r\nx\r\n", 0) == (b"x", 6)
