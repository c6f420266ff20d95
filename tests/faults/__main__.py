"""Print the table of faults and tests: `python -m tests.faults`."""

from __future__ import annotations

from tests.faults import table

if __name__ == "__main__":
    print(table(), end="")
