import sqlite3
from pathlib import Path

import pytest

from otel.store import migrations
from otel.store.base import StoreError
from otel.store.migrations import MIGRATIONS, VERSION
from otel.store.sqlite import FILE_NAME, SqliteStore
from tests.otel.store.test_sqlite import numbered


def open_database(directory: Path) -> sqlite3.Connection:
    return sqlite3.connect(directory / FILE_NAME, isolation_level=None)


def test_a_newer_database_is_refused_and_not_touched(tmp_path: Path):
    SqliteStore(tmp_path).close()
    with open_database(tmp_path) as database:
        database.execute("UPDATE schema_version SET version = 99")
    database.close()

    with pytest.raises(StoreError, match=rf"written by a newer gapline, schema 99; this one knows 0 to {VERSION}"):
        SqliteStore(tmp_path)
    with open_database(tmp_path) as database:
        assert database.execute("SELECT version FROM schema_version").fetchall() == [(99,)]
    database.close()


def test_a_database_of_something_else_is_refused(tmp_path: Path):
    with open_database(tmp_path) as database:
        database.execute("CREATE TABLE customers (name TEXT)")
    database.close()

    with pytest.raises(StoreError, match="a database of something else, with the table customers"):
        SqliteStore(tmp_path)


def test_an_older_database_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = SqliteStore(tmp_path)
    store.write([numbered(0)], received_ns=1)
    store.close()
    later = "ALTER TABLE hops ADD COLUMN note TEXT; CREATE INDEX hops_note ON hops (note);"
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, later))
    monkeypatch.setattr(migrations, "VERSION", VERSION + 1)
    store = SqliteStore(tmp_path)

    assert store.hops_of("r0") == (numbered(0),)
    assert store._writer.execute("SELECT note FROM hops").fetchall()[0]["note"] is None
    store.close()


def test_a_migration_that_fails_leaves_the_older_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    SqliteStore(tmp_path).close()
    monkeypatch.setattr(
        migrations, "MIGRATIONS", (*MIGRATIONS, "ALTER TABLE hops ADD COLUMN note; DROP TABLE nothing;")
    )
    monkeypatch.setattr(migrations, "VERSION", VERSION + 1)
    with pytest.raises(StoreError, match="nothing"):
        SqliteStore(tmp_path)
    monkeypatch.undo()
    store = SqliteStore(tmp_path)

    assert sum(store.write([numbered(0)], received_ns=1)) == 1
    assert "note" not in store._writer.execute("SELECT * FROM hops").fetchone().keys()  # noqa: SIM118  # columns, not values
    store.close()


def test_an_empty_file_becomes_a_store(tmp_path: Path):
    (tmp_path / FILE_NAME).touch()
    SqliteStore(tmp_path).close()
    with open_database(tmp_path) as database:
        assert database.execute("SELECT version FROM schema_version").fetchall() == [(VERSION,)]
    database.close()


def test_a_file_that_says_two_versions_is_refused(tmp_path: Path):
    SqliteStore(tmp_path).close()
    with open_database(tmp_path) as database:
        database.execute("INSERT INTO schema_version VALUES (1)")
    database.close()

    with pytest.raises(StoreError, match="schema_version has 2 rows, not 1"):
        SqliteStore(tmp_path)


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        ("A; B;", ["A;", " B;"]),
        ("CREATE TABLE t (a, -- one; or two\n b);", ["CREATE TABLE t (a, -- one; or two\n b);"]),
        ("INSERT INTO t VALUES (';');", ["INSERT INTO t VALUES (';');"]),
    ],
)
def test_a_script_is_cut_where_its_statements_end(script: str, statements: list[str]):
    assert migrations._statements(script) == statements
