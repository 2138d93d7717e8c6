from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from git_wf.core.names import Oid
from git_wf.errors import GitFailed
from git_wf.store.files import Lock, is_locked
from git_wf.store.repo import Repo
from git_wf.store.worktree import (
    Head,
    HeadState,
    Slot,
    attach,
    detach,
    find_worktree,
    git_dir_of,
    give_back,
    head_state,
    keep,
    list_worktrees,
    reconcile_head,
    registrations,
    remove_unready,
    remove_worktree,
    reopen_slot,
    take_slot,
)
from tests.conftest import git, make_repo

BRANCH = "refs/heads/wf/run/R"


def opened(path: Path) -> Repo:
    return Repo.find(path, os.environ)


@contextmanager
def held(path: Path) -> Iterator[None]:
    lock = Lock(path, "somebody")
    assert lock.acquire()
    with lock:
        yield


def head_of(path: Path) -> Oid:
    return Oid(git("rev-parse", "HEAD", cwd=path))


def commit(path: Path, name: str = "new") -> Oid:
    (path / name).write_text(f"{name}\n")
    git("add", "-A", cwd=path)
    git("commit", "-q", "-m", name, cwd=path)
    return head_of(path)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state dir" / "repo-é"


@pytest.fixture
def slot(repo: Path, state: Path) -> Slot:
    """A slot on the run branch, which is at the base."""
    taken = take(repo, state, "R")
    git("branch", "wf/run/R", cwd=repo)
    attach(taken, BRANCH)
    return taken


def take(repo: Path, state: Path, run: str = "R") -> Slot:
    return take_slot(opened(repo), state, head_of(repo), run)


def status(slot: Slot) -> str:
    return git("status", "--porcelain", "--ignored", "-uall", cwd=slot.path)


def lock_reason(repo: Path, path: Path) -> str | None:
    return next(one.lock_reason for one in registrations(opened(repo)) if one.path.samefile(path))


# Taking and giving back.


def test_a_new_slot(repo: Path, state: Path, fsck):
    (repo / "README").write_text("the user's own change\n")
    before = git("status", "--porcelain=v2", "--branch", cwd=repo)
    slot = take(repo, state)
    assert slot.path == state / "trees" / "1"
    assert head_state(slot) == HeadState(None, head_of(repo))
    assert (slot.path / "README").read_text() == "hello\n"
    assert (status(slot), lock_reason(repo, slot.path)) == ("", "git-wf run R")
    assert (
        slot.git_dir
        == git_dir_of(opened(repo), slot.path)
        == Path(git("rev-parse", "--absolute-git-dir", cwd=slot.path))
    )
    assert is_locked(state / "trees" / "1.lock")
    assert git("status", "--porcelain=v2", "--branch", cwd=repo) == before
    fsck(repo)


def test_slots_of_runs_at_once(repo: Path, state: Path):
    first, second = take(repo, state, "A"), take(repo, state, "B")
    assert [first.path.name, second.path.name] == ["1", "2"]
    assert give_back(second, 2)
    assert take(repo, state, "C").path == second.path


def test_a_slot_given_back_is_used_again_clean(repo: Path, state: Path, slot: Slot):
    kept_file = (slot.path / "README").stat()
    (slot.path / "ignored").mkdir()
    (slot.path / ".gitignore").write_text("ignored\n")
    (slot.path / "ignored" / "x").touch()
    subprocess.run(["git", "init", "-q", "ignored/inner"], cwd=slot.path, check=True)
    tip = commit(slot.path)
    assert give_back(slot, 1)
    assert git("branch", "--format=%(refname:short)", cwd=repo) == "main\nwf/run/R"
    git("switch", "-q", "wf/run/R", cwd=repo)
    git("switch", "-q", "main", cwd=repo)
    assert (lock_reason(repo, slot.path), is_locked(slot.lock.path)) == (None, False)
    again = take(repo, state, "S")
    assert (again.path, status(again), head_state(again)) == (
        slot.path, "", HeadState(None, head_of(repo)),
    )  # fmt: skip
    assert sorted(os.listdir(again.path)) == [".git", "README"]
    assert (again.path / "README").stat().st_ino == kept_file.st_ino
    assert git("rev-parse", "wf/run/R", cwd=repo) == tip


def test_what_is_over_the_pool_is_removed(repo: Path, state: Path):
    slots = [take(repo, state, run) for run in "ABC"]
    assert [give_back(slot, 2) for slot in slots] == [True, True, False]
    assert [slot.path.exists() for slot in slots] == [True, True, False]
    assert len(registrations(opened(repo))) == 2
    assert not give_back(take(repo, state), 0)


def test_what_a_killed_run_left_is_nobody_elses(repo: Path, state: Path):
    slot = take(repo, state, "A")
    (slot.path / "half done").touch()
    slot.lock.release()
    other = take(repo, state, "B")
    assert (other.path.name, (slot.path / "half done").exists()) == ("2", True)
    other.lock.release()
    assert reopen_slot(opened(repo), slot.path, "B") is None
    again = reopen_slot(opened(repo), slot.path, "A")
    assert again is not None and again.git_dir == slot.git_dir
    assert reopen_slot(opened(repo), slot.path, "A") is None


def half_made(repo: Path, run: str = "R") -> Path:
    """As a killed `git worktree add` leaves it: git lists no worktrees any more."""
    git_dir = repo / ".git/worktrees/9"
    git_dir.mkdir(parents=True)
    (git_dir / "locked").write_text(f"git-wf not ready for run {run}")
    (git_dir / "gitdir").write_text(f"{repo}/9/.git\n")
    (git_dir / "commondir").touch()
    git("worktree", "list", cwd=repo, ok=(128,))
    return git_dir


@pytest.mark.parametrize("has_place", [True, False])
def test_a_half_made_registration_goes(repo: Path, state: Path, has_place: bool):
    git_dir = half_made(repo)
    if not has_place:
        (git_dir / "gitdir").unlink()
    take(repo, state, "S")
    assert not git_dir.exists()


def test_a_half_made_registration_does_not_stop_a_reader(repo: Path):
    half_made(repo)
    assert [one.path for one in list_worktrees(opened(repo))] == [repo]


def test_a_half_made_registration_of_a_live_run_stays(repo: Path):
    git_dir = half_made(repo)
    with held(opened(repo).run_lock("R")):
        remove_unready(opened(repo), "S")
        assert git_dir.exists()
    remove_unready(opened(repo), "S")
    assert not git_dir.exists()


def test_what_a_killed_removal_left_goes(repo: Path, state: Path, slot: Slot):
    (slot.git_dir / "locked").write_text("git-wf not ready for run R\n")
    slot.lock.release()
    (slot.path / "README").unlink()
    again = take(repo, state, "S")
    assert again.path == slot.path
    assert status(again) == ""


def test_a_kept_slot_is_its_users(repo: Path, state: Path, slot: Slot):
    (slot.path / "mine").touch()
    keep(slot)
    assert (lock_reason(repo, slot.path), is_locked(slot.lock.path)) == (None, False)
    assert take(repo, state).path.name == "2"
    assert head_state(slot).branch == BRANCH
    again = reopen_slot(opened(repo), slot.path, "R")
    assert again is not None and (again.path / "mine").exists()
    keep(again)
    git("worktree", "remove", "--force", os.fspath(slot.path), cwd=repo)
    assert take(repo, state).path == slot.path


def test_a_slot_in_use_is_not_reopened(repo: Path, slot: Slot):
    assert reopen_slot(opened(repo), slot.path, "R") is None
    slot.lock.release()
    holder = Lock(slot.lock.path, "another")
    assert holder.acquire()
    assert reopen_slot(opened(repo), slot.path, "R") is None


def test_a_slot_that_was_given_back_is_not_reopened(repo: Path, slot: Slot):
    assert give_back(slot, 1)
    assert reopen_slot(opened(repo), slot.path, "R") is None


@pytest.mark.parametrize("pruned", [False, True])
def test_a_slot_that_vanished(repo: Path, state: Path, slot: Slot, pruned: bool):
    slot.lock.release()
    shutil.rmtree(slot.path)
    if pruned:
        git("worktree", "unlock", os.fspath(slot.path), cwd=repo)
        git("worktree", "prune", cwd=repo)
    assert reopen_slot(opened(repo), slot.path, "R") is None
    assert registrations(opened(repo)) == []
    again = take(repo, state)
    assert (again.path, status(again)) == (slot.path, "")


def test_a_registration_whose_directory_vanished_does_not_stand_in_the_way(
    repo: Path, state: Path, slot: Slot
):
    slot.lock.release()
    shutil.rmtree(slot.path)
    again = take(repo, state, "S")
    assert (again.path, lock_reason(repo, again.path)) == (slot.path, "git-wf run S")


def test_a_directory_of_unknown_content_stays(repo: Path, state: Path):
    (state / "trees" / "1").mkdir(parents=True)
    (state / "trees" / "1" / "somebody's").touch()
    (state / "trees" / "2").mkdir()
    (state / "trees" / "3").touch()
    assert take(repo, state).path.name == "2"
    assert take(repo, state).path.name == "4"
    assert os.listdir(state / "trees" / "1") == ["somebody's"]


def test_a_registration_that_was_lost_leaves_the_directory(repo: Path, state: Path, slot: Slot):
    slot.lock.release()
    shutil.rmtree(slot.git_dir)
    assert reopen_slot(opened(repo), slot.path, "R") is None
    assert take(repo, state).path.name == "2"
    assert (slot.path / "README").exists()


@pytest.mark.parametrize("damage", ["no link", "wrong link", "symlink", "index.lock", "HEAD",
                                    "unborn", "rebase", "no index", "bad index"])  # fmt: skip
def test_a_damaged_slot_is_healed_or_made_anew(
    repo: Path, state: Path, slot: Slot, damage: str, fsck
):
    assert give_back(slot, 1)
    link, head = slot.path / ".git", slot.git_dir / "HEAD"
    if damage in ("no link", "symlink"):
        link.unlink()
    if damage == "symlink":
        link.symlink_to("README")
    elif damage == "wrong link":
        link.write_text("gitdir: /nowhere\n")
    elif damage == "index.lock":
        (slot.git_dir / "index.lock").touch()
    elif damage == "HEAD":
        head.write_text("garbage")
    elif damage == "unborn":
        head.write_text("ref: refs/heads/gone\n")
    elif damage == "rebase":
        (slot.git_dir / "rebase-merge").mkdir()
        (slot.git_dir / "rebase-merge" / "head-name").write_text("refs/heads/x\n")
    elif damage == "no index":
        (slot.git_dir / "index").unlink()
    elif damage == "bad index":
        (slot.git_dir / "index").write_text("garbage")
    again = take(repo, state, "S")
    assert (again.path, head_state(again)) == (slot.path, HeadState(None, head_of(repo)))
    assert git("status", cwd=again.path) == (
        "Not currently on any branch.\nnothing to commit, working tree clean"
    )
    fsck(repo)


def test_a_repository_of_its_own_in_a_pooled_slot_stays(repo: Path, state: Path, slot: Slot):
    assert give_back(slot, 1)
    (slot.path / ".git").unlink()
    git("init", "-q", ".", cwd=slot.path)
    assert take(repo, state).path.name == "2"


@pytest.mark.parametrize("what", ["submodule", "config", "flag", "bad index", "own repository"])
def test_what_does_not_fit_the_pool_is_removed(repo: Path, state: Path, tmp_path: Path, what: str):
    if what == "submodule":
        source = make_repo(tmp_path / "source")
        git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
            os.fspath(source), "sub", cwd=repo)  # fmt: skip
        commit(repo)
    slot = take(repo, state)
    if what == "submodule":
        assert os.listdir(slot.path / "sub") == []
        git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init",
            cwd=slot.path)  # fmt: skip
    elif what == "config":
        git("config", "extensions.worktreeConfig", "true", cwd=repo)
        git("config", "--worktree", "core.ignoreCase", "true", cwd=slot.path)
    elif what == "flag":
        git("update-index", "--skip-worktree", "README", cwd=slot.path)
    elif what == "bad index":
        (slot.git_dir / "index").write_text("garbage")
    else:
        (slot.path / ".git").unlink()
        git("init", "-q", ".", cwd=slot.path)
    assert not give_back(slot, 2)
    assert not slot.path.exists()
    assert registrations(opened(repo)) == []


def test_unpopulated_submodules_fit_the_pool(repo: Path, state: Path, tmp_path: Path):
    source = make_repo(tmp_path / "source")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        os.fspath(source), "sub", cwd=repo)  # fmt: skip
    commit(repo)
    git("config", "submodule.recurse", "true", cwd=repo)
    assert give_back(take(repo, state), 2)
    again = take(repo, state)
    assert (again.path.name, status(again)) == ("1", "")


def test_a_worktree_that_git_does_not_remove(repo: Path, state: Path, slot: Slot):
    (slot.git_dir / "HEAD").unlink()
    remove_worktree(opened(repo), slot.path)
    assert not slot.path.exists()
    assert registrations(opened(repo)) == []
    remove_worktree(opened(repo), slot.path)


def test_a_slot_that_cannot_be_filled_is_not_left_behind(repo: Path, state: Path):
    (repo / ".gitattributes").write_text("*.bad filter=bad\n")
    (repo / "a.bad").touch()
    commit(repo)
    git("config", "filter.bad.smudge", "false", cwd=repo)
    git("config", "filter.bad.required", "true", cwd=repo)
    with pytest.raises(GitFailed):
        take(repo, state)
    assert (registrations(opened(repo)), os.listdir(state / "trees")) == ([], [])


def test_no_hook_of_the_user_fires(repo: Path, state: Path):
    hooks = repo / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {repo.parent}/fired\n")
        (hooks / name).chmod(0o755)
    slot = take(repo, state)
    give_back(slot, 1)
    take(repo, state)
    assert not (repo.parent / "fired").exists()


@pytest.mark.parametrize("cone", [True, False])
@pytest.mark.parametrize("own_config", [True, False])
def test_a_sparse_checkout_is_not_inherited(repo: Path, state: Path, cone: bool, own_config: bool):
    (repo / "d").mkdir()
    commit(repo, "d/file")
    if own_config:
        git("sparse-checkout", "set", "--cone" if cone else "--no-cone", "nowhere", cwd=repo)
    else:
        git("config", "core.sparseCheckout", "true", cwd=repo)
        git("config", "core.sparseCheckoutCone", str(cone).lower(), cwd=repo)
        (repo / ".git" / "info").mkdir(exist_ok=True)
        (repo / ".git" / "info" / "sparse-checkout").write_text("/README\n")
        git("read-tree", "-mu", "HEAD", cwd=repo)
    assert not (repo / "d").exists()
    slot = take(repo, state)
    assert (slot.path / "d" / "file").exists()
    git("reset", "-q", "--hard", cwd=slot.path)
    assert (slot.path / "d" / "file").exists()
    assert git("ls-files", "-t", cwd=slot.path) == "H README\nH d/file"
    assert not (repo / "d").exists()


def test_in_a_bare_repository_a_linked_worktree_and_a_submodule(
    repo: Path, state: Path, tmp_path: Path
):
    git("clone", "-q", "--bare", os.fspath(repo), os.fspath(tmp_path / "bare.git"), cwd=tmp_path)
    git("worktree", "add", "-q", os.fspath(tmp_path / "linked"), cwd=repo)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        os.fspath(tmp_path / "bare.git"), "sub", cwd=repo)  # fmt: skip
    for number, place in enumerate((tmp_path / "bare.git", tmp_path / "linked", repo / "sub")):
        one = take_slot(opened(place), state / str(number), head_of(place), "R")
        assert (status(one), head_state(one).commit) == ("", head_of(place))
        assert git("rev-parse", "--show-toplevel", cwd=one.path) == os.fspath(one.path)
        assert give_back(one, 1)
        assert take_slot(opened(place), state / str(number), head_of(place), "R").path == one.path


def test_a_state_directory_with_a_newline_behind_a_symlink(repo: Path, tmp_path: Path):
    real = tmp_path / "real\nstate"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    slot = take(repo, tmp_path / "link")
    assert status(slot) == ""
    slot.lock.release()
    again = reopen_slot(opened(repo), slot.path, "R")
    assert again is not None
    assert give_back(again, 1)
    assert take(repo, tmp_path / "link").path == slot.path
    assert [one.is_ours for one in list_worktrees(opened(repo), tmp_path / "link")] == [
        False, True,
    ]  # fmt: skip


def test_which_worktree_has_a_branch(repo: Path, state: Path, slot: Slot, tmp_path: Path):
    assert [(one.path, one.is_ours, one.is_locked) for one in
            find_worktree(opened(repo), BRANCH, state)] == [(slot.path, True, True)]  # fmt: skip
    users = tmp_path / "users\nown"
    git("worktree", "add", "-q", "-b", "mine", os.fspath(users), cwd=repo)
    found = find_worktree(opened(repo), "refs/heads/mine", state)
    assert [(one.path, one.is_ours, one.head) for one in found] == [(users, False, head_of(repo))]
    shutil.rmtree(users)
    assert find_worktree(opened(repo), "refs/heads/mine")[0].is_prunable
    assert [one.path for one in find_worktree(opened(repo), "refs/heads/main")] == [repo]
    assert git_dir_of(opened(repo), tmp_path) is None


# HEAD.


def test_nothing_to_reconcile(repo: Path, slot: Slot):
    last = head_of(repo)
    assert reconcile_head(slot, BRANCH, last) == Head(last, last, [])
    assert head_state(slot) == HeadState(BRANCH, last)


def test_a_node_committed_on_the_run_branch(repo: Path, slot: Slot):
    tip = commit(slot.path)
    assert reconcile_head(slot, BRANCH, head_of(repo)) == Head(tip, tip, [])
    assert head_state(slot) == HeadState(BRANCH, tip)


@pytest.mark.parametrize("where", [["--detach"], ["-c", "feature"]])
def test_a_node_committed_elsewhere(repo: Path, slot: Slot, where: list[str]):
    last = head_of(repo)
    git("switch", "-q", *where, cwd=slot.path)
    made = commit(slot.path)
    (slot.path / "new").write_text("edited\n")
    assert reconcile_head(slot, BRANCH, last) == Head(made, last, [])
    assert head_state(slot) == HeadState(None, made)
    assert status(slot) == " M new"
    git("update-ref", BRANCH, made, cwd=repo)
    attach(slot, BRANCH)
    assert (head_state(slot), status(slot)) == (HeadState(BRANCH, made), " M new")
    assert reconcile_head(slot, BRANCH, made) == Head(made, made, [])


def test_a_node_only_left_the_branch(repo: Path, slot: Slot):
    last = head_of(repo)
    git("switch", "-q", "-c", "feature", cwd=slot.path)
    assert reconcile_head(slot, BRANCH, last) == Head(last, last, [])
    assert head_state(slot) == HeadState(BRANCH, last)


@pytest.mark.parametrize("how", ["reset", "detached"])
def test_a_node_went_back(repo: Path, slot: Slot, how: str):
    first = head_of(repo)
    last = commit(slot.path)
    git(*(("reset", "-q", "--hard") if how == "reset" else ("checkout", "-q")), first,
        cwd=slot.path)  # fmt: skip
    tip = first if how == "reset" else last
    assert reconcile_head(slot, BRANCH, last) == Head(last, tip, [])
    assert head_state(slot) == HeadState(BRANCH if how == "detached" else None, last)
    assert status(slot) == "D  new"


def test_a_node_went_another_way(repo: Path, slot: Slot):
    last = commit(slot.path)
    git("reset", "-q", "--hard", "HEAD~", cwd=slot.path)
    other = commit(slot.path, "other")
    git("switch", "-q", "--orphan", "alone", cwd=slot.path)
    alone = commit(slot.path, "alone")
    assert reconcile_head(slot, BRANCH, last) == Head(
        last, other, [("HEAD", alone), (f"branch '{BRANCH}'", other)]
    )
    assert head_state(slot) == HeadState(None, last)


def test_a_run_branch_moved_from_outside(repo: Path, slot: Slot):
    last = head_of(repo)
    ahead = commit(repo)
    git("update-ref", BRANCH, ahead, cwd=repo)
    assert reconcile_head(slot, BRANCH, last) == Head(ahead, ahead, [])


def test_one_thing_is_set_aside_once(repo: Path, slot: Slot):
    last = commit(slot.path)
    git("reset", "-q", "--hard", "HEAD~", cwd=slot.path)
    other = commit(slot.path, "other")
    assert reconcile_head(slot, BRANCH, last).set_aside == [("HEAD", other)]


@pytest.mark.parametrize("detached", [True, False])
def test_a_node_deleted_the_run_branch(repo: Path, slot: Slot, detached: bool):
    last = head_of(repo)
    if detached:
        git("switch", "-q", "--detach", cwd=slot.path)
    git("update-ref", "-d", BRANCH, cwd=slot.path)
    assert reconcile_head(slot, BRANCH, last) == Head(last, None, [])
    assert (head_state(slot), status(slot)) == (HeadState(None, last), "")


@pytest.mark.parametrize("name", ["HEAD", "commondir", "gitdir"])
def test_a_node_broke_the_git_directory(repo: Path, slot: Slot, name: str):
    last = head_of(repo)
    (slot.git_dir / name).unlink()
    assert reconcile_head(slot, BRANCH, last) == Head(last, last, [])
    assert head_state(slot).commit == last
    assert status(slot) == ""


def test_attach_and_detach(repo: Path, slot: Slot):
    attach(slot, BRANCH)
    assert git("symbolic-ref", "HEAD", cwd=slot.path) == BRANCH
    detach(slot)
    detach(slot)
    assert head_state(slot) == HeadState(None, head_of(repo))
    git("symbolic-ref", "HEAD", "refs/heads/none", cwd=slot.path)
    detach(slot)
    assert head_state(slot) == HeadState("refs/heads/none", None)
