from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.cli.test_rm import FAN, state_files
from tests.conftest import git
from tests.program import Program, run_id, write_workflow


def recommit(loop: LoopRun, commit: str, ref: str, **change: str) -> str:
    """The tip of `ref` made anew with another message, tree or parent, and the ref moved to it."""
    message = git("log", "-1", "--format=%B", commit, cwd=loop.repo) + "\n"
    tree = change.get("tree", f"{commit}^{{tree}}")
    parent = change.get("parent", f"{commit}^")
    for old, new in (change.get("message", "") and [change["message"].split(" => ")]) or []:
        assert old in message
        message = message.replace(old, new)
    made = git("commit-tree", loop.resolve(tree), "-p", loop.resolve(parent), "-F", "-",
               cwd=loop.repo, stdin=message.encode())  # fmt: skip
    git("update-ref", ref, made, cwd=loop.repo)
    return made


def test_whole_runs(loop: LoopRun) -> None:
    """After everything that can be done to a run."""
    loop.wf.ok("rewind", "@3")
    loop.wf.ok("fork", "@2")
    loop.wf.ok("resume", run_id(2))
    loop.wf.ok("resume", loop.run)
    loop.wf.ok("rewind", loop.run, "@1")
    loop.wf.ok("undo")
    loop.wf.ok("rm", run_id(2))
    loop.wf.ok("undo")
    before = loop.refs()
    result = loop.wf.ok("verify")
    assert result.out == ""
    assert result.err.startswith("2 runs, ") and result.err.endswith(" commits: no problems\n")
    told = loop.wf.ok("verify", loop.run, "--json").json
    count = len(loop.metadata()) + len(loop.commits()) - 1
    assert told == {
        "format": 1,
        "runs": [{"run_id": loop.run, "ok": True, "problems": [], "expired": [], "commits": count}],
    }
    assert loop.refs() == before


def test_parallel_branches(wf: Program, repo: Path, tmp_path: Path) -> None:
    wf("run", write_workflow(tmp_path / "fan.dot", FAN))
    assert wf.ok("verify").out == ""
    (meta,) = git("for-each-ref", "--format=%(refname)", "refs/wf/par/**/meta",
                  cwd=repo).splitlines()[:1]  # fmt: skip
    run = meta.removesuffix("/meta") + "/run"
    message = git("log", "-1", "--format=%B", run, cwd=repo).replace("-Status: ", "-Other: ")
    bad = git("commit-tree", f"{run}^{{tree}}", "-p", f"{run}^", "-m", message, cwd=repo)
    git("update-ref", run, bad, cwd=repo)
    assert f"{run_id(1)} {bad} no trailer WF-Status\n" in wf("verify").out


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("WF-Run: => WF-Ran:", "subject or trailers are damaged"),
        ("(success) => (fail)", "subject and trailers do not agree"),
        ("WF-Completed: 7 => WF-Completed: 8", "its completed nodes is 8, its checkpoint says 7"),
        ("WF-Visit: 2 => WF-Visit: 3", "its visit is 3, its checkpoint says 2"),
        ("WF-Visit: 2\n => ", "no trailer WF-Visit"),
    ],
)
def test_a_message_that_was_changed(loop: LoopRun, message: str, problem: str) -> None:
    made = recommit(loop, loop.branch, f"refs/heads/{loop.branch}", message=message)
    result = loop.wf("verify")
    assert result.status == 1
    assert f"{loop.run} {made} {problem}\n" in result.out


def test_files_that_were_changed(loop: LoopRun) -> None:
    tree, other = loop.resolve(f"{loop.branch}^{{tree}}"), loop.resolve("main^{tree}")
    made = recommit(loop, loop.branch, f"refs/heads/{loop.branch}", tree="main^{tree}")
    result = loop.wf("verify")
    problem = f"its tree is {other}, its checkpoint says {tree}"
    assert (result.status, result.out) == (1, f"{loop.run} {made} {problem}\n")
    assert result.err == "1 run, 14 commits: 1 problem\n"
    told = loop.wf("verify", "--json")
    assert told.status == 1
    assert told.json["runs"][0]["problems"] == [{"commit": made, "problem": problem}]


def test_another_parent(loop: LoopRun) -> None:
    old, new = loop.resolve(f"{loop.branch}^"), loop.resolve(f"{loop.branch}~2")
    made = recommit(loop, loop.branch, f"refs/heads/{loop.branch}", parent=new)
    assert (
        loop.wf("verify").out
        == f"{loop.run} {made} its parent is {new}, its checkpoint says {old}\n"
    )


def test_a_checkpoint_that_is_missing(loop: LoopRun) -> None:
    meta = loop.metadata()[6]
    gone = "1" * 40
    made = recommit(loop, loop.branch, f"refs/heads/{loop.branch}", message=f"{meta} => {gone}")
    assert loop.wf("verify").out == (
        f"{loop.run} {made} metadata commit {gone} is missing or damaged\n"
    )


def test_a_branch_that_was_moved_back(loop: LoopRun) -> None:
    git("update-ref", f"refs/heads/{loop.branch}", loop.commits()[4], cwd=loop.repo)
    assert loop.wf("verify").out == (
        f"{loop.run} {loop.metadata()[6]} checkpoint check@2 is not on the run branch\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("checkpoint.json", b"[]", "read 'checkpoint.json': not a JSON object"),
        ("run.json", b'{"format": 1}',
         "read 'run.json': 'base_sha' is missing or has the wrong type"),
        ("run.json", None, "run.json is missing"),
        ("conclusion.json", b'{"format": 99}',
         "read 'conclusion.json': format 99 is newer than this git-wf knows (1)"),
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_read(
    loop: LoopRun, name: str, content: bytes | None, problem: str
) -> None:
    loop.replace_metadata(name, content)
    assert loop.wf("verify").out == f"{loop.run} {loop.resolve(loop.meta)} {problem}\n"


@pytest.mark.parametrize("what", ["run", "meta"])
def test_without_a_ref(loop: LoopRun, what: str) -> None:
    ref = loop.meta if what == "meta" else f"refs/heads/{loop.branch}"
    other = loop.resolve(loop.branch if what == "meta" else loop.meta)
    git("update-ref", "-d", ref, cwd=loop.repo)
    problem = "no metadata ref" if what == "meta" else "no run branch"
    assert loop.wf("verify").out == f"{loop.run} {other} the run has {problem}\n"


def loose_path(loop: LoopRun, revision: str) -> Path:
    """Where an object is, all of them being loose."""
    for pack in (loop.repo / ".git" / "objects" / "pack").glob("*.pack"):
        data = pack.read_bytes()
        for suffix in (".idx", ".pack", ".rev"):
            pack.with_suffix(suffix).unlink(missing_ok=True)
        git("unpack-objects", "-q", cwd=loop.repo, stdin=data)
    oid = loop.resolve(revision)
    return loop.repo / ".git" / "objects" / oid[:2] / oid[2:]


@pytest.mark.parametrize("how", ["gone", "damaged"])
@pytest.mark.parametrize("what", ["blob", "tree", "commit"])
def test_an_object_that_is(loop: LoopRun, how: str, what: str) -> None:
    meta = loop.metadata()[3]
    name = {"blob": ":checkpoint.json", "tree": "^{tree}", "commit": ""}[what]
    path = loose_path(loop, f"{meta}{name}")
    path.unlink()
    if how == "damaged":
        path.write_bytes(b"damaged")
    result = loop.wf("verify")
    assert result.status == 1
    assert meta in result.out and "is missing or damaged\n" in result.out


def test_what_has_expired_is_no_problem(loop: LoopRun) -> None:
    tip = loop.resolve(loop.branch)
    loop.wf.ok("rewind", "@2")
    rewound = loop.resolve(loop.meta)
    (kept,) = git("for-each-ref", "--format=%(refname)", "refs/wf/old", cwd=loop.repo).split()
    git("update-ref", "-d", kept, cwd=loop.repo)
    for tree in state_files("trees/*"):
        git("worktree", "remove", "--force", os.fspath(tree), cwd=loop.repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=loop.repo)
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    what = f"commit {tip}, which 'rewind work@1' left behind"
    assert loop.wf("verify").out == f"{loop.run} {rewound} {what}, is missing\n"
    loop.wf.clock.advance(91 * 86400)
    result = loop.wf.ok("verify")
    assert result.err.splitlines()[0] == f"notice: {loop.run} {rewound} expired: {what}"
    told = loop.wf.ok("verify", "--json").json["runs"][0]
    assert (told["ok"], told["expired"]) == (True, [{"commit": rewound, "what": what}])


def test_without_runs(wf: Program) -> None:
    assert wf.ok("verify").err == "0 runs, 0 commits: no problems\n"
    assert wf.ok("verify", "--json").json == {"format": 1, "runs": []}
