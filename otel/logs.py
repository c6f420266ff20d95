"""Log lines: time, level, message, and the fields of the record as key=value, one line each, on stderr.

A field that is None, for not known or not so, is left out.
Of other libraries only the form of a message is shown, never what was filled in: that may be a user's text.
"""

from __future__ import annotations

import atexit
import json
import logging
import sys
from time import gmtime
from typing import Final, TextIO

_OURS: Final = frozenset({"otel", "sidecar", "k8s"})
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


SILENT: Final = logging.Logger("silent")  # noqa: LOG001  # outside the tree: no configuration makes it speak
"""For servers of aiohttp, which would write an error with a line of the request for whatever is no HTTP."""
SILENT.addHandler(logging.NullHandler())


class Lines(logging.Formatter):
    """A formatter whose lines can be read by people and split by programs."""

    converter = staticmethod(gmtime)

    def format(self, record: logging.LogRecord) -> str:
        time = self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z"
        is_ours = record.name.partition(".")[0] in _OURS
        message = record.getMessage() if is_ours else f"{record.name}: {record.msg}"
        fields = [f"{key}={_shown(value)}" for key, value in vars(record).items() if _is_field(key, value)]
        if record.exc_info and record.exc_info[1] is not None:
            fields.append(f"exception={_shown(where(record.exc_info[1]))}")
        return " ".join([time, record.levelname.lower(), message, *fields])


class Stderr(logging.StreamHandler[TextIO]):
    """Lines to stderr; those that cannot be written are counted. lost_count: of this process."""

    lost_count = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # a method of logging
        """Nobody can be told: the complaint would go where the line could not."""
        del record
        Stderr.lost_count += 1


def log_to_stderr(level: str) -> None:
    """Send everything from this level on to stderr; what others say only when it is an error."""
    handler = Stderr()
    atexit.register(_let_go_of_stderr)
    handler.setFormatter(Lines())
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


def _is_field(key: str, value: object) -> bool:
    return key not in _STANDARD and value is not None


def _shown(value: object) -> str:
    text = str(value)
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(' "=') and text != ""
    return text if is_plain else json.dumps(text)
