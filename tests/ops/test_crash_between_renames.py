"""A power cut between two renames of one transaction: the next command finishes what was begun.

The states are made with plain git; `test_crash_moments.py` comes to the same ones by real kills.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import git
from tests.ops.crashes import LOOP, SECTION
from tests.ops.runs import killed_run, own_id, read_run, refs
from tests.program import Program, write_workflow

Fsck = Callable[[Path], None]
RUN, NEW = own_id(71), own_id(72)
BRANCH, META = f"refs/heads/wf/run/{RUN}", f"refs/wf/meta/{RUN}"


@pytest.fixture
def ran(wf: Program, repo: Path, tmp_path: Path) -> Program:
    """A run of four checkpoints that has ended."""
    wf.ok("run", write_workflow(tmp_path / "w.dot", LOOP.format()), "--id", RUN)
    return wf


def test_a_rewind_whose_branch_has_not_moved(ran: Program, repo: Path, fsck: Fsck) -> None:
    whole, tip = read_run(repo, RUN), git("rev-parse", BRANCH, cwd=repo)
    ran.ok("rewind", RUN, "check@1")
    git("update-ref", BRANCH, tip, cwd=repo)
    result = ran.ok("resume", RUN)
    target = git("rev-parse", f"{BRANCH}~2", cwd=repo)
    told = f"notice: the rewind was cut off: the run branch is at {target} now\n"
    assert told in result.err
    assert read_run(repo, RUN) == whole
    assert list(refs(repo, f"refs/wf/old/{RUN}").values()) == [tip]
    fsck(repo)


def test_the_same_rewind_again(ran: Program, repo: Path) -> None:
    """Without a target it means one checkpoint back from where the branch is: the same one."""
    tip = git("rev-parse", BRANCH, cwd=repo)
    ran.ok("rewind", RUN)
    target = git("rev-parse", BRANCH, cwd=repo)
    git("update-ref", BRANCH, tip, cwd=repo)
    ran.ok("rewind", RUN)
    assert git("rev-parse", BRANCH, cwd=repo) == target


@pytest.mark.parametrize("again", ["rm", "undo"])
def test_a_removal_whose_branch_is_left(ran: Program, repo: Path, fsck: Fsck, again: str) -> None:
    whole, tip = read_run(repo, RUN), git("rev-parse", BRANCH, cwd=repo)
    ran.ok("rm", RUN)
    git("update-ref", BRANCH, tip, cwd=repo)
    assert ran.ok("runs", "--json").json["runs"] == []
    if again == "rm":
        ran.ok("rm", RUN)
        assert refs(repo, BRANCH) == {}
    ran.ok("undo")
    assert read_run(repo, RUN) == whole
    assert refs(repo, f"refs/wf/old/{RUN}") == {}
    fsck(repo)


def test_a_run_without_its_metadata_is_no_removed_one(ran: Program, repo: Path) -> None:
    """A rewind keeps tips too; the branch alone is a run of which something is missing."""
    ran.ok("rewind", RUN)
    git("update-ref", "-d", META, cwd=repo)
    assert [one["run_id"] for one in ran.ok("runs", "--json").json["runs"]] == [RUN]


def test_a_fork_without_its_branch(ran: Program, repo: Path, fsck: Fsck) -> None:
    """One value of it is an artifact, which no run directory has yet."""
    ran.ok("fork", RUN, "a@1", "--id", NEW)
    git("update-ref", "-d", f"refs/heads/wf/run/{NEW}", cwd=repo)
    ran.ok("resume", NEW)
    assert read_run(repo, NEW).tree == read_run(repo, RUN).tree
    fsck(repo)


def test_a_new_run_without_its_branch(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path / "w.dot", LOOP.format())
    killed_run(workflow, repo, "refs", 1, "--id", RUN)
    git("update-ref", "-d", BRANCH, cwd=repo)
    wf.ok("resume", RUN)
    assert len(read_run(repo, RUN).timeline) == 4


@pytest.mark.parametrize("sides", [("run", "meta"), ("meta",)])
def test_branches_that_are_merged_are_closed(
    wf: Program, repo: Path, tmp_path: Path, sides: tuple[str, ...]
) -> None:
    workflow = write_workflow(tmp_path / "w.dot", SECTION.format())
    killed_run(workflow, repo, "publish", 2, "--id", RUN)
    tips = {"run": f"{BRANCH}^2", "meta": f"{META}^^2"}
    for side in sides:
        git("update-ref", f"refs/wf/par/{RUN}/f@1/1-a/{side}", tips[side], cwd=repo)
    wf.ok("resume", RUN)
    assert refs(repo, "refs/wf/par") == {}


@pytest.mark.parametrize("verb", ["rewind", "rm", "fork"])
def test_the_lock_of_all_packed_refs(ran: Program, repo: Path, verb: str) -> None:
    lock = repo / ".git/packed-refs.lock"
    below = repo / f".git/refs/wf/old/{RUN}/{NEW}/run.lock"
    below.parent.mkdir(parents=True)
    for path in (lock, below):
        path.touch()
        os.utime(path, (1, 1))
    ran.ok(verb, RUN)
    assert not lock.exists()
    assert below.exists() == (verb == "fork")  # it moves no ref of this run
