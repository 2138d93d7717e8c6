"""How much of the disk things take."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from git_wf.core.names import Oid
from git_wf.store.repo import Repo

_BLOCK = 512  # bytes, in which `st_blocks` counts


def objects_size(repo: Repo, tips: Iterable[Oid], others: Iterable[Oid]) -> int:
    """Bytes on disk of the objects that `tips` reach and `others` do not.

    As they are stored: compressed, and perhaps as a difference to another object.
    """
    lines = [*dict.fromkeys(tips)]
    if not lines:
        return 0
    lines += [Oid(f"^{oid}") for oid in dict.fromkeys(others)]
    told = repo.git(
        "rev-list", "--objects", "--disk-usage", "--stdin", "--",
        stdin="".join(f"{line}\n" for line in lines).encode(),
    )  # fmt: skip
    return int(told)


def directory_size(path: Path) -> int:
    """Bytes on disk of all that is below `path`; what vanishes meanwhile, or is closed, is none."""
    size = 0
    with suppress(OSError):
        size += os.lstat(path).st_blocks * _BLOCK
        with os.scandir(path) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    size += directory_size(Path(entry.path))
                else:
                    with suppress(OSError):
                        size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    return size
