"""The files of this checkout."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def tree_files() -> list[Path]:
    """All files that are committed, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:  # not a checkout: an unpacked archive
        found = [path for path in ROOT.rglob("*") if ".venv" not in path.parts]
    else:
        found = [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())
