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
from time import gmtime, strftime, time  # noqa: TID251  # of a line, as logging itself takes it
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

    _second: int | None = None
    _shown = ""

    def format(self, record: logging.LogRecord) -> str:
        level, message = record.levelname.lower(), self.message_of(record)
        return self.line(record.created, level, message, dict(self.fields_of(record)))

    def line(self, at_s: float, level: str, message: str, fields: Mapping[str, object]) -> str:
        """One line. at_s: since 1970."""
        raise NotImplementedError

    def time_of(self, at_s: float) -> str:
        """RFC 3339, to the millisecond."""
        second = int(at_s)
        if second != self._second:
            self._shown = strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
            self._second = second
        return f"{self._shown}.{int((at_s - second) * 1000):03d}Z"

    def message_of(self, record: logging.LogRecord) -> str:
        is_ours = record.name.partition(".")[0] in _OURS
        return record.getMessage() if is_ours else f"{record.name}: {record.msg}"

    def fields_of(self, record: logging.LogRecord) -> Iterator[tuple[str, object]]:
        yield from ((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info and record.exc_info[1] is not None:
            yield "exception", where(record.exc_info[1])


class Lines(_Formatter):
    """Lines that can be read by people and split by programs."""

    def line(self, at_s: float, level: str, message: str, fields: Mapping[str, object]) -> str:
        shown = [f"{key}={_shown(value)}" for name, found in fields.items() for key, value in _flat(name, found)]
        return " ".join([self.time_of(at_s), level, message, *shown])


class JsonLines(_Formatter):
    """Lines that are JSON objects: `time`, `level` and `message`, which no field replaces, then the fields."""

    def line(self, at_s: float, level: str, message: str, fields: Mapping[str, object]) -> str:
        head = {"time": self.time_of(at_s), "level": level, "message": message}
        return _json({**head, **fields, **head})


class Stderr(logging.StreamHandler[TextIO]):
    """Lines to stderr; those that cannot be written are counted. lost_count: of this process."""

    lost_count = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # a method of logging
        """Nobody can be told: the complaint would go where the line could not."""
        del record
        Stderr.lost_count += 1

    def tell(self, level: str, message: str, fields: Mapping[str, object]) -> None:
        """One line of ours, without a record of it. Never raises."""
        assert isinstance(self.formatter, _Formatter)
        assert self.lock is not None
        try:
            line = self.formatter.line(time(), level, message, fields) + self.terminator
            with self.lock:
                self.stream.write(line)
                self.flush()
        except Exception:  # noqa: BLE001  # as logging does with whatever a line meets
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


def info(log: logging.Logger, message: str, fields: Mapping[str, object]) -> None:
    """`log.info` with these fields, for lines that are many: where nobody but stderr listens, as in every sidecar, they
    go there without a record, which would take as long as all else of a line."""
    if not log.isEnabledFor(logging.INFO):
        return
    stderr = _only_listener(log)
    if stderr is None:
        log.info(message, extra=fields)
    else:
        stderr.tell("info", message, fields)


def _only_listener(log: logging.Logger) -> Stderr | None:
    """Who gets its lines, if that is stderr alone, and takes them as they are."""
    found = None
    at: logging.Logger | None = log
    while at is not None:
        if at.filters:
            return None
        for handler in at.handlers:
            if found is not None or not isinstance(handler, Stderr) or handler.filters or handler.level > logging.INFO:
                return None
            found = handler
        at = at.parent if at.propagate else None
    return found if found is not None and isinstance(found.formatter, _Formatter) else None


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
