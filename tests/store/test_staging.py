from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from git_wf.errors import GitFailed
from git_wf.store.excludes import Excludes
from git_wf.store.objects import ObjectReader
from git_wf.store.packs import Pack, quarantine
from git_wf.store.repo import Repo
from git_wf.store.staging import (
    Change,
    Stager,
    Staging,
    changes,
    remove_index_lock,
    restore_tracked,
    snapshot_tree,
    stage,
    tells_changes,
)
from tests.conftest import git, make_repo


def opened(path: Path) -> Repo:
    return Repo.find(path, os.environ)


def write(path: Path, text: str = "text\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def staged(path: Path, excludes: Excludes | None = None, **more: str) -> Staging:
    return stage(opened(path), excludes or Excludes(), {}, **more)


def names(path: Path, tree: str) -> list[str]:
    return git("ls-tree", "-r", "-z", "--name-only", tree, cwd=path).split("\0")[:-1]


def commit_all(path: Path) -> str:
    git("add", "-A", cwd=path)
    git("commit", "-q", "-m", "more", cwd=path)
    return git("rev-parse", "HEAD", cwd=path)


def commit_tree(path: Path, tree: str) -> None:
    """What a checkpoint does: HEAD moves on, index and files stay."""
    commit = git("commit-tree", "-m", "checkpoint", "-p", "HEAD", tree, cwd=path)
    git("update-ref", "HEAD", commit, cwd=path)


def nested(path: Path, commit: bool = True) -> Path:
    path.mkdir(parents=True)
    git("init", "-q", ".", cwd=path)
    write(path / "inner")
    if commit:
        commit_all(path)
    return path


def show(path: Path, revision: str) -> str:
    return git("show", revision, cwd=path)


# Changes.


def test_changes_of_a_worktree(repo: Path):
    write(repo / "gone")
    commit_all(repo)
    write(repo / "README", "other\n")
    (repo / "gone").unlink()
    write(repo / "new\nline")
    write(repo / "staged")
    git("add", "staged", cwd=repo)
    before = (repo / ".git" / "index").read_bytes()
    found = {one.path: one.staged + one.unstaged for one in changes(opened(repo))}
    assert found == {"README": ".M", "gone": ".D", "new\nline": "??", "staged": "A."}
    assert (repo / ".git" / "index").read_bytes() == before
    assert changes(opened(repo))[-1] == Change("new\nline")


@pytest.mark.parametrize(
    "setting",
    ["status.showUntrackedFiles=no", "status.relativePaths=false", "status.branch=true",
     "status.renames=copies", "core.quotePath=true", "core.fsmonitor=/nowhere",
     "status.showStash=true", "status.short=true", "submodule.sub.ignore=all"],
)  # fmt: skip
def test_a_users_configuration_changes_nothing(repo: Path, setting: str):
    git("stash", "list", cwd=repo)
    key, value = setting.split("=")
    git("config", key, value, cwd=repo)
    git("mv", "README", "é", cwd=repo)
    write(repo / "d" / "new")
    told = [(one.path, one.staged + one.unstaged) for one in changes(opened(repo))]
    assert told == [("README", "D."), ("é", "A."), ("d/new", "??")]


# What goes into the tree.


def test_nothing_changed_starts_two_processes(repo: Path, tmp_path: Path):
    assert processes_of_stage(repo, tmp_path) == ["status", "write-tree"]


def test_changes_start_three_processes(repo: Path, tmp_path: Path):
    write(repo / "README", "other\n")
    write(repo / "new")
    write(repo / "node_modules" / "a")
    write(repo / "x.log")
    assert processes_of_stage(repo, tmp_path) == ["status", "update-index", "write-tree"]


def processes_of_stage(repo: Path, tmp_path: Path) -> list[str]:
    log = tmp_path / "trace"
    stage(opened(repo), Excludes(["*.log"]), {"GIT_TRACE2_EVENT": os.fspath(log)})
    return verbs_in(log)


def verbs_in(log: Path) -> list[str]:
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event["name"] for event in events if event["event"] == "cmd_name"]


@pytest.mark.parametrize("changes", [(), ("new",), ("new", "README", "d/new")])
def test_a_stager_starts_one_process_or_two(repo: Path, tmp_path: Path, changes: tuple[str, ...]):
    for name in changes:
        write(repo / name, "other\n")
    log = tmp_path / "trace"
    here = opened(repo)
    traced = replace(here, env={**here.env, "GIT_TRACE2_EVENT": os.fspath(log)})
    pack = Pack(here)
    with ObjectReader(here) as reader:
        tree = Stager(traced, Excludes(), reader).stage(pack).tree
        before = reader.read_commit("HEAD").tree
    assert verbs_in(log) == ["status", *(["update-index"] if changes else [])]
    assert (tree in pack) == (tree != before) == bool(changes)
    pack.discard()
    git("reset", "-q", cwd=repo)
    assert staged(repo).tree == tree


def test_a_directory_that_tells_when_it_changes(tmp_path: Path):
    assert tells_changes(tmp_path)
    assert not list(tmp_path.iterdir())
    assert not tells_changes(tmp_path / "nowhere")


def test_the_user_may_forbid_a_split_index(repo: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("git_wf.store.staging._BIG", 0)
    git("config", "core.splitIndex", "false", cwd=repo)
    write(repo / "new")
    here, pack = opened(repo), Pack(opened(repo))
    with ObjectReader(here) as reader:
        Stager(here, Excludes(), reader).stage(pack)
    pack.discard()
    assert not list((repo / ".git").glob("sharedindex.*"))


def test_objects_go_where_env_says(repo: Path, fsck):
    write(repo / "new")
    with quarantine(opened(repo)) as place:
        tree = stage(opened(repo), Excludes(), place.env).tree
        assert any(place.path.rglob(tree[2:]))
    git("cat-file", "-e", tree, cwd=repo, ok=(1, 128))


def test_objects_of_a_lost_quarantine_are_written_again(repo: Path, fsck):
    write(repo / ".gitignore", "ignored\n")
    commit_all(repo)
    write(repo / "new")
    write(repo / "ignored")
    git("rm", "-q", "--cached", "README", cwd=repo)
    (repo / "README").unlink()
    git("add", "-f", "ignored", cwd=repo)
    with quarantine(opened(repo)) as place:
        env = {**os.environ, **place.env}
        write(repo / "ignored", "once more\n")
        subprocess.run(["git", "add", "-f", "ignored"], cwd=repo, env=env, check=True)
        first = stage(opened(repo), Excludes(), place.env)
    assert staged(repo).tree == first.tree
    assert names(repo, first.tree) == [".gitignore", "ignored", "new"]
    commit_tree(repo, first.tree)
    fsck(repo)


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut"])
def test_a_lost_index_is_made_again_from_head(repo: Path, damage: str):
    write(repo / ".gitignore", "*.ign\n")
    write(repo / "tracked.ign")
    git("add", "-f", "-A", cwd=repo)
    commit_all(repo)
    write(repo / "new")
    expected = staged(repo).tree
    index = repo / ".git" / "index"
    if damage == "missing":
        index.unlink()
    else:
        data = index.read_bytes()
        index.write_bytes({"empty": b"", "garbage": b"x" * 99, "cut": data[:-30]}[damage])
    snapshot = snapshot_tree(opened(repo), {})
    assert (snapshot, staged(repo).tree) == (expected, expected)
    assert "tracked.ign" in names(repo, expected)


def test_changes_with_a_broken_index(repo: Path):
    write(repo / "new")
    (repo / ".git" / "index").write_bytes(b"garbage")
    assert [one.path for one in changes(opened(repo))] == ["new"]
    assert (repo / ".git" / "index").read_bytes() == b"garbage"


def test_a_worktree_without_a_commit(tmp_path: Path):
    path = tmp_path / "unborn"
    path.mkdir()
    git("init", "-q", ".", cwd=path)
    write(path / "a")
    assert names(path, snapshot_tree(opened(path), {})) == ["a"]
    result = staged(path)
    assert (names(path, result.tree), result.head, result.branch) == (
        ["a"], None, "refs/heads/main",
    )  # fmt: skip


def test_where_head_is(repo: Path):
    head = git("rev-parse", "HEAD", cwd=repo)
    assert (staged(repo).head, staged(repo).branch) == (head, "refs/heads/main")
    git("switch", "-q", "--detach", cwd=repo)
    assert (staged(repo).head, staged(repo).branch) == (head, None)


def test_a_lock_left_behind(repo: Path):
    write(repo / "new")
    (repo / ".git" / "index.lock").touch()
    with pytest.raises(GitFailed):
        staged(repo)
    remove_index_lock(opened(repo))
    assert staged(repo).changed == ["new"]
    remove_index_lock(opened(repo))


def test_line_endings_that_git_would_refuse(repo: Path):
    git("config", "core.autocrlf", "true", cwd=repo)
    git("config", "core.safecrlf", "true", cwd=repo)
    (repo / "mixed").write_bytes(b"a\r\nb\n")
    tree = staged(repo).tree
    assert git("cat-file", "-p", f"{tree}:mixed", cwd=repo) == "a\nb"


# Excludes.


def test_globs_hold_for_tracked_and_untracked_files(repo: Path):
    write(repo / "kept.log")
    write(repo / "gone.log")
    commit_all(repo)
    before = git("rev-parse", "HEAD^{tree}", cwd=repo)
    write(repo / "kept.log", "changed\n")
    (repo / "gone.log").unlink()
    write(repo / "d" / "new.log")
    result = staged(repo, Excludes(["*.log"]))
    assert result == Staging(
        before, [], ["gone.log", "kept.log"], [], [], [],
        git("rev-parse", "HEAD", cwd=repo), "refs/heads/main",
    )  # fmt: skip


def test_what_a_node_staged_is_put_back(repo: Path):
    for name in ("changed.log", "gone.log", "mode.log"):
        write(repo / name)
    commit_all(repo)
    before = git("rev-parse", "HEAD^{tree}", cwd=repo)
    write(repo / "changed.log", "changed\n")
    write(repo / "new.log")
    write(repo / "node_modules" / "a" / "b")
    (repo / "mode.log").chmod(0o755)
    git("rm", "-q", "gone.log", cwd=repo)
    git("add", "-A", cwd=repo)
    result = staged(repo, Excludes(["*.log"]))
    assert (result.tree, result.changed) == (before, [])
    assert result.held_back == ["changed.log", "gone.log", "mode.log"]
    assert result.left_out_builtin == ["node_modules/"]
    assert git("diff", "--cached", "--name-only", cwd=repo) == ""
    assert (repo / "changed.log").read_text() == "changed\n"
    assert (repo / "node_modules" / "a" / "b").exists()


def test_an_excluded_conflict_is_put_back(repo: Path):
    write(repo / "both.log", "base\n")
    write(repo / "both", "base\n")
    commit_all(repo)
    git("switch", "-qc", "other", cwd=repo)
    write(repo / "both.log", "theirs\n")
    write(repo / "both", "theirs\n")
    commit_all(repo)
    git("switch", "-q", "main", cwd=repo)
    write(repo / "both.log", "ours\n")
    write(repo / "both", "ours\n")
    commit_all(repo)
    git("merge", "-q", "other", cwd=repo, ok=(1,))
    result = staged(repo, Excludes(["*.log"]))
    assert (result.changed, result.held_back) == (["both"], ["both.log"])
    assert show(repo, f"{result.tree}:both.log") == "ours"
    assert "<<<<<<<" in show(repo, f"{result.tree}:both")


def test_builtin_directories_hold_for_untracked_files_only(repo: Path):
    write(repo / "node_modules" / "tracked")
    commit_all(repo)
    write(repo / "node_modules" / "tracked", "changed\n")
    write(repo / "node_modules" / "new")
    write(repo / "web" / ".next" / "deep" / "new")
    write(repo / "web" / "page")
    excludes = Excludes()
    result = staged(repo, excludes)
    assert result.changed == ["node_modules/tracked", "web/page"]
    assert result.left_out_builtin == ["node_modules/", "web/.next/"]
    assert result.held_back == []
    # Once met they are passed over; the tracked file is still looked at.
    commit_tree(repo, result.tree)
    write(repo / "node_modules" / "tracked", "again\n")
    write(repo / "__pycache__" / "new")
    again = staged(repo, excludes)
    assert again.changed == ["node_modules/tracked"]
    assert again.left_out_builtin == ["__pycache__/"]
    off = staged(repo, Excludes(builtin=False))
    assert "web/.next/deep/new" in off.changed


def test_the_users_own_ignores_stay_in_force(repo: Path, tmp_path: Path):
    for count, place in enumerate(("core.excludesFile", "home")):
        if place == "home":
            git("config", "--unset", "core.excludesFile", cwd=repo)
            write(Path(os.environ["XDG_CONFIG_HOME"]) / "git" / "ignore", "*.mine\n")
        else:
            git("config", place, os.fspath(write(tmp_path / "a b", "*.mine\n")), cwd=repo)
        excludes = Excludes()
        write(repo / f"x{count}.mine")
        write(repo / ".venv" / "x")
        assert staged(repo, excludes).left_out_builtin == [".venv/"]
        write(repo / f"new{count}")
        result = staged(repo, excludes)
        assert result.left_out_builtin == []
        assert [name for name in result.changed if name.endswith(".mine")] == []


def test_ignored_builtin_directories_are_nothing_to_tell(repo: Path):
    write(repo / ".gitignore", "node_modules/\n")
    write(repo / "node_modules" / "a")
    assert staged(repo).left_out_builtin == []


# Repositories in the worktree.


def test_a_nested_repository_is_stored_as_plain_files(repo: Path, fsck):
    nested(repo / "a" / "clone")
    nested(repo / "a" / "clone" / "deeper", commit=False)
    nested(repo / "unborn", commit=False)
    write(repo / ".gitignore", "*.o\n")
    write(repo / "unborn" / ".gitignore", "*.tmp\n")
    for name in ("x.o", "x.tmp", "x.log", "node_modules/y"):
        write(repo / "unborn" / name)
    result = staged(repo, Excludes(["*.log"]))
    assert names(repo, result.tree) == [
        ".gitignore", "README", "a/clone/deeper/inner", "a/clone/inner", "unborn/.gitignore",
        "unborn/inner",
    ]  # fmt: skip
    assert result.nested == ["a/clone/", "a/clone/deeper/", "unborn/"]
    assert result.left_out_builtin == ["unborn/node_modules/"]
    assert result.unreadable == []
    fsck(repo)


def test_a_stored_nested_repository_is_followed(repo: Path):
    inner = nested(repo / "clone")
    excludes = Excludes()
    commit_tree(repo, staged(repo, excludes).tree)
    write(inner / "new" / "file")
    (inner / "inner").unlink()
    commit_all(inner)
    result = staged(repo, excludes)
    assert names(repo, result.tree) == ["README", "clone/new/file"]
    commit_tree(repo, result.tree)
    shutil.rmtree(inner / "new")
    assert names(repo, staged(repo, excludes).tree) == ["README"]


def test_an_excluded_nested_repository_is_left_out(repo: Path):
    nested(repo / "vendor" / "clone")
    nested(repo / ".cache" / "clone")
    result = staged(repo, Excludes(["vendor/"]))
    assert (names(repo, result.tree), result.nested) == (["README"], [])
    assert result.left_out_builtin == [".cache/"]


def test_a_gitlink_that_a_node_staged_becomes_plain_files(repo: Path):
    nested(repo / "clone")
    git("add", "-A", cwd=repo)
    result = staged(repo)
    assert (names(repo, result.tree), result.nested) == (["README", "clone/inner"], ["clone/"])


def test_a_gitlink_that_a_node_committed_becomes_plain_files(repo: Path):
    since = git("rev-parse", "HEAD", cwd=repo)
    inner = nested(repo / "clone")
    commit_all(repo)
    write(inner / "more")
    commit_all(inner)
    result = staged(repo, since=since)
    assert names(repo, result.tree) == ["README", "clone/inner", "clone/more"]
    assert result.nested == ["clone/"]


def test_a_file_that_became_a_repository(repo: Path):
    (repo / "README").unlink()
    nested(repo / "README")
    result = staged(repo)
    assert (names(repo, result.tree), result.nested) == (["README/inner"], ["README/"])


@pytest.fixture
def outer(repo: Path, tmp_path: Path) -> Path:
    """A repository with a submodule `sub`."""
    git("config", "protocol.file.allow", "always", cwd=repo)
    source = make_repo(tmp_path / "source")
    add_submodule(repo, source, "sub")
    git("commit", "-q", "-m", "submodule", cwd=repo)
    return repo


def add_submodule(repo: Path, source: Path, name: str) -> None:
    git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        os.fspath(source), name, cwd=repo,
    )  # fmt: skip


def test_a_submodule_stays_a_gitlink(outer: Path, tmp_path: Path):
    git("config", "-f", ".gitmodules", "submodule.sub.ignore", "all", cwd=outer)
    write(outer / "sub" / "dirty")
    assert staged(outer).changed == [".gitmodules"]
    moved = commit_all(outer / "sub")
    add_submodule(outer, tmp_path / "source", "second")
    result = staged(outer)
    assert (result.changed, result.nested) == ([".gitmodules", "second", "sub"], [])
    assert git("rev-parse", f"{result.tree}:sub", cwd=outer) == moved
    git("rm", "-q", "--cached", "sub", cwd=outer)
    assert staged(outer).tree == result.tree
    git("cat-file", "-e", f"{result.tree}:second", cwd=outer, ok=(0, 1))


def test_an_excluded_submodule_is_held_back(outer: Path):
    write(outer / "sub" / "new")
    commit_all(outer / "sub")
    before = git("rev-parse", "HEAD^{tree}", cwd=outer)
    result = staged(outer, Excludes(["sub/"]))
    assert (result.tree, result.held_back) == (before, ["sub"])


# What cannot be stored.


def test_fifos_and_sockets_are_skipped(repo: Path):
    os.mkfifo(repo / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(repo)
        listener.bind("socket")
    write(repo / "new")
    assert staged(repo).changed == ["new"]
    (repo / "README").unlink()
    os.mkfifo(repo / "README")
    result = staged(repo)
    assert (names(repo, result.tree), result.unreadable) == (["new"], [])


def test_unreadable_files_are_left_out_and_told(tmp_path: Path):
    tmp_path.chmod(0o755)
    path = make_repo(tmp_path / "repo")
    for name in ("changed", "sub/file"):
        write(path / name)
    commit_all(path)
    write(path / "changed", "secret\n").chmod(0)
    write(path / "new").chmod(0)
    write(path / "fine")
    (path / "sub").chmod(0)
    result = as_nobody(path)
    (path / "sub").chmod(0o755)
    assert names(path, result.tree) == ["README", "changed", "fine", "sub/file"]
    assert show(path, f"{result.tree}:changed") == "text"
    assert (result.changed, result.unreadable) == (["fine"], ["changed", "new", "sub/"])


def as_nobody(path: Path) -> Staging:
    """Root may read anything, so it becomes somebody else for a moment."""
    if os.geteuid() != 0:
        return staged(path)
    nobody = 65534
    for parent in (path, *path.parents):
        if parent == Path("/tmp"):
            break
        parent.chmod(parent.stat().st_mode | 0o711) if parent != path else None
    subprocess.run(["chown", "-R", str(nobody), os.fspath(path)], check=True)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}  # the file is root's alone
    os.seteuid(nobody)
    try:
        return stage(Repo.find(path, env), Excludes(), {})
    finally:
        os.seteuid(0)
        subprocess.run(["chown", "-R", "0", os.fspath(path)], check=True)


def test_names_that_git_forbids_are_told(repo: Path):
    write(repo / ".Git" / "x")
    write(repo / "git~1")
    write(repo / "fine")
    result = staged(repo)
    assert (result.changed, result.unreadable) == (["fine"], [".Git/x", "git~1"])


def test_files_that_vanish_meanwhile_are_no_error(repo: Path):
    (repo / ".gitattributes").write_text("*.slow filter=slow\n")
    git("config", "filter.slow.clean", "rm -rf vanishing changing; mkdir changing; cat", cwd=repo)
    git("config", "filter.slow.required", "true", cwd=repo)
    write(repo / "README", "changed\n")
    write(repo / "a.slow")
    write(repo / "vanishing")
    write(repo / "changing")
    assert names(repo, staged(repo).tree) == [".gitattributes", "README", "a.slow"]


def test_a_filter_that_fails_is_an_error(repo: Path):
    (repo / ".gitattributes").write_text("*.bad filter=bad\n")
    git("config", "filter.bad.clean", "false", cwd=repo)
    git("config", "filter.bad.required", "true", cwd=repo)
    write(repo / "a.bad")
    with pytest.raises(GitFailed):
        staged(repo)


# Whole states.


def test_a_snapshot_leaves_index_and_excludes_alone(repo: Path):
    write(repo / ".gitignore", "ignored\n")
    write(repo / "ignored")
    write(repo / "node_modules" / "a")
    nested(repo / "clone")
    git("add", "-N", "node_modules/a", cwd=repo)
    before = (repo / ".git" / "index").read_bytes()
    tree = snapshot_tree(opened(repo), {})
    assert names(repo, tree) == [".gitignore", "README", "clone/inner", "node_modules/a"]
    assert (repo / ".git" / "index").read_bytes() == before


def test_a_restored_worktree_is_what_head_is(repo: Path, fsck):
    write(repo / ".gitignore", "*.ign\n")
    write(repo / "d" / "a")
    write(repo / "f")
    write(repo / "mode")
    write(repo / "x.log")
    write(repo / "unstaged")
    (repo / "link").symlink_to("f")
    commit_all(repo)
    shutil.rmtree(repo / "d")
    (repo / "d").symlink_to("f")
    (repo / "f").unlink()
    write(repo / "f" / "deep" / "new")
    (repo / "mode").chmod(0o755)
    (repo / "link").unlink()
    write(repo / "link")
    write(repo / "x.log", "changed\n")
    write(repo / "new.log")
    write(repo / "kept.ign")
    write(repo / "e" / "kept.ign")
    write(repo / "e" / "new\udcff")
    write(repo / "venv" / "x")
    write(repo / "staged")
    write(repo / "meant")
    git("add", "-A", "staged", "x.log", "d", cwd=repo)
    git("add", "-N", "meant", cwd=repo)
    git("rm", "-q", "--cached", "unstaged", cwd=repo)
    excludes = Excludes(["*.log"])
    assert restore_tracked(opened(repo), excludes) == []
    assert git("status", "--porcelain", "-uall", cwd=repo) == (" M x.log\n?? new.log\n?? venv/x")
    left = sorted(os.fspath(one.relative_to(repo)) for one in repo.rglob("*.ign"))
    assert left == ["e/kept.ign", "kept.ign"]
    assert (repo / "f").read_text() == "text\n"
    assert staged(repo, excludes).tree == git("rev-parse", "HEAD^{tree}", cwd=repo)
    fsck(repo)


def test_restoring_takes_of_a_nested_repository_what_is_rescued(repo: Path):
    inner = nested(repo / "clone")
    write(repo / ".gitignore", "*.o\n")
    commit_all(write(inner / "x.o").parent)
    git("add", ".gitignore", cwd=repo)
    git("commit", "-q", "-m", "ignores", cwd=repo)
    nested(repo / "other")
    git("add", "other", cwd=repo)
    assert restore_tracked(opened(repo), Excludes()) == []
    assert sorted(os.listdir(inner)) == [".git", "x.o"]
    assert os.listdir(repo / "other") == [".git"]
    assert staged(repo).tree == git("rev-parse", "HEAD^{tree}", cwd=repo)


def test_restoring_after_a_conflict_and_with_a_broken_index(repo: Path):
    git("switch", "-qc", "other", cwd=repo)
    write(repo / "README", "theirs\n")
    write(repo / "added", "theirs\n")
    commit_all(repo)
    git("switch", "-q", "main", cwd=repo)
    write(repo / "README", "ours\n")
    write(repo / "added", "ours\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "ours", cwd=repo)
    git("rm", "-q", "added", cwd=repo)
    git("commit", "-q", "-m", "ours without", cwd=repo)
    git("merge", "-q", "other", cwd=repo, ok=(1,))
    assert restore_tracked(opened(repo), Excludes()) == []
    assert git("status", "--porcelain", cwd=repo) == ""
    write(repo / "README", "changed\n")
    (repo / ".git" / "index").write_bytes(b"")
    assert restore_tracked(opened(repo), Excludes()) == []
    assert git("status", "--porcelain", cwd=repo) == ""


def test_restoring_submodules(outer: Path, tmp_path: Path):
    write(outer / "sub" / "new")
    commit_all(outer / "sub")
    assert restore_tracked(opened(outer), Excludes()) == []
    assert git("status", "--porcelain", cwd=outer) == ""
    write(outer / "sub" / "README", "local\n")
    commit_all(outer / "sub")
    write(outer / "sub" / "README", "dirty\n")
    assert restore_tracked(opened(outer), Excludes()) == ["sub"]
    assert (outer / "sub" / "README").read_text() == "dirty\n"
    git("checkout", "-q", "README", cwd=outer / "sub")
    add_submodule(outer, tmp_path / "source", "second")
    assert restore_tracked(opened(outer), Excludes()) == ["second"]
    shutil.rmtree(outer / "sub")
    write(outer / "sub")
    assert restore_tracked(opened(outer), Excludes())[-1:] != ["sub"]
    assert os.listdir(outer / "sub") == []


def test_what_cannot_be_removed_is_told(monkeypatch: pytest.MonkeyPatch):
    """A folder without the right to write in it; root has every right, so it becomes nobody."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        for key in ("HOME", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(key, place)
        path = make_repo(Path(place) / "repo")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # the file is root's alone
        write(path / "shut" / "new")
        is_root = os.geteuid() == 0
        if is_root:
            for found in (path, *path.rglob("*")):
                os.chown(found, 65534, 65534, follow_symlinks=False)
        os.chmod(path / "shut", 0o555)
        if is_root:
            os.seteuid(65534)
        try:
            told = restore_tracked(opened(path), Excludes())
        finally:
            if is_root:
                os.seteuid(0)
            os.chmod(path / "shut", 0o755)
        assert told == ["shut/new"]


def test_a_worn_split_index_is_renewed(repo: Path, monkeypatch: pytest.MonkeyPatch):
    """Git counts what is new in it, not what replaced something.

    The files are old: git writes those of the second of the index anew, until that is over.
    """
    monkeypatch.setattr("git_wf.store.staging._BIG", 0)
    for number in range(40):
        write(repo / f"f{number}")
        os.utime(repo / f"f{number}", (1e9, 1e9))
    commit_all(repo)
    here = opened(repo)
    with ObjectReader(here) as reader:
        stager = Stager(here, Excludes(), reader)
        for number in range(40):
            write(repo / f"f{number}", f"{number}\n")
            os.utime(repo / f"f{number}", (1e9 + number, 1e9 + number))
            pack = Pack(here)
            commit = stager.stage(pack).tree
            kept = pack.write()
            assert kept is not None
            with kept:
                commit_tree(repo, commit)
    data = (repo / ".git" / "index").read_bytes()
    assert int.from_bytes(data[8:12], "big") < 15
    assert not git("status", "--porcelain", cwd=repo)
