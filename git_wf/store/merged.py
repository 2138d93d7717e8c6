"""Whether what a branch changed has come to another one, and by which way.

| way | recognised by |
|---|---|
| a merge | the tip is an ancestor |
| a rebase, picks | each commit that changes something has its twin there (`git cherry`) |
| a squash | one commit there changes the files of the branch just as the whole branch does |
| anything else | the files that the branch changed are there as it left them |
"""

from __future__ import annotations

import os

from git_wf.core.names import Oid
from git_wf.store.refs import read_ref
from git_wf.store.repo import Repo, split_nul

_MANY_PATHS = 1000  # more are not looked for in the other branch's past
_PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=none")


def merged_way(repo: Repo, tip: Oid, target: Oid) -> str | None:
    """How `tip` came to `target`, in words; None where it did not, as far as can be seen."""
    if repo.is_ancestor(tip, target):
        return "merged"
    base = repo.line("merge-base", target, tip, ok=(0, 1))
    if not base:
        return None
    paths = _changed_paths(repo, base, tip)
    if not paths:
        return "it changed nothing"
    if _is_picked(repo, tip, target):
        return "picked commit by commit"
    if len(paths) <= _MANY_PATHS and _is_squashed(repo, base, tip, target, paths):
        return "squashed"
    if len(paths) <= _MANY_PATHS and _is_same(repo, tip, target, paths):
        return "its files are the same there"
    return None


def _changed_paths(repo: Repo, base: str, tip: str) -> list[str]:
    return list(
        split_nul(repo.git("diff-tree", "-r", "-z", "--name-only", *_PLAIN_DIFF, base, tip))
    )


def _is_picked(repo: Repo, tip: str, target: str) -> bool:
    """Whether no commit of the branch that changes something lacks its twin."""
    left = repo.git(
        "log", "--right-only", "--cherry-pick", "--no-merges", "--format=", "--name-only", "-z",
        "--no-show-signature", *_PLAIN_DIFF, f"{target}...{tip}", "--",
    )  # fmt: skip
    return not left.strip(b"\0\n")


def _is_squashed(repo: Repo, base: str, tip: str, target: str, paths: list[str]) -> bool:
    numbers = repo.git("diff-tree", "-r", "--numstat", *_PLAIN_DIFF, base, tip)
    if any(line.startswith(b"-\t-\t") for line in numbers.splitlines()):
        return False  # the text of a patch does not tell two changes of a binary file apart
    whole = _patch_ids(repo, repo.git("diff-tree", "-r", "-p", *_PLAIN_DIFF, base, tip))
    theirs = repo.git(
        "--literal-pathspecs", "log", "-p", "--no-merges", "--format=commit %H",
        "--no-show-signature", "--no-color", *_PLAIN_DIFF, f"{base}..{target}", "--", *paths,
    )  # fmt: skip
    return bool(whole & _patch_ids(repo, theirs))


def _patch_ids(repo: Repo, patch: bytes) -> set[str]:
    told = os.fsdecode(repo.git("patch-id", "--stable", stdin=patch))
    return {line.split(" ")[0] for line in told.splitlines()}


def _is_same(repo: Repo, tip: str, target: str, paths: list[str]) -> bool:
    differing = set(_changed_paths(repo, tip, target))
    return differing.isdisjoint(paths)


def default_branches(repo: Repo) -> dict[str, Oid]:
    """The default branch, here and as the remote has it: short name → tip. Empty: none is known."""
    remote = repo.line("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD", ok=(0, 1))
    configured = repo.config_values().get("init.defaultbranch", [])
    names = [remote.removeprefix("refs/remotes/origin/")] if remote else []
    for name in (*names, *configured[-1:], "main", "master", "trunk"):
        found = {}
        for short, root in ((name, "refs/heads"), (f"origin/{name}", "refs/remotes")):
            tip = read_ref(repo, f"{root}/{short}")
            if tip is not None:
                found[short] = tip
        if found:
            return found
    return {}
