"""Merging commits in the object store, without a checkout; and seeing conflicts come.

`git merge-tree --write-tree` does it. Its objects go where the caller's environment says.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from git_wf.core.checkpoint import BranchConflict
from git_wf.core.names import Oid
from git_wf.store.packs import quarantine
from git_wf.store.repo import Repo, split_nul

# What would bring the user's merge drivers back into a test merge.
_CONFIGURING = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME")


@dataclass(frozen=True)
class TreeMerge:
    """A merged tree; with `conflicts` (paths) it holds conflict markers."""

    tree: Oid
    conflicts: tuple[str, ...]


def merge_trees(repo: Repo, ours: Oid, theirs: Oid, env: Mapping[str, str]) -> TreeMerge:
    """The three-way merge of two commits. Attributes are those of the worktree of `repo`."""
    done = repo.run(
        "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs,
        ok=(0, 1), env=env,
    )  # fmt: skip
    tree, *paths = split_nul(done.stdout)
    if done.returncode == 0:
        return TreeMerge(Oid(tree.strip()), ())
    return TreeMerge(Oid(tree.strip()), tuple(dict.fromkeys(paths)))


# The radar.


@dataclass(frozen=True)
class _Changes:
    """What a branch changed since the section began: paths, and directories that lost something."""

    paths: frozenset[str]
    thinned: frozenset[str]

    def may_meet(self, other: _Changes) -> bool:
        """Whether a merge could conflict: the same path, or one that is in the other's way.

        A directory that lost files may have been renamed, and then takes in what is new in it.
        """
        if self.paths & other.paths:
            return True
        return self._reaches(other) or other._reaches(self)

    def _reaches(self, other: _Changes) -> bool:
        mine = self.paths | self.thinned
        return any(above in mine for path in other.paths for above in _directories(path))


def _directories(path: str) -> Iterator[str]:
    """Those that a path is in, up to the top, which is the empty text."""
    while path:
        path = path.rpartition("/")[0]
        yield path


@dataclass
class Radar:
    """Test merges between the branches of one section, at every checkpoint of one of them.

    No merge driver that somebody configured is run: it is a program that may do anything.
    """

    repo: Repo
    base: Oid
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _heads: dict[str, tuple[Oid, _Changes]] = field(default_factory=dict)
    _told: set[BranchConflict] = field(default_factory=set)

    def note(self, branch: str, head: Oid) -> None:
        """A branch that stands at `head` already."""
        changes = self._changes(head)
        with self._turn:
            self._heads[branch] = (head, changes)

    def move(self, branch: str, head: Oid, at: Repo) -> tuple[BranchConflict, ...]:
        """`branch` came to `head`; the conflicts that are new. `at` has its worktree."""
        changes = self._changes(head)
        with self._turn:
            self._heads[branch] = (head, changes)
            siblings = [
                (name, other)
                for name, (other, theirs) in self._heads.items()
                if name != branch and changes.may_meet(theirs)
            ]
        found = list(self._conflicts(branch, head, siblings, at)) if siblings else []
        with self._turn:
            fresh = [conflict for conflict in found if conflict not in self._told]
            self._told.update(fresh)
        return tuple(fresh)

    def _conflicts(
        self, branch: str, head: Oid, siblings: Iterable[tuple[str, Oid]], at: Repo
    ) -> Iterator[BranchConflict]:
        with _plain_view(at) as (view, env):
            for name, other in siblings:
                merged = merge_trees(view, head, other, env)
                if merged.conflicts:
                    first, second = sorted((branch, name), key=_number)
                    yield BranchConflict((first, second), merged.conflicts)

    def _changes(self, head: Oid) -> _Changes:
        listed = self.repo.git(
            "diff-tree", "-r", "-z", "--name-status", "--no-renames", "--no-ext-diff",
            self.base, head,
        )  # fmt: skip
        words = list(split_nul(listed))
        pairs = list(zip(words[::2], words[1::2], strict=True))
        return _Changes(
            frozenset(path for _, path in pairs),
            frozenset(above for word, path in pairs if word == "D" for above in _directories(path)),
        )


def _number(branch: str) -> tuple[int, str]:
    """The order of siblings: `f@1/2-b` before `f@1/10-a`."""
    digits = branch.rpartition("/")[2].partition("-")[0]
    return int(digits), branch


@contextmanager
def _plain_view(repo: Repo) -> Iterator[tuple[Repo, Mapping[str, str]]]:
    """The objects and the worktree of `repo` with no configuration at all; nothing is kept."""
    with quarantine(repo) as place, tempfile.TemporaryDirectory(prefix="git-wf-") as scratch:
        git_dir = Path(scratch)
        for name in ("objects", "refs"):
            (git_dir / name).mkdir()
        (git_dir / "HEAD").write_text("ref: refs/heads/none\n")
        lines = ["[core]", "\trepositoryformatversion = 1", "\tbare = false"]
        lines += ["[extensions]", f"\tobjectformat = {repo.object_format}"]
        (git_dir / "config").write_text("\n".join(lines) + "\n")
        env = {key: value for key, value in repo.env.items() if key not in _CONFIGURING}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        yield Repo(git_dir, git_dir, repo.work_tree, repo.object_format, env), place.env
