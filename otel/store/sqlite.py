"""The embedded store: one SQLite file in WAL mode, next to nothing to install and durable to the last commit.

One connection writes, under a lock; every thread that reads has one of its own, and a reader never waits for
the writer. synchronous=FULL makes a commit reach the disk, so what was acknowledged survives a crash. After an
error the transaction is rolled back and the writing connection opened anew, so a full disk heals by itself.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from otel.hop import Hop
from otel.otlp import OtlpError, decode_request, encode_request
from otel.span import SpanError, hop_to_span, span_to_hop
from otel.store.base import (
    HOPS_PER_ANSWER,
    PRUNE_CHUNK,
    Pruned,
    RetentionPolicy,
    StallQuery,
    Stats,
    StoreError,
    VerdictRow,
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
"""Left free on the disk, whatever the policy allows: on a full disk not even deleting works."""
VACUUM_PAGES: Final = 1_000
"""Pages given back at a time, 4 MiB, for the same reason as PRUNE_CHUNK."""

# A list travels as one JSON value, so every statement is a constant and nothing is ever pasted into one.

_INSERT_HOP: Final = """
    INSERT INTO hops (trace_id, span_id, request_id, received_ns, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_UPSERT_TRACE: Final = """
    INSERT INTO traces (trace_id, received_ns, has_abnormal_hop) VALUES (?, ?, ?)
    ON CONFLICT (trace_id) DO UPDATE SET has_abnormal_hop = has_abnormal_hop OR excluded.has_abnormal_hop
"""
_NEWEST_OF_KEY: Final = "SELECT hop_id FROM hop_keys WHERE key = ? ORDER BY hop_id DESC LIMIT ?"
_KEYS_OF_HOPS: Final = "SELECT DISTINCT key FROM hop_keys WHERE hop_id IN (SELECT value FROM json_each(?))"
_BODIES: Final = "SELECT id, body FROM hops WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
_LATEST_REQUESTS: Final = """
    SELECT request_id FROM hops WHERE received_ns >= (SELECT max(received_ns) FROM hops) - ?
    GROUP BY request_id ORDER BY max(id) DESC LIMIT ?
"""
_REPLACED: Final = """
    SELECT id FROM verdicts
    WHERE trace_id IN (SELECT value FROM json_each(?)) AND request_key IN (SELECT value FROM json_each(?))
"""
_INSERT_VERDICT: Final = """
    INSERT INTO verdicts (
        trace_id, request_id, request_key, ids, judged_ns, at_ns, model, status, cause, hop, owner, wait, gap_s,
        confidence, is_open, is_abnormal, sentence, answer
    ) VALUES (
        :trace_id, :request_id, :request_key, :ids, :judged_ns, :at_ns, :model, :status, :cause, :hop, :owner, :wait,
        :gap_s, :confidence, :is_open, :is_abnormal, :sentence, :answer
    )
"""
_MARK_TRACES: Final = """
    UPDATE traces SET has_abnormal_verdict = EXISTS (
        SELECT 1 FROM verdicts JOIN verdict_keys ON verdict_id = id WHERE key = traces.trace_id AND is_abnormal
    ) WHERE trace_id IN (SELECT value FROM json_each(?))
"""
_VERDICT_OF_KEY: Final = """
    SELECT * FROM verdicts WHERE id IN (SELECT verdict_id FROM verdict_keys WHERE key = ?)
    ORDER BY at_ns DESC, trace_id DESC, request_key DESC LIMIT 1
"""
_STALLS: Final = """
    SELECT * FROM verdicts
    WHERE is_abnormal AND at_ns >= :since_ns AND gap_s >= :min_gap_s
        AND (:model IS NULL OR model = :model) AND (:hop IS NULL OR hop = :hop) AND (:cause IS NULL OR cause = :cause)
        AND (:at_ns IS NULL OR (at_ns, trace_id, request_key) < (:at_ns, :trace_id, :request_key))
    ORDER BY at_ns DESC, trace_id DESC, request_key DESC LIMIT :limit
"""
_OLDEST_TRACE: Final = """
    SELECT received_ns, trace_id FROM traces
    WHERE (has_abnormal_hop OR has_abnormal_verdict) = ? ORDER BY received_ns, trace_id LIMIT 1
"""
_OLDEST_VERDICT: Final = "SELECT judged_ns, id FROM verdicts ORDER BY judged_ns, trace_id, request_key LIMIT 1"
_OLDEST_OF_TRACE: Final = "SELECT id FROM hops WHERE trace_id = ? ORDER BY id LIMIT ?"
_FORGET_TRACE: Final = """
    DELETE FROM traces WHERE trace_id = :trace_id AND NOT EXISTS (SELECT 1 FROM hops WHERE trace_id = :trace_id)
"""
_DELETE_HOPS: Final = (
    "DELETE FROM hop_keys WHERE hop_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM hops WHERE id IN (SELECT value FROM json_each(?))",
)
_DELETE_VERDICTS: Final = (
    "DELETE FROM verdict_keys WHERE verdict_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM verdicts WHERE id IN (SELECT value FROM json_each(?))",
)


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
        encoded = [(hop, zlib.compress(encode_request([hop_to_span(hop)]), 1)) for hop in hops]
        with self._writing() as connection:
            are_new = tuple([_insert(connection, hop, body, received_ns) for hop, body in encoded])
        self._count(hops=sum(are_new))
        return are_new

    def hops_of(self, key: str) -> tuple[Hop, ...]:
        with self._reading() as connection:
            found = _newest(connection, key_of(key))
            others: set[int] = set()
            for (shared,) in connection.execute(_KEYS_OF_HOPS, (json.dumps(found),)).fetchall():
                others.update(_newest(connection, shared))
            room = HOPS_PER_ANSWER - len(found)
            chosen = [*found, *sorted(others.difference(found), reverse=True)[:room]]
            bodies = connection.execute(_BODIES, (json.dumps(chosen),)).fetchall()
        return tuple(self._decode(number, body) for number, body in bodies)

    def latest_requests(self, *, within_ns: int, limit: int) -> tuple[str, ...]:
        with self._reading() as connection:
            return tuple(request_id for (request_id,) in connection.execute(_LATEST_REQUESTS, (within_ns, limit)))

    def put_verdicts(self, rows: Sequence[VerdictRow], *, judged_ns: int) -> None:
        with self._writing() as connection:
            replaced = sum(_put(connection, row, judged_ns) for row in rows)
        self._count(verdicts=len(rows) - replaced)

    def verdict_of(self, key: str) -> VerdictRow | None:
        with self._reading() as connection:
            row = connection.execute(_VERDICT_OF_KEY, (key_of(key),)).fetchone()
        return None if row is None else _row(row)

    def stalls(self, query: StallQuery) -> tuple[VerdictRow, ...]:
        none = {"at_ns": None, "trace_id": None, "request_key": None}
        before = none if query.before is None else asdict(query.before)
        with self._reading() as connection:
            rows = connection.execute(_STALLS, {**asdict(query), **before}).fetchall()
        return tuple(map(_row, rows))

    def prune(self, now_ns: int, policy: RetentionPolicy) -> Pruned:
        with self._failing():
            room_bytes = _size(self.path) + shutil.disk_usage(self.path.parent).free - RESERVE_BYTES
        max_bytes = min(policy.max_bytes, max(0, room_bytes))
        hops = verdicts = 0
        is_done = False
        with self._writing() as connection:
            while hops + verdicts < PRUNE_CHUNK and not is_done:
                oldest = (
                    connection.execute(_OLDEST_TRACE, (0,)).fetchone(),
                    connection.execute(_OLDEST_TRACE, (1,)).fetchone(),
                    connection.execute(_OLDEST_VERDICT).fetchone(),
                )
                is_over_size = _used_bytes(connection) > max_bytes
                kind = most_overdue([o and o[0] for o in oldest], now_ns, policy, is_over_size=is_over_size)
                if kind is None:
                    is_done = True
                elif kind == 2:
                    _delete(connection, _DELETE_VERDICTS, [oldest[kind][1]])
                    verdicts += 1
                else:
                    hops += _delete_hops(connection, oldest[kind][1], limit=PRUNE_CHUNK - hops - verdicts)
        self._count(hops=-hops, verdicts=-verdicts)
        return Pruned(hops, verdicts, is_done=is_done and not self._shrink(max_bytes))

    def stats(self) -> Stats:
        with self._reading() as connection:
            used_bytes = _used_bytes(connection)
        return Stats(
            hops=self._hop_count,
            verdicts=self._verdict_count,
            used_bytes=used_bytes,
            file_bytes=_size(self.path),
            wal_bytes=_size(self.path.with_name(FILE_NAME + "-wal")),
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

    def _decode(self, number: int, body: bytes) -> Hop:
        try:
            return span_to_hop(decode_request(zlib.decompress(body))[0])
        except (zlib.error, OtlpError, SpanError, IndexError) as error:
            raise StoreError(f"{self.path}: hop {number} cannot be read: {error}") from error


def _insert(connection: sqlite3.Connection, hop: Hop, body: bytes, received_ns: int) -> bool:
    values = (hop.trace_id, hop.span_id, hop.request_id, received_ns, body)
    cursor = connection.execute(_INSERT_HOP, values)
    if cursor.rowcount == 0:
        return False
    keys = [(key, cursor.lastrowid) for key in keys_of(hop)]
    connection.executemany("INSERT INTO hop_keys (key, hop_id) VALUES (?, ?)", keys)
    connection.execute(_UPSERT_TRACE, (hop.trace_id, received_ns, is_abnormal(hop)))
    return True


def _newest(connection: sqlite3.Connection, key: str) -> list[int]:
    return [number for (number,) in connection.execute(_NEWEST_OF_KEY, (key, HOPS_PER_ANSWER))]


def _delete_hops(connection: sqlite3.Connection, trace_id: str, *, limit: int) -> int:
    numbers = [number for (number,) in connection.execute(_OLDEST_OF_TRACE, (trace_id, limit))]
    _delete(connection, _DELETE_HOPS, numbers)
    connection.execute(_FORGET_TRACE, {"trace_id": trace_id})
    return len(numbers)


def _delete(connection: sqlite3.Connection, statements: Sequence[str], numbers: Sequence[int]) -> None:
    for statement in statements:
        connection.execute(statement, (json.dumps(numbers),))


def _put(connection: sqlite3.Connection, row: VerdictRow, judged_ns: int) -> int:
    """Put one verdict in place of those about the same request; how many these were."""
    traces = json.dumps([row.trace_id, *row.trace_ids])
    requests = json.dumps([key_of(text) for text in (row.request_id, *row.request_ids)])
    replaced = [number for (number,) in connection.execute(_REPLACED, (traces, requests))]
    _delete(connection, _DELETE_VERDICTS, replaced)
    plain = {name: getattr(row, name) for name in _PLAIN}
    ids = json.dumps([row.trace_ids, row.request_ids])
    made = {"ids": ids, "answer": zlib.compress(row.answer_json, 1)}
    values = {**plain, **made, "request_key": key_of(row.request_id), "judged_ns": judged_ns}
    cursor = connection.execute(_INSERT_VERDICT, values)
    keys = [(key, cursor.lastrowid) for key in sorted(row.keys)]
    connection.executemany("INSERT INTO verdict_keys (key, verdict_id) VALUES (?, ?)", keys)
    connection.execute(_MARK_TRACES, (traces,))
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
