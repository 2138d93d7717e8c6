"""Every state that a run can be left in, and what resume makes of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import git, make_repo
from tests.ops.runs import (
    Gate,
    Told,
    finished,
    first_ended,
    held_at,
    kill_in_node,
    killed_run,
    leftovers,
    metadata_subjects,
    own_id,
    read_run,
    refs,
    start,
)
from tests.program import Program, write_workflow

Fsck = Callable[[Path], None]
STEPS = ["disk", "stage", "metadata", "commit", "publish", "seal"]
RUN = own_id(1)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """What a test leaves of its run at the gate is not the next one's."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    yield Gate(path)
    for process in leftovers(RUN):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """Outside the worktree: every node writes its name there each time that it is run."""
    return tmp_path / "counted"


@pytest.fixture
def loop(tmp_path: Path, counted: Path) -> Path:
    """Four checkpoints: a@1, check@1 (fail), mend@1, check@2; one value is an artifact."""
    return write_workflow(
        tmp_path / "loop.dot",
        f"""
        a [script="echo a >>{counted}; echo a >>log; awk 'BEGIN {{ while (i++ < 20000) print i }}'"]
        check [script="echo check >>{counted}; echo c >>log; rm -f gone; test -e mended"]
        mend [script="echo mend >>{counted}; echo m >mended; echo x >gone"]
        start -> a -> check
        check -> exit [condition="outcome=success"]
        check -> mend [condition="outcome=fail"]
        mend -> check
        """,
    )


def untouched(wf: Program, tmp_path: Path, workflow: Path) -> Told:
    """The same workflow in a repository of its own, without a crash."""
    repo = make_repo(tmp_path / "untouched")
    wf.ok("run", workflow, "--id", own_id(91), cwd=repo)
    return read_run(repo, own_id(91))


def notices(text: str) -> list[str]:
    """What was told beside progress, ids left out."""
    lines = [line.removeprefix("notice: ") for line in text.splitlines() if "notice: " in line]
    return [re.sub(r"[0-9a-f]{40}|[0-9A-Z]{26}|'/[^']*'", "…", line) for line in lines]


# SIGKILL behind every step.


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("step", STEPS)
def test_killed_behind_a_step(
    wf: Program, repo: Path, tmp_path: Path, loop: Path, counted: Path, fsck: Fsck,
    step: str, count: int,
) -> None:  # fmt: skip
    killed_run(loop, repo, step, count, "--id", RUN)
    result = wf.ok("resume", RUN)
    ran = counted.read_text().split()
    assert ran == ["a", "check", "mend", "check"]  # no visit twice
    counted.unlink()
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)
    fsck(repo)
    name = {1: "a@1", 3: "mend@1"}[count]
    finishing = [f"{name} had ended: its checkpoint is recorded"]
    assert notices(result.err) == (finishing if step in STEPS[:4] else [])
    assert refs(repo) == {}
    kept = list((repo / ".git/objects/pack").glob("*.keep"))
    assert kept == []


def test_killed_twice(wf: Program, repo: Path, tmp_path: Path, loop: Path, counted: Path) -> None:
    killed_run(loop, repo, "disk", 2, "--id", RUN)
    status, _, _ = finished(start("resume", RUN, cwd=repo, crash=("metadata", 1)))
    assert status == -signal.SIGKILL
    status, _, _ = finished(start("resume", RUN, cwd=repo, crash=("disk", 1)))
    wf.ok("resume", RUN)
    assert counted.read_text().split() == ["a", "check", "mend", "check"]
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


def test_killed_after_a_rewind(wf: Program, repo: Path, tmp_path: Path, loop: Path) -> None:
    wf.ok("run", loop, "--id", RUN)
    wf.ok("rewind", RUN, "a@1")
    status, _, err = finished(start("resume", RUN, cwd=repo, crash=("disk", 1)))
    assert status == -signal.SIGKILL, err
    result = wf.ok("resume", RUN)
    assert notices(result.err) == ["check@1 had ended: its checkpoint is recorded"]
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


def test_killed_in_a_fork(wf: Program, repo: Path, tmp_path: Path, loop: Path) -> None:
    wf.ok("run", loop, "--id", RUN)
    new = own_id(7)
    wf.ok("fork", RUN, "check@1", "--id", new)
    status, _, err = finished(start("resume", new, cwd=repo, crash=("disk", 1)))
    assert status == -signal.SIGKILL, err
    result = wf.ok("resume", new)
    assert notices(result.err) == ["mend@1 had ended: its checkpoint is recorded"]
    assert read_run(repo, new) == untouched(wf, tmp_path, loop)


@pytest.mark.parametrize(("count", "target"), [(1, "@0"), (2, "@0"), (2, "a@1")])
def test_a_rewind_leaves_nothing_pending(
    wf: Program, repo: Path, tmp_path: Path, loop: Path, counted: Path, count: int, target: str
) -> None:
    """The disk knows of a checkpoint that was rewound past: it must not come back."""
    killed_run(loop, repo, "publish", count, "--id", RUN)
    wf.ok("rewind", RUN, target)
    result = wf.ok("resume", RUN)
    assert notices(result.err) == []
    again = {"@0": ["a", "check"], "a@1": ["check"]}[target]
    before = ["a", "check"][:count]
    assert counted.read_text().split() == [*before, *again, "mend", "check"]
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


# The disk ahead of git, and a visit started since.


def test_visits_that_were_not_recorded_run_again(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate, fsck: Fsck
) -> None:
    block = f"{repo}/.git/refs/heads/wf/run/{RUN}.lock"
    workflow = write_workflow(
        tmp_path / "w.dot",
        f"""
        a [script="echo a >>log"]
        b [script="echo b >>log; while test -p {gate.path}; do touch {block}; sleep 0.2; done &"]
        c [script="echo c >>log"]
        d [script="echo half >half; {gate.script}; rm -f half"]
        start -> a -> b -> c -> d -> exit
        """,
    )
    kill_in_node(gate, "run", workflow, "--id", RUN, cwd=repo)
    assert read_run(repo, RUN).timeline == [(1, "a", 1, "success")]
    result = wf.ok("resume", RUN)
    (rescue,) = refs(repo)
    ended, *told = notices(result.err)
    assert ended.startswith("ended "), ended  # some `touch` among them, or not
    assert told == [
        "removed …, which a killed git left behind",
        "b@1, c@1 had ended but were not recorded: they run again",
        "unrecorded changes in the worktree are kept at refs/wf/rescue/…/…",
    ]
    assert git("show", f"{rescue}:log", cwd=repo) == "a\nb\nc"
    assert git("show", f"{rescue}:half", cwd=repo) == "half"
    assert read_run(repo, RUN) == untouched(wf, tmp_path, workflow)
    fsck(repo)


# The run branch one ahead of the metadata ref.


@pytest.mark.parametrize("is_gone", [False, True])
def test_run_branch_ahead_of_metadata(
    wf: Program, repo: Path, tmp_path: Path, loop: Path, counted: Path, fsck: Fsck, is_gone: bool
) -> None:
    killed_run(loop, repo, "publish", 2, "--id", RUN)
    meta = f"refs/wf/meta/{RUN}"
    tip = git("rev-parse", meta, cwd=repo)
    git("update-ref", meta, f"{meta}^", cwd=repo)
    if is_gone:
        shutil.rmtree(os.environ["XDG_STATE_HOME"])
    result = wf.ok("resume", RUN)
    assert notices(result.err)[0] == "the metadata ref was one behind: moved to …"
    assert git("merge-base", "--is-ancestor", tip, meta, cwd=repo) == ""
    assert counted.read_text().split() == ["a", "check", "mend", "check"]
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)
    fsck(repo)


def test_log_and_rewind_see_a_run_branch_that_is_ahead(wf: Program, repo: Path, loop: Path) -> None:
    killed_run(loop, repo, "publish", 2, "--id", RUN)
    git("update-ref", f"refs/wf/meta/{RUN}", f"refs/wf/meta/{RUN}^", cwd=repo)
    told = wf.ok("log", RUN, "--json").json
    assert [(one["node"], one["notes"]) for one in told["checkpoints"]] == [
        ("a", []),
        ("check", []),
    ]
    wf.ok("rewind", RUN, "a")
    wf.ok("resume", RUN)
    assert [entry[:3] for entry in read_run(repo, RUN).timeline] == [
        (1, "a", 1), (2, "check", 1), (3, "mend", 1), (4, "check", 2),
    ]  # fmt: skip


# A dirty worktree.


def held_workflow(tmp_path: Path, gate: Gate, before: str = "", after: str = "") -> Path:
    """a, then b, which does `before` and stays at the gate; without a gate it goes on."""
    return write_workflow(
        tmp_path / "held.dot",
        f"""
        a [script="echo a >>log; printf '*.ignored\\n' >.gitignore; echo 1 >tracked.tmp"]
        b [script="if [ -p '{gate.path}' ]; then {before or "true"}
 fi; {gate.script}
            {after or "echo b >>log"}"]
        c [script="echo c >>log"]
        start -> a -> b -> c -> exit
        """,
    )


def test_half_done_work_is_rescued(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate, fsck: Fsck
) -> None:
    held_workflow(
        tmp_path, gate,
        "echo half >>log; rm README; echo n >new; git add new; echo i >x.ignored; echo e >x.tmp; "
        "mkdir node_modules; echo m >node_modules/m",
    )  # fmt: skip
    (tmp_path / "run.toml").write_text(
        '_version = 1\n[workflow]\ngraph = "held.dot"\n[checkpoint]\nexclude_globs = ["*.tmp"]\n'
    )
    kill_in_node(gate, "run", tmp_path / "run.toml", "--id", RUN, cwd=repo)
    result = wf.ok("resume", RUN, "--keep-worktree")
    (rescue,) = refs(repo)
    assert notices(result.err) == [
        "ended 1 processes of the run",
        "unrecorded changes in the worktree are kept at refs/wf/rescue/…/…",
        "left out by the built-in excludes: node_modules/",
    ]
    tip = f"wf/run/{RUN}~2"
    assert git("diff", "--name-status", tip, rescue, cwd=repo) == (
        "D\tREADME\nM\tlog\nA\tnew\nA\tnode_modules/m\nA\ttracked.tmp\nA\tx.tmp"
    )
    tree = Path(re.search(r"worktree: +(.*)", result.err)[1])  # type: ignore[index]
    left = {name: (tree / name).read_text() for name in ("x.ignored", "x.tmp", "node_modules/m")}
    assert left == {"x.ignored": "i\n", "x.tmp": "e\n", "node_modules/m": "m\n"}
    assert git("show", f"wf/run/{RUN}:log", cwd=repo) == "a\nb\nc"
    assert git("ls-tree", "--name-only", f"wf/run/{RUN}", cwd=repo) == ".gitignore\nREADME\nlog"
    fsck(repo)


def test_a_clean_worktree_is_no_rescue(wf: Program, repo: Path, tmp_path: Path, gate: Gate) -> None:
    workflow = held_workflow(tmp_path, gate)
    kill_in_node(gate, "run", workflow, "--id", RUN, cwd=repo)
    result = wf.ok("resume", RUN)
    assert notices(result.err) == ["ended 1 processes of the run"]
    assert refs(repo) == {}


# HEAD elsewhere.

COMMIT = "echo n >new; git add new; git commit -q -m 'of the node'"
ELSEWHERE = {
    "committed": COMMIT,
    "switched": "git switch -q -c side",
    "switched and committed": f"git switch -q -c side; {COMMIT}",
    "reset back": "git reset -q --hard HEAD^",
    "reset back and committed": f"git reset -q --hard HEAD^; {COMMIT}",
    "detached": "git switch -q --detach",
    "detached and committed": f"git switch -q --detach; {COMMIT}",
    "deleted the branch": f"git switch -q --detach; git branch -q -D wf/run/{RUN}",
    "moved the branch": f"git switch -q --detach; {COMMIT}; git branch -q -f wf/run/{RUN}",
    "orphan": f"git switch -q --orphan lonely; {COMMIT}",
    "unborn": "git switch -q --orphan lonely",
    "merging": f"git switch -q -c side; {COMMIT}; git switch -q -; echo o >new; git add new; "
    "git commit -q -m other; git merge -q side || true",
    "no .git": "rm .git",
    "own repository": f"rm .git; git init -q .; {COMMIT}",
    "no index": 'rm "$(git rev-parse --git-dir)/index"',
    "bad index": 'echo bad >"$(git rev-parse --git-dir)/index"',
    "no HEAD": 'rm "$(git rev-parse --git-dir)/HEAD"',
    "bad HEAD": 'echo bad >"$(git rev-parse --git-dir)/HEAD"',
}
# Commits that only the rescue refs keep.
LOST = {
    "committed", "reset back and committed", "detached and committed", "moved the branch",
    "switched and committed", "orphan",
}  # fmt: skip


@pytest.mark.parametrize("how", ELSEWHERE)
def test_head_elsewhere_after_a_kill(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate, fsck: Fsck, how: str
) -> None:
    workflow = held_workflow(tmp_path, gate, ELSEWHERE[how].replace('"', '\\"'))
    kill_in_node(gate, "run", workflow, "--id", RUN, cwd=repo)
    wf.ok("resume", RUN)
    assert read_run(repo, RUN) == untouched(wf, tmp_path, workflow)
    subjects = git("log", "--format=%s", f"wf/run/{RUN}", cwd=repo)
    assert "of the node" not in subjects and "other" not in subjects
    kept = git("log", "--format=%s", "--glob=refs/wf/rescue", cwd=repo) if refs(repo) else ""
    assert ("of the node" in kept) == (how in LOST)
    fsck(repo)


@pytest.mark.parametrize("how", ELSEWHERE)
def test_head_elsewhere_in_a_run(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate, fsck: Fsck, how: str
) -> None:
    """A node does it, and ends: its commits on top of ours stay, all else is set aside."""
    gate.close()
    workflow = held_workflow(
        tmp_path, gate, after=f"{ELSEWHERE[how]}; echo b >>log".replace('"', '\\"')
    )
    result = wf.ok("run", workflow, "--id", RUN)
    assert "no checkpoint could be recorded" not in result.err
    told = read_run(repo, RUN)
    assert told.timeline == [(1, "a", 1, "success"), (2, "b", 1, "success"), (3, "c", 1, "success")]
    assert git("show", f"wf/run/{RUN}:log", cwd=repo).endswith("b\nc")
    subjects = git("log", "--format=%s", f"wf/run/{RUN}", cwd=repo).splitlines()
    assert subjects[-1] == "first" and f"wf({RUN}): a (success)" in subjects
    everything = git("log", "--format=%s", "--all", cwd=repo).splitlines()
    has_committed = "of the node" in ELSEWHERE[how] and how != "own repository"
    assert ("of the node" in everything) == has_committed
    fsck(repo)


def test_commits_on_the_run_branch_stay_where_no_node_was_at_work(
    wf: Program, repo: Path, loop: Path, tmp_path: Path
) -> None:
    """Somebody mends something by hand between two nodes, and resumes."""
    killed_run(loop, repo, "seal", 2, "--id", RUN)
    tree = Path(
        git("worktree", "list", "--porcelain", cwd=repo).split("worktree ")[2].split("\n")[0]
    )
    (tree / "by hand").write_text("x\n")
    git("add", "-A", cwd=tree)
    git("commit", "-q", "-m", "by hand", cwd=tree)
    wf.ok("resume", RUN)
    assert "by hand" in git("log", "--format=%s", f"wf/run/{RUN}", cwd=repo).splitlines()
    assert [entry[1:3] for entry in read_run(repo, RUN).timeline] == [
        ("a", 1), ("check", 1), ("mend", 1), ("check", 2),
    ]  # fmt: skip


# The worktree and its registration.


def slot_of(repo: Path) -> Path:
    told = git("worktree", "list", "--porcelain", cwd=repo)
    (path,) = [line[9:] for line in told.splitlines() if line.startswith("worktree ")][1:]
    return Path(path)


def _prune(repo: Path, tree: Path) -> None:
    shutil.rmtree(tree)
    git("worktree", "unlock", str(tree), cwd=repo)
    git("worktree", "prune", cwd=repo)


REGISTRATIONS: dict[str, Callable[[Path, Path], object]] = {
    "worktree gone": lambda repo, tree: shutil.rmtree(tree),
    "pruned": _prune,
    "unlocked": lambda repo, tree: git("worktree", "unlock", str(tree), cwd=repo),
    "registration gone": lambda repo, tree: shutil.rmtree(repo / ".git/worktrees"),
    "a file in its place": lambda repo, tree: (shutil.rmtree(tree), tree.write_text("x")),
    "gitdir gone": lambda repo, tree: next((repo / ".git/worktrees").glob("*/gitdir")).unlink(),
    "run directory gone": lambda repo, tree: shutil.rmtree(tree.parents[1] / "runs"),
    "all state gone": lambda repo, tree: shutil.rmtree(tree.parents[1]),
}


@pytest.mark.parametrize("how", REGISTRATIONS)
def test_registration(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate, fsck: Fsck, how: str
) -> None:
    workflow = held_workflow(tmp_path, gate, "echo half >>log")
    kill_in_node(gate, "run", workflow, "--id", RUN, cwd=repo)
    REGISTRATIONS[how](repo, slot_of(repo))
    wf.ok("resume", RUN)
    assert read_run(repo, RUN) == untouched(wf, tmp_path, workflow)
    assert git("worktree", "list", "--porcelain", cwd=repo).count("\nlocked") == 0
    fsck(repo)


def test_commits_of_a_half_done_node_are_set_aside_without_its_worktree(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate
) -> None:
    workflow = held_workflow(tmp_path, gate, COMMIT)
    kill_in_node(gate, "run", workflow, "--id", RUN, cwd=repo)
    shutil.rmtree(slot_of(repo))
    wf.ok("resume", RUN)
    assert read_run(repo, RUN) == untouched(wf, tmp_path, workflow)
    assert "of the node" in git("log", "--format=%s", "--glob=refs/wf/rescue", cwd=repo)


@pytest.mark.parametrize("where", ["refs/heads/wf/run/{}.lock", "refs/wf/meta/{}.lock"])
def test_stale_ref_locks(wf: Program, repo: Path, loop: Path, tmp_path: Path, where: str) -> None:
    killed_run(loop, repo, "commit", 2, "--id", RUN)
    lock = repo / ".git" / where.format(RUN)
    lock.touch()
    os.utime(lock, (0, 0))
    result = wf.ok("resume", RUN)
    assert f"removed '{lock}', which a killed git left behind" in result.err
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


def test_stale_locks_of_the_worktree(wf: Program, repo: Path, loop: Path, tmp_path: Path) -> None:
    killed_run(loop, repo, "disk", 2, "--id", RUN)
    git_dir = Path(git("rev-parse", "--git-dir", cwd=slot_of(repo)))
    for name in ("index.lock", "HEAD.lock"):
        (git_dir / name).touch()
        os.utime(git_dir / name, (0, 0))
    result = wf.ok("resume", RUN)
    assert [line for line in notices(result.err) if "removed" in line] == [
        "removed …, which a killed git left behind"
    ] * 2
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


# Processes that outlived their engine.


def test_leftover_processes_are_ended(wf: Program, repo: Path, tmp_path: Path, gate: Gate) -> None:
    workflow = held_workflow(tmp_path, gate, "(while :; do echo w >>log; sleep 0.02; done) &")
    kill_in_node(gate, "run", workflow, "--id", RUN, cwd=repo)
    assert len(leftovers(RUN)) >= 2
    result = wf.ok("resume", RUN)
    assert leftovers(RUN) == []
    assert "processes of the run" in result.err
    assert git("show", f"wf/run/{RUN}:log", cwd=repo) == "a\nb\nc"


def test_interrupted_in_a_node(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate, fsck: Fsck
) -> None:
    workflow = held_workflow(tmp_path, gate, "echo half >>log; sleep 300 & setsid sleep 300 &")
    with held_at(gate, start("run", workflow, "--id", RUN, cwd=repo)) as process:
        process.send_signal(signal.SIGINT)
        status, out, err = finished(process)
    gate.close()
    assert status == 130, err
    assert out == f"{RUN}\n"
    assert f"go on:        git wf resume {RUN}\n" in err
    assert leftovers(RUN) == []
    assert [one["status"] for one in wf.ok("runs", "--json").json["runs"]] == ["interrupted"]
    wf.ok("resume", RUN)
    assert read_run(repo, RUN) == untouched(wf, tmp_path, workflow)
    fsck(repo)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals(repo: Path, tmp_path: Path, gate: Gate, number: int, status: int) -> None:
    workflow = held_workflow(tmp_path, gate)
    with held_at(gate, start("run", workflow, "--id", RUN, cwd=repo)) as process:
        process.send_signal(number)
        ended = finished(process)
    assert ended[0] == status, ended
    assert leftovers(RUN) == []


def test_the_same_run_in_another_clone_goes_on(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate
) -> None:
    other = Gate(tmp_path / "other-gate")
    os.mkfifo(other.path)
    (tmp_path / "there").mkdir()
    elsewhere = held_workflow(tmp_path / "there", other)
    clone = tmp_path / "clone"
    git("clone", "-q", str(repo), str(clone), cwd=tmp_path)
    with held_at(other, start("run", elsewhere, "--id", RUN, cwd=clone)) as there:
        kill_in_node(gate, "run", held_workflow(tmp_path, gate), "--id", RUN, cwd=repo)
        wf.ok("resume", RUN)
        assert [process.command for process in leftovers(RUN)] == ["sleep"]
        there.send_signal(signal.SIGINT)
        assert finished(there)[0] == 130
    assert leftovers(RUN) == []


# Who may go on.


def test_a_concluded_run_is_refused(wf: Program, repo: Path, loop: Path) -> None:
    wf.ok("run", loop, "--id", RUN)
    before = git("for-each-ref", cwd=repo)
    wf.fails(
        128,
        ["resume", RUN],
        f"error: run {RUN} has ended: success\nhint: git wf rewind {RUN} && git wf resume {RUN}\n",
    )
    assert git("for-each-ref", cwd=repo) == before


def test_a_live_run_is_held(wf: Program, repo: Path, tmp_path: Path, gate: Gate) -> None:
    workflow = held_workflow(tmp_path, gate)
    with held_at(gate, start("run", workflow, "--id", RUN, cwd=repo)) as process:
        before = git("for-each-ref", cwd=repo)
        host = os.uname().nodename
        refused = (
            f"fatal: run {RUN} is going on: process {process.pid} on {host} holds it\n"
            "hint: wait until it has ended, or end it with Ctrl-C there\n"
        )
        wf.fails(128, ["resume", RUN], refused)
        wf.fails(128, ["rewind", RUN, "@0"], refused)
        wf.fails(
            128,
            ["run", str(workflow), "--id", RUN],
            f"error: run {RUN} exists already\nhint: git wf log {RUN}\n",
        )
        assert git("for-each-ref", cwd=repo) == before
        assert [one["status"] for one in wf.ok("runs", "--json").json["runs"]] == ["running"]
        wf.ok("fork", RUN, "--id", own_id(5))
    gate.close()
    wf.ok("resume", own_id(5))
    assert git("show", f"wf/run/{own_id(5)}:log", cwd=repo) == "a\nb\nc"


def test_two_resumes_at_once(wf: Program, repo: Path, tmp_path: Path, gate: Gate) -> None:
    workflow = held_workflow(tmp_path, gate)
    with held_at(gate, start("run", workflow, "--id", RUN, cwd=repo)) as process:
        process.kill()
    both = [start("resume", RUN, cwd=repo) for _ in range(2)]
    gate.wait()
    try:
        loser = first_ended(both)
        status, _, err = finished(loser)
        winner = both[1 - both.index(loser)]
        assert status == 128
        assert f"run {RUN} is going on: process {winner.pid} on " in err
        winner.kill()
    finally:
        for process in both:
            process.kill()
            process.communicate()
    gate.close()
    wf.ok("resume", RUN)
    assert read_run(repo, RUN) == untouched(wf, tmp_path, workflow)


# What it needs, and by which names.


def test_a_changed_workflow_does_not_matter(
    wf: Program, repo: Path, tmp_path: Path, loop: Path
) -> None:
    killed_run(loop, repo, "seal", 1, "--id", RUN)
    text = loop.read_text()
    loop.write_text("not a workflow any more")
    wf.ok("resume", RUN)
    loop.write_text(text)
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


def test_resume_says_where_it_goes_on(wf: Program, repo: Path, loop: Path) -> None:
    killed_run(loop, repo, "seal", 1, "--id", RUN)
    wf.ok("resume")
    assert metadata_subjects(repo, RUN) == [
        "init run", "checkpoint a@1", "resume", "checkpoint check@1", "checkpoint mend@1",
        "checkpoint check@2", "finalize run",
    ]  # fmt: skip


def run_directory(repo: Path) -> Path:
    (found,) = Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/runs/*")
    return found


@pytest.mark.parametrize("how", ["file", "directory", "copy"])
def test_run_resume_file(wf: Program, repo: Path, tmp_path: Path, loop: Path, how: str) -> None:
    killed_run(loop, repo, "seal", 2, "--id", RUN)
    path = run_directory(repo) / "checkpoint.json"
    if how == "copy":
        path = Path(shutil.copy(path, tmp_path / "a copy.json"))
        shutil.rmtree(run_directory(repo))
    wf.ok("run", "--resume", path.parent if how == "directory" else path)
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


def test_run_resume_of_an_older_file(wf: Program, repo: Path, tmp_path: Path, loop: Path) -> None:
    killed_run(loop, repo, "seal", 1, "--id", RUN)
    old = Path(shutil.copy(run_directory(repo) / "checkpoint.json", tmp_path / "old.json"))
    finished(start("resume", RUN, cwd=repo, crash=("seal", 1)))
    wf.fails(
        128,
        ["run", "--resume", str(old)],
        f"error: '{old}' is checkpoint @1, the run is at @2\n"
        + f"hint: git wf rewind {RUN} @1 && git wf resume {RUN}\n",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "read '{}': not valid JSON: Expecting property name enclosed in double quotes: "
              "line 1 column 2 (char 1)"),
        ("[]", "read '{}': not a JSON object"),
        ("{}", "read checkpoint '{}': no run_id or no current_node"),
        ('{"format": 2}', "read '{}': format 2 is newer than this git-wf knows (1)"),
    ],
)  # fmt: skip
def test_run_resume_of_a_corrupt_file(
    wf: Program, repo: Path, tmp_path: Path, loop: Path, text: str, told: str
) -> None:
    killed_run(loop, repo, "seal", 1, "--id", RUN)
    path = tmp_path / "checkpoint.json"
    path.write_text(text)
    before = git("for-each-ref", cwd=repo)
    hint = "hint: upgrade git-wf\n" if "newer" in told else ""
    wf.fails(128, ["run", "--resume", str(path)], f"fatal: {told.format(path)}\n{hint}")
    assert git("for-each-ref", cwd=repo) == before


def test_run_resume_without_a_file(wf: Program, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    wf.fails(
        128,
        ["run", "--resume", str(path)],
        f"error: no file '{path}'\nhint: git wf resume RUN needs no file\n",
    )


def test_a_corrupt_checkpoint_on_disk_is_passed_over(
    wf: Program, repo: Path, tmp_path: Path, loop: Path
) -> None:
    killed_run(loop, repo, "seal", 2, "--id", RUN)
    (run_directory(repo) / "checkpoint.json").write_text("{")
    result = wf.ok("resume", RUN)
    assert notices(result.err)[0].startswith("passed over: read …: not valid JSON")
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


@pytest.mark.parametrize("form", ["wf/run/{}", "refs/heads/wf/run/{}", "{}"])
def test_run_branch_option(wf: Program, repo: Path, tmp_path: Path, loop: Path, form: str) -> None:
    killed_run(loop, repo, "seal", 2, "--id", RUN)
    wf.ok("run", "--run-branch", form.format(RUN))
    assert read_run(repo, RUN) == untouched(wf, tmp_path, loop)


def test_a_clone_without_the_run_branch(
    wf: Program, repo: Path, tmp_path: Path, loop: Path
) -> None:
    killed_run(loop, repo, "seal", 2, "--id", RUN)
    clone, meta = tmp_path / "clone", f"refs/wf/meta/{RUN}"
    git("clone", "-q", "--no-local", "--single-branch", str(repo), str(clone), cwd=tmp_path)
    git("fetch", "-q", "origin", f"{meta}:{meta}", cwd=clone)
    branch = f"refs/heads/wf/run/{RUN}"
    wf.fails(
        128,
        ["resume", RUN],
        f"fatal: run {RUN} has no run branch\n"
        f"hint: fetch it: git fetch REMOTE '{branch}:{branch}' '{meta}:{meta}'\n",
        clone,
    )
    git("fetch", "-q", "origin", f"{branch}:{branch}", f"{meta}:{meta}", cwd=clone)
    wf.ok("resume", RUN, cwd=clone)
    assert read_run(clone, RUN) == untouched(wf, tmp_path, loop)


@pytest.mark.parametrize("place", [[], ["--in-place"]])
def test_before_the_first_checkpoint_it_is_resumed_too(
    wf: Program, repo: Path, tmp_path: Path, gate: Gate, place: list[str]
) -> None:
    workflow = write_workflow(tmp_path / "w.dot", f'a [script="{gate.script}"] start -> a -> exit')
    kill_in_node(gate, "run", *place, workflow, "--id", RUN, cwd=repo)
    path = run_directory(repo) / "checkpoint.json"
    result = wf.ok("run", "--resume", path) if place else wf.ok("resume", RUN)
    assert result.err.startswith(f"run {RUN} resumed"), result.err


def test_an_in_place_run(wf: Program, tmp_path: Path, gate: Gate, counted: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    workflow = write_workflow(
        tmp_path / "w.dot",
        f"""
        a [script="echo a >>{counted}; awk 'BEGIN {{ while (i++ < 20000) print i }}'"]
        b [script="{gate.script}; echo b >>{counted}"]
        c [script="echo c >>{counted}"]
        start -> a -> b -> c -> exit
        """,
    )
    kill_in_node(gate, "run", "--in-place", workflow, "--id", RUN, cwd=folder)
    (path,) = Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/runs/*/checkpoint.json")
    wf.ok("run", "--resume", path, cwd=folder)
    assert counted.read_text().split() == ["a", "b", "c"]
    assert leftovers(RUN) == []
    checkpoint = json.loads(path.read_text())
    assert [checkpoint[key] for key in ("ordinal", "current_node", "completed_nodes")] == [
        3, "c", ["start", "a", "b", "c"],
    ]  # fmt: skip
    wf.fails(
        128, ["run", "--resume", str(path)],
        f"error: run {RUN} has ended: success\n"
        "hint: git wf run --in-place WORKFLOW starts another\n",
        folder,
    )  # fmt: skip


def test_an_in_place_run_is_held(wf: Program, tmp_path: Path, gate: Gate) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    workflow = write_workflow(
        tmp_path / "w.dot", f'a [script="true"] b [script="{gate.script}"] start -> a -> b -> exit'
    )
    words = ("run", "--in-place", workflow, "--id", RUN)
    with held_at(gate, start(*words, cwd=folder)) as process:
        (path,) = Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/runs/*/checkpoint.json")
        wf.fails(
            128,
            ["run", "--resume", str(path)],
            f"fatal: run {RUN} is going on: process {process.pid} on {os.uname().nodename} "
            "holds it\nhint: wait until it has ended, or end it with Ctrl-C there\n",
            folder,
        )
        process.send_signal(signal.SIGINT)
        assert finished(process)[0] == 130
    gate.close()
    wf.ok("run", "--resume", path, cwd=folder)
