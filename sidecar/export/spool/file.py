"""One file of the spool: begin it or take it over, add a record, read one, mark one, delete it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar.export.spool.folder import FILE_MODE
from sidecar.export.spool.format import (
    DONE,
    HEAD_BYTES,
    RECORD_BYTES,
    FormatError,
    decode_body,
    encode_head,
    encode_record,
    scan,
)
from sidecar.export.spool.index import FileIndex, State

READ_BYTES: Final = 64 << 20
"""A file of that size was not written here, and is not read into memory."""
SUFFIX_OF: Final = {False: ".final", True: ".open"}


class SpoolFile:
    """A file and its index; the descriptor is opened when it is needed, and stays open until `close`."""

    def __init__(self, path: Path, index: FileIndex, *, size_bytes: int, descriptor: int | None = None) -> None:
        self.path = path
        self.index = index
        self.size_bytes = size_bytes
        self._descriptor = descriptor

    @classmethod
    def begin(cls, folder: Path, number: int, *, is_open: bool) -> SpoolFile:
        """A new file. Raises OSError."""
        path = folder / f"{number:08}{SUFFIX_OF[is_open]}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            _write(descriptor, encode_head(is_open=is_open), 0)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                path.unlink()
            raise
        return cls(path, FileIndex(is_open=is_open), size_bytes=HEAD_BYTES, descriptor=descriptor)

    @classmethod
    def take_over(cls, path: Path) -> tuple[SpoolFile, int]:
        """A file that another process left, and how many torn records are in it. Raises OSError, FormatError."""
        data = _read(path)
        found = scan(data)
        index = FileIndex(is_open=found.is_open)
        for entry in found.entries:
            state = State.DONE if entry.is_done else State.ON_DISK
            index.add(entry.number, offset=entry.offset, size_bytes=RECORD_BYTES + entry.size_bytes, state=state)
        if found.size_bytes < len(data):  # the torn end goes, so that nobody counts it again
            with suppress(OSError), open(path, "r+b", opener=_no_link) as file:
                file.truncate(found.size_bytes)
        return cls(path, index, size_bytes=found.size_bytes), found.torn_count

    def append(self, number: int, body: bytes) -> int:
        """Add a record that memory has too; its index. Raises OSError, and then the file is as it was."""
        data = encode_record(number, body)
        try:
            _write(self._opened(), data, self.size_bytes)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._opened(), self.size_bytes)
            raise
        index = self.index.add(number, offset=self.size_bytes, size_bytes=len(data), state=State.IN_MEMORY)
        self.size_bytes += len(data)
        return index

    def body(self, index: int) -> bytes | None:
        """None when it is no longer what was written. Raises OSError."""
        return decode_body(os.pread(self._opened(), self.index.sizes[index], self.index.offsets[index]))

    def mark_done(self, indexes: Iterable[int]) -> None:
        """So that no later process delivers them again. Raises OSError."""
        for index in indexes:
            os.pwrite(self._opened(), DONE, self.index.offsets[index])

    def has_vanished(self) -> bool:
        """Whether somebody has deleted it while we had it open: what is written then goes nowhere."""
        return self._descriptor is not None and not os.fstat(self._descriptor).st_nlink

    def sync(self) -> None:
        """Raises OSError."""
        os.fsync(self._opened())

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def delete(self) -> None:
        """Raises OSError."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
        return self._descriptor


def _read(path: Path) -> bytes:
    """Of what somebody else has put there, only what is a file of ours to read. Raises OSError, FormatError."""
    with open(path, "rb", opener=_no_link) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size >= READ_BYTES:
            raise FormatError("is no file, or larger than any file of a spool")
        return file.read(READ_BYTES)


def _no_link(path: str, flags: int) -> int:
    """A pipe would be waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    """Raises OSError also when only a part of it went."""
    if os.pwrite(descriptor, data, offset) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
