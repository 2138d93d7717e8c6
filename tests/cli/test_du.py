from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.cli.test_rm import state_files
from tests.conftest import git
from tests.program import Program, run_id, write_workflow

NOISE = 2_000_000


@pytest.fixture
def big(wf: Program, repo: Path, tmp_path: Path) -> Program:
    """A run that adds two megabytes of noise, a fork of it, and one that adds nothing."""
    script = f"head -c {NOISE} /dev/urandom >noise"
    workflow = write_workflow(tmp_path / "n.dot", f'a [script="{script}"]\nstart -> a -> exit')
    wf.ok("run", workflow)
    wf.ok("fork")
    wf.ok("run", write_workflow(tmp_path / "e.dot", "a [script=true]\nstart -> a -> exit"))
    return wf


def test_only_what_nothing_else_reaches_counts(big: Program, repo: Path) -> None:
    """What two runs share is in the sum alone, unless both are asked for."""
    told = big.ok("du", "--json").json
    sizes = {one["run_id"]: one["objects"] for one in told["runs"]}
    assert list(sizes) == [run_id(1), run_id(2), run_id(3)]
    assert max(sizes.values()) < 20_000 and min(sizes.values()) > 0
    assert told["total"]["objects"] > NOISE
    both = big.ok("du", run_id(1), run_id(2), "--json").json
    assert both["total"]["objects"] > NOISE
    big.ok("rm", run_id(2))
    big.ok("prune", "--keep", "9")
    kept = big.ok("du", "--json").json
    assert kept["kept"]["objects"] > 0
    git("update-ref", "refs/heads/mine", f"wf/run/{run_id(1)}", cwd=repo)
    assert big.ok("du", "--json").json["total"]["objects"] < NOISE


def test_a_run_alone(loop: LoopRun) -> None:
    """As `git rev-list --disk-usage` tells it."""
    told = loop.wf.ok("du", "--json").json
    plain = git("rev-list", "--objects", "--disk-usage", loop.branch, loop.meta, "--not", "main",
                cwd=loop.repo)  # fmt: skip
    (run,) = told["runs"]
    assert run["objects"] == int(plain)
    assert run["worktrees"] == 0 and run["directory"] > 0
    assert run["total"] == run["objects"] + run["directory"]
    assert told["idle_worktrees"] > 0
    assert told["total"]["total"] == run["total"] + told["idle_worktrees"]


def test_the_table(loop: LoopRun) -> None:
    loop.wf.ok("archive", loop.run)
    for tree in state_files("trees/*"):
        git("worktree", "remove", "--force", os.fspath(tree), cwd=loop.repo)
    size = loop.wf.ok("du", "--json").json["archive"]["objects"]
    text = f"{size / 1024:.1f} kB"
    assert loop.wf.ok("du").out == (
        f"run            {'objects':>{len(text)}}  worktrees  directory  {'total':>{len(text)}}\n"
        f"archived runs  {text}          0          0  {text}\n"
        f"together       {text}          0          0  {text}\n"
    )
    assert run_id(1) in loop.wf.ok("du", loop.run).out


def test_a_kept_worktree_counts(wf: Program, repo: Path, tmp_path: Path) -> None:
    wf.ok("run", "--keep-worktree", write_workflow(tmp_path / "e.dot", "start -> exit"))
    (tree,) = (path for path in state_files("trees/*") if path.is_dir())
    (tree / "more").write_bytes(b"x" * NOISE)
    assert wf.ok("du", "--json").json["runs"][0]["worktrees"] > NOISE
