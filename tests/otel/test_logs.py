import io
import json
import logging
import subprocess
import sys

import pytest

from otel.logs import Lines, where


@pytest.fixture
def lines(request: pytest.FixtureRequest):
    """A logger of a given name, and what it has written."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(Lines())

    def logger(name: str) -> logging.Logger:
        made = logging.getLogger(name)
        made.propagate = False
        made.handlers = [handler]
        return made

    return logger, lambda: written.getvalue().splitlines()


def test_a_line_has_time_level_message_and_fields(lines):
    logger, written = lines
    logger("otel.test").warning("spans not stored", extra={"spans": 3, "error": "disk full", "id": "a=b"})

    (line,) = written()
    time, level, rest = line.split(" ", 2)
    assert (len(time), time[-1], level) == (24, "Z", "warning")
    assert rest == 'spans not stored spans=3 error="disk full" id="a=b"'


def test_a_field_that_is_none_is_left_out_and_one_that_is_nothing_else_is_not(lines):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"cut": None, "spans": 0, "is_on": False, "id": ""})

    assert written()[0].endswith('seen spans=0 is_on=False id=""')


@pytest.mark.parametrize("hostile", ["", "a\nb", "\x1b[2J", "\u2028", "🙂", '"', "\ud800"])
def test_no_value_can_break_a_line_or_reach_a_terminal(lines, hostile: str):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"value": hostile})

    (line,) = written()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line.split("value=")[1]) == hostile


def test_of_other_libraries_only_the_form_is_shown(lines):
    logger, written = lines
    logger("elsewhere.http").warning("bad header %r", "the user's own words")

    (line,) = written()
    assert line.endswith("warning elsewhere.http: bad header %r")


def test_an_exception_shows_where_it_was_and_not_what_it_said(lines):
    logger, written = lines
    try:
        raise ValueError("the user's own words")
    except ValueError:
        logger("otel.test").exception("request not judged")

    (line,) = written()
    assert "ValueError at test_logs.py:" in line
    assert "words" not in line
    assert where(KeyError()) == "KeyError at unknown"


def test_lines_that_cannot_be_written_are_counted_and_do_not_become_the_exit_code():
    code = (
        "import logging, otel.logs as logs; logs.log_to_stderr('info');"
        "[logging.getLogger('otel').info('x') for _ in range(3)]; print(logs.Stderr.lost_count)"
    )
    with open("/dev/full", "w") as full:
        ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (0, "3\n")
