"""The tables of the SQLite store, version by version, and how a file of an older version becomes one of this.

hops: one row per record, the body its span as OTLP protobuf, deflated. hop_keys: every key of every hop.
traces: what retention decides by. verdicts and verdict_keys: the same for verdicts. A released migration is
never edited: what comes later is appended.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from otel.store.base import StoreError

MIGRATIONS: Final = (
    """
    CREATE TABLE hops (
        id INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of writing; never used twice, even after a prune
        trace_id TEXT NOT NULL,
        span_id TEXT NOT NULL,
        request_id TEXT NOT NULL,
        received_ns INTEGER NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (trace_id, span_id)
    );
    CREATE INDEX hops_received ON hops (received_ns);
    CREATE TABLE hop_keys (key TEXT NOT NULL, hop_id INTEGER NOT NULL, PRIMARY KEY (key, hop_id)) WITHOUT ROWID;
    CREATE INDEX hop_keys_of_hop ON hop_keys (hop_id);
    CREATE TABLE traces (
        trace_id TEXT PRIMARY KEY,
        received_ns INTEGER NOT NULL,          -- of its first hop
        has_abnormal_hop INTEGER NOT NULL,
        has_abnormal_verdict INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX traces_age ON traces ((has_abnormal_hop OR has_abnormal_verdict), received_ns, trace_id);
    CREATE TABLE verdicts (
        id INTEGER PRIMARY KEY,
        trace_id TEXT NOT NULL,
        request_id TEXT NOT NULL,
        request_key TEXT NOT NULL,
        ids TEXT NOT NULL,                     -- JSON: [trace_ids, request_ids]
        judged_ns INTEGER NOT NULL,
        at_ns INTEGER NOT NULL,
        model TEXT,
        status TEXT NOT NULL,
        cause TEXT NOT NULL,
        hop TEXT,
        owner TEXT,
        wait TEXT,
        gap_s REAL NOT NULL,
        confidence REAL NOT NULL,
        is_open INTEGER NOT NULL,
        is_abnormal INTEGER NOT NULL,
        sentence TEXT NOT NULL,
        answer BLOB NOT NULL,                  -- JSON, deflated
        UNIQUE (trace_id, request_key)
    );
    CREATE INDEX verdicts_listed ON verdicts (at_ns, trace_id, request_key) WHERE is_abnormal;
    CREATE INDEX verdicts_age ON verdicts (judged_ns, trace_id, request_key);
    CREATE TABLE verdict_keys (
        key TEXT NOT NULL, verdict_id INTEGER NOT NULL, PRIMARY KEY (key, verdict_id)
    ) WITHOUT ROWID;
    CREATE INDEX verdict_keys_of_verdict ON verdict_keys (verdict_id);
    """,
)
VERSION: Final = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, *, name: str) -> None:
    """Bring the database to VERSION, in one transaction. Raises StoreError for a newer or a foreign one.

    connection is in autocommit mode; name is how the database is called in errors.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version_of(connection, name)
        if version > VERSION:
            raise StoreError(f"{name}: written by a newer gapline, schema {version}; this one knows 0 to {VERSION}")
        for script in MIGRATIONS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (?)", (VERSION,))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version_of(connection: sqlite3.Connection, name: str) -> int:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "schema_version" not in tables:
        if tables:
            raise StoreError(f"{name}: is a database of something else, with the table {min(tables)}")
        connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        return 0
    rows = connection.execute("SELECT version FROM schema_version").fetchall()
    if len(rows) != 1:
        raise StoreError(f"{name}: schema_version has {len(rows)} rows, not 1")
    return int(rows[0][0])


def _statements(script: str) -> list[str]:
    """The statements of a script; executescript would commit the transaction that is open."""
    statements, pending = [], ""
    for piece in script.split(";")[:-1]:
        pending += piece + ";"
        if sqlite3.complete_statement(pending):  # a semicolon may stand in a comment
            statements.append(pending)
            pending = ""
    return statements
