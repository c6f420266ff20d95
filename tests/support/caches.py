"""Where what tests install and build is kept from one run to the next."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The user's, by the rules of freedesktop.org."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
