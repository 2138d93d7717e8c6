from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from git_wf.store.files import Lock
from tests.cli.conftest import LoopRun
from tests.cli.test_rm import ref_list, state_files
from tests.conftest import git
from tests.program import Program, run_id, write_workflow

DAY = 86400.0
REMOVED = "hint: git wf undo brings back what was removed, until {}\n"


def runs(wf: Program) -> list[str]:
    return [one["run_id"] for one in wf.ok("runs", "--json").json["runs"]]


@pytest.fixture
def three(wf: Program, repo: Path, tmp_path: Path) -> Program:
    """Three finished runs: two that change a file each, ten days apart, and one that does not."""
    wf.ok("run", write_workflow(tmp_path / "a.dot", 'a [script="echo a >a"]\nstart -> a -> exit'))
    wf.clock.advance(10 * DAY)
    wf.ok("run", write_workflow(tmp_path / "b.dot", 'b [script="echo b >b"]\nstart -> b -> exit'))
    wf.ok("run", write_workflow(tmp_path / "c.dot", "c [script=true]\nstart -> c -> exit"))
    return wf


def test_by_age(three: Program) -> None:
    result = three.ok("prune", "--older-than", "9d")
    assert result.out == f"removed run {run_id(1)} (older than 9d)\n"
    assert result.err == REMOVED.format("2030-04-12")
    assert runs(three) == [run_id(3), run_id(2)]


def test_all_that_is_given_has_to_be_met(three: Program) -> None:
    assert three.ok("prune", "--older-than", "0s", "--keep", "2").out == (
        f"removed run {run_id(1)} (older than 0s)\n"
    )
    assert three.ok("prune", "--keep", "2", "--merged").err == "nothing to prune\n"
    assert three.ok("prune", "--keep", "1", "--merged").err == "nothing to prune\n"
    assert three.ok("prune", "--keep", "0", "--merged").out == (
        f"removed run {run_id(3)} (it changed nothing)\n"
    )


def test_what_is_merged(three: Program, repo: Path) -> None:
    git("merge", "-q", "--no-ff", "-m", "merge", f"wf/run/{run_id(1)}", cwd=repo)
    (repo / "b").write_text("b\n")
    git("add", "b", cwd=repo)
    git("commit", "-q", "-m", "squashed", cwd=repo)
    assert three.ok("prune", "--merged").out == (
        f"removed run {run_id(1)} (in main: merged)\n"
        f"removed run {run_id(2)} (in main: picked commit by commit)\n"
        f"removed run {run_id(3)} (it changed nothing)\n"
    )
    operations = {ref.split("/")[4] for ref in ref_list(repo, "refs/wf/old")}
    assert len(operations) == 1
    assert three.ok("undo").out == "undone: prune, 3 runs\n"


def test_into_another_branch(three: Program, repo: Path) -> None:
    git("branch", "release", f"wf/run/{run_id(2)}", cwd=repo)
    assert three.ok("prune", "--merged=release").out == (
        f"removed run {run_id(2)} (in release: merged)\n"
        f"removed run {run_id(3)} (it changed nothing)\n"
    )
    three.fails(
        128, ["prune", "--merged=nowhere"],
        "error: no branch or commit 'nowhere'\nhint: git branch --all lists the branches\n",
    )  # fmt: skip


def test_without_a_default_branch(three: Program, repo: Path) -> None:
    git("branch", "-m", "main", "odd", cwd=repo)
    three.fails(
        128,
        ["prune", "--merged"],
        "error: no default branch is known\nhint: git wf prune --merged BRANCH\n",
    )


def test_what_stays(loop: LoopRun) -> None:
    """Unfinished, live and checked out runs."""
    for _ in range(3):
        loop.wf.ok("fork")
    git("switch", "-q", f"wf/run/{run_id(2)}", cwd=loop.repo)
    live = Lock(loop.repo / ".git" / "git-wf" / f"{run_id(3)}.lock", "process 1 on example")
    assert live.acquire()
    try:
        result = loop.wf.ok("prune", "--keep", "0")
        assert result.out == f"removed run {loop.run} (not among the newest)\n"
        assert result.err == (
            f"notice: run {run_id(2)} stays: it is interrupted; --unfinished takes it too\n"
            f"notice: run {run_id(3)} stays: it is going on\n"
            f"notice: run {run_id(4)} stays: it is interrupted; --unfinished takes it too\n"
            + REMOVED.format("2030-04-02")
        )
        told = loop.wf.ok("prune", "--keep", "0", "--unfinished", "--json").json
    finally:
        live.release()
    assert told["removed"] == [{"run_id": run_id(4), "reason": "not among the newest"}]
    assert told["skipped"] == [
        {"run_id": run_id(2), "reason": f"its branch is checked out at '{loop.repo}'"},
        {"run_id": run_id(3), "reason": "it is going on"},
    ]
    assert (told["run_id"], told["runs"], told["expired"]) == (run_id(4), [run_id(4)], [])


def test_archived_runs_stay(loop: LoopRun) -> None:
    loop.wf.ok("archive", loop.run)
    assert loop.wf.ok("prune", "--keep", "0", "--older-than", "0s").err == "nothing to prune\n"


def test_a_dry_run_says_which(three: Program) -> None:
    result = three.ok("prune", "--keep", "2", "--dry-run")
    assert result.err == f"would remove run {run_id(1)} (not among the newest)\n"
    assert f"delete refs/heads/wf/run/{run_id(1)} " in result.out
    assert len(runs(three)) == 3


def test_the_list(three: Program) -> None:
    result = three.ok("prune", "--keep", "2", "--list")
    assert (result.out, result.err) == (f"{run_id(1)}  not among the newest\n", "")
    for verb in ("rm", "archive"):
        named = (run_id(3), run_id(1))
        result = three.ok(verb, *named, "--list")
        assert (sorted(result.out.split()), result.err) == (sorted(named), "")
    assert len(runs(three)) == 3


def test_what_expires(loop: LoopRun) -> None:
    """Kept tips after 90 days, with what was rescued of runs that are gone."""
    loop.wf.ok("fork")
    loop.wf.ok("rewind", loop.run, "@2")
    tip = loop.resolve(f"wf/run/{run_id(2)}")
    rescues = {run: f"refs/wf/rescue/{run}/{run_id(1)}" for run in (loop.run, run_id(2))}
    for ref in rescues.values():
        git("update-ref", ref, tip, cwd=loop.repo)
    in_place = f"refs/wf/rescue/{run_id(7)}/{run_id(1)}"  # such a run has no refs
    git("update-ref", in_place, tip, cwd=loop.repo)
    loop.wf.ok("rm", run_id(2))
    kept = sorted(ref_list(loop.repo, "refs/wf/old"))
    loop.wf.clock.advance(89 * DAY)
    assert loop.wf.ok("prune").err == "nothing to prune\n"
    loop.wf.clock.advance(2 * DAY)
    result = loop.wf.ok("prune")
    assert sorted(result.out.splitlines()) == sorted(
        f"expired: {ref}" for ref in [*kept, rescues[run_id(2)]]
    )
    assert ref_list(loop.repo, "refs/wf/old", "refs/wf/rescue") == {
        rescues[loop.run]: tip,
        in_place: tip,
    }
    told = f"error: no run matches '{run_id(2)}'\nhint: git wf runs lists them\n"
    loop.wf.fails(128, ["undo", run_id(2)], told)


def test_what_a_killed_one_left_is_cleared_away(loop: LoopRun) -> None:
    (run_dir,) = state_files("runs/*")
    saved = run_dir.with_name("saved")
    shutil.copytree(run_dir, saved)
    loop.wf.ok("prune", "--keep", "0")
    saved.rename(run_dir)
    told = f"run {loop.run} went before: what was left of it is gone now\n"
    assert loop.wf.ok("prune").out == told
    assert not run_dir.exists()


def test_never(loop: LoopRun) -> None:
    git("config", "wf.undoExpire", "never", cwd=loop.repo)
    assert "until" not in loop.wf.ok("rm", loop.run).out
    loop.wf.clock.advance(9000 * DAY)
    assert loop.wf.ok("prune").err == "nothing to prune\n"


def test_at_the_end_of_a_run_once_a_day(loop: LoopRun, tmp_path: Path) -> None:
    loop.wf.ok("rewind", "@2")
    git("config", "wf.undoExpire", "1h", cwd=loop.repo)
    loop.wf.clock.advance(2 * 3600)
    loop.wf.ok("run", tmp_path / "loop.dot")  # the run before looked for it today
    assert len(ref_list(loop.repo, "refs/wf/old")) == 1
    loop.wf.clock.advance(DAY)
    loop.wf.ok("run", tmp_path / "loop.dot")
    assert ref_list(loop.repo, "refs/wf/old") == {}


@pytest.mark.parametrize("age", ["30", "x", ""])
def test_an_age_that_is_none(loop: LoopRun, age: str) -> None:
    loop.wf.fails(
        129,
        ["prune", "--older-than", age],
        f"error: --older-than: '{age}' is not a duration, such as 30d\nhint: git wf prune -h\n",
    )
