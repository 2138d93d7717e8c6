from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_wf.core.checkpoint import BranchConflict
from git_wf.core.names import Oid
from git_wf.store.merge import Radar, merge_trees
from git_wf.store.packs import quarantine
from git_wf.store.repo import Repo
from tests.conftest import git


def work_tree(repo: Repo) -> Path:
    assert repo.work_tree is not None
    return repo.work_tree


def commit(repo: Repo, files: dict[str, str | None], base: str = "main") -> Oid:
    """A commit on top of `base` with these files; None removes one."""
    top = work_tree(repo)
    git("checkout", "-q", "--detach", base, cwd=top)
    for name, text in files.items():
        path = top / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git("add", "-A", cwd=top)
    git("commit", "-q", "--allow-empty", "-m", "change", cwd=top)
    made = Oid(git("rev-parse", "HEAD", cwd=top))
    git("checkout", "-q", "main", cwd=top)
    return made


def test_a_clean_merge(opened: Repo):
    one, two = commit(opened, {"one": "1\n"}), commit(opened, {"two": "2\n"})
    with quarantine(opened) as place:
        merged = merge_trees(opened, one, two, place.env)
        assert merged.conflicts == ()
        done = opened.git("ls-tree", "-r", "--name-only", merged.tree, env=place.env)
    assert done == b"README\none\nsrc/a\ntwo\n"
    assert opened.run("cat-file", "-e", merged.tree, ok=(0, 1)).returncode == 1


def test_conflicts_are_listed_by_file(opened: Repo):
    names = {"README": "", "odd\nname": "", "src/ä": ""}
    one = commit(opened, {name: "one\n" for name in names})
    two = commit(opened, {name: "two\n" for name in names})
    with quarantine(opened) as place:
        merged = merge_trees(opened, one, two, place.env)
    assert set(merged.conflicts) == set(names)


# The radar.


@pytest.fixture
def radar(opened: Repo) -> Radar:
    return Radar(opened, Oid(git("rev-parse", "main", cwd=work_tree(opened))))


def test_nothing_to_tell(opened: Repo, radar: Radar):
    assert radar.move("f@1/1-a", commit(opened, {"one": "1\n"}), opened) == ()
    assert radar.move("f@1/2-b", commit(opened, {"two": "2\n"}), opened) == ()


def test_a_conflict_is_told_once(opened: Repo, radar: Radar):
    one, two = commit(opened, {"README": "one\n"}), commit(opened, {"README": "two\n"})
    told = (BranchConflict(("f@1/1-a", "f@1/10-b"), ("README",)),)
    assert radar.move("f@1/10-b", two, opened) == ()
    assert radar.move("f@1/1-a", one, opened) == told
    again = commit(opened, {"more": "1\n"}, one)
    assert radar.move("f@1/1-a", again, opened) == ()
    worse = commit(opened, {"src/a": "2\n"}, two)
    assert radar.move("f@1/10-b", worse, opened) == ()


def test_a_branch_of_an_earlier_process_counts(opened: Repo, radar: Radar):
    radar.note("f@1/2-b", commit(opened, {"README": "two\n"}))
    (told,) = radar.move("f@1/1-a", commit(opened, {"README": "one\n"}), opened)
    assert told.files == ("README",)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"new": "file\n"}, {"new/below": "file\n"}),
        ({"src/a": None, "lib/a": "a\n"}, {"src/b": "b\n"}),
        ({"src/a": None}, {"src/a": "changed\n"}),
    ],
    ids=["a file where a directory is", "a directory that was renamed", "a file that is gone"],
)
def test_what_only_a_merge_can_tell(
    opened: Repo, radar: Radar, one: dict[str, str | None], two: dict[str, str | None]
):
    radar.move("f@1/1-a", commit(opened, one), opened)
    assert radar.move("f@1/2-b", commit(opened, two), opened)


def test_no_merge_driver_is_run(opened: Repo, tmp_path: Path):
    top, ran = work_tree(opened), tmp_path / "ran"
    git("config", "merge.mine.driver", f"touch {ran}; exit 0", cwd=top)
    (top / ".gitattributes").write_text("README merge=mine\nlist merge=union\n")
    git("add", "-A", cwd=top)
    git("commit", "-q", "-m", "attributes", cwd=top)
    one = commit(opened, {"README": "one\n", "list": "one\n"})
    two = commit(opened, {"README": "two\n", "list": "two\n"})
    radar = Radar(opened, Oid(git("rev-parse", "main", cwd=top)))
    radar.move("f@1/1-a", one, opened)
    (told,) = radar.move("f@1/2-b", two, opened)
    assert told.files == ("README",)  # and what needs no program, `union`, holds
    assert not ran.exists()
    assert os.listdir(opened.objects_dir / "wf-tmp") == []
