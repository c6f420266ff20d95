import logging
from types import SimpleNamespace

import pytest

from sidecar.bounds.deadlines import DRAINED, OVERLOADED
from sidecar.config import config_of
from sidecar.export.backlog import Backlog
from sidecar.operation.milestones import Drain, tell_ending_at_once, tell_ready

NEEDED = {"upstream": "http://u", "hop": "h"}


class FakeExchanges:
    def __init__(self, *stopped):
        self.lives = [SimpleNamespace(stopping=stop) for stop in stopped]
        self.stop_counts = {DRAINED: 7}

    def running(self):
        return iter(self.lives)


@pytest.fixture(autouse=True)
def all_lines(caplog):
    caplog.set_level(logging.INFO)


def test_it_is_said_where_it_is_asked_and_where_spans_go_without_the_token(caplog):
    options = {"admin": ":0", "export": "http://c:4318", "export_token": "secret", "spool": "/var/spool"}
    tell_ready(config_of({**NEEDED, **options}, {}), admin_port=24_090)

    (line,) = caplog.records
    assert (line.message, str(line.admin), line.export, str(line.spool)) == (
        "ready",
        "0.0.0.0:24090",
        "http://c:4318",
        "/var/spool",
    )
    assert "secret" not in str(vars(line))


def test_that_nothing_is_exported_is_said_too(caplog):
    tell_ready(config_of({**NEEDED, "admin": "off"}, {}), admin_port=0)

    (line,) = caplog.records
    assert (line.admin, line.export, line.spool) == ("off", "off", "off")


def test_a_spool_that_is_never_used_is_warned_of(caplog):
    tell_ready(config_of({**NEEDED, "spool": "/var/spool"}, {}), admin_port=0)

    assert [(line.levelname, line.message) for line in caplog.records][1:] == [("WARNING", "the spool is not used")]


def test_the_end_of_a_drain_says_what_became_of_everything(caplog):
    exchanges = FakeExchanges(None, None, None)
    drain = Drain.begun(exchanges, hop="h")
    exchanges.lives[0].stopping, exchanges.lives[1].stopping = DRAINED, OVERLOADED
    exchanges.stop_counts[DRAINED] += 2  # and one that came in meanwhile
    drain.tell_ended(exchanges, Backlog(limit_bytes=1).counters(0), hop="h", exit_code=0)

    begun, ended = caplog.records
    assert (begun.message, begun.streams) == ("draining", 3)
    assert (ended.message, ended.finished, ended.aborted, ended.exit_code) == ("drained", 2, 2, 0)
    assert (ended.spans_left, ended.spans_lost) == (0, 0)


def test_what_was_ended_at_once_has_not_drained(caplog):
    drain = Drain.begun(FakeExchanges(), hop="h")
    tell_ending_at_once()
    drain.tell_ended(FakeExchanges(), None, hop="h", exit_code=1)

    assert caplog.messages == ["draining", "ending at once", "not drained"]
    assert caplog.records[-1].spans_left is None
