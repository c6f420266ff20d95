"""The spool against a real folder: what was not delivered is found again, in order, whatever happened in between."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.export.spool import disk as module
from sidecar.export.spool import file as file_module
from sidecar.export.spool.disk import Spool
from sidecar.export.spool.folder import LOCK
from sidecar.export.spool.format import HEAD_BYTES, RECORD_BYTES, encode_head, encode_record
from sidecar.export.spool.turn import Place, Record, Turn, Turned

LARGE = 1 << 30


def record(number: int, *, is_open: bool = False, size_bytes: int = 20) -> Record:
    return Record(number, is_open, b"%020d" % number + bytes(size_bytes - 20))


def append(spool: Spool, *records: Record) -> list[Place | None]:
    return list(spool.turn(Turn(fresh=records)).places)


def release(spool: Spool, places) -> None:
    spool.turn(Turn(released=places))


def load_all(spool: Spool, *, is_adopting: bool = False) -> tuple[list[tuple[Place, Record]], Turned]:
    first = turned = spool.turn(Turn(load_bytes=1, is_adopting=is_adopting))
    loaded = list(turned.loaded)
    while turned.loaded:
        turned = spool.turn(Turn(load_bytes=1))
        loaded += turned.loaded
    return loaded, first


def numbers(loaded) -> list[int]:
    return [record.number for _, record in loaded]


def kill(spool: Spool) -> None:
    """What kill -9 leaves of it: the files as they are, no lock."""
    for folder in (*spool._adopted, *([spool._own] if spool._own else [])):
        os.close(folder._lock)
    for file in spool._files.values():
        file.close()


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != LOCK)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def spool(root):
    made = Spool(root, limit_bytes=LARGE)
    yield made
    made.close()


# --------------------------------------------------------------------------------------------- one process


def test_nothing_is_touched_before_the_first_turn(root):
    Spool(root, limit_bytes=LARGE)
    assert not root.exists()


def test_what_memory_has_is_not_loaded_and_what_it_released_is(spool):
    places = append(spool, record(1), record(2), record(3))
    release(spool, places[1:])
    loaded, _ = load_all(spool)
    assert numbers(loaded) == [2, 3]
    assert loaded[0] == (places[1], record(2))
    assert load_all(spool)[0] == []


def test_final_and_open_records_come_back_in_one_order(spool):
    places = append(spool, *(record(number, is_open=number % 3 == 0) for number in range(1, 10)))
    release(spool, places)
    loaded, _ = load_all(spool)
    assert numbers(loaded) == list(range(1, 10))
    assert [each.is_open for _, each in loaded] == [number % 3 == 0 for number in range(1, 10)]


def test_a_load_takes_what_fits_and_at_least_one(spool):
    release(spool, append(spool, *map(record, range(1, 6))))
    assert numbers(spool.turn(Turn(load_bytes=45)).loaded) == [1, 2]
    assert numbers(spool.turn(Turn(load_bytes=1)).loaded) == [3]


def test_a_file_goes_with_its_last_record(root, spool):
    places = append(spool, record(1), record(2))
    spool.turn(Turn(done=places[:1]))
    assert len(files(root)) == 1
    turned = spool.turn(Turn(done=places[1:]))
    assert files(root) == []
    assert turned.condition.used_bytes == 0
    assert append(spool, record(3)) != [None]


def test_files_have_a_size_and_full_ones_are_closed(root, monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES", 200)
    spool = Spool(root, limit_bytes=LARGE)
    before = len(os.listdir("/proc/self/fd"))
    append(spool, *map(record, range(1, 41)))
    assert len(files(root)) > 5
    assert all(path.stat().st_size <= 200 for path in files(root))
    assert len(os.listdir("/proc/self/fd")) == before + 2
    spool.close()


def test_an_end_with_nothing_left_leaves_nothing(root, spool):
    spool.turn(Turn(done=append(spool, record(1))))
    spool.close()
    assert list(root.iterdir()) == []


# --------------------------------------------------------------------------------------- one after the other


def test_what_a_process_left_is_adopted_whether_it_was_closed_or_killed(root):
    for number, end in ((1, Spool.close), (2, kill)):
        spool = Spool(root, limit_bytes=LARGE)
        append(spool, record(number))
        end(spool)
    last = Spool(root, limit_bytes=LARGE)
    loaded, turned = load_all(last, is_adopting=True)
    assert numbers(loaded) == [1, 2]
    assert (turned.restored, turned.highest) == (2, 2)
    last.turn(Turn(done=[place for place, _ in loaded]))
    last.close()
    assert list(root.iterdir()) == []


def test_what_a_running_process_has_is_its_own(root, spool):
    append(spool, record(1))
    other = Spool(root, limit_bytes=LARGE)
    assert load_all(other, is_adopting=True)[0] == []
    kill(spool)
    assert numbers(load_all(other, is_adopting=True)[0]) == [1]
    assert other.turn(Turn(is_adopting=True)).restored == 0
    other.close()


def test_a_process_that_dies_while_it_delivers_for_another_leaves_the_rest(root):
    first = Spool(root, limit_bytes=LARGE)
    append(first, *map(record, range(1, 6)))
    kill(first)
    second = Spool(root, limit_bytes=LARGE)
    loaded, _ = load_all(second, is_adopting=True)
    second.turn(Turn(done=[place for place, _ in loaded[:3]]))
    kill(second)
    third = Spool(root, limit_bytes=LARGE)
    assert numbers(load_all(third, is_adopting=True)[0]) == [4, 5]
    third.close()


def test_a_file_that_cannot_be_understood_is_left_and_counted_once(root, spool, caplog):
    append(spool, record(1))
    kill(spool)
    (strange,) = files(root)
    strange.write_bytes(b"gapline-spool/9 final\nsomething of tomorrow")
    later = Spool(root, limit_bytes=LARGE)
    for _ in range(3):
        turned = later.turn(Turn(is_adopting=True, load_bytes=1))
    assert turned.condition.failures == {"unknown_format": 1}
    assert [(each.message, each.kind) for each in caplog.records] == [("spool fails", "unknown_format")]
    later.close()
    assert strange.read_bytes().endswith(b"of tomorrow")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.booleans(), min_size=1, max_size=6)),
        st.tuples(st.just("release"), st.integers(1, 6)),
        st.tuples(st.just("load"), st.integers(1, 100)),
        st.tuples(st.just("done"), st.lists(st.integers(0, 10), min_size=1, max_size=4)),
        st.tuples(st.just("crash"), st.integers(0, 300), st.booleans()),
        st.tuples(st.just("restart")),
    ),
    max_size=30,
)


@dataclass
class Model:
    """What should be where: numbers by their state, and the places of those that memory has."""

    in_memory: dict[int, Place] = field(default_factory=dict)
    on_disk: set[int] = field(default_factory=set)
    next_number: int = 1

    def restart(self, torn: set[int]) -> None:
        self.on_disk = (self.on_disk | set(self.in_memory)) - torn
        self.in_memory = {}


@given(STEPS, st.integers(60, 400))
def test_after_any_crash_what_is_left_is_what_was_not_done_but_for_the_torn(steps, file_bytes):
    root = Path(tempfile.mkdtemp())
    model = Model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FILE_BYTES", file_bytes)
        spool = Spool(root, limit_bytes=LARGE)
        try:
            for step in steps:
                match step:
                    case ("append", kinds):
                        fresh = [record(model.next_number + at, is_open=kind) for at, kind in enumerate(kinds)]
                        model.next_number += len(fresh)
                        for each, place in zip(fresh, append(spool, *fresh), strict=True):
                            model.in_memory[each.number] = place
                    case ("release", count):
                        released = list(model.in_memory)[:count]
                        release(spool, [model.in_memory.pop(number) for number in released])
                        model.on_disk |= set(released)
                    case ("load", load_bytes):
                        loaded = spool.turn(Turn(load_bytes=load_bytes)).loaded
                        assert numbers(loaded) == sorted(model.on_disk)[: len(loaded)]
                        assert bool(loaded) is bool(model.on_disk)
                        for place, each in loaded:
                            assert each.body == record(each.number).body
                            model.on_disk.remove(each.number)
                            model.in_memory[each.number] = place
                    case ("done", picks):
                        done = {list(model.in_memory)[pick % len(model.in_memory)] for pick in picks if model.in_memory}
                        spool.turn(Turn(done=[model.in_memory.pop(number) for number in sorted(done)]))
                    case ("crash", cut_bytes, is_open):
                        torn, pieces = tear(spool, cut_bytes, is_open=is_open)
                        kill(spool)
                        spool = Spool(root, limit_bytes=LARGE)
                        model.restart(torn)
                        turned = spool.turn(Turn(is_adopting=True))
                        assert (turned.restored, turned.condition.torn) == (len(model.on_disk), pieces)
                    case ("restart",):
                        spool.close()
                        spool = Spool(root, limit_bytes=LARGE)
                        model.restart(set())
                        assert spool.turn(Turn(is_adopting=True)).restored == len(model.on_disk)
            loaded, _ = load_all(spool)
            assert numbers(loaded) == sorted(model.on_disk)
        finally:
            kill(spool)
            shutil.rmtree(root)


def tear(spool: Spool, cut_bytes: int, *, is_open: bool) -> tuple[set[int], int]:
    """Cut so many bytes off the file that grows: the numbers of the records that lie there no more, and the pieces."""
    key = spool._growing.get(is_open)
    if key is None:
        return set(), 0
    file = spool._files[key]
    size_bytes = max(0, file.size_bytes - cut_bytes)
    os.truncate(file.path, size_bytes)
    index = file.index
    ends = [offset + size for offset, size in zip(index.offsets, index.sizes, strict=True)]
    torn = {number for number, end in zip(index.numbers, ends, strict=True) if end > size_bytes}
    return torn, int(size_bytes > HEAD_BYTES and size_bytes not in ends)


# ------------------------------------------------------------------------------------------------- bounded

SIZE = RECORD_BYTES + 20


def small(root: Path, *, room_for: float) -> Spool:
    """A spool for so many records, each in a file of its own."""
    return Spool(root, limit_bytes=int(room_for * (HEAD_BYTES + SIZE)))


def test_the_oldest_open_records_give_way_to_any_other(root):
    spool = small(root, room_for=3)
    places = append(spool, record(1, is_open=True), record(2), record(3, is_open=True))
    release(spool, places)
    turned = spool.turn(Turn(fresh=[record(4, is_open=True), record(5)]))
    assert len(turned.places) == 2
    assert turned.lost == {"spool_segment_gave_way": 2}
    release(spool, turned.places)
    assert numbers(load_all(spool)[0]) == [2, 4, 5]
    spool.close()


def test_final_records_are_never_given_up_and_the_rest_waits(root, caplog):
    spool = small(root, room_for=2)
    assert len(append(spool, *map(record, range(1, 6)))) == 2
    turned = spool.turn(Turn(fresh=[record(3)]))
    assert (turned.places, turned.lost) == ([], {})
    assert turned.condition.failures == {"full": 2}
    assert turned.condition.used_bytes <= 2 * (HEAD_BYTES + SIZE)
    assert [each.kind for each in caplog.records] == ["full"]
    spool.close()


def test_there_is_room_again_for_as_much_as_was_done(root):
    spool = small(root, room_for=2)
    places = append(spool, record(1), record(2))
    assert append(spool, record(3)) == []
    turned = spool.turn(Turn(done=places[:1], fresh=[record(3), record(4)]))
    assert len(turned.places) == 1
    spool.close()


def test_what_memory_has_loses_its_copy_without_being_lost(root):
    spool = small(root, room_for=1)
    places = append(spool, record(1, is_open=True))
    turned = spool.turn(Turn(fresh=[record(2)]))
    assert turned.lost == {}
    assert spool.turn(Turn(done=places)).lost == {}
    spool.close()


def test_what_gave_way_before_memory_released_it_is_lost_then(root):
    spool = small(root, room_for=1)
    first, second = append(spool, record(1, is_open=True), record(2))
    assert spool.turn(Turn(released=[first])).lost == {"spool_segment_gave_way": 1}
    assert spool.turn(Turn(released=[second])).lost == {}
    spool.close()


def test_a_record_larger_than_the_spool_is_passed_over(root):
    spool = small(root, room_for=2)
    first, large, second = append(spool, record(1), record(2, size_bytes=500), record(3))
    assert large is None
    assert None not in (first, second)
    spool.close()


# -------------------------------------------------------------------------------------------- disks that fail


@contextmanager
def failing(name: str, number: int, *, module=os):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, fail)
        yield


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, "disk_full"), (errno.EROFS, "read_only"), (errno.EACCES, "no_permission"), (errno.EIO, "io_error")],
)
def test_a_write_that_fails_is_counted_and_said_once_and_tried_again(spool, caplog, number, kind):
    placed = append(spool, record(1))
    with failing("pwrite", number):
        for _ in range(3):
            assert append(spool, record(2), record(3)) == []
    turned = spool.turn(Turn(fresh=[record(2), record(3)]))
    assert len(turned.places) == 2
    assert turned.condition.failures == {kind: 3}
    assert [(each.message, each.kind) for each in caplog.records] == [("spool fails", kind)]
    release(spool, [*placed, *turned.places])
    assert numbers(load_all(spool)[0]) == [1, 2, 3]


def test_a_disk_with_room_for_half_a_batch_takes_half_a_batch(spool, monkeypatch):
    real, written = os.pwrite, 0

    def pwrite(opened, data, offset):
        nonlocal written
        written += len(data)
        if written > HEAD_BYTES + 2 * SIZE + 5:
            return real(opened, data[:5], offset)
        return real(opened, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        turned = spool.turn(Turn(fresh=[*map(record, range(1, 5))]))
    assert len(turned.places) == 2
    assert turned.condition.failures == {"disk_full": 1}
    release(spool, [*turned.places, *append(spool, record(3))])
    assert numbers(load_all(spool)[0]) == [1, 2, 3]


def test_a_folder_that_cannot_be_made_is_told_at_the_start(tmp_path, caplog):
    (tmp_path / "file").touch()
    spool = Spool(tmp_path / "file", limit_bytes=LARGE)
    assert sum(spool.turn(Turn(is_adopting=True)).condition.failures.values()) == 1
    assert len(caplog.records) == 1
    assert append(spool, record(1)) == []
    (tmp_path / "file").unlink()
    assert len(append(spool, record(1))) == 1
    spool.close()


def test_a_folder_deleted_under_us_is_made_anew_and_what_it_had_is_counted(root, spool):
    release(spool, append(spool, record(1), record(2)))
    shutil.rmtree(root)
    turned = spool.turn(Turn(fresh=[record(3)]))
    assert len(turned.places) == 1
    assert turned.lost == {"spool_unreadable": 2}
    assert set(turned.condition.failures) == {"vanished"}
    release(spool, turned.places)
    assert numbers(load_all(spool)[0]) == [3]
    assert len(files(root)) == 1


def test_a_file_that_is_gone_is_counted_and_the_rest_goes_on(root, monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES", 1)
    spool = Spool(root, limit_bytes=LARGE)
    release(spool, append(spool, *map(record, range(1, 5))))
    files(root)[1].unlink()
    turned = spool.turn(Turn(load_bytes=1 << 20))
    assert numbers(turned.loaded) == [1, 3, 4]
    assert turned.lost == {"spool_unreadable": 1}
    spool.close()


def test_a_record_that_rotted_is_counted_and_the_rest_goes_on(root, spool):
    release(spool, append(spool, record(1), record(2), record(3)))
    (path,) = files(root)
    data = bytearray(path.read_bytes())
    data[HEAD_BYTES + 2 * SIZE - 1] ^= 1
    path.write_bytes(data)
    turned = spool.turn(Turn(load_bytes=1 << 20))
    assert numbers(turned.loaded) == [1, 3]
    assert turned.lost == {"spool_unreadable": 1}


def test_what_cannot_be_deleted_or_marked_is_only_sent_again(root, spool):
    places = append(spool, record(1), record(2))
    with failing("pwrite", errno.EROFS):
        assert spool.turn(Turn(done=places[:1])).condition.failures == {"read_only": 1}
    with failing("unlink", errno.EROFS, module=Path):
        assert spool.turn(Turn(done=places[1:])).condition.failures == {"read_only": 2}
    kill(spool)
    later = Spool(root, limit_bytes=LARGE)
    assert numbers(load_all(later, is_adopting=True)[0]) == [1, 2]
    later.close()


def test_files_that_cannot_be_read_at_the_start_stay_where_they_are(root, spool, monkeypatch):
    append(spool, record(1))
    kill(spool)
    later = Spool(root, limit_bytes=LARGE)
    with failing("_read", errno.EIO, module=file_module):
        assert later.turn(Turn(is_adopting=True)).condition.failures == {"io_error": 1}
    assert len(files(root)) == 1
    later.close()
    last = Spool(root, limit_bytes=LARGE)
    assert numbers(load_all(last, is_adopting=True)[0]) == [1]
    last.close()


def left_by_somebody(folder: Path) -> Path:
    place = folder / "sidecar-x"
    place.mkdir()
    return place


def test_a_pipe_in_a_neighbours_folder_is_not_waited_for(tmp_path):
    os.mkfifo(left_by_somebody(tmp_path) / "00000001.final")
    spool = Spool(tmp_path, limit_bytes=1 << 20)
    waiting = threading.Thread(target=lambda: spool.turn(Turn(is_adopting=True)), daemon=True)
    waiting.start()
    waiting.join(5)

    assert not waiting.is_alive()


def test_a_link_in_a_neighbours_folder_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_bytes(encode_head(is_open=False) + encode_record(1, b"x"))
    (left_by_somebody(tmp_path) / "00000001.final").symlink_to(tmp_path / "elsewhere")

    assert Spool(tmp_path, limit_bytes=1 << 20).turn(Turn(is_adopting=True)).restored == 0


def test_a_number_that_leaves_no_room_for_ours_is_not_followed(tmp_path):
    data = encode_head(is_open=False) + encode_record(2**64 - 1, b"x")
    (left_by_somebody(tmp_path) / "00000001.final").write_bytes(data)
    turned = Spool(tmp_path, limit_bytes=1 << 20).turn(Turn(is_adopting=True))

    assert (turned.restored, turned.highest) == (1, 0)
