"""Every case battery over a folder of case collections: `python -m tests.batteries FOLDER`."""

from __future__ import annotations

import sys

from tests.batteries import captures, http_cases, sse_cases

BATTERIES = (sse_cases, http_cases, captures)

if __name__ == "__main__":
    raise SystemExit(max(battery.main(sys.argv[1:]) for battery in BATTERIES))
