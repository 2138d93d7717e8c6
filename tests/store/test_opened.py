from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from git_wf.core.names import Oid
from git_wf.errors import GitFailed
from git_wf.store.opened import Checkout, read_checkout
from git_wf.store.repo import Repo
from tests.conftest import git


@pytest.fixture
def tree(opened: Repo) -> Path:
    assert opened.work_tree is not None
    return opened.work_tree


def test_clean(opened: Repo) -> None:
    head = Oid(opened.line("rev-parse", "HEAD"))
    found = read_checkout(opened)
    assert found == Checkout(head, "refs/heads/main", (), (), ())  # type: ignore[arg-type]
    assert found.is_clean


def test_changes_of_every_kind(opened: Repo, tree: Path) -> None:
    odd = os.fsdecode(b"odd \xff\nname")
    (tree / ".gitignore").write_text("*.log\n")
    (tree / odd).write_text("x")
    git("add", ".gitignore", odd, cwd=tree)
    (tree / "README").write_text("changed\n")
    (tree / "src" / "a").unlink()
    (tree / "src" / "new file").touch()
    (tree / "ignored.log").touch()
    git("checkout", "-q", "--detach", cwd=tree)
    before = (opened.git_dir / "index").read_bytes()
    found = read_checkout(opened)
    assert found.branch is None
    assert found.changed == (".gitignore", "README", odd, "src/a")
    assert found.untracked == ("src/new file",)
    assert not found.is_clean
    assert (opened.git_dir / "index").read_bytes() == before


def test_an_unfinished_merge(opened: Repo, tree: Path) -> None:
    git("switch", "-q", "-c", "other", cwd=tree)
    (tree / "README").write_text("theirs\n")
    git("commit", "-q", "-a", "-m", "theirs", cwd=tree)
    git("switch", "-q", "main", cwd=tree)
    (tree / "README").write_text("ours\n")
    git("commit", "-q", "-a", "-m", "ours", cwd=tree)
    git("merge", "-q", "other", cwd=tree, ok=(1,))
    found = read_checkout(opened)
    assert (found.changed, found.unmerged) == (("README",), ("README",))


def test_before_the_first_commit(tmp_path: Path) -> None:
    git("init", "-q", ".", cwd=tmp_path)
    found = read_checkout(Repo.find(tmp_path, os.environ))
    assert found == Checkout(None, "refs/heads/main", (), (), ())  # type: ignore[arg-type]


def test_what_a_hook_exports_does_not_lead_astray(
    opened: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", os.fspath(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", os.fspath(tmp_path / "other-index"))
    assert read_checkout(opened).is_clean


def test_git_that_fails(opened: Repo) -> None:
    (opened.git_dir / "index").write_bytes(b"broken")
    with pytest.raises(GitFailed) as caught:
        read_checkout(opened)
    assert str(caught.value).startswith("git status: ")
    assert caught.value.status == 128


def test_gitpython_is_imported_only_when_it_is_asked() -> None:
    code = "import sys, git_wf.store.opened; print('git' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True)
    assert told.stdout == b"False\n"
