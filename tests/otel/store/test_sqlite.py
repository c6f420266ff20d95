"""What only the SQLite store promises: durability, recovery, and care with files that are not its own."""

import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from otel.ids import span_id_of, trace_id_of
from otel.store import sqlite as sqlite_store
from otel.store.base import RetentionPolicy, StallQuery, StoreError
from otel.store.sqlite import FILE_NAME, SqliteStore
from tests.support.builders import a_hop, a_timeline

ROOT = Path(__file__).parents[3]
UNEVEN = a_timeline([i * 0.02 + i * i % 97 / 10_000 for i in range(2_000)])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path)
    yield made
    made.close()


def numbered(number: int, **fields):
    return a_hop(request_id=f"r{number}", span_id=span_id_of("t", number), **fields)


# ------------------------------------------------------------------------------------- durability

WRITER = """
import sys
from pathlib import Path
from otel.store.sqlite import SqliteStore
from tests.otel.store.test_sqlite import UNEVEN, numbered

store = SqliteStore(Path(sys.argv[1]))
number = int(sys.argv[2])
while True:
    store.write([numbered(number + i, timeline=UNEVEN) for i in range(3)], received_ns=number)
    number += 3
    print(number, flush=True)
"""


@pytest.mark.e2e
def test_killed_in_the_middle_of_writing_it_loses_nothing_acknowledged(tmp_path: Path):
    acknowledged = 0
    for round_number in range(4):
        arguments = [sys.executable, "-c", WRITER, str(tmp_path), str(acknowledged)]
        with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(5 + round_number):
                line = process.stdout.readline()
                acknowledged = int(line)
            process.send_signal(signal.SIGKILL)

        store = SqliteStore(tmp_path)
        kept = [len(store.hops_of(f"r{i}")) for i in range(acknowledged + 3)]
        store.close()
        assert kept[:acknowledged] == [1] * acknowledged
        assert sum(kept[acknowledged:]) in {0, 3}, "a write is kept whole or not at all"


def test_what_was_written_is_there_after_opening_again(tmp_path: Path):
    store = SqliteStore(tmp_path)
    store.write([numbered(0), numbered(1)], received_ns=1)
    store.close()
    again = SqliteStore(tmp_path)

    assert again.hops_of("r1") == (numbered(1),)
    assert again.stats().hops == 2
    assert sum(again.write([numbered(1), numbered(2)], received_ns=2)) == 1
    again.close()


def test_a_write_with_one_hop_that_is_no_span_writes_nothing(store: SqliteStore):
    with pytest.raises(ValueError, match="end"):
        store.write([numbered(0), numbered(1, end=None)], received_ns=1)

    assert store.stats().hops == 0


def test_every_commit_reaches_the_disk(store: SqliteStore):
    store.write([numbered(0)], received_ns=1)

    assert store._writer.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert store._writer.execute("PRAGMA synchronous").fetchone()[0] == 2


# --------------------------------------------------------------------------------------- failures


@contextmanager
def full_disk(limit_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def error_of(store: SqliteStore, hop) -> str:
    try:
        store.write([hop], received_ns=1)
    except StoreError as error:
        return str(error)
    return ""


def test_a_full_disk_is_an_error_and_heals(store: SqliteStore):
    store.write([numbered(0)], received_ns=1)
    with full_disk(64 << 10):
        errors = [error for i in range(1, 100) if (error := error_of(store, numbered(i, timeline=UNEVEN)))]
        assert store.hops_of("r0") == (numbered(0),)
    kept = store.stats().hops

    assert errors
    assert all("gapline.sqlite3: " in error and ("full" in error or "I/O" in error) for error in errors)
    assert kept == 100 - len(errors)
    assert kept == sum(bool(store.hops_of(f"r{i}")) for i in range(100))
    assert sum(store.write([numbered(99, timeline=UNEVEN)], received_ns=1)) == 1
    assert store.hops_of("r99") == (numbered(99, timeline=UNEVEN),)
    assert store.stats().hops == kept + 1


def test_a_store_that_cannot_be_written_is_an_error_and_heals(store: SqliteStore):
    store._writer.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="readonly"):
        store.write([numbered(0)], received_ns=1)

    assert sum(store.write([numbered(0)], received_ns=1)) == 1


def test_another_writer_makes_it_wait_and_not_fail(store: SqliteStore, tmp_path: Path):
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.1, other.execute, ["COMMIT"])
    timer.start()

    assert sum(store.write([numbered(0)], received_ns=1)) == 1
    timer.join()
    other.close()


def test_a_damaged_hop_is_an_error_that_names_it(store: SqliteStore):
    store.write([numbered(0), numbered(1)], received_ns=1)
    store._writer.execute("UPDATE hops SET body = substr(body, 1, 50) WHERE id = 1")

    with pytest.raises(StoreError, match="hop 1 cannot be read"):
        store.hops_of("r0")
    assert store.hops_of("r1") == (numbered(1),)


def test_a_closed_store_says_so(store: SqliteStore):
    store.close()

    for call in (
        lambda: store.write([numbered(0)], received_ns=1),
        lambda: store.hops_of("r0"),
        store.stats,
        store.tidy,
    ):
        with pytest.raises(StoreError, match="is closed"):
            call()


# -------------------------------------------------------------------------------- opening a file


def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path):
    SqliteStore(tmp_path / "a" / "b").close()

    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_no_database_is_refused(tmp_path: Path):
    (tmp_path / FILE_NAME).write_bytes(b"GET / HTTP/1.1\r\n" * 100)

    with pytest.raises(StoreError, match="file is not a database"):
        SqliteStore(tmp_path)


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(tmp_path / "file")


# ----------------------------------------------------------------------------------- housekeeping


def test_tidying_cuts_the_write_ahead_log_off(store: SqliteStore):
    store.write([numbered(i, timeline=UNEVEN) for i in range(20)], received_ns=1)
    assert store.stats().wal_bytes > 0
    store.tidy()

    assert store.stats().wal_bytes == 0
    assert store.stats().file_bytes >= store.stats().used_bytes


def test_a_lower_size_limit_gives_space_back_to_the_file_system(store: SqliteStore):
    store.write([numbered(i, timeline=UNEVEN) for i in range(400)], received_ns=1)
    store.tidy()
    before = store.stats().file_bytes
    policy = RetentionPolicy(max_bytes=before // 4)
    while not store.prune(2, policy).is_done:
        pass
    store.tidy()

    assert before > 1_000_000
    assert store.stats().file_bytes <= policy.max_bytes


def test_it_makes_room_before_the_disk_is_full(store: SqliteStore, monkeypatch: pytest.MonkeyPatch):
    store.write([numbered(i, timeline=UNEVEN) for i in range(400)], received_ns=1)
    store.tidy()
    before = store.stats().file_bytes
    free = sqlite_store.RESERVE_BYTES - before // 2
    usage = shutil.disk_usage(store.path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    while not store.prune(2, RetentionPolicy()).is_done:
        pass
    store.tidy()

    assert before * 0.4 < store.stats().file_bytes <= before // 2
    assert store.hops_of("r399") != ()
    assert store.hops_of("r0") == ()


def test_readers_and_a_writer_do_not_disturb_each_other(store: SqliteStore):
    store.write([numbered(0)], received_ns=1)
    errors = []
    is_over = threading.Event()

    def read() -> None:
        try:
            while not is_over.is_set():
                assert store.hops_of("r0") == (numbered(0),)
                store.stalls(StallQuery())
        except Exception as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(1, 60):
        store.write([numbered(i)], received_ns=1)
    is_over.set()
    for reader in readers:
        reader.join()

    assert errors == []
    assert store.stats().hops == 60


def test_a_lookup_uses_indexes_only(store: SqliteStore):
    statements = [
        (sqlite_store._NEWEST_OF_KEY, ("k", 9)),
        (sqlite_store._KEYS_OF_HOPS, ("[1]",)),
        (sqlite_store._BODIES, ("[1]",)),
        (sqlite_store._VERDICT_OF_KEY, ("k",)),
        (sqlite_store._OLDEST_TRACE, (0,)),
        (sqlite_store._OLDEST_VERDICT, ()),
        (sqlite_store._OLDEST_OF_TRACE, (trace_id_of("r0"), 9)),
        (sqlite_store._MARK_TRACES, ("[]",)),
    ]
    for statement, values in statements:
        plan = [row["detail"] for row in store._writer.execute("EXPLAIN QUERY PLAN " + statement, values)]
        scans = [step for step in plan if step.startswith("SCAN") and "json_each" not in step and "INDEX" not in step]
        assert scans == [], statement
