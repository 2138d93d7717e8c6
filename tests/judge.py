"""What is in a directory, byte for byte: whether a refusal or a dry run left a trace."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def contents(top: Path) -> dict[str, str]:
    """Path → kind, permissions and content of all that is below `top`; empty where it is not."""
    found = {}
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = Path(directory, name)
            status = path.lstat()
            told = oct(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                told += f" {os.readlink(path)}"
            elif stat.S_ISREG(status.st_mode):
                told += f" {hashlib.sha256(path.read_bytes()).hexdigest()}"
            found[os.path.relpath(path, top)] = told
    return found


@contextmanager
def untouched(*tops: Path) -> Iterator[None]:
    """What is in the directories, and in the state directory, is afterwards what it was."""
    judged = (*tops, Path(os.environ["XDG_STATE_HOME"]))
    before = [contents(top) for top in judged]
    yield
    assert [contents(top) for top in judged] == before
