"""The ASGI proxy as it is measured: the lab's own, with as many connections behind it as there are readers."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import asgi
from tests.lab.asgi import Proxy


def test_it_is_served_without_a_limit_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[Any, dict[str, Any]]] = []
    server = SimpleNamespace(run=lambda app, **given: served.append((app, given)))
    monkeypatch.setitem(sys.modules, "uvicorn", server)  # it is in an environment of its own
    asgi.main(24_081, "http://127.0.0.1:24082")
    ((app, given),) = served
    assert isinstance(app, Proxy)
    assert (given["host"], given["port"]) == ("127.0.0.1", 24_081)
    assert app._next.timeout.read is None
    assert app._next._transport._pool._max_connections > 100_000
