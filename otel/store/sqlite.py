"""The embedded store: one SQLite file in WAL mode, next to nothing to install and durable to the last commit.

One connection writes, under a lock; every thread that reads has one of its own, and a reader never waits for
the writer. synchronous=FULL makes a commit reach the disk, so what was acknowledged survives a crash. After an
error the transaction is rolled back and the writing connection opened anew, so a full disk heals by itself.
Before the disk is full, hops are refused, and what is kept stays kept.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from otel.hop import Hop
from otel.otlp import OtlpError, decode_request, encode_request
from otel.span import SpanError, hop_to_span, span_to_hop
from otel.store import statements
from otel.store.base import (
    HOPS_PER_ANSWER,
    LINKS,
    PRUNE_CHUNK,
    Pruned,
    RetentionPolicy,
    StallQuery,
    Stats,
    StoreError,
    Unsupported,
    VerdictRow,
    as_written,
    is_abnormal,
    key_of,
    keys_of,
    most_overdue,
)
from otel.store.migrations import migrate

FILE_NAME: Final = "gapline.sqlite3"
BUSY_MS: Final = 5_000
"""Another process may hold the write lock (a backup, a second collector) for as long before we fail."""
RESERVE_BYTES: Final = 128 << 20
"""Left free on the disk by refusing hops: on a full disk not even deleting works."""
RESERVE_SHARE: Final = 0.1
"""Of a small volume less is left free than RESERVE_BYTES: this share of it."""
VOLUME_SHARE: Final = 0.8
"""Most of a volume that the store takes, whatever the policy allows, so that a volume of its own never gets full."""
UNREADABLE: Final = 10_000
"""Damaged records remembered, so that each is counted and told once."""
VACUUM_PAGES: Final = 1_000
"""Pages given back at a time, 4 MiB, for the same reason as PRUNE_CHUNK."""

log = logging.getLogger(__name__)

_PLAIN: Final = (
    "trace_id", "request_id", "at_ns", "model", "status", "cause", "hop", "owner", "wait", "gap_s", "confidence",
    "is_open", "is_abnormal", "sentence",
)  # fmt: skip
"""Members of VerdictRow that lie in a column of the same name as they are."""


class SqliteStore:
    """Keeps the contract of `otel.store.base.Store` in the directory given, which it makes when it is not there.

    Raises StoreError when the directory or file cannot be used, is of a newer version or something else's.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._lock = threading.Lock()
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._is_closed = False
        self._unreadable: set[str] = set()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            writer = self._write_connection()
            self._hop_count = _number(writer, "SELECT count(*) FROM hops")
            self._verdict_count = _number(writer, "SELECT count(*) FROM verdicts")
        except OSError as error:
            raise StoreError(f"{directory}: cannot be used: {error.strerror}") from error
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: {error}") from error
        except StoreError:
            self.close()
            raise

    def write(self, hops: Sequence[Hop], *, received_ns: int) -> tuple[bool, ...]:
        with self._failing():
            disk = shutil.disk_usage(self.path.parent)
        reserve_bytes = _reserve_bytes(disk.total)
        if disk.free < reserve_bytes:
            raise StoreError(
                f"{self.path}: the disk is nearly full: {disk.free} bytes free, {reserve_bytes} are kept free"
            )
        encoded = [(hop, zlib.compress(encode_request([hop_to_span(hop)]), 1)) for hop in hops]
        with self._writing() as connection:
            are_new = tuple([_insert(connection, hop, body, received_ns) for hop, body in encoded])
        self._count(hops=sum(are_new))
        return are_new

    def hops_of(self, key: str) -> tuple[Hop, ...]:
        with self._reading() as connection:
            chosen = fresh = _newest(connection, key_of(key))
            asked: set[str] = set()
            for _ in range(LINKS):
                if not fresh or len(chosen) == HOPS_PER_ANSWER:
                    break
                rows = connection.execute(statements.KEYS_OF_HOPS, (json.dumps(fresh),))
                shared = {row["key"] for row in rows} - asked
                asked |= shared
                others = {number for each in shared for number in _newest(connection, each)}.difference(chosen)
                fresh = sorted(others, reverse=True)[: HOPS_PER_ANSWER - len(chosen)]
                chosen = [*chosen, *fresh]
            return as_written(self._bodies(connection, chosen))

    def latest_requests(self, *, within_ns: int, limit: int) -> tuple[str, ...]:
        with self._reading() as connection:
            return tuple(
                request_id for (request_id,) in connection.execute(statements.LATEST_REQUESTS, (within_ns, limit))
            )

    def put_verdicts(self, rows: Sequence[VerdictRow], *, judged_ns: int) -> None:
        with self._writing() as connection:
            replaced = sum(_put(connection, row, judged_ns) for row in rows)
        self._count(verdicts=len(rows) - replaced)

    def verdict_of(self, key: str) -> VerdictRow | None:
        with self._reading() as connection:
            row = connection.execute(statements.VERDICT_OF_KEY, (key_of(key),)).fetchone()
        return None if row is None else self._row(row)

    def stalls(self, query: StallQuery) -> tuple[VerdictRow, ...]:
        none = {"at_ns": None, "trace_id": None, "request_key": None}
        before = none if query.before is None else asdict(query.before)
        with self._reading() as connection:
            rows = connection.execute(statements.STALLS, {**asdict(query), **before}).fetchall()
        found = map(self._row, rows)
        return tuple(row for row in found if row is not None)

    def prune(self, now_ns: int, policy: RetentionPolicy) -> Pruned:
        with self._failing():
            disk = shutil.disk_usage(self.path.parent)
        max_bytes = min(policy.max_bytes, int(VOLUME_SHARE * disk.total) or policy.max_bytes)
        room_bytes = _size(self.path) + disk.free - _reserve_bytes(disk.total)
        hops = verdicts = 0
        is_done = False
        with self._writing() as connection:
            while hops + verdicts < PRUNE_CHUNK and not is_done:
                oldest = (
                    connection.execute(statements.OLDEST_TRACE, (0,)).fetchone(),
                    connection.execute(statements.OLDEST_TRACE, (1,)).fetchone(),
                    connection.execute(statements.OLDEST_VERDICT).fetchone(),
                )
                is_over_size = _used_bytes(connection) > max_bytes
                kind = most_overdue([o and o[0] for o in oldest], now_ns, policy, is_over_size=is_over_size)
                if kind is None:
                    is_done = True
                elif kind == 2:
                    _delete(connection, statements.DELETE_VERDICTS, [oldest[kind][1]])
                    verdicts += 1
                else:
                    hops += _delete_hops(connection, oldest[kind][1], limit=PRUNE_CHUNK - hops - verdicts)
        self._count(hops=-hops, verdicts=-verdicts)
        return Pruned(hops, verdicts, is_done=is_done and not self._shrink(min(max_bytes, max(0, room_bytes))))

    def stats(self) -> Stats:
        with self._reading() as connection:
            used_bytes = _used_bytes(connection)
        with self._failing():
            disk = shutil.disk_usage(self.path.parent)
        return Stats(
            hops=self._hop_count,
            verdicts=self._verdict_count,
            used_bytes=used_bytes,
            file_bytes=_size(self.path),
            wal_bytes=_size(self.path.with_name(FILE_NAME + "-wal")),
            unreadable=len(self._unreadable),
            disk_free_bytes=disk.free,
            disk_reserve_bytes=_reserve_bytes(disk.total),
        )

    def tidy(self) -> None:
        """Move the write-ahead log into the file and cut it off, which no commit does while a reader is at work."""
        with self._lock, self._failing():
            self._write_connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._writer = None
            for connection in self._connections:
                connection.close()  # the last one moves the write-ahead log into the file
            self._connections.clear()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on disk when the block has ended, and never was when it raises."""
        with self._lock, self._failing():
            connection = self._write_connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._writer = None
                self._connections.remove(connection)
                connection.close()  # rolls back, and leaves no state of a failed disk behind
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot, however many statements read it."""
        with self._failing():
            connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def _failing(self) -> Iterator[None]:
        if self._is_closed:
            raise StoreError(f"{self.path}: is closed")
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError) as error:
            raise Unsupported(f"a value cannot be kept: {error}") from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {error}") from error

    def _count(self, *, hops: int = 0, verdicts: int = 0) -> None:
        with self._lock:
            self._hop_count += hops
            self._verdict_count += verdicts

    def _write_connection(self) -> sqlite3.Connection:
        if self._writer is None:
            connection = self._connect()
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts only before the first table
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection, name=str(self.path))
            self._writer = connection
        return self._writer

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        self._connections.append(connection)
        return connection

    def _shrink(self, max_bytes: int) -> bool:
        """Give free pages back to the file system while the file is larger than allowed; whether some are left."""
        with self._lock, self._failing():
            connection = self._write_connection()
            page_bytes = _number(connection, "PRAGMA page_size")
            excess = _number(connection, "PRAGMA page_count") - max_bytes // page_bytes
            count = min(excess, _number(connection, "PRAGMA freelist_count"))
            if count <= 0:
                return False
            # a page a step, and execute takes one step only where a statement has no columns
            connection.executescript(f"PRAGMA incremental_vacuum({min(count, VACUUM_PAGES)})")
            return count > VACUUM_PAGES

    def _bodies(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> Iterator[tuple[int, Hop]]:
        """One after the other: all of them may be large, and most of them not wanted."""
        for number in numbers:
            hop = self._decode(*connection.execute(statements.BODY, (number,)).fetchone())
            if hop is not None:
                yield number, hop

    def _decode(self, span_id: str, body: bytes) -> Hop | None:
        try:
            return span_to_hop(decode_request(zlib.decompress(body))[0])
        except (zlib.error, OtlpError, SpanError, IndexError) as error:
            self._is_unreadable("hop", span_id, error)
            return None

    def _row(self, columns: sqlite3.Row) -> VerdictRow | None:
        try:
            return _row(columns)
        except (zlib.error, ValueError) as error:
            self._is_unreadable("verdict", columns["request_id"], error)
            return None

    def _is_unreadable(self, kind: str, name: str, error: Exception) -> None:
        """Say so once: one damaged record must not hide all others, nor fill the log."""
        if name not in self._unreadable and len(self._unreadable) < UNREADABLE:
            self._unreadable.add(name)
            log.warning("record left out, it cannot be read", extra={"kind": kind, "id": name, "error": str(error)})


def _insert(connection: sqlite3.Connection, hop: Hop, body: bytes, received_ns: int) -> bool:
    values = (hop.trace_id, hop.span_id, hop.request_id, received_ns, body)
    cursor = connection.execute(statements.INSERT_HOP, values)
    if cursor.rowcount == 0:
        return False
    keys = [(key, cursor.lastrowid) for key in keys_of(hop)]
    connection.executemany("INSERT INTO hop_keys (key, hop_id) VALUES (?, ?)", keys)
    connection.execute(statements.UPSERT_TRACE, (hop.trace_id, received_ns, is_abnormal(hop)))
    return True


def _newest(connection: sqlite3.Connection, key: str) -> list[int]:
    return [number for (number,) in connection.execute(statements.NEWEST_OF_KEY, (key, HOPS_PER_ANSWER))]


def _delete_hops(connection: sqlite3.Connection, trace_id: str, *, limit: int) -> int:
    numbers = [number for (number,) in connection.execute(statements.OLDEST_OF_TRACE, (trace_id, limit))]
    _delete(connection, statements.DELETE_HOPS, numbers)
    connection.execute(statements.FORGET_TRACE, {"trace_id": trace_id})
    return len(numbers)


def _delete(connection: sqlite3.Connection, statements: Sequence[str], numbers: Sequence[int]) -> None:
    for statement in statements:
        connection.execute(statement, (json.dumps(numbers),))


def _put(connection: sqlite3.Connection, row: VerdictRow, judged_ns: int) -> int:
    """Put one verdict in place of those about the same request; how many these were."""
    traces = json.dumps([row.trace_id, *row.trace_ids])
    requests = json.dumps([key_of(text) for text in (row.request_id, *row.request_ids)])
    replaced = [number for (number,) in connection.execute(statements.REPLACED, (traces, requests))]
    _delete(connection, statements.DELETE_VERDICTS, replaced)
    plain = {name: getattr(row, name) for name in _PLAIN}
    ids = json.dumps([row.trace_ids, row.request_ids])
    made = {"ids": ids, "answer": zlib.compress(row.answer_json, 1)}
    values = {**plain, **made, "request_key": key_of(row.request_id), "judged_ns": judged_ns}
    cursor = connection.execute(statements.INSERT_VERDICT, values)
    keys = [(key, cursor.lastrowid) for key in sorted(row.keys)]
    connection.executemany("INSERT INTO verdict_keys (key, verdict_id) VALUES (?, ?)", keys)
    connection.execute(statements.MARK_TRACES, (traces,))
    return len(replaced)


def _row(columns: sqlite3.Row) -> VerdictRow:
    plain: dict[str, Any] = {name: columns[name] for name in _PLAIN}
    for flag in ("is_open", "is_abnormal"):
        plain[flag] = bool(plain[flag])
    trace_ids, request_ids = map(tuple, json.loads(columns["ids"]))
    answer = zlib.decompress(columns["answer"])
    return VerdictRow(**plain, trace_ids=trace_ids, request_ids=request_ids, answer_json=answer)


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages = _number(connection, "PRAGMA page_count") - _number(connection, "PRAGMA freelist_count")
    return pages * _number(connection, "PRAGMA page_size")


def _number(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchone()[0])


def _reserve_bytes(total_bytes: int) -> int:
    """What is left free of a volume."""
    return min(RESERVE_BYTES, int(RESERVE_SHARE * total_bytes))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
