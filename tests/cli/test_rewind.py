from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from git_wf.store.files import Lock
from tests.cli.conftest import LoopRun
from tests.conftest import at_work, git
from tests.program import Program, run_id, write_workflow


def ref_list(loop: LoopRun, *patterns: str) -> dict[str, str]:
    told = git("for-each-ref", "--format=%(refname) %(objectname)", *patterns, cwd=loop.repo)
    return dict(line.split(" ") for line in told.splitlines())


def test_to_a_visit(loop: LoopRun, fsck: Callable[[Path], None]) -> None:
    """`git wf rewind plan@2`: two refs move, and a third keeps the old tip."""
    commits, metadata = loop.commits(), loop.metadata()
    before = ref_list(loop)
    result = loop.wf.ok("rewind", "plan@2")
    after = ref_list(loop)
    (kept,) = after.keys() - before.keys()
    operation = kept.split("/")[4]
    assert kept == f"refs/wf/old/{loop.run}/{operation}/run"
    assert result.out == f"run {loop.run} is at plan@2 ({commits[4][:9]})\nkept: {kept}\n"
    assert result.err == f"next: work\nhint: git wf resume {loop.run}\n"
    assert after == {
        **before,
        f"refs/heads/{loop.branch}": commits[4],
        kept: commits[6],
        loop.meta: loop.resolve(loop.meta),
    }
    assert loop.resolve(f"{loop.meta}^") == metadata[-1]
    assert loop.resolve(f"{loop.meta}^{{tree}}") == loop.resolve(f"{metadata[4]}^{{tree}}")
    assert git("log", "-1", "--format=%B", loop.meta, cwd=loop.repo).rstrip() == (
        f"rewind to plan@2\n\nWF-Run: {loop.run}\nWF-Op: {operation}\nWF-Target: plan@2\n"
        f"WF-Rewound-From: {commits[6]}"
    )
    for ref in (loop.meta, f"refs/heads/{loop.branch}", kept):
        assert git("log", "-g", "-1", "--format=%gs", ref, cwd=loop.repo) == "wf: rewind plan@2"
    assert git("symbolic-ref", "HEAD", cwd=loop.repo) == "refs/heads/main"
    assert git("status", "--porcelain", cwd=loop.repo) == ""
    fsck(loop.repo)


@pytest.mark.parametrize(
    ("target", "ordinal", "name", "after"),
    [
        ("", 5, "work@2", "check"), ("@4", 4, "plan@2", "work"), ("work@1", 2, "work@1", "check"),
        ("3", 3, "check@1", "plan"), ("COMMIT", 2, "work@1", "check"), ("@0", 0, "@0", ""),
        ("6", 0, "@0", ""), ("META", 2, "work@1", "check"), ("plan", 4, "plan@2", "work"),
    ],
)  # fmt: skip
def test_targets(loop: LoopRun, target: str, ordinal: int, name: str, after: str) -> None:
    commits = loop.commits()
    target = {"COMMIT": commits[2], "META": loop.metadata()[2]}.get(target, target)
    result = loop.wf.ok("rewind", *([target] if target else []))
    assert result.out.splitlines()[0] == (f"run {loop.run} is at {name} ({commits[ordinal][:9]})")
    following = f"next: {after}\n" if after else ""
    assert result.err == f"{following}hint: git wf resume {loop.run}\n"
    assert loop.resolve(loop.branch) == commits[ordinal]
    assert len(loop.wf.ok("log", "--json").json["checkpoints"]) == ordinal


def test_the_json_object(loop: LoopRun) -> None:
    commits, meta = loop.commits(), loop.resolve(loop.meta)
    planned = loop.wf.ok("rewind", "@2", "--json", "--dry-run").json
    assert loop.resolve(loop.branch) == commits[6]
    done = loop.wf.ok("rewind", "@2", "--json").json
    (kept,) = done["kept"]
    assert done == {
        "format": 1,
        "operation": "rewind",
        "run_id": loop.run,
        "new_run_id": None,
        "target": "work@1",
        "updates": [
            {"ref": kept, "old": None, "new": commits[6]},
            {"ref": loop.meta, "old": meta, "new": loop.resolve(loop.meta)},
            {"ref": f"refs/heads/{loop.branch}", "old": commits[6], "new": commits[2]},
        ],
        "kept": [kept],
        "applied": True,
    }
    assert (planned["applied"], planned["target"]) == (False, "work@1")


def test_the_list(loop: LoopRun) -> None:
    base, *commits = (commit[:9] for commit in loop.commits())
    told = f"""\
0  @6  check@2                success  {commits[5]}
1  @5  work@2                 success  {commits[4]}
2  @4  plan@2                 success  {commits[3]}
3  @3  check@1                fail     {commits[2]}
4  @2  work@1                 success  {commits[1]}
5  @1  plan@1                 success  {commits[0]}
6  @0  before the first node           {base}
"""
    for verb in ("rewind", "fork"):
        for words in ([], [loop.run[:10]]):
            result = loop.wf.ok(verb, *words, "--list")
            assert (result.out, result.err) == (told, "")
    listed = loop.wf.ok("rewind", "--list", "--json").json
    assert (listed["format"], listed["run_id"]) == (1, loop.run)
    assert [one["ordinal"] for one in listed["checkpoints"]] == [1, 2, 3, 4, 5, 6]
    assert set(listed["checkpoints"][0]) == {
        "ordinal", "node", "visit", "status", "recorded_status", "next_node_id", "commit",
        "metadata_commit", "timestamp", "duration_ms", "merged", "notes",
    }  # fmt: skip


def test_to_where_it_is(loop: LoopRun) -> None:
    """From a finished run that is a change: it can be resumed then."""
    loop.wf.ok("rewind", "0")
    assert loop.wf.ok("log", "--json").json["status"] == "interrupted"
    before = loop.refs()
    for target in ("0", "@6", "check@2"):
        loop.wf.fails(
            128,
            ["rewind", target],
            f"error: run {loop.run} is at check@2 already\n"
            "hint: git wf resume goes on from there\n",
        )
    assert loop.refs() == before


def test_again_and_again(loop: LoopRun, fsck: Callable[[Path], None]) -> None:
    """Each time the old tip is kept, and the metadata goes forward."""
    metadata = loop.metadata()
    for target in ("@5", "@3", "@1", "@0"):
        loop.wf.ok("rewind", target)
    assert loop.metadata()[: len(metadata)] == metadata
    assert len(loop.metadata()) == len(metadata) + 4
    kept = ref_list(loop, "refs/wf/old")
    assert len(kept) == 4
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    fsck(loop.repo)
    assert loop.wf.ok("resume").status == 0
    names = [f"{one['node']}@{one['visit']}" for one in
             loop.wf.ok("log", "--json").json["checkpoints"]]  # fmt: skip
    assert names == ["plan@1", "work@1", "check@1", "plan@2", "work@2", "check@2"]


def test_without_a_checkpoint(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "@0")
    loop.wf.fails(
        128,
        ["rewind"],
        "error: cannot go 1 checkpoints back: the run has 0\n"
        "hint: @0 is the state before the first node\n",
    )


def test_while_it_is_live(loop: LoopRun) -> None:
    before = loop.refs()
    with_lock = Lock(loop.repo / ".git" / "git-wf" / f"{loop.run}.lock", "process 1 on example")
    assert with_lock.acquire()
    try:
        assert loop.wf.ok("log", "--json").json["status"] == "running"
        for words in (["rewind", "@2"], ["rewind", "@2", "--dry-run"]):
            loop.wf.fails(
                128,
                words,
                f"fatal: run {loop.run} is going on: process 1 on example holds it\n"
                "hint: wait until it has ended, or end it with Ctrl-C there\n",
            )
    finally:
        with_lock.release()
    assert loop.refs() == before


@pytest.mark.parametrize("where", ["checkout", "worktree"])
def test_while_the_user_has_the_branch_checked_out(
    loop: LoopRun, tmp_path: Path, where: str
) -> None:
    place = loop.repo
    if where == "worktree":
        place = tmp_path / "my tree"
        git("worktree", "add", "-q", str(place), loop.branch, cwd=loop.repo)
    else:
        git("switch", "-q", loop.branch, cwd=loop.repo)
    before = loop.refs()
    for words in (["rewind", "@2"], ["rewind", "@2", "--dry-run"]):
        loop.wf.fails(
            128,
            words,
            f"error: branch '{loop.branch}' is checked out at '{place}'\n"
            f"hint: git -C '{place}' switch --detach\n",
        )
    assert loop.refs() == before
    git("switch", "-q", "--detach", cwd=place)  # as the hint says
    loop.wf.ok("rewind", "@2")


def test_without_a_run_branch(loop: LoopRun) -> None:
    git("update-ref", "-d", f"refs/heads/{loop.branch}", cwd=loop.repo)
    loop.wf.fails(
        128,
        ["rewind", "@0"],
        f"fatal: run {loop.run} has no run branch\nhint: fetch it: {loop.fetch}\n",
    )


@pytest.mark.parametrize("settings", [[], ["wf.namespace=ci", "wf.metaNamespace=refs/heads/ci/m"]])
@pytest.mark.parametrize("lost", ["run", "meta"])
def test_what_the_hint_says_brings_the_refs(
    wf: Program, repo: Path, tmp_path: Path, settings: list[str], lost: str
) -> None:
    clone = tmp_path / "clone"
    git("clone", "-q", str(repo), str(clone), cwd=tmp_path)
    for place in (repo, clone):
        for setting in settings:
            git("config", *setting.split("="), cwd=place)
    wf.ok("run", write_workflow(tmp_path / "w.dot", 'a [script="echo a >a"] start -> a -> exit'))
    told = git("for-each-ref", "--format=%(refname)", "refs/wf", "refs/heads/ci", "refs/heads/wf",
               cwd=repo)  # fmt: skip
    refs = {"meta" if "/m" in ref else "run": ref for ref in told.splitlines()}
    (kept,) = refs.keys() - {lost}
    git("fetch", "-q", "origin", f"{refs[kept]}:{refs[kept]}", cwd=clone)
    refused = wf("rewind", run_id(1), "@0", cwd=clone)
    (hint,) = (line for line in refused.err.splitlines() if "git fetch" in line)
    command = hint.partition("fetch it: ")[2].replace("REMOTE", "origin")
    subprocess.run(command, shell=True, cwd=clone, check=True)
    wf.ok("rewind", run_id(1), "@0", cwd=clone)
    assert git("rev-parse", refs["run"], cwd=clone) == git("rev-parse", "main", cwd=clone)


@pytest.mark.parametrize("verb", ["rewind", "fork"])
def test_without_the_metadata_ref(loop: LoopRun, verb: str) -> None:
    recorded = loop.resolve(f"{loop.meta}~1")
    git("update-ref", "-d", loop.meta, cwd=loop.repo)
    before = loop.refs()
    loop.wf.fails(
        128,
        [verb, "@2"],
        f"fatal: run {loop.run} has no metadata ref '{loop.meta}'\n"
        f"hint: git update-ref {loop.meta} {recorded} makes it again\n"
        f"hint: fetch it: {loop.fetch}\n",
    )
    assert loop.refs() == before


def test_a_fork_to_before_its_fork_point(loop: LoopRun) -> None:
    """It keeps a record of its own: the target's names the run that it was forked from."""
    loop.wf.ok("fork", "plan@2")
    forked = run_id(2)
    record = git("show", f"wf/meta/{forked}:run.json", cwd=loop.repo)
    source = loop.refs().replace(forked, "")
    loop.wf.ok("rewind", forked, "work@1")
    assert git("show", f"wf/meta/{forked}:run.json", cwd=loop.repo) == record
    told = loop.wf.ok("log", forked, "--json").json
    assert (told["run_id"], told["forked_from"]["run"]) == (forked, loop.run)
    assert [one["ordinal"] for one in told["checkpoints"]] == [1, 2]
    assert loop.resolve(loop.branch) in source
    loop.wf.ok("resume", forked)
    assert len(loop.wf.ok("log", forked, "--json").json["checkpoints"]) == 6
    assert git("show", f"wf/meta/{forked}:run.json", cwd=loop.repo) == record


@pytest.mark.parametrize("where", ["below", "tree", "bare"])
def test_from_elsewhere(loop: LoopRun, bare: Path, tmp_path: Path, where: str) -> None:
    place = {"below": loop.repo / "deep", "tree": tmp_path / "tree", "bare": bare}[where]
    if where == "below":
        place.mkdir()
    if where == "tree":
        git("worktree", "add", "-q", "--detach", str(place), cwd=loop.repo)
    commits = loop.commits()
    loop.wf.ok("rewind", "plan@1", cwd=place)
    assert git("rev-parse", loop.branch, cwd=place) == commits[1]
    loop.wf.ok("fork", "@1", cwd=place)
    assert git("rev-parse", f"wf/run/{run_id(2)}", cwd=place) == commits[1]


def test_without_anything_but_git(loop: LoopRun) -> None:
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    git("worktree", "prune", cwd=loop.repo)
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    loop.wf.ok("rewind", "plan@2")
    loop.wf.ok("resume")
    assert len(loop.commits()) == 7


def test_a_ref_that_moves_meanwhile(loop: LoopRun) -> None:
    """Somebody else's lock on the metadata ref: nothing moves."""
    before = loop.refs()
    with at_work(loop.repo / ".git" / f"{loop.meta}.lock"):
        result = loop.wf("rewind", "@2")
    assert result.status == 128 and result.out == ""
    assert loop.refs() == before


def test_an_operation_has_an_id_of_its_own(loop: LoopRun) -> None:
    """To the same place at the same moment twice: the first one's kept tip stays."""
    loop.wf.ok("rewind", "@2")
    loop.wf.ok("resume")
    loop.wf.ok("rewind", "@2")
    assert len(ref_list(loop, "refs/wf/old")) == 2


def test_an_empty_word_moves_nothing(loop: LoopRun, repo: Path) -> None:
    before = git("for-each-ref", cwd=repo)
    told = (
        "error: an empty word names neither a run nor a target\nhint: git wf runs lists the runs\n"
    )
    loop.wf.fails(128, ["rewind", ""], told)
    loop.wf.fails(128, ["rewind", loop.run, ""], told)
    assert git("for-each-ref", cwd=repo) == before


@pytest.mark.parametrize("word", ["HEAD", "main", "@"])
def test_where_the_user_stands_is_no_target(loop: LoopRun, repo: Path, word: str) -> None:
    before = git("for-each-ref", cwd=repo)
    loop.wf.fails(
        128,
        ["rewind", word],
        f"error: '{word}' is where the run began, not one of its checkpoints\n"
        "hint: @0 is the state before the first node\n",
    )
    assert git("for-each-ref", cwd=repo) == before


def test_a_lock_on_the_index_that_a_killed_command_left(
    wf: Program, repo: Path, tmp_path: Path
) -> None:
    body = 'a [script="echo a >a"] b [script="echo b >b"] start -> a -> b -> exit'
    wf.ok("run", "--keep-worktree", write_workflow(tmp_path / "w.dot", body))
    (place,) = [
        Path(line.removeprefix("worktree "))
        for line in git("worktree", "list", "--porcelain", cwd=repo).splitlines()
        if line.startswith("worktree ") and line != f"worktree {repo}"
    ]
    lock = Path(git("rev-parse", "--absolute-git-dir", cwd=place), "index.lock")
    lock.touch()
    wf.ok("rewind", "@1")
    assert not lock.exists()
    assert sorted(path.name for path in place.iterdir()) == [".git", "README", "a"]
    assert not git("status", "--porcelain", cwd=place)
