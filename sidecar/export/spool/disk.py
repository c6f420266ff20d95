"""The spool: append what was offered, hand out what only the disk has, delete what was taken.

Final records and those of open exchanges lie in files apart, because a full spool gives up whole files: the oldest
one of open records, whose exchanges will have all of it in their final records. When there is none, it takes nothing
more until something is delivered: what is older tells how the outage began. A file goes when its last record is done;
in one that stays, a byte marks each that is.

Nothing here raises because of the disk: a failure is counted, and said once for each kind.
"""

from __future__ import annotations

import errno
import heapq
import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Final

from sidecar.export.spool.file import SUFFIX_OF, SpoolFile
from sidecar.export.spool.folder import Folder, folders_in, locked, own_folder
from sidecar.export.spool.format import HEAD_BYTES, RECORD_BYTES, FormatError
from sidecar.export.spool.index import State
from sidecar.export.spool.turn import Condition, Place, Record, Turn, Turned

log = logging.getLogger(__name__)

FILE_BYTES: Final = 1 << 20
"""A file is read whole when it is adopted, and given up whole; only a single record may be larger."""
BREATH_S: Final = 0.001
"""Between two files that are adopted: reading one keeps the interpreter for some 2 ms, and streams may run by now."""
LATEST: Final = 1 << 62
"""Ours follow the highest number found; one beyond this was written by nobody's clock, and few could follow it."""
FILES: Final = 16
"""A small spool has at least so many files, so that giving one up costs no more than that part of it."""

GAVE_WAY: Final = "spool_segment_gave_way"
UNREADABLE: Final = "spool_unreadable"

_KINDS: Final = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EROFS: "read_only",
    errno.ENOENT: "vanished",
    errno.ESTALE: "vanished",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
}


class Spool:
    """The files of one process below a folder that several may share; nothing happens before the exporter runs.

    Everything but the constructor belongs to one thread.
    """

    def __init__(self, folder: PurePath, *, limit_bytes: int) -> None:
        """Keep at most limit_bytes on disk, what was adopted from dead processes included."""
        self._root = Path(folder)
        self._limit_bytes = limit_bytes
        self._file_bytes = min(FILE_BYTES, limit_bytes // FILES)
        self._own: Folder | None = None
        self._adopted: list[Folder] = []
        self._is_tidy = True
        self._files: dict[int, SpoolFile] = {}
        self._file_count = 0
        self._growing: dict[bool, int] = {}
        """Of each kind, the file that takes further records."""
        self._used_bytes = self._torn = 0
        self._failures: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._gone: dict[int, str] = {}
        """Why a file is there no more, until the places that it had are released."""

    def turn(self, turn: Turn) -> Turned:
        """Everything that the backlog wants, in the one order that keeps both in step."""
        self._lost = Counter()
        self._lose_vanished()
        self._forget(turn.done)
        self._release(turn.released)
        restored, highest = self._adopt() if turn.is_adopting else (0, 0)
        places = self._append(turn.fresh)
        loaded = self._load(turn.load_bytes) if turn.load_bytes else []
        self._tidy()
        condition = Condition(self._used_bytes, self._torn, dict(self._failures))
        return Turned(
            places=places, loaded=loaded, restored=restored, highest=highest, lost=self._lost, condition=condition
        )

    def close(self) -> None:
        """Bring to the disk itself what was written, and leave it to whoever comes next."""
        for key in self._growing.values():
            try:
                self._files[key].sync()
            except OSError as error:
                self._failed(error)
        for file in self._files.values():
            file.close()
        for folder in (*self._adopted, *([self._own] if self._own else [])):
            self._leave(folder)
        self._own, self._adopted = None, []

    # What dead processes left.

    def _adopt(self) -> tuple[int, int]:
        """(records, highest number) of the folders that nobody holds any more, and hold them."""
        restored = highest = 0
        try:
            self._own = self._own or own_folder(self._root)  # a spool that cannot be used says so at the start
            paths = list(folders_in(self._root))
        except OSError as error:
            self._failed(error)
            return 0, 0
        for path in paths:
            try:
                if (folder := locked(path)) is None:
                    continue
                self._adopted.append(folder)
                self._is_tidy = False
                found = sorted(each for each in path.iterdir() if each.suffix in SUFFIX_OF.values())
            except OSError as error:
                self._failed(error)
                continue
            for each in found:
                time.sleep(BREATH_S)
                if (file := self._taken_over(each)) is not None:
                    restored += file.index.waiting_count
                    highest = max(highest, *(number for number in file.index.numbers if number < LATEST), 0)
        return restored, highest

    def _taken_over(self, path: Path) -> SpoolFile | None:
        """None when no record waits in it (then it goes) or it cannot be read (then it stays, and so does our lock)."""
        try:
            file, torn_count = SpoolFile.take_over(path)
        except FormatError as error:
            self._count("unknown_format", str(error))
            return None
        except OSError as error:
            self._failed(error)
            return None
        self._torn += torn_count
        key = self._keep(file)
        if file.index.waiting_count:
            return file
        self._delete(key, UNREADABLE)
        return None

    def _tidy(self) -> None:
        """Close what no longer grows, and leave the folders of others that are empty now."""
        for key, file in self._files.items():
            if self._growing.get(file.index.is_open) != key:
                file.close()
        if self._is_tidy:
            return
        self._is_tidy = True
        used = {file.path.parent for file in self._files.values()}
        for folder in [each for each in self._adopted if each.path not in used and each.is_empty()]:
            self._adopted.remove(folder)
            self._leave(folder)

    def _leave(self, folder: Folder) -> None:
        try:
            folder.close()
        except OSError as error:
            self._failed(error)

    # What is written.

    def _append(self, fresh: Sequence[Record]) -> list[Place | None]:
        places: list[Place | None] = []
        for record in fresh:
            size_bytes = RECORD_BYTES + len(record.body)
            if HEAD_BYTES + size_bytes > self._limit_bytes:
                self._count("too_large", f"{size_bytes} bytes never fit into {self._limit_bytes}")
                places.append(None)
                continue
            if not self._make_room(size_bytes, is_open=record.is_open):
                self._count("full", f"{self._limit_bytes} bytes are used")
                break
            try:
                key = self._growing.get(record.is_open)
                key = self._begin(is_open=record.is_open) if key is None else key
                places.append(Place(key, self._files[key].append(record.number, record.body)))
            except OSError as error:
                self._failed(error)
                self._stop_growing(is_open=record.is_open)
                break
            self._used_bytes += size_bytes
        return places

    def _make_room(self, size_bytes: int, *, is_open: bool) -> bool:
        """Whether a record of that size can be written now: into the file that grows, or into a new one."""
        while True:
            key = self._growing.get(is_open)
            if key is not None and self._files[key].size_bytes + size_bytes > self._file_bytes:
                self._stop_growing(is_open=is_open)
                key = None
            if self._used_bytes + size_bytes + (HEAD_BYTES if key is None else 0) <= self._limit_bytes:
                return True
            ages = [(file.index.numbers[0], key) for key, file in self._files.items() if file.index.is_open]
            if not ages:
                return False
            self._delete(min(ages)[1], GAVE_WAY)

    def _begin(self, *, is_open: bool) -> int:
        """A new file. Raises OSError."""
        if self._own is not None and not self._own.path.exists():
            self._failed(_error(errno.ENOENT))
            self._leave(self._own)
            self._own = None
        self._own = self._own or own_folder(self._root)
        self._growing[is_open] = key = self._keep(SpoolFile.begin(self._own.path, self._file_count, is_open=is_open))
        return key

    def _stop_growing(self, *, is_open: bool) -> None:
        key = self._growing.pop(is_open, None)
        if key is not None and not len(self._files[key].index):
            self._delete(key, UNREADABLE)

    # What is done, and what comes back into memory.

    def _forget(self, places: Iterable[Place]) -> None:
        by_file: dict[int, list[int]] = defaultdict(list)
        for place in places:
            by_file[place.file].append(place.record)
        for key, records in by_file.items():
            if (file := self._files.get(key)) is None:
                continue
            for record in records:
                file.index.set_state(record, State.DONE)
            if not file.index.waiting_count:
                self._delete(key, UNREADABLE)
                continue
            try:
                file.mark_done(records)
            except OSError as error:  # the worst of it: the next process sends them again
                self._failed(error)

    def _release(self, places: Iterable[Place]) -> None:
        for place in places:
            if place.file in self._files:
                self._files[place.file].index.set_state(place.record, State.ON_DISK)
            else:
                self._lost[self._gone.get(place.file, UNREADABLE)] += 1
        self._gone.clear()

    def _load(self, limit_bytes: int) -> list[tuple[Place, Record]]:
        """The oldest that only the disk has: as many as limit_bytes holds, and at least one."""
        loaded: list[tuple[Place, Record]] = []
        room_bytes = limit_bytes
        heap = [(file.index.oldest_on_disk(), key) for key, file in self._files.items() if file.index.on_disk_count]
        heapq.heapify(heap)
        while heap:
            number, key = heapq.heappop(heap)
            file = self._files[key]
            record = file.index.first_on_disk()
            size_bytes = file.index.sizes[record] - RECORD_BYTES
            if loaded and size_bytes > room_bytes:
                break
            try:
                body = file.body(record)
            except OSError as error:
                self._failed(error)
                self._lose(key, UNREADABLE)
                continue
            if body is None:  # it was whole when it was written or adopted
                self._lost[UNREADABLE] += 1
                self._forget([Place(key, record)])
            else:
                file.index.set_state(record, State.IN_MEMORY)
                loaded.append((Place(key, record), Record(number, file.index.is_open, body)))
                room_bytes -= size_bytes
            if file.index.on_disk_count:
                heapq.heappush(heap, (file.index.oldest_on_disk(), key))
        return loaded

    # The files, and what goes wrong with them.

    def _keep(self, file: SpoolFile) -> int:
        self._file_count += 1
        self._files[self._file_count] = file
        self._used_bytes += file.size_bytes
        return self._file_count

    def _lose(self, key: int, reason: str) -> None:
        """The file is out of reach; what memory has of it stays there."""
        file = self._files.pop(key)
        file.close()
        if self._growing.get(file.index.is_open) == key:
            del self._growing[file.index.is_open]
        self._used_bytes -= file.size_bytes
        if file.index.on_disk_count:
            self._lost[reason] += file.index.on_disk_count
        self._gone[key] = reason
        self._is_tidy = False

    def _delete(self, key: int, reason: str) -> None:
        """The same, and the file goes; reason: why what only it has is lost, if it has any."""
        file = self._files[key]
        self._lose(key, reason)
        try:
            file.delete()
        except OSError as error:
            self._failed(error)

    def _lose_vanished(self) -> None:
        for key in [key for key in self._growing.values() if self._files[key].has_vanished()]:
            self._failed(_error(errno.ENOENT))
            self._lose(key, UNREADABLE)

    def _failed(self, error: OSError) -> None:
        self._count(_KINDS.get(error.errno or 0, "io_error"), error.strerror or type(error).__name__)

    def _count(self, kind: str, text: str) -> None:
        self._failures[kind] += 1
        if self._failures[kind] == 1:
            log.warning("spool fails", extra={"folder": str(self._root), "kind": kind, "error": text})


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
