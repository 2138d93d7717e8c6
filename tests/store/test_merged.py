from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_wf.core.names import Oid
from git_wf.store.merged import default_branches, merged_way
from git_wf.store.repo import Repo
from tests.conftest import git


@pytest.fixture
def branch(repo: Path) -> Path:
    """`main`, and `run` with two changes of one file, a new one, and empty commits between."""
    (repo / "f").write_text("1\n2\n3\n4\n5\n")
    git("add", "f", cwd=repo)
    git("commit", "-q", "-m", "f", cwd=repo)
    git("switch", "-q", "-c", "run", cwd=repo)
    for text in ("1\ntwo\n3\n4\n5\n", "1\ntwo\n3\nfour\n5\n"):
        git("commit", "-q", "--allow-empty", "-m", "nothing", cwd=repo)
        (repo / "f").write_text(text)
        git("commit", "-q", "-a", "-m", "change", cwd=repo)
    (repo / "new").write_text("new\n")
    git("add", "new", cwd=repo)
    git("commit", "-q", "-m", "new", cwd=repo)
    git("switch", "-q", "main", cwd=repo)
    return repo


def way(path: Path, tip: str = "run", target: str = "main") -> str | None:
    repo = Repo.find(path, os.environ)
    tips = [Oid(git("rev-parse", name, cwd=path)) for name in (tip, target)]
    return merged_way(repo, *tips)


def edit(path: Path, name: str, text: str, message: str = "edit") -> None:
    (path / name).write_text(text)
    git("add", name, cwd=path)
    git("commit", "-q", "-m", message, cwd=path)


def test_not_at_all(branch: Path) -> None:
    assert way(branch) is None
    edit(branch, "f", "1\ntwo\n3\n4\n5\n")
    assert way(branch) is None


def test_a_merge(branch: Path) -> None:
    git("merge", "-q", "--no-ff", "-m", "merge", "run", cwd=branch)
    edit(branch, "f", "other\n")
    assert way(branch) == "merged"


def test_picks(branch: Path) -> None:
    edit(branch, "other", "other\n")
    changes = git("rev-list", "--reverse", "main..run", "--", "f", "new", cwd=branch)
    git("cherry-pick", *changes.splitlines(), cwd=branch)
    edit(branch, "f", "other\n")
    assert way(branch) == "picked commit by commit"


def test_a_squash(branch: Path) -> None:
    """Also where that commit changes other files, and the files have changed since."""
    git("merge", "-q", "--squash", "run", cwd=branch)
    edit(branch, "beside", "beside\n", "squash")
    edit(branch, "f", "other\n")
    assert way(branch) == "squashed"


def test_the_same_files(branch: Path) -> None:
    edit(branch, "f", "1\ntwo\n3\nfour\n5\n")
    assert way(branch) is None
    edit(branch, "new", "new\n")
    assert way(branch) == "its files are the same there"


def test_binary_changes_are_told_apart(branch: Path) -> None:
    git("switch", "-q", "-c", "binary", cwd=branch)
    (branch / "b").write_bytes(b"\0ours")
    git("add", "b", cwd=branch)
    git("commit", "-q", "-m", "ours", cwd=branch)
    (branch / "b").write_bytes(b"\0ours, again")
    git("commit", "-q", "-am", "ours", cwd=branch)
    git("switch", "-q", "main", cwd=branch)
    (branch / "b").write_bytes(b"\0theirs")
    git("add", "b", cwd=branch)
    git("commit", "-q", "-m", "theirs", cwd=branch)
    assert way(branch, "binary") is None


def test_a_branch_that_changed_nothing(branch: Path) -> None:
    git("switch", "-q", "-c", "idle", cwd=branch)
    git("commit", "-q", "--allow-empty", "-m", "nothing", cwd=branch)
    git("switch", "-q", "main", cwd=branch)
    edit(branch, "f", "other\n")
    assert way(branch, "idle") == "it changed nothing"


def test_unrelated_histories(branch: Path) -> None:
    tree = git("rev-parse", "run^{tree}", cwd=branch)
    other = git("commit-tree", tree, "-m", "other", cwd=branch)
    assert way(branch, other) is None


def test_the_default_branch(branch: Path, tmp_path: Path) -> None:
    def names(path: Path) -> list[str]:
        return list(default_branches(Repo.find(path, os.environ)))

    assert names(branch) == ["main"]
    git("branch", "-m", "main", "develop", cwd=branch)
    assert names(branch) == []
    git("config", "init.defaultBranch", "develop", cwd=branch)
    assert names(branch) == []  # the environment says otherwise
    clone = tmp_path / "clone"
    git("clone", "-q", str(branch), str(clone), cwd=tmp_path)
    assert names(clone) == ["develop", "origin/develop"]
