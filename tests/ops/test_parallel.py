"""Parallel sections end to end: branches, merges, resumption, targets."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from git_wf.store.files import is_locked
from tests.conftest import git, make_repo
from tests.program import Program, run_id, write_workflow
from tests.tree import ROOT

F = "f [shape=component] j [shape=tripleoctagon]"
EDGES = "start -> f f -> a f -> b a -> j b -> j j -> exit"
RUN = run_id(1)
BRANCH, META = f"wf/run/{RUN}", f"wf/meta/{RUN}"
CONFLICT = f'{F} a [script="echo a >x"] b [script="echo b >x"] {EDGES}'


class Ran:
    """A run of a workflow, and what plain git says of it."""

    def __init__(self, wf: Program, repo: Path, body: str, *options: str) -> None:
        self.repo = repo
        result = wf("run", write_workflow(repo.parent / "w.dot", body), "--json", *options)
        self.status, self.err = result.status, result.err
        self.events: list[dict[str, Any]] = [json.loads(line) for line in result.out.splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == event]

    @property
    def visits(self) -> list[str]:
        return [f"{one['node']}@{one['visit']}" for one in self.of("stage_started")]

    @property
    def log(self) -> list[str]:
        """The timeline, newest last: `f (success)`."""
        return timeline(self.repo)

    @property
    def context(self) -> dict[str, Any]:
        return context(self.repo)

    @property
    def files(self) -> list[str]:
        return git("ls-tree", "-r", "--name-only", BRANCH, cwd=self.repo).splitlines()

    @property
    def open_branches(self) -> list[str]:
        return open_branches(self.repo)


def timeline(repo: Path) -> list[str]:
    listed = git("log", "--first-parent", "--reverse", "--format=%s", f"main..{BRANCH}", cwd=repo)
    return [line.split(": ", 1)[1] for line in listed.splitlines()]


def context(repo: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(git("show", f"{META}:checkpoint.json", cwd=repo))
    return dict(found["context_values"])


def open_branches(repo: Path) -> list[str]:
    root = f"refs/wf/par/{RUN}/"
    listed = git("for-each-ref", "--format=%(refname)", root, cwd=repo)
    return [line.removeprefix(root) for line in listed.splitlines()]


def parents(repo: Path, commit: str) -> list[str]:
    return git("rev-list", "-1", "--parents", commit, cwd=repo).split()[1:]


@pytest.fixture
def ran(wf: Program, repo: Path) -> Callable[..., Ran]:
    return lambda body, *options: Ran(wf, repo, body, *options)


# The rows of the list of behaviours.


def test_pl01_both_branches_run_and_the_join_once(ran, fsck):
    done = ran(f'{F} a [script="true"] b [script="true"] {EDGES}')
    assert done.status == 0
    assert sorted(done.visits) == ["a@1", "b@1", "f@1", "j@1"]
    assert done.visits[0] == "f@1" and done.visits[-1] == "j@1"
    assert done.log == ["f (success)", "j (success)"]
    fsck(done.repo)


WAITING = (
    'f [shape=component{}] j [shape=tripleoctagon] a [script="sleep 0.5"] b [script="sleep 0.5"]'
)


def stages(done: Ran) -> list[str]:
    """Beginnings and ends of the stages in branches, in order."""
    return [
        f"{one['event'].removeprefix('stage_')} {one['node']}"
        for one in done.events
        if one["event"].startswith("stage_") and "parallel_branch" in one
    ]


def test_pl02_branches_run_at_once(ran):
    done = ran(f"{WAITING.format('')} {EDGES}")
    assert done.status == 0
    assert sorted(stages(done)[:2]) == ["started a", "started b"]


def test_pl02_max_parallel(ran):
    done = ran(f"{WAITING.format(', max_parallel=1')} {EDGES}")
    assert stages(done) == ["started a", "completed a", "started b", "completed b"]


def test_pl03_a_failed_branch_is_left_out(ran):
    done = ran(f'{F} a [script="touch a"] b [script="touch b; false"] {EDGES}')
    assert done.status == 0
    assert done.log == ["f (partial_success)", "j (success)"]
    assert done.files == ["README", "a"]
    assert done.open_branches == ["f@1/2-b/meta", "f@1/2-b/run"]


def test_pl06_the_best_by_id(ran):
    done = ran(f'{F} a [script="true"] b [script="true"] '
               "start -> f f -> b f -> a a -> j b -> j j -> exit")  # fmt: skip
    assert done.context["parallel.fan_in.best_id"] == "a"
    assert done.context["parallel.fan_in.best_outcome"] == "success"
    assert [one["id"] for one in done.context["parallel.results"]] == ["b", "a"]


def test_pl07_a_conflict_fails_the_join_and_keeps_every_head(ran, fsck):
    done = ran(CONFLICT)
    assert done.status == 1
    assert done.log == ["f (success)", "j (fail)"]
    assert done.of("run_finished")[0]["failure_reason"] == "merge of branch '2-b' conflicts in x"
    assert done.files == ["README"]
    assert done.open_branches == [
        "f@1/1-a/meta", "f@1/1-a/run", "f@1/2-b/meta", "f@1/2-b/run",
    ]  # fmt: skip
    fsck(done.repo)


def test_pl07_the_best_branch_alone(ran):
    done = ran(CONFLICT.replace("tripleoctagon", 'tripleoctagon, merge="best"'))
    assert done.status == 0
    assert git("show", f"{BRANCH}:x", cwd=done.repo) == "a"
    assert done.open_branches == ["f@1/2-b/meta", "f@1/2-b/run"]


def test_pl08_a_branch_is_the_whole_path(ran):
    done = ran(f'{F} a [script="true"] a2 [script="touch deep"] b [script="true"] '
               "start -> f f -> a f -> b a -> a2 -> j b -> j j -> exit")  # fmt: skip
    assert done.status == 0
    assert "deep" in done.files


# What is recorded.


def test_the_graph_of_commits(ran, wf):
    done = ran(f'{F} a [script="touch a"] b [script="touch b"] {EDGES}')
    heads = [one["head"] for one in done.context["parallel.results"]]
    fan_out = git("rev-parse", f"{BRANCH}^", cwd=done.repo)
    assert parents(done.repo, BRANCH) == [fan_out, *heads]
    assert [parents(done.repo, head) for head in heads] == [parents(done.repo, fan_out)] * 2
    trailers = "%(trailers:key=WF-Branch,valueonly,separator=)"
    named = [git("log", "-1", f"--format={trailers}", head, cwd=done.repo) for head in heads]
    assert named == ["f@1/1-a", "f@1/2-b"]
    assert git("diff", "--name-only", f"{fan_out}^", fan_out, cwd=done.repo) == ""
    assert done.open_branches == []
    told = json.loads(wf.ok("log", "--json").out)
    assert [one["merged"] for one in told["checkpoints"]] == [[], heads]


def test_the_metadata_of_branches_is_kept(ran):
    done = ran(f'{F} a [script="echo hello"] b [script="false"] {EDGES}')
    fan_out = git("rev-parse", f"{META}~2", cwd=done.repo)
    _, first, second = parents(done.repo, fan_out)
    assert git("log", "-1", "--format=%s", first, cwd=done.repo) == "checkpoint a@1"
    assert git("show", f"{first}:nodes/a/stdout.log", cwd=done.repo) == "hello"
    assert second == git("rev-parse", f"refs/wf/par/{RUN}/f@1/2-b/meta", cwd=done.repo)
    named = git("log", "-1", "--format=%(trailers:key=WF-Head,valueonly)", fan_out, cwd=done.repo)
    heads = [one["head"] for one in done.context["parallel.results"]]
    assert named.split() == ["f@1/1-a", heads[0], "f@1/2-b", heads[1]]


def test_branches_count_visits_and_keep_their_context(ran):
    done = ran(
        f'{F} a [script="true"] b [script="true"] c [script="echo done"] '
        "start -> f f -> a f -> b a -> c b -> c c -> j j -> exit"
    )
    checkpoint = json.loads(git("show", f"{META}:checkpoint.json", cwd=done.repo))
    assert checkpoint["node_visits"] == {"a": 1, "b": 1, "c": 2, "f": 1, "j": 1}
    assert checkpoint["completed_nodes"] == ["start", "f", "j"]
    assert "command.output" not in done.context
    results = done.context["parallel.results"]
    assert [one["output"] for one in results] == ["done\n", "done\n"]
    assert results[0]["context_updates"]["command.output"] == "done\n"


def test_prepare_steps_run_in_the_worktree_of_each_branch(wf, repo, tmp_path):
    write_workflow(
        tmp_path / "w.dot", f'{F} a [script="test -e made"] b [script="test -e made"] {EDGES}'
    )
    config = tmp_path / "run.toml"
    step = f"echo $GIT_WF_BRANCH >>'{tmp_path}/told'; touch made"
    config.write_text(
        f'[workflow]\ngraph = "w.dot"\n[[run.prepare.steps]]\nscript = "{step}"\n'
        '[checkpoint]\nexclude_globs = ["made"]\n'
    )
    wf.ok("run", config)
    assert sorted((tmp_path / "told").read_text().split("\n")) == ["", "", "f@1/1-a", "f@1/2-b"]


def test_nested_sections(ran, fsck):
    done = ran(
        f"{F} g [shape=component] gj [shape=tripleoctagon]"
        ' x [script="touch x"] y [script="touch y"] b [script="touch b"]'
        " start -> f f -> g f -> b g -> x -> gj g -> y -> gj gj -> j b -> j j -> exit"
    )
    assert done.status == 0
    assert done.log == ["f (success)", "j (success)"]
    assert done.files == ["README", "b", "x", "y"]
    assert done.open_branches == []
    branches = {one["parallel_branch"] for one in done.of("stage_completed")
                if "parallel_branch" in one}  # fmt: skip
    assert branches == {"f@1/1-g", "f@1/1-g/g@1/1-x", "f@1/1-g/g@1/2-y", "f@1/2-b"}
    fsck(done.repo)


def test_twins_that_differ_in_case(ran):
    done = ran(f'{F} Fix [script="false"] fix [script="true"] '
               "start -> f f -> Fix f -> fix Fix -> j fix -> j j -> exit")  # fmt: skip
    assert done.open_branches == ["f@1/1-%46ix/meta", "f@1/1-%46ix/run"]


def test_merge_none(ran):
    done = ran(f'{F.replace("tripleoctagon", "tripleoctagon, merge=none")} '
               f'a [script="touch a"] b [script="true"] {EDGES}')  # fmt: skip
    assert done.status == 0
    assert done.files == ["README"]
    assert len(done.open_branches) == 4


def test_the_first_success_stops_the_others(ran):
    done = ran(f'{F.replace("component", "component, join_policy=first_success")} '
               f'a [script="touch a"] b [script="sleep 60; touch b"] {EDGES}')  # fmt: skip
    assert done.status == 0
    assert done.log == ["f (success)", "j (success)"]
    assert done.files == ["README", "a"]
    assert done.of("parallel_completed")[0]["branches"] == {
        "f@1/1-a": "success",
        "f@1/2-b": "stopped",
    }


def test_no_branch_succeeds(ran):
    done = ran(f'{F} a [script="exit 3"] b [script="exit 4"] {EDGES}')
    assert done.status == 1
    assert done.log == ["f (fail)"]
    assert done.of("run_finished")[0]["failure_reason"] == (
        "no branch succeeded: 1-a: exit status 3; 2-b: exit status 4"
    )


def test_without_a_fan_in_the_work_stays_on_the_refs(ran):
    done = ran('f [shape=component] a [script="touch a"] b [script="true"] c [script="true"] '
               "start -> f f -> a f -> b a -> c b -> c c -> exit")  # fmt: skip
    assert done.status == 0
    assert done.log == ["f (success)", "c (success)"]
    assert done.files == ["README"]
    assert [one["code"] for one in done.of("notice")] == ["no_fan_in"]
    assert len(done.open_branches) == 4


def test_a_branch_that_comes_back_to_its_fan_out_fails(ran):
    done = ran(f'{F} a [script="true"] b [script="true"] '
               "start -> f f -> a f -> b a -> f a -> j [condition=x] b -> j j -> exit")  # fmt: skip
    assert done.status == 0
    (fan_out,) = [one for one in done.of("stage_completed") if one["node"] == "f"]
    assert fan_out["status"] == "partial_success"
    (first, _) = done.context["parallel.results"]
    assert first["failure_reason"] == "the branch came back to its fan-out 'f'"


def test_a_goal_gate_in_a_branch_holds(ran):
    done = ran(f'{F} a [script="true"] b [script="false", goal_gate=true] {EDGES}')
    assert done.status == 1
    reason = "goal gate 'b' has not succeeded: fail"
    assert done.of("run_finished")[0]["failure_reason"] == reason


def test_fan_outs_are_refused_in_place(wf, repo, tmp_path):
    path = write_workflow(tmp_path / "w.dot", CONFLICT)
    wf.fails(
        128, ["run", "--in-place", str(path)],
        "error: fan-out 'f' cannot be run in place: its branches need worktrees\n"
        f"hint: git wf run {path}\n",
    )  # fmt: skip


def test_a_dry_run_walks_every_branch(wf, repo, tmp_path):
    path = write_workflow(tmp_path / "w.dot", CONFLICT)
    before = git("for-each-ref", cwd=repo)
    told = wf.ok("run", "--dry-run", "--json", path).out.splitlines()
    visits = [event["node"] for line in told
              if (event := json.loads(line))["event"] == "stage_started"]  # fmt: skip
    assert visits == ["f", "a", "b", "j"]
    assert git("for-each-ref", cwd=repo) == before


# The merge radar.


def test_a_conflict_is_seen_while_the_branches_run(ran, tmp_path):
    done = ran(
        f'{F} a [script="echo a >x"] b [script="echo b >x"] b2 [script="touch {tmp_path}/done"]'
        f' a2 [script="while ! test -e {tmp_path}/done; do sleep 0.01; done"]'
        " start -> f f -> a f -> b a -> a2 -> j b -> b2 -> j j -> exit"
    )
    (conflict,) = done.of("branch_conflict")
    assert conflict["branches"] == ["f@1/1-a", "f@1/2-b"]
    assert conflict["files"] == ["x"]
    names = [event["event"] for event in done.events]
    assert names.index("branch_conflict") < names.index("parallel_completed")
    assert "conflict ahead: f@1/1-a and f@1/2-b in x\n" in done.err


# Killed and resumed. What CI has of that is in test_crash_steps.py and test_crash_moments.py.

KILLED = (
    f'{F} a [script="echo a >>a"] a2 [script="echo a2 >>a"] b [script="echo b >>b"]'
    ' b2 [script="echo b2 >>b"] c [script="cat a b >>c"]'
    " start -> f f -> a f -> b a -> a2 -> j b -> b2 -> j j -> c -> exit"
)
STEPS = ("disk", "stage", "metadata", "commit", "publish", "seal")
BRANCH_STEPS = [
    (f"f@1/{name} {step}", count) for name in ("1-a", "2-b") for step in STEPS for count in (1, 2)
]
RUN_STEPS = [(step, count) for step in STEPS for count in (1, 2)]


def kill_at(repo: Path, step: str, count: int) -> None:
    path = write_workflow(repo.parent / "w.dot", KILLED)
    done = subprocess.run(
        [sys.executable, "-m", "tests.killed", step, str(count), path, RUN],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
    )
    assert done.returncode == -9, (done.returncode, done.stderr)


def state_of(repo: Path) -> tuple[Any, ...]:
    """What must be the same whether a run was killed or not."""
    values = context(repo)
    for one in values["parallel.results"]:
        one.pop("head")
    values.pop("parallel.fan_in.best_head_sha")
    checkpoint = json.loads(git("show", f"{META}:checkpoint.json", cwd=repo))
    tree = git("rev-parse", f"{BRANCH}^{{tree}}", cwd=repo)
    return tree, timeline(repo), values, checkpoint["node_visits"], open_branches(repo)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The state of the run that nobody killed, once it is known."""
    return {}


def resume_and_check(wf: Program, repo: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    wf.ok("resume", RUN)
    if not whole:
        other = make_repo(tmp_path / "whole")
        wf.ok("run", write_workflow(tmp_path / "w.dot", KILLED), cwd=other)
        whole["state"] = state_of(other)
    assert state_of(repo) == whole["state"]
    done = subprocess.run(["git", "worktree", "list"], cwd=repo, capture_output=True, text=True)
    assert " locked" not in done.stdout
    state = next((Path(os.environ["XDG_STATE_HOME"]) / "git-wf").glob("repo-*"))
    assert not [path for path in (state / "trees").glob("*.lock") if is_locked(path)]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "count"), BRANCH_STEPS + RUN_STEPS, ids=lambda value: str(value))
def test_killed_at_a_step(wf, repo, whole, tmp_path, fsck, step, count):
    kill_at(repo, step, count)
    resume_and_check(wf, repo, whole, tmp_path)
    fsck(repo)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(50))
def test_killed_at_any_moment(wf, repo, whole, tmp_path, fsck, moment):
    path = write_workflow(repo.parent / "w.dot", KILLED)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.killed", "none", "0", path, RUN],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()  # the run has begun
        with suppress(subprocess.TimeoutExpired):
            process.wait(random.Random(moment).uniform(0, 1.5))
        process.kill()
        process.wait()
    if process.returncode == -9 and json.loads(wf.ok("log", "--json").out)["finalized"] is False:
        resume_and_check(wf, repo, whole, tmp_path)
    fsck(repo)


def test_an_interrupted_section_goes_on(wf, repo, tmp_path):
    path = write_workflow(
        tmp_path / "w.dot",
        f'{F} a [script="echo a >a"] b [script="echo b >>b; test -e {tmp_path}/go || sleep 60"]'
        f" {EDGES}",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "tests.killed", "none", "0", path, RUN],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "a@1 success" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    (tmp_path / "go").touch()
    wf.ok("resume", RUN)
    assert timeline(repo) == ["f (success)", "j (success)"]
    assert git("show", f"{BRANCH}:b", cwd=repo) == "b"


def test_gc_beside_a_section(wf, repo, tmp_path, fsck):
    collect = f"git -C {repo} -c gc.pruneExpire=now gc -q --prune=now || true"
    body = (
        f'{F} a [script="echo a >a; {collect}"] b [script="echo b >b; {collect}"]'
        f' c [script="{collect}"] {EDGES} j -> c -> exit'.replace("j -> exit ", "")
    )
    wf.ok("run", write_workflow(tmp_path / "w.dot", body))
    assert git("ls-tree", "--name-only", BRANCH, cwd=repo) == "README\na\nb"
    fsck(repo)


# Resumption without what was there.


def test_a_clone_without_the_refs_of_branches_runs_the_section_again(wf, repo, tmp_path):
    kill_at(repo, "f@1/2-b publish", 1)
    clone = tmp_path / "clone"
    git("clone", "-q", repo, clone, cwd=repo)
    for ref in (f"refs/heads/{BRANCH}", f"refs/wf/meta/{RUN}"):
        git("fetch", "-q", "origin", f"{ref}:{ref}", cwd=clone)
    told = wf.ok("resume", RUN, "--json", cwd=clone)
    events = [json.loads(line) for line in told.out.splitlines()]
    notices = [one["message"] for one in events if one["event"] == "notice"]
    assert "no branch of 'f@1' is recorded here: all of them run from their start" in notices
    assert timeline(clone) == ["f (success)", "j (success)", "c (success)"]
    assert git("show", f"{BRANCH}:c", cwd=clone) == "a\na2\nb\nb2"


def test_a_clone_without_the_heads_goes_back_to_the_fan_out(wf, repo, tmp_path):
    kill_at(repo, "metadata", 2)
    clone = tmp_path / "clone"
    git("clone", "-q", f"file://{repo}", clone, cwd=repo)
    for ref in (f"refs/heads/{BRANCH}", f"refs/wf/meta/{RUN}"):
        git("fetch", "-q", "origin", f"{ref}:{ref}", cwd=clone)
    wf.ok("resume", RUN, cwd=clone)
    assert timeline(clone) == [
        "f (success)", "j (skipped)", "f (success)", "j (success)", "c (success)",
    ]  # fmt: skip
    assert git("show", f"{BRANCH}:c", cwd=clone) == "a\na2\nb\nb2"


def test_only_branches_that_had_not_finished_run_again(wf, repo):
    kill_at(repo, "f@1/1-a publish", 2)
    told = wf.ok("resume", RUN, "--json")
    started = [
        f"{one['node']}@{one['visit']}"
        for line in told.out.splitlines()
        if (one := json.loads(line))["event"] == "stage_started"
    ]
    assert "a@1" not in started and "a2@1" not in started


# Targets.


def test_a_node_inside_stands_for_the_whole_section(wf, repo, ran):
    ran(KILLED.replace("start -> f", 'p [script="touch p"] start -> p -> f'))
    before = git("rev-parse", f"{BRANCH}~3", cwd=repo)
    for target in ("a2", "b@1"):
        told = wf("rewind", RUN, target)
        notice = (
            f"notice: '{target}' is inside the section of fan-out 'f': "
            "this is the state before it, from which all of it runs again\n"
        )
        if target == "a2":
            assert told.status == 0
            assert told.out == f"run {RUN} is at p@1 ({before[:9]})\n" + told.out.partition("\n")[2]
            assert told.err.startswith(f"{notice}next: f\n")
    wf.ok("resume", RUN)
    assert timeline(repo) == ["p (success)", "f (success)", "j (success)", "c (success)"]
    assert git("show", f"{BRANCH}:c", cwd=repo) == "a\na2\nb\nb2"


def test_refs_of_a_section_that_was_given_up_are_kept_aside(wf, repo, ran):
    ran(CONFLICT)
    heads = git("for-each-ref", "--format=%(objectname)", f"refs/wf/par/{RUN}/", cwd=repo)
    wf.ok("rewind", RUN, "a")
    told = wf("resume", RUN)
    assert told.status == 1
    assert timeline(repo) == ["f (success)", "j (fail)"]
    kept = git("for-each-ref", "--format=%(objectname)", f"refs/wf/old/{RUN}/", cwd=repo)
    assert set(heads.split()) <= set(kept.split())
    assert "notice: an earlier 'f@1/1-a' is kept at refs/wf/old/" in told.err


def test_an_unknown_node_stays_unknown(wf, repo, ran):
    ran(CONFLICT)
    wf.fails(
        128, ["rewind", RUN, "nope"],
        "error: no node, ordinal or commit 'nope' in the timeline\nhint: git wf log lists them\n",
    )  # fmt: skip


def test_a_commit_that_is_in_the_way_of_the_merge_is_kept(wf, repo, ran):
    """Here a branch moved the HEAD of the run's own worktree, which its commits do not build on."""
    move = "git -C $(dirname $PWD)/1 checkout -q --detach $(git commit-tree -m odd HEAD^{tree})"
    done = ran(f'{F} a [script="touch a"] b [script="touch b; {move}"] {EDGES}')
    assert done.status == 0
    assert done.files == ["README", "a", "b"]
    assert done.log == ["f (success)", "j (success)"]
    rescued = git("for-each-ref", "--format=%(subject)", f"refs/wf/rescue/{RUN}/", cwd=repo)
    assert rescued == "odd"
