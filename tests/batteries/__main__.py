"""Every case battery over a folder of case collections: `python -m tests.batteries FOLDER`."""

from __future__ import annotations

import sys

from tests.batteries import sse_cases

if __name__ == "__main__":
    raise SystemExit(sse_cases.main(sys.argv[1:]))
