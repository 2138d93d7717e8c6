"""Bundles: refs and their objects in one file, which git itself reads as a remote."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from git_wf.core.names import Oid, RefName
from git_wf.errors import Conflict
from git_wf.store.repo import Repo

_TRIES = 5  # of a run that goes on meanwhile


def write_bundle(
    repo: Repo, path: Path, tips: Callable[[], Mapping[RefName, Oid]], without: Sequence[Oid]
) -> int:
    """Refs as they are at one moment, without the past of `without`. Gives the size in bytes.

    The file is there when it is whole, and not before.
    """
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        for _ in range(_TRIES):
            wanted = dict(tips())
            repo.git(
                "bundle", "create", "--quiet", str(made), *wanted, *(f"^{oid}" for oid in without)
            )
            repo.git("bundle", "verify", "--quiet", str(made))
            if _heads(repo, made) == wanted:
                size = made.stat().st_size
                made.replace(path)
                return size
    finally:
        made.unlink(missing_ok=True)
    raise Conflict("the run goes on faster than it can be written", hint="wait until it has ended")


def _heads(repo: Repo, path: Path) -> dict[RefName, Oid]:
    listed = os.fsdecode(repo.git("bundle", "list-heads", str(path)))
    pairs = (line.split(" ", 1) for line in listed.splitlines())
    return {RefName(ref): Oid(oid) for oid, ref in pairs}


def missing_commits(repo: Repo, path: Path) -> list[Oid]:
    """The commits that a bundle begins from and that are not here. Raises `GitFailed` where the
    file is no bundle."""
    repo.git("bundle", "list-heads", str(path))
    done = repo.run("bundle", "verify", str(path), ok=(0, 1, 128))
    if done.returncode == 0:
        return []
    words = [line.removeprefix("error: ").split() for line in os.fsdecode(done.stderr).splitlines()]
    size = len(repo.null_oid)
    return [Oid(word[0]) for word in words if word and len(word[0]) == size]
