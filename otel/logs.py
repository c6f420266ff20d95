"""Log lines on stderr: time, level, message and the fields of the record, one line each, as text or as JSON.

As text, for people, fields are key=value and one that is None, for not known or not so, is left out; as JSON, for
programs, a line is an object of ASCII and None is null, so that lines of one kind have the same keys.
Of other libraries only the form of a message is shown, never what was filled in: that may be a user's text.
"""

from __future__ import annotations

import atexit
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from time import gmtime
from typing import Final, TextIO

import orjson

AUTO: Final = "auto"
JSON: Final = "json"
TEXT: Final = "text"
FORMATS: Final = (AUTO, JSON, TEXT)
"""auto: text where stderr is a terminal, JSON elsewhere."""

_MASK: Final = "…"
"""What stands for masked words: the one character beyond ASCII that people are shown as it is."""
_COMPACT: Final = (",", ":")
"""As orjson writes, so that what looks for `"level":"warning"` finds every line."""
_OURS: Final = frozenset({"otel", "sidecar", "k8s"})
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


SILENT: Final = logging.Logger("silent")  # noqa: LOG001  # outside the tree: no configuration makes it speak
"""For servers of aiohttp, which would write an error with a line of the request for whatever is no HTTP."""
SILENT.addHandler(logging.NullHandler())


class _Formatter(logging.Formatter):
    """What the lines of both formats say."""

    converter = staticmethod(gmtime)

    def time_of(self, record: logging.LogRecord) -> str:
        """RFC 3339, to the millisecond."""
        return self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z"

    def message_of(self, record: logging.LogRecord) -> str:
        is_ours = record.name.partition(".")[0] in _OURS
        return record.getMessage() if is_ours else f"{record.name}: {record.msg}"

    def fields_of(self, record: logging.LogRecord) -> Iterator[tuple[str, object]]:
        yield from ((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info and record.exc_info[1] is not None:
            yield "exception", where(record.exc_info[1])


class Lines(_Formatter):
    """Lines that can be read by people and split by programs."""

    def format(self, record: logging.LogRecord) -> str:
        fields = [
            f"{key}={_shown(value)}" for name, found in self.fields_of(record) for key, value in _flat(name, found)
        ]
        return " ".join([self.time_of(record), record.levelname.lower(), self.message_of(record), *fields])


class JsonLines(_Formatter):
    """Lines that are JSON objects: `time`, `level` and `message`, which no field replaces, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        head = {
            "time": self.time_of(record),
            "level": record.levelname.lower(),
            "message": self.message_of(record),
        }
        return _json(head | {key: value for key, value in self.fields_of(record) if key not in head})


class Stderr(logging.StreamHandler[TextIO]):
    """Lines to stderr; those that cannot be written are counted. lost_count: of this process."""

    lost_count = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # a method of logging
        """Nobody can be told: the complaint would go where the line could not."""
        del record
        Stderr.lost_count += 1


def log_to_stderr(level: str, *, log_format: str = AUTO) -> None:
    """Send everything from this level on to stderr, in one of FORMATS; what others say only when it is an error."""
    handler = Stderr()
    atexit.register(_let_go_of_stderr)
    is_text = handler.stream.isatty() if log_format == AUTO else log_format == TEXT
    handler.setFormatter(Lines() if is_text else JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("aiohttp", "asyncio", "grpc"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _let_go_of_stderr() -> None:
    """At the end of a process: what cannot be written any more must not become its exit code."""
    try:
        sys.stderr.flush()
    except OSError:
        sys.stderr = None  # or the interpreter tries once more, and exits with 120


def where(error: BaseException) -> str:
    """The kind of an error and the lines of code it came through; its text may quote what passed through us."""
    lines = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        lines.append(f"{code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return f"{type(error).__name__} at {' > '.join(lines) or 'unknown'}"


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The fields of a value as text has them: one for each member of a mapping, none for nothing."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _flat(f"{name}.{key}", member)
    elif isinstance(value, tuple | list):
        if value:
            yield name, ",".join(map(str, value))
    elif value is not None:
        yield name, value


def _shown(value: object) -> str:
    text = str(value)
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(' "=') and text != ""
    if is_plain:
        return text
    parts = (json.dumps(part)[1:-1] for part in text.split(_MASK))
    return f'"{_MASK.join(parts)}"'


def _json(line: Mapping[str, object]) -> str:
    """One line of ASCII: no value breaks it, or tells a terminal anything."""
    try:
        text = orjson.dumps(line, default=str).decode()
    except TypeError:  # half a surrogate pair, or an integer of more than 64 bits
        return json.dumps(line, default=str, separators=_COMPACT)
    return text if text.isascii() and text.isprintable() else json.dumps(orjson.loads(text), separators=_COMPACT)
