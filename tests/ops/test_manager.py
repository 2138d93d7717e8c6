"""Child workflows end to end: their runs, their merge, resumption."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from git_wf.core.dot import parse
from tests.conftest import git
from tests.program import Program, Result, run_id, write_workflow
from tests.tree import ROOT

RUN = run_id(1)
BRANCH, META = f"wf/run/{RUN}", f"wf/meta/{RUN}"
HOUSE = 'm [shape=house, stack.child_workflow="child.dot"{}]'
EDGES = "start -> a -> m -> z -> exit"
BODY = f'a [script="echo a >a"] {HOUSE} z [script="cat a one two"] {EDGES}'
CHILD = (
    'one [script="echo one >one"] two [script="{}echo two >two"] three [script="true"] '
    "start -> one -> two -> three -> exit"
)
WILD = ROOT.parent / "shared" / "fixtures" / "workflows"


@pytest.fixture
def write(repo: Path) -> Any:
    """Writes a parent and its child beside the repository; the parent's path."""

    def write_both(child: str = CHILD.format(""), attributes: str = "", body: str = BODY) -> Path:
        write_workflow(repo.parent / "child.dot", child)
        return write_workflow(repo.parent / "w.dot", body.replace("{}", attributes))

    return write_both


def children(wf: Program, repo: Path) -> list[dict[str, Any]]:
    runs = wf.ok("runs", "--json", cwd=repo).json["runs"]
    return [one for one in runs if one["parent"]]


def log(repo: Path, run: str, base: str = "main") -> list[str]:
    branch = f"{base}..wf/run/{run}"
    listed = git("log", "--first-parent", "--reverse", "--format=%s", branch, cwd=repo)
    return [line.split(": ", 1)[1] for line in listed.splitlines()]


def checkpoint(repo: Path, run: str = RUN) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(git("show", f"wf/meta/{run}:checkpoint.json", cwd=repo))
    return read


def child_keys(repo: Path) -> dict[str, Any]:
    context = checkpoint(repo)["context_values"]
    return {key: value for key, value in context.items() if key.startswith("stack.child.")}


def visits(result: Result) -> list[str]:
    events = [json.loads(line) for line in result.out.splitlines()]
    return [one["node"] for one in events if one["event"] == "stage_started"]


def test_the_child_is_a_run_and_its_work_is_merged(wf, repo, write, fsck):
    wf.ok("run", write())
    (child,) = children(wf, repo)
    run = child["run_id"]
    assert log(repo, RUN) == ["a (success)", "m (success)", "z (success)"]
    assert log(repo, run, f"{BRANCH}~2") == ["one (success)", "two (success)", "three (success)"]
    assert (child["status"], child["workflow"]) == ("success", "child")
    assert child["parent"] == {
        "run": RUN, "node": "m", "visit": 1, "attempt": 1, "branch": None
    }  # fmt: skip
    head = git("rev-parse", f"wf/run/{run}", cwd=repo)
    assert git("rev-parse", f"{BRANCH}~1^2", cwd=repo) == head
    assert checkpoint(repo)["node_outcomes"]["m"]["child_run"] == run
    assert child_keys(repo) == {
        "stack.child.run_id": run, "stack.child.status": "completed",
        "stack.child.outcome": "success", "stack.child.head": head,
        "stack.child.failure_reason": "",
    }  # fmt: skip
    graph = git("log", "--graph", "--format=%s", BRANCH, cwd=repo)
    assert f"* wf({run}): two" in graph.replace("| ", "")
    assert wf.ok("log", run).out.splitlines()[1] == f"child of run {RUN} m@1"
    assert f"child of {RUN} m@1" in wf.ok("runs").out
    told = json.loads(git("show", f"{META}~2:nodes/m/child.json", cwd=repo))
    assert told["run_id"] == run
    fsck(repo)


def test_the_default_run_is_the_parent(wf, repo, write):
    wf.ok("run", write())
    assert wf.ok("log", "--json").json["run_id"] == RUN


def test_a_child_that_fails_fails_the_node(wf, repo, write):
    result = wf("run", write(CHILD.format("exit 3; ")))
    (child,) = children(wf, repo)
    assert (result.status, child["status"]) == (1, "fail")
    assert log(repo, RUN) == ["a (success)", "m (fail)"]
    failure = checkpoint(repo)["node_outcomes"]["m"]["failure"]
    assert failure["message"].startswith("child workflow: ")
    assert child_keys(repo)["stack.child.status"] == "failed"


def test_every_attempt_has_a_child(wf, repo, write, tmp_path):
    done = f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 1; }}; "
    git("config", "wf.retryDelay", "0s", cwd=repo)
    wf.ok("run", write(CHILD.format(done), ", max_retries=1"))
    found = children(wf, repo)
    assert sorted(one["status"] for one in found) == ["fail", "success"]
    assert sorted(one["parent"]["attempt"] for one in found) == [1, 2]


def test_a_stop_condition_ends_it_early(wf, repo, write, fsck):
    said = 'echo \'{\\"context_updates\\":{\\"score\\":7}}\' >$GIT_WF_STATUS; '
    stop = ', manager.stop_condition="stack.child.context.score > 5"'
    wf.ok("run", write(CHILD.format(said), stop))
    (child,) = children(wf, repo)
    assert log(repo, child["run_id"], f"{BRANCH}~2") == ["one (success)", "two (success)"]
    assert child["status"] == "success"
    keys = child_keys(repo)
    assert keys["stack.child.status"] == "stopped"
    assert keys["stack.child.failure_reason"] == (
        "ended by its manager loop: manager.stop_condition holds: stack.child.context.score > 5"
    )
    assert "score" not in checkpoint(repo)["context_values"]
    assert git("show", f"{BRANCH}:two", cwd=repo) == "two"
    fsck(repo)


@pytest.mark.parametrize(
    ("attributes", "reason", "kind"),
    [
        (
            ", manager.poll_interval=100ms, manager.max_cycles=3",
            "not over after 3 cycles of 0.1 s (manager.max_cycles)", "deterministic",
        ),
        (", timeout=300ms", "timeout after 0.3 s", "timeout"),
    ],
)  # fmt: skip
def test_one_that_takes_too_long_is_ended(wf, repo, write, attributes, reason, kind):
    result = wf("run", write(CHILD.format("echo half >half; sleep 60; "), attributes))
    (child,) = children(wf, repo)
    assert (result.status, child["status"]) == (1, "fail")
    failure = checkpoint(repo)["node_outcomes"]["m"]["failure"]
    assert failure["message"] == f"child workflow: ended by its manager loop: {reason}"
    assert failure["class"] == kind
    rescued = git("for-each-ref", "--format=%(refname)", "refs/wf/rescue/", cwd=repo)
    assert git("show", f"{rescued}:half", cwd=repo) == "half"


def test_a_stall_reaches_the_child(wf, repo, write):
    body = f"graph [stall_timeout=500ms] {BODY}"
    result = wf("run", write(CHILD.format("sleep 60; "), body=body))
    (child,) = children(wf, repo)
    assert (result.status, child["status"]) == (1, "fail")
    assert log(repo, RUN) == ["a (success)", "m (fail)"]


def test_a_conflict_fails_the_node_and_keeps_both_heads(wf, repo, write):
    """A hook commits to the run's worktree what the child does otherwise."""
    hook = repo.parent / "hook.sh"
    hook.write_text(
        'test "$GIT_WF_NODE" = one || exit 0\n'
        "cd $(dirname $PWD)/1 && echo other >one && git add one && git commit -q -m other\n"
    )
    (repo.parent / "run.toml").write_text(
        '[workflow]\ngraph = "w.dot"\n[[run.hooks]]\nevent = "stage_complete"\nmatcher = "^one$"\n'
        f'script = "sh {hook}"\nblocking = true\n'
    )
    write(CHILD.format(""))
    result = wf("run", repo.parent / "run.toml")
    (child,) = children(wf, repo)
    assert (result.status, child["status"]) == (1, "success"), result.err
    failure = checkpoint(repo)["node_outcomes"]["m"]["failure"]
    assert failure["message"] == "merge of the child run conflicts in one"
    assert git("show", f"wf/run/{child['run_id']}:one", cwd=repo) == "one"
    assert git("show", f"{BRANCH}:one", cwd=repo) == "other"


def test_a_child_within_a_child_within_a_branch(wf, repo, write, fsck):
    write_workflow(repo.parent / "inner.dot", 'i [script="echo i >i"] start -> i -> exit')
    write_workflow(
        repo.parent / "child.dot",
        'n [shape=house, stack.child_workflow="inner.dot"] start -> n -> exit',
    )
    inline = 'digraph X { start -> x -> exit x [script=\\"echo x >x\\"] start [shape=Mdiamond] '
    path = write_workflow(
        repo.parent / "w.dot",
        f"f [shape=component] j [shape=tripleoctagon] {HOUSE.format('')} "
        f'k [shape=house, stack.child_dot_source="{inline} exit [shape=Msquare] }}"] '
        "start -> f f -> m f -> k m -> j k -> j j -> exit",
    )
    wf.ok("run", path)
    names = git("ls-tree", "-r", "--name-only", BRANCH, cwd=repo).splitlines()
    assert names == ["README", "i", "x"]
    assert len(children(wf, repo)) == 3
    listed = git("ls-tree", "-r", "--name-only", META, "children/", cwd=repo).splitlines()
    assert listed == ["children/k.dot", "children/m.dot", "children/m/n.dot"]
    fsck(repo)


# Resuming.


def kill_at(repo: Path, path: Path, step: str, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.killed", step, str(count), path, RUN],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize("step", ["disk", "stage", "metadata", "commit", "publish", "seal"])
@pytest.mark.parametrize("count", [2, 3])  # the run itself has recorded one node by then
def test_killed_in_the_child(wf, repo, write, fsck, step, count):
    path = write()
    kill_at(repo, path, step, count)
    path.unlink()
    (repo.parent / "child.dot").unlink()
    result = wf.ok("resume", "--json")
    assert "one" not in visits(result)
    check_whole(wf, repo)
    fsck(repo)


def check_whole(wf: Program, repo: Path) -> None:
    (child,) = children(wf, repo)
    run = child["run_id"]
    assert log(repo, RUN) == ["a (success)", "m (success)", "z (success)"]
    assert log(repo, run, f"{BRANCH}~2") == ["one (success)", "two (success)", "three (success)"]
    head = git("rev-parse", f"wf/run/{run}", cwd=repo)
    assert git("rev-parse", f"{BRANCH}~1^2", cwd=repo) == head


def test_killed_when_the_child_had_ended(wf, repo, write, fsck):
    """The run's own second checkpoint is that of the manager loop: the child is not run again."""
    path = write(child='one [script="echo one >one; echo two >two"] start -> one -> exit')
    kill_at(repo, path, "metadata", 2)
    result = wf.ok("resume", "--json")
    assert "one" not in visits(result)
    assert log(repo, RUN) == ["a (success)", "m (success)", "z (success)"]
    assert len(children(wf, repo)) == 1
    fsck(repo)


def test_a_clone_goes_on_with_the_child(wf, repo, write, tmp_path, fsck):
    kill_at(repo, write(), "seal", 2)
    clone = tmp_path / "clone"
    git("clone", "-q", repo, clone, cwd=tmp_path)
    git("fetch", "-q", "origin", "+refs/wf/*:refs/wf/*", "+refs/heads/wf/*:refs/heads/wf/*",
        cwd=clone)  # fmt: skip
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    result = wf.ok("resume", "--json", cwd=clone)
    assert "one" not in visits(result)
    check_whole(wf, clone)
    fsck(clone)


@contextmanager
def running(repo: Path, path: Path, pipe: Path) -> Iterator[subprocess.Popen[str]]:
    """The program, once the workflow has written to `pipe`."""
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.killed", "none", "0", path, RUN],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        pipe.read_bytes()
        yield process


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_child_goes_on(wf, repo, write, tmp_path, fsck, number, status):
    pipe = tmp_path / "pipe"
    path = write(CHILD.format(f"test -e {tmp_path}/go || {{ echo >{pipe}; sleep 60; }}; "))
    with running(repo, path, pipe) as process:
        process.send_signal(number)
        assert process.wait() == status
    (child,) = children(wf, repo)
    assert child["status"] == "interrupted"
    wf.fails(
        128, ["resume", child["run_id"]],
        f"error: run {child['run_id']} is the child of run {RUN}, which goes on with it\n"
        f"hint: git wf resume {RUN}\n",
    )  # fmt: skip
    (tmp_path / "go").touch()
    result = wf.ok("resume", "--json")
    assert visits(result) == ["m", "two", "three", "z"]
    check_whole(wf, repo)
    fsck(repo)


def test_a_rewind_has_another_child(wf, repo, write):
    wf.ok("run", write())
    wf.ok("rewind", RUN, "a")
    wf.ok("resume", RUN)
    assert len(children(wf, repo)) == 2
    assert log(repo, RUN) == ["a (success)", "m (success)", "z (success)"]


def test_a_fork_of_a_child_is_nobodys(wf, repo, write):
    wf.ok("run", write())
    (child,) = children(wf, repo)
    wf.ok("fork", child["run_id"], "one")
    assert len(children(wf, repo)) == 1
    wf.ok("resume", run_id(2))


# People.

ASKS = (
    'ask [shape=hexagon, label="Ship?"] y [script="echo yes >two; echo 1 >one"] '
    'start -> ask ask -> y [label="[Y] Yes"] ask -> exit [label="[N] No"] y -> exit'
)


def test_a_child_that_waits_is_answered_through_its_parent(wf, repo, write, fsck):
    result = wf("run", write(ASKS))
    assert result.status == 3
    (child,) = children(wf, repo)
    assert child["status"] == "waiting"
    waiting = json.loads(git("show", f"{META}:waiting.json", cwd=repo))
    assert (waiting["node"], waiting["question"]) == ("m", "Ship?")
    assert waiting["child"] == {"run": child["run_id"], "node": "ask", "visit": 1}
    assert wf("resume").status == 3
    assert wf("resume", RUN, "--answer", "maybe").status == 128
    wf.ok("resume", RUN, "--answer", "Y")
    assert git("show", f"{BRANCH}:two", cwd=repo) == "yes"
    fsck(repo)


TWO = f"""
f [shape=component] j [shape=tripleoctagon] {HOUSE} b [script="echo b >b"]
start -> f f -> m f -> b m -> j b -> j j -> exit
"""


def test_a_child_that_waits_in_a_branch(wf, repo, write, fsck):
    result = wf("run", write(ASKS, body=TWO))
    assert result.status == 3, result.err
    (child,) = children(wf, repo)
    waiting = json.loads(git("show", f"{META}:waiting.json", cwd=repo))
    assert waiting["child"] == {"run": child["run_id"], "node": "ask", "visit": 1}
    assert log(repo, RUN) == []
    assert wf("resume").status == 3
    assert wf("resume", RUN, "--answer", "maybe").status == 128
    result = wf.ok("resume", RUN, "--json", "--answer", "Y")
    assert "b" not in visits(result)  # that branch had ended
    assert log(repo, RUN) == ["f (success)", "j (success)"]
    assert {git("show", f"{BRANCH}:{name}", cwd=repo) for name in ("b", "two")} == {"b", "yes"}
    fsck(repo)


def test_two_branches_that_wait_are_answered_one_by_one(wf, repo, write, fsck):
    body = (
        'f [shape=component] j [shape=tripleoctagon] a [script="true"] b [script="true"] '
        'h [shape=hexagon] y [script="echo $GIT_WF_BRANCH >$(basename $GIT_WF_BRANCH)"] '
        "start -> f f -> a f -> b a -> h b -> h "
        'h -> y [label="[Y] Yes"] h -> j [label="[N] No"] y -> j j -> exit'
    )
    assert wf("run", write(ASKS, body=body)).status == 3
    asked = []
    for status in (3, 0):
        waiting = json.loads(git("show", f"{META}:waiting.json", cwd=repo))
        asked.append((waiting["node"], waiting["branch"]))
        assert wf("resume", RUN, "--answer", "Y").status == status
    assert sorted(asked) == [("h", "f@1/1-a"), ("h", "f@1/2-b")]
    files = git("ls-tree", "--name-only", BRANCH, cwd=repo).split()
    assert files == ["1-a", "2-b", "README"]
    fsck(repo)


@pytest.mark.parametrize(
    "text", ['ask = "Y"', '[m]\nask = "Y"', '{"m": {"ask": ["Y"]}}'], ids=["name", "table", "json"]
)
@pytest.mark.parametrize("body", [BODY, TWO], ids=["alone", "in a branch"])
def test_answers_of_a_file_reach_a_child(wf, repo, write, tmp_path, text, body):
    path = tmp_path / ("answers.json" if text[0] == "{" else "answers.toml")
    path.write_text(text)
    body = body.replace("cat a one two", "true")
    wf.ok("run", write(ASKS, body=body), "--answers", path)
    assert git("show", f"{BRANCH}:two", cwd=repo) == "yes"


def test_they_reach_a_child_that_had_waited(wf, repo, write, tmp_path):
    assert wf("run", write(ASKS, body=TWO)).status == 3
    other, path = tmp_path / "other.toml", tmp_path / "answers.toml"
    other.write_text("ask = []")
    path.write_text('m.ask = "Y"')
    assert wf("resume", RUN, "--answers", other).status == 3
    wf.ok("resume", RUN, "--answers", path)
    assert git("show", f"{BRANCH}:two", cwd=repo) == "yes"


def test_the_same_name_in_parent_and_child(wf, repo, write, tmp_path):
    """A plain name is that of the workflow itself; a table says of which child."""
    body = (
        'ask [shape=hexagon] n [script="touch parent-said-no"] '
        'm [shape=house, stack.child_workflow="child.dot"] '
        'start -> ask ask -> m [label="[Y] Yes"] ask -> n [label="[N] No"] n -> m m -> exit'
    )
    path = tmp_path / "answers.toml"
    path.write_text('ask = "N"\n[m]\nask = "Y"')
    wf.ok("run", write(ASKS, body=body), "--answers", path)
    assert git("ls-tree", "--name-only", BRANCH, cwd=repo).split() == [
        "README", "one", "parent-said-no", "two",
    ]  # fmt: skip


def test_a_child_of_a_child_is_answered(wf, repo, write, tmp_path):
    write_workflow(repo.parent / "inner.dot", ASKS)
    inner = 'n [shape=house, stack.child_workflow="inner.dot"] start -> n -> exit'
    body = 'm [shape=house, stack.child_workflow="child.dot"] start -> m -> exit'
    path = tmp_path / "answers.toml"
    path.write_text('m.n.ask = "Y"')
    wf.ok("run", write(inner, body=body), "--answers", path)
    assert git("show", f"{BRANCH}:two", cwd=repo) == "yes"
    path.write_text('ask = "Y"')
    wf.ok("run", write(inner, body=body), "--answers", path)
    assert git("show", f"wf/run/{run_id(2)}:two", cwd=repo) == "yes"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('aks = "Y"', "'aks' is no human node\nhint: did you mean 'm.ask'?"),
        ('m.aks = "Y"', "'m.aks' is no human node\nhint: did you mean 'm.ask'?"),
        ('other = "Y"', "'other' is no human node\nhint: there are: m.ask"),
        ('a.ask = "Y"', "'a.ask': 'a' has no child workflow\nhint: there are: m"),
        ('m.ask = "X"', "'X' is no answer to 'm.ask'\nhint: Y  Yes\nhint: N  No"),
        ('ask = "X"', "'X' is no answer to 'ask'\nhint: Y  Yes\nhint: N  No"),
    ],
)
def test_answers_that_no_child_takes(wf, repo, write, tmp_path, text, told):
    path = tmp_path / "answers.toml"
    path.write_text(text)
    words = ["run", str(write(ASKS)), "--answers", str(path)]
    wf.fails(128, words, f"error: answers: {told}\n")


def test_a_child_is_approved_with_its_parent(wf, repo, write):
    wf.ok("run", write(ASKS), "--auto-approve")
    assert git("show", f"{BRANCH}:two", cwd=repo) == "yes"


# What is refused.


@pytest.mark.parametrize(
    ("child", "message"),
    [
        (None, "node 'm': no file 'child.dot'"),
        ("digraph {", "node 'm': child.dot:1:10: "),
        ("digraph { start [shape=Mdiamond] }", "node 'm': child.dot: no exit node"),
        (
            'digraph { m [shape=house, manager.stop_condition="= 1"] }',
            "node 'm': child.dot:1:51: bad condition: ",
        ),
        (f"digraph {{ {HOUSE.format('')} }}", "'child.dot' is the workflow itself, or one around"),
    ],
)
def test_a_child_that_cannot_be_run(wf, repo, write, child, message):
    path = write()
    if child is None:
        (repo.parent / "child.dot").unlink()
    else:
        (repo.parent / "child.dot").write_text(child)
    result = wf("run", path)
    assert result.status == 128
    assert message in result.err and "(child_workflow)" in result.err
    assert git("for-each-ref", "--format=%(refname)", cwd=repo) == "refs/heads/main"
    assert wf("validate", path).status == 1


def test_a_node_without_a_child(wf, repo, write):
    result = wf("run", write(body="m [shape=house] start -> m -> exit"))
    assert result.status == 128
    assert "node 'm': it names no child workflow (child_workflow)" in result.err


def test_in_place_is_refused_by_name(wf, repo, write):
    path = write()
    wf.fails(
        128, ["run", "--in-place", str(path)],
        "error: node 'm' cannot be run in place: its child workflow needs a worktree\n"
        f"hint: git wf run {path}\n",
    )  # fmt: skip


def test_a_dry_run_makes_nothing(wf, repo, write):
    wf.ok("run", write(), "--dry-run")
    assert git("for-each-ref", "--format=%(refname)", cwd=repo) == "refs/heads/main"
    assert not Path(os.environ["XDG_STATE_HOME"]).exists()


@pytest.mark.skipif(
    not WILD.is_dir(), reason="the workflow files of other projects are not beside this one"
)
def test_files_in_the_wild(wf, repo, tmp_path):
    """One means an agent by another attribute; the others' children are not beside them."""
    agent = WILD / "jaytaylor__attractor-tcl__examples__manager-loop.dot"
    assert parse(agent.read_text(), "x").nodes["supervise"].kind == "agent"
    name = "siarhei-belavus__attractor-pi-dev__packages__attractor-cli__tests__golden__workflows"
    source = WILD / f"{name}__manager-loop-success.dot"
    path = shutil.copy(source, tmp_path / "w.dot")
    assert "no file 'packages/attractor-cli/tests/golden" in wf("run", path).err
    child = tmp_path / "packages/attractor-cli/tests/golden/workflows"
    child.mkdir(parents=True)
    write_workflow(
        child / "manager-loop-success.child.dot", 'c [script="echo c >c"] start -> c -> exit'
    )
    wf.ok("run", path)
    assert git("show", f"{BRANCH}:c", cwd=repo) == "c"
