"""The user's checkout as a run finds it, asked through GitPython.

GitPython's own readers of objects, refs and the index know neither SHA-256 nor reftable nor every
index, and it costs 70 ms to import. So it is used where a run begins, and to run a command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from git_wf.core.names import Oid, RefName
from git_wf.errors import GitFailed
from git_wf.store.repo import LOCATING, MISLEADING, Repo


@dataclass(frozen=True)
class Checkout:
    """What `git status` tells of a worktree. Paths are from its top; file system texts."""

    head: Oid | None  # None before the first commit
    branch: RefName | None  # None where HEAD is detached
    changed: tuple[str, ...]  # tracked paths that differ from HEAD, in the index or on disk
    unmerged: tuple[str, ...]  # among `changed`
    untracked: tuple[str, ...]  # ignored ones left out

    @property
    def is_clean(self) -> bool:
        return not self.changed and not self.untracked


def read_checkout(repo: Repo) -> Checkout:
    """Raises `GitFailed`. The index is not refreshed: the checkout stays as it is."""
    import git  # 70 ms: only for who starts a run

    assert repo.work_tree is not None, repo
    asked = git.Git(os.fspath(repo.work_tree))
    ours = {"GIT_OPTIONAL_LOCKS": "0", "GIT_INDEX_FILE": os.fspath(repo.git_dir / "index")}
    asked.update_environment(**repo.environment(ours))
    command = repo.command(
        "status", "--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=all"
    )
    # It adds to the environment that we were started with, and takes nothing from it.
    unset = [word for name in (*LOCATING, *MISLEADING) if name not in ours for word in ("-u", name)]
    try:
        told: bytes = asked.execute(
            ["env", *unset, *command], stdout_as_string=False, strip_newline_in_stdout=False
        )
    except git.GitCommandError as err:
        status = err.status if isinstance(err.status, int) else 128
        raise GitFailed(["git", "status"], status, str(err.stderr)) from err
    return _checkout(os.fsdecode(told))


def _checkout(told: str) -> Checkout:
    headers: dict[str, str] = {}
    paths: dict[str, list[str]] = {"1": [], "u": [], "?": []}
    for mark, rest in _records(told):
        if mark == "#":
            key, _, value = rest.partition(" ")
            headers[key] = value
        else:
            # Before the path of a changed file are seven fields, of an unmerged one nine.
            paths[mark].append(rest.split(" ", {"1": 7, "u": 9, "?": 0}[mark])[-1])
    head, branch = headers["branch.oid"], headers["branch.head"]
    return Checkout(
        head=None if head == "(initial)" else Oid(head),
        branch=None if branch == "(detached)" else RefName(f"refs/heads/{branch}"),
        changed=tuple(sorted([*paths["1"], *paths["u"]])),
        unmerged=tuple(paths["u"]),
        untracked=tuple(paths["?"]),
    )


def _records(told: str) -> Iterator[tuple[str, str]]:
    for record in told.split("\0"):
        if record:
            mark, _, rest = record.partition(" ")
            yield mark, rest
