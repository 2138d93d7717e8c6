from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.cli.test_rm import ref_list, state_files
from tests.conftest import git
from tests.program import run_id


def work(loop: LoopRun) -> dict[str, str]:
    """Refs, those of metadata by the state in them."""
    told = {}
    for ref, oid in ref_list(loop.repo).items():
        told[ref] = loop.resolve(f"{oid}^{{tree}}") if ref.startswith("refs/wf/meta/") else oid
    return told


OPERATIONS = [
    ["rewind", "plan@2"], ["rewind", "@0"], ["rewind", "0"], ["fork", "@2"], ["rm", run_id(1)],
    ["prune", "--keep", "0"], ["archive", run_id(1)],
]  # fmt: skip


@pytest.mark.parametrize("words", OPERATIONS, ids=lambda words: "-".join(words[:2])[:14])
def test_each_operation(loop: LoopRun, words: list[str], fsck: Callable[[Path], None]) -> None:
    before = work(loop)
    loop.wf.ok(*words)
    after = work(loop)
    done = loop.wf.ok("undo")
    assert done.out.startswith(f"undone: {words[0]}")
    kept = {ref for ref in work(loop) if ref.startswith("refs/wf/old/")}
    assert {ref: oid for ref, oid in work(loop).items() if ref not in kept} == before
    assert bool(kept) == (words[0] == "fork")
    assert loop.wf.ok("log", loop.run, "--json").json["checkpoints"][5]["node"] == "check"
    loop.wf.ok("redo")
    assert set(map(shape, work(loop).items())) == set(map(shape, after.items()))
    loop.wf.ok("undo")
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    fsck(loop.repo)
    assert loop.wf.ok("verify").out == ""
    loop.wf.fails(128, ["undo"], "error: nothing to undo\n")


def shape(item: tuple[str, str]) -> tuple[str, str]:
    """A ref without the id of the operation; what cannot be the same twice left out."""
    ref, oid = item
    parts = ref.split("/")
    if parts[1:3] == ["wf", "old"]:
        return f"{parts[3]} {parts[5]}", "" if parts[5] == "meta" else oid
    return ref, "" if ref == "refs/wf/archive" else oid


def test_further_back_and_forward_again(loop: LoopRun) -> None:
    """The newest first; `redo` in the other order."""
    states = [work(loop)]
    steps = (["rewind", "@5"], ["rewind", "@3"], ["rewind", "@2"])
    for words in steps:
        loop.wf.ok(*words)
        states.append(work(loop))
    for state, target in zip(states[2::-1], ("work@1", "check@1", "work@2"), strict=True):
        assert loop.wf.ok("undo").out == f"undone: rewind {target}, run {loop.run}\n"
        assert work(loop) == state
    for state in states[1:]:
        loop.wf.ok("redo")
        assert work(loop) == state
    loop.wf.fails(128, ["redo"], "error: nothing to redo\n")


def test_the_list(loop: LoopRun) -> None:
    """What repeated calls would turn, in their order; nothing changes."""
    for words in (["rewind", "@5"], ["fork", "@2"], ["rm", loop.run]):
        loop.wf.ok(*words)
    before, fork = loop.refs(), run_id(2)
    assert loop.wf.ok("undo", "--list").out == (
        f"1  rm             {loop.run}\n2  fork work@1    {fork}\n3  rewind work@2  {loop.run}\n"
    )
    assert loop.wf.ok("redo", "--list").out == ""
    assert loop.refs() == before
    for _ in range(3):
        loop.wf.ok("undo")
    assert loop.wf.ok("undo", "--list").out == ""
    told = loop.wf.ok("redo", "--list", "--json").json["operations"]
    assert [(one["verb"], one["target"], one["runs"]) for one in told] == [
        ("rewind", "work@2", [loop.run]), ("fork", "work@1", [fork]), ("rm", "", [loop.run]),
    ]  # fmt: skip
    assert len(loop.wf.ok("redo", loop.run, "--list").out.splitlines()) == 2


def test_of_one_run(loop: LoopRun) -> None:
    """Of a prune, that run comes back alone; the rest can be undone after it."""
    loop.wf.ok("fork")
    loop.wf.ok("prune", "--keep", "0", "--unfinished")
    assert loop.wf.ok("undo", loop.run).out == f"undone: prune, run {loop.run}\n"
    listed = [one["run_id"] for one in loop.wf.ok("runs", "--json").json["runs"]]
    assert listed == [loop.run]
    assert loop.wf.ok("undo").out == f"undone: prune, run {run_id(2)}\n"
    for run in (run_id(2), loop.run):
        assert loop.wf.ok("redo").out == f"redone: prune, run {run}\n" + "".join(
            f"kept: {ref} (until 2030-04-02)\n"
            for ref in sorted(ref_list(loop.repo, f"refs/wf/old/{run}"), reverse=True)
        )
    loop.wf.fails(128, ["undo", "nothing"],
                  "error: no run matches 'nothing'\nhint: git wf runs lists them\n")  # fmt: skip


def test_a_new_operation_ends_what_could_be_redone(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "@2")
    loop.wf.ok("undo")
    loop.wf.ok("rewind", "@3")
    loop.wf.fails(128, ["redo"], "error: nothing to redo\n")


def test_checkpoints_made_since_are_not_dropped(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "@2")
    (kept,) = ref_list(loop.repo, "refs/wf/old")
    loop.wf.ok("resume")
    before = loop.refs()
    loop.wf.fails(
        128,
        ["undo"],
        f"error: run {loop.run} went on since 'rewind work@1': an undo would drop what it made\n"
        f"hint: git branch NAME {kept} takes up what the rewind left\n",
    )
    assert loop.refs() == before


def test_a_fork_that_went_on_stays(loop: LoopRun) -> None:
    loop.wf.ok("fork", "@2")
    loop.wf.ok("resume", run_id(2))
    before = loop.refs()
    loop.wf.fails(
        128,
        ["undo"],
        f"error: run {run_id(2)} went on since 'fork work@1': an undo would drop what it made\n"
        f"hint: git wf rm {run_id(2)} removes it\n",
    )
    assert loop.refs() == before


def test_commits_by_hand_are_not_dropped(loop: LoopRun, tmp_path: Path) -> None:
    loop.wf.ok("rewind", "@2")
    tree = tmp_path / "tree"
    git("worktree", "add", "-q", str(tree), loop.branch, cwd=loop.repo)
    git("commit", "-q", "--allow-empty", "-m", "by hand", cwd=tree)
    git("worktree", "remove", str(tree), cwd=loop.repo)
    before = loop.refs()
    assert loop.wf("undo").status == 128
    assert loop.refs() == before


def test_a_redo_after_checkpoints_is_none(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "0")
    loop.wf.ok("rewind", "@2")
    loop.wf.ok("undo")
    loop.wf.ok("rewind", "@5")
    loop.wf.ok("undo")
    loop.wf.ok("resume")
    assert loop.wf.ok("redo").out == f"redone: rewind work@2, run {loop.run}\n" + (
        f"kept: {next(iter(ref_list(loop.repo, 'refs/wf/old')))} (until 2030-04-02)\n"
    )


def test_what_was_left_behind_has_expired(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "@2")
    loop.wf.clock.advance(91 * 86400)
    loop.wf.ok("prune")
    for tree in state_files("trees/*"):
        git("worktree", "remove", "--force", str(tree), cwd=loop.repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=loop.repo)
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    loop.wf.fails(
        128, ["undo"],
        "error: what 'rewind work@1' left behind has expired\n"
        f"hint: git wf log {loop.run}: what is there can be rewound to\n",
    )  # fmt: skip


def test_a_run_that_is_there_again(loop: LoopRun) -> None:
    tips = ref_list(loop.repo, f"refs/heads/{loop.branch}", loop.meta)
    loop.wf.ok("rm", loop.run)
    for ref, oid in tips.items():
        git("update-ref", ref, oid, cwd=loop.repo)
    before = loop.refs()
    loop.wf.fails(128, ["undo"], "error: nothing to undo\n")
    assert loop.refs() == before


def test_the_json_object(loop: LoopRun) -> None:
    operation = loop.wf.ok("rewind", "@2", "--json").json["kept"][0].split("/")[4]
    told = loop.wf.ok("undo", "--json").json
    assert (told["operation"], told["target"], told["applied"]) == ("undo", operation, True)
    assert told["of"] == {"operation": operation, "verb": "rewind", "target": "work@1"}
    assert (told["run_id"], told["runs"]) == (loop.run, [loop.run])


def test_a_killed_undo_is_finished_and_no_more(loop: LoopRun, tmp_path: Path) -> None:
    """The refs have moved, and the worktree still has what was there before."""
    loop.wf.ok("rewind", "@2")
    git("config", "wf.worktreePool", "0", cwd=loop.repo)
    loop.wf("run", "--keep-worktree", tmp_path / "loop.dot")
    kept = run_id(2)
    (tree,) = (path for path in state_files("trees/*") if path.is_dir())
    loop.wf.ok("rewind", kept, "@4")
    saved = tmp_path / "saved"
    shutil.copytree(tree, saved)
    index = Path(git("rev-parse", "--absolute-git-dir", cwd=tree)) / "index"
    old_index = index.read_bytes()
    loop.wf.ok("undo")
    after = loop.refs()
    shutil.rmtree(tree)
    saved.rename(tree)
    index.write_bytes(old_index)
    result = loop.wf.ok("undo")
    assert result.out == f"finished the undo that was cut off: {kept}\n"
    assert loop.refs() == after
    assert git("status", "--porcelain", cwd=tree) == ""
    assert loop.wf.ok("undo").out.startswith("undone: rewind work@1")


def test_a_clock_that_goes_back(loop: LoopRun) -> None:
    """What was done last is undone first all the same."""
    loop.wf.ok("fork", "@2")
    loop.wf.ok("rm", run_id(2))
    loop.wf.clock.advance(-3600)
    loop.wf.ok("rewind", loop.run, "@2")
    assert loop.wf.ok("undo").out == f"undone: rewind work@1, run {loop.run}\n"
    assert loop.wf.ok("undo").out == f"undone: rm, run {run_id(2)}\n"
