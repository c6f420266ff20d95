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

from otel.ids import span_id_of
from otel.store.base import RetentionPolicy, StallQuery, StoreError, Unsupported
from otel.store.sqlite import FILE_NAME, SqliteStore
from tests.conformance.test_store import a_row
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


def test_a_damaged_hop_is_left_out_counted_and_told_once(store: SqliteStore, caplog: pytest.LogCaptureFixture):
    damaged, other, whole = numbered(0), a_hop("worker", request_id="r0"), numbered(1)
    store.write([damaged, other, whole], received_ns=1)
    store._writer.execute("UPDATE hops SET body = substr(body, 1, 50) WHERE id = 1")

    for _ in range(3):
        assert store.hops_of("r0") == (other,)
    assert store.hops_of("r1") == (whole,)
    assert store.stats().unreadable == 1
    (record,) = caplog.records
    assert (record.levelname, record.id) == ("WARNING", damaged.span_id)


def test_a_damaged_verdict_does_not_hide_the_others(store: SqliteStore, caplog: pytest.LogCaptureFixture):
    store.put_verdicts([a_row("r0"), a_row("r1")], judged_ns=1)
    store._writer.execute("UPDATE verdicts SET answer = x'00' WHERE request_id = 'r0'")

    assert [row.request_id for row in store.stalls(StallQuery())] == ["r1"]
    assert store.verdict_of("r0") is None
    assert store.stats().unreadable == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("odd", [{"at_ns": 1 << 63}, {"gap_s": float("nan")}])
def test_what_can_never_be_kept_is_no_failure_of_the_store(store: SqliteStore, odd: dict):
    with pytest.raises(Unsupported, match="cannot be kept"):
        store.put_verdicts([a_row(**odd)], judged_ns=1)
    store.put_verdicts([a_row()], judged_ns=1)

    assert store.stats().verdicts == 1


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


def with_disk(monkeypatch: pytest.MonkeyPatch, *, total: int, free: int) -> None:
    usage = shutil.disk_usage("/")._replace(total=total, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def pruned(store: SqliteStore, policy: RetentionPolicy) -> int:
    """How many hops went, to the end."""
    count, is_done = 0, False
    while not is_done:
        step = store.prune(2, policy)
        count, is_done = count + step.hops, step.is_done
    store.tidy()
    return count


@pytest.mark.parametrize("free", [127 << 20, 1 << 20, 0])
def test_on_a_disk_that_others_have_filled_hops_are_refused_and_none_is_deleted(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, free: int
):
    store.write([numbered(i) for i in range(50)], received_ns=1)
    with monkeypatch.context() as patch:
        with_disk(patch, total=1 << 40, free=free)
        assert pruned(store, RetentionPolicy()) == 0
        assert store.stats().is_refusing
        with pytest.raises(StoreError, match=f"nearly full: {free} bytes free, {128 << 20} are kept free"):
            store.write([numbered(99)], received_ns=1)
        store.put_verdicts([a_row()], judged_ns=1)

    assert store.stats().hops == 50
    assert not store.stats().is_refusing
    assert sum(store.write([numbered(99)], received_ns=1)) == 1


def test_on_a_full_disk_what_is_due_goes_and_its_room_is_given_back(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    store.write([numbered(i, timeline=UNEVEN) for i in range(300)], received_ns=1)
    store.write([numbered(i, timeline=UNEVEN) for i in range(300, 400)], received_ns=1 + 10**12)
    store.tidy()
    before = store.stats().file_bytes
    with_disk(monkeypatch, total=1 << 40, free=0)
    week_ns = 7 * 86_400 * 10**9
    while not store.prune(week_ns + 10**12, RetentionPolicy()).is_done:
        pass
    store.tidy()

    assert store.stats().hops == 100
    assert store.stats().file_bytes < before / 2


@pytest.mark.parametrize("total", [20 << 20, 64 << 20, 127 << 20])
def test_a_small_volume_can_be_used(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, total: int):
    with_disk(monkeypatch, total=total, free=total // 2)

    assert sum(store.write([numbered(0)], received_ns=1)) == 1
    assert pruned(store, RetentionPolicy()) == 0
    assert not store.stats().is_refusing


def test_a_volume_of_its_own_is_never_filled(store: SqliteStore, monkeypatch: pytest.MonkeyPatch):
    store.write([numbered(i, timeline=UNEVEN) for i in range(400)], received_ns=1)
    store.tidy()
    with_disk(monkeypatch, total=store.stats().file_bytes, free=0)

    assert 40 < pruned(store, RetentionPolicy()) < 160
    assert store.stats().file_bytes <= 0.81 * shutil.disk_usage("/").total


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
