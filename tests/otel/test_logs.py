import io
import json
import logging
import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.logs import JsonLines, Lines, Stderr, info, where

HOSTILE = ["", "a\nb", "\x1b[2J", "\x7f", "\u2028", "\u202e", "🙂", '"', "\ud800", "{}", "a=b"]


@pytest.fixture(params=[Lines])
def lines(request: pytest.FixtureRequest):
    """A logger of a given name, and what it has written."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(request.param())

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


@pytest.mark.parametrize("hostile", [value for value in HOSTILE if value != "{}"])
def test_no_value_can_break_a_line_or_reach_a_terminal(lines, hostile: str):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"value": hostile})

    (line,) = written()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line.split("value=")[1]) == hostile


def test_what_stands_for_masked_words_is_shown_as_it_is(lines):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"detail": 'no model … for\n"…" \\u2026', "kind": "…"})

    assert written()[0].endswith(r'seen detail="no model … for\n\"…\" \\u2026" kind="…"')


def test_a_mapping_is_a_field_for_each_member_and_a_list_has_commas(lines):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"dimensions": {"region": "eu", "zone": None}, "fired": ("a", "b")})
    logger("otel.test").warning("seen", extra={"dimensions": {}, "fired": ()})

    assert [line.partition(" warning ")[2] for line in written()] == ["seen dimensions.region=eu fired=a,b", "seen"]


as_json = pytest.mark.parametrize("lines", [JsonLines], indirect=True)


@as_json
def test_as_json_a_line_is_an_object_with_time_level_message_and_fields(lines):
    logger, written = lines
    fields = {"spans": 3, "cut": None, "is_on": False, "took_ms": 1.5, "fired": ("a",), "dimensions": {"zone": "b"}}
    logger("otel.test").warning("spans not stored", extra=fields)

    (line,) = written()
    found = json.loads(line)
    assert list(found) == ["time", "level", "message", *fields]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])
    assert (found["level"], found["message"]) == ("warning", "spans not stored")
    assert {key: found[key] for key in fields} == fields | {"fired": ["a"]}


@as_json
@pytest.mark.parametrize("hostile", HOSTILE)
def test_as_json_no_value_can_break_a_line_or_reach_a_terminal(lines, hostile: str):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"value": hostile, "inner": {"value": [hostile]}})

    (line,) = written()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["value"] == hostile
    assert json.loads(line)["inner"] == {"value": [hostile]}


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.dictionaries(st.from_regex(r"x_[a-z]{1,8}", fullmatch=True), _SCALARS | st.lists(_SCALARS)))
def test_as_json_whatever_is_logged_is_one_line_and_reads_the_same(fields):
    record = logging.makeLogRecord({"name": "otel", "msg": "seen", "levelname": "INFO", **fields})
    line = JsonLines().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert {key: value for key, value in json.loads(line).items() if key.startswith("x_")} == fields


@as_json
@pytest.mark.parametrize("value", ["plain", "masked …", "\ud800", 1 << 70])
def test_as_json_every_line_is_written_in_one_way_whatever_is_in_it(lines, value: object):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"value": value, "fired": ("a", "b")})

    assert re.match(
        r'\{"time":"[^"]+","level":"warning","message":"seen","value":.+,"fired":\["a","b"\]\}', written()[0]
    )


@as_json
def test_as_json_no_field_takes_the_place_of_time_level_or_message(lines):
    logger, written = lines
    logger("otel.test").warning("seen", extra={"time": "never", "level": "none", "huge": 1 << 80, "odd": {1}})

    found = json.loads(written()[0])
    assert (found["level"], found["message"], found["huge"], found["odd"]) == ("warning", "seen", 1 << 80, "{1}")
    assert found["time"] != "never"


@as_json
def test_as_json_too_of_others_only_the_form_is_shown_and_of_exceptions_where_they_were(lines):
    logger, written = lines
    try:
        raise ValueError("the user's own words")
    except ValueError:
        logger("elsewhere").exception("bad %r", "words")

    found = json.loads(written()[0])
    assert found["message"] == "elsewhere: bad %r"
    assert found["exception"].startswith("ValueError at test_logs.py:")
    assert "words" not in written()[0]


@pytest.mark.parametrize(("log_format", "is_json"), [("auto", True), ("json", True), ("text", False)])
def test_away_from_a_terminal_lines_are_json_unless_text_is_asked_for(log_format: str, is_json: bool):
    code = f"import logging, otel.logs as logs; logs.log_to_stderr('info', log_format={log_format!r})"
    code += "; logging.getLogger('otel').info('x')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stderr.startswith("{") is is_json


def test_on_a_terminal_they_are_text_unless_json_is_asked_for():
    assert [first_on_a_terminal(log_format) for log_format in ("auto", "text", "json")] == [b"2", b"2", b"{"]


def first_on_a_terminal(log_format: str) -> bytes:
    code = f"import logging, otel.logs as logs; logs.log_to_stderr('info', log_format={log_format!r})"
    code += "; logging.getLogger('otel').info('x')"
    ours, theirs = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
        return os.read(ours, 1)
    finally:
        os.close(ours)
        os.close(theirs)


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


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(text)


@pytest.fixture
def listened():
    """A logger to which handlers listen, and nobody behind them."""

    def logger(*handlers: logging.Handler, level: int = logging.INFO) -> logging.Logger:
        made = logging.getLogger("otel.listened")
        made.propagate, made.handlers = False, list(handlers)
        made.setLevel(level)
        return made

    yield logger
    logger().propagate = True


def stderr(stream: io.StringIO, formatter: logging.Formatter) -> Stderr:
    handler = Stderr(stream)
    handler.setFormatter(formatter)
    return handler


@pytest.mark.parametrize("formatter", [Lines, JsonLines])
@given(st.dictionaries(st.from_regex(r"x_[a-z]{1,8}", fullmatch=True) | st.just("level"), _SCALARS, max_size=5))
def test_a_line_without_a_record_is_the_one_that_logging_makes_of_it(formatter, fields):
    direct, by_logging = io.StringIO(), io.StringIO()
    log = logging.Logger("otel.direct")  # noqa: LOG001  # for one example
    for stream, tell in ((direct, info), (by_logging, lambda log, message, told: log.info(message, extra=told))):
        log.handlers = [stderr(stream, formatter())]
        tell(log, "seen", fields)

    def without_time(text: str) -> str:
        return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "", text)

    assert without_time(direct.getvalue()) == without_time(by_logging.getvalue()) != ""


def test_a_line_goes_by_logging_where_anybody_else_listens(listened):
    one, other = io.StringIO(), io.StringIO()
    log = listened(stderr(one, Lines()), logging.StreamHandler(other))
    info(log, "seen", {"spans": 3})

    assert one.getvalue().endswith("info seen spans=3\n")
    assert other.getvalue() == "seen\n"


def test_a_line_that_is_filtered_or_below_the_level_is_none(listened):
    stream = io.StringIO()
    handler = stderr(stream, Lines())
    info(listened(handler, level=logging.WARNING), "seen", {})
    handler.addFilter(lambda record: record.name == "nobody")
    info(listened(handler), "seen", {})

    assert stream.getvalue() == ""


def test_a_line_that_cannot_be_written_is_counted_and_nothing_else(listened):
    lost_count = Stderr.lost_count
    info(listened(stderr(Broken(), Lines())), "seen", {"spans": 3})

    assert Stderr.lost_count == lost_count + 1
