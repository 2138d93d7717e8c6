from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from git_wf.store.files import Lock
from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import Program, run_id, write_workflow

FAN = r"""
split [shape=component]
left [script="echo left >left"]
right [script="echo right >right; exit 1"]
join [shape=tripleoctagon]
start -> split
split -> left -> join
split -> right -> join
join -> exit
"""


def ref_list(repo: Path, *patterns: str) -> dict[str, str]:
    told = git("for-each-ref", "--format=%(refname) %(objectname)", *patterns, cwd=repo)
    return dict(line.split(" ") for line in told.splitlines())  # type: ignore[misc]


def state_files(name: str) -> list[Path]:
    return sorted(Path(os.environ["XDG_STATE_HOME"]).glob(f"git-wf/*/{name}"))


def test_a_run_goes_and_is_kept(loop: LoopRun, fsck: Callable[[Path], None]) -> None:
    before = ref_list(loop.repo)
    assert state_files("runs/*")
    result = loop.wf.ok("rm", loop.run)
    after = ref_list(loop.repo)
    meta, run = sorted(after.keys() - before.keys())
    operation = run.split("/")[4]
    root = f"refs/wf/old/{loop.run}/{operation}"
    assert (meta, run) == (f"{root}/meta", f"{root}/run")
    assert result.out == (
        f"removed run {loop.run}\nkept: {run} (until 2030-04-02)\nkept: {meta} (until 2030-04-02)\n"
    )
    assert result.err == "hint: git wf undo brings back what was removed\n"
    tips = before.pop(f"refs/heads/{loop.branch}"), before.pop(loop.meta)
    assert after == {**before, run: tips[0], meta: after[meta]}
    assert loop.resolve(f"{meta}^@") == tips[1]
    assert loop.resolve(f"{meta}^{{tree}}") == loop.resolve(f"{tips[1]}^{{tree}}")
    told = git("log", "-1", "--format=%B", meta, cwd=loop.repo).splitlines()
    assert told[:5] == [
        "remove", "", f"WF-Run: {loop.run}", f"WF-Op: {operation}", "WF-Command: rm",
    ]  # fmt: skip
    for ref in (run, meta):
        assert git("log", "-g", "--format=%gs", ref, cwd=loop.repo) == f"wf: rm {loop.run}"
    assert state_files("runs/*") == []
    assert loop.wf.ok("runs").out == ""
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    fsck(loop.repo)
    loop.wf.fails(
        128,
        ["rm", loop.run],
        f"error: run {loop.run} was removed already\nhint: git wf undo {loop.run} brings it back\n",
    )


def test_the_json_object(loop: LoopRun) -> None:
    loop.wf.ok("fork")
    told = loop.wf.ok("rm", loop.run, run_id(2), "--json").json
    assert (told["operation"], told["run_id"], told["runs"]) == ("rm", None, [loop.run, run_id(2)])
    assert sorted(one["ref"] for one in told["updates"] if one["new"] is None) == sorted(
        ref for run in (loop.run, run_id(2)) for ref in (f"refs/heads/wf/run/{run}",
                                                         f"refs/wf/meta/{run}")
    )  # fmt: skip
    assert told["kept"] == [one["ref"] for one in told["updates"] if one["old"] is None]
    assert len({ref.split("/")[4] for ref in told["kept"]}) == 1


def test_a_kept_worktree_is_rescued_and_goes(wf: Program, repo: Path, tmp_path: Path) -> None:
    """What is not recorded in it, and a commit that only its HEAD has."""
    wf.ok("run", "--keep-worktree", write_workflow(tmp_path / "w.dot", "start -> exit"))
    (tree,) = (path for path in state_files("trees/*") if path.is_dir())
    git("switch", "-q", "--detach", cwd=tree)
    git("commit", "-q", "--allow-empty", "-m", "by hand", cwd=tree)
    by_hand = git("rev-parse", "HEAD", cwd=tree)
    git("worktree", "lock", "--reason", f"git-wf run {run_id(1)}", str(tree), cwd=repo)
    (tree / "new").write_text("new\n")
    result = wf.ok("rm", run_id(1))
    assert not tree.exists()
    assert git("worktree", "list", cwd=repo).count("\n") == 0
    rescued = ref_list(repo, "refs/wf/rescue")
    (files,) = (ref for ref, oid in rescued.items() if oid != by_hand)
    assert git("show", f"{files}:new", cwd=repo) == "new"
    assert git("rev-parse", f"{files}^", cwd=repo) == by_hand
    assert sorted(rescued.values()) == sorted([by_hand, git("rev-parse", files, cwd=repo)])
    assert f"notice: unrecorded changes in the worktree are kept at {files}\n" in result.err


def test_heads_that_were_never_merged_are_kept(
    wf: Program, repo: Path, tmp_path: Path, fsck: Callable[[Path], None]
) -> None:
    wf("run", write_workflow(tmp_path / "fan.dot", FAN))
    branches = ref_list(repo, "refs/wf/par")
    assert branches
    wf.ok("rm", run_id(1))
    assert ref_list(repo, "refs/wf/par") == {}
    (meta,) = ref_list(repo, "refs/wf/old/*/*/meta")
    assert set(branches.values()) <= set(git("rev-parse", f"{meta}^@", cwd=repo).splitlines())
    git("gc", "-q", "--prune=now", cwd=repo)
    wf.ok("undo")
    assert ref_list(repo, "refs/wf/par") == branches
    fsck(repo)


def test_while_one_of_them_is_live(loop: LoopRun) -> None:
    loop.wf.ok("fork")
    before = loop.refs()
    with_lock = Lock(loop.repo / ".git" / "git-wf" / f"{loop.run}.lock", "process 1 on example")
    assert with_lock.acquire()
    try:
        for words in (["rm", run_id(2), loop.run], ["rm", run_id(2), loop.run, "--dry-run"]):
            loop.wf.fails(
                128,
                words,
                f"fatal: run {loop.run} is going on: process 1 on example holds it\n"
                "hint: wait until it has ended, or end it with Ctrl-C there\n",
            )
    finally:
        with_lock.release()
    assert loop.refs() == before


def test_while_the_user_has_the_branch_checked_out(loop: LoopRun) -> None:
    git("switch", "-q", loop.branch, cwd=loop.repo)
    before = loop.refs()
    loop.wf.fails(
        128,
        ["rm", loop.run],
        f"error: branch '{loop.branch}' is checked out at '{loop.repo}'\n"
        f"hint: git -C '{loop.repo}' switch --detach\n",
    )
    assert loop.refs() == before


@pytest.mark.parametrize("word", ["nothing", "01Q3ZZZZ", ""])
def test_what_is_no_run(loop: LoopRun, word: str) -> None:
    loop.wf.fails(
        128, ["rm", loop.run, word],
        f"error: no run matches '{word}'\nhint: git wf runs lists them\n",
    )  # fmt: skip
    assert loop.branch in loop.refs()


def test_without_metadata_it_can_be_undone_all_the_same(loop: LoopRun) -> None:
    git("update-ref", "-d", loop.meta, cwd=loop.repo)
    before = loop.refs()
    loop.wf.ok("rm", loop.run)
    assert loop.branch not in loop.refs()
    loop.wf.ok("undo")
    assert loop.refs() == before


def test_what_a_killed_one_left_is_cleared_away(loop: LoopRun) -> None:
    (run_dir,) = state_files("runs/*")
    saved = run_dir.with_name("saved")
    shutil.copytree(run_dir, saved)
    loop.wf.ok("rm", loop.run)
    saved.rename(run_dir)
    result = loop.wf.ok("rm", loop.run)
    assert result.out == f"run {loop.run} was removed before: what was left of it is gone now\n"
    assert not run_dir.exists()
