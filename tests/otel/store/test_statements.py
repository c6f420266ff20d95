"""No question may read a whole table: the store has millions of rows."""

from pathlib import Path

from otel.ids import trace_id_of
from otel.store import statements as sql
from otel.store.sqlite import SqliteStore


def test_a_lookup_uses_indexes_only(tmp_path: Path):
    store = SqliteStore(tmp_path)
    statements = [
        (sql.NEWEST_OF_KEY, ("k", 9)),
        (sql.KEYS_OF_HOPS, ("[1]",)),
        (sql.BODY, (1,)),
        (sql.VERDICT_OF_KEY, ("k",)),
        (sql.OLDEST_TRACE, (0,)),
        (sql.OLDEST_VERDICT, ()),
        (sql.OLDEST_OF_TRACE, (trace_id_of("r0"), 9)),
        (sql.MARK_TRACES, ("[]",)),
    ]
    for statement, values in statements:
        plan = [row["detail"] for row in store._writer.execute("EXPLAIN QUERY PLAN " + statement, values)]
        scans = [step for step in plan if step.startswith("SCAN") and "json_each" not in step and "INDEX" not in step]
        assert scans == [], statement
    store.close()
