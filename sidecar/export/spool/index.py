"""What is known of one file of the spool: where each record lies, and whether memory or only the disk has it."""

from __future__ import annotations

from array import array
from enum import IntEnum


class State(IntEnum):
    """IN_MEMORY: the backlog has it too. ON_DISK: only the file has it. DONE: nobody needs it any more."""

    IN_MEMORY = 0
    ON_DISK = 1
    DONE = 2


class FileIndex:
    """The records of one file in order, at some 17 bytes each.

    waiting_count: not done. on_disk_count: of those, on disk only.
    """

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.numbers, self.offsets, self.sizes = array("Q"), array("I"), array("I")
        self.waiting_count = self.on_disk_count = 0
        self._states = bytearray()
        self._cursor = 0
        """No record before it is on disk only."""

    def __len__(self) -> int:
        return len(self._states)

    def add(self, number: int, *, offset: int, size_bytes: int, state: State) -> int:
        """A further record; its index."""
        self.numbers.append(number)
        self.offsets.append(offset)
        self.sizes.append(size_bytes)
        self._states.append(State.DONE)
        self.set_state(len(self) - 1, state)
        return len(self) - 1

    def set_state(self, index: int, state: State) -> None:
        before = self._states[index]
        self.waiting_count += (state != State.DONE) - (before != State.DONE)
        self.on_disk_count += (state == State.ON_DISK) - (before == State.ON_DISK)
        self._states[index] = state
        if state == State.ON_DISK:
            self._cursor = min(self._cursor, index)

    def first_on_disk(self) -> int:
        """The index of the oldest record that is on disk only; there has to be one."""
        self._cursor = self._states.index(State.ON_DISK, self._cursor)
        return self._cursor

    def oldest_on_disk(self) -> int:
        """The number of that record."""
        return self.numbers[self.first_on_disk()]
