from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import IDENTITY, git, make_repo
from tests.judge import contents, untouched
from tests.program import Program, Result, run_id, write_workflow
from tests.tree import ROOT

TWO = 'a [script="echo 1 >>log"] b [script="echo 2 >>log"] start -> a -> b -> exit'
ECHO = 'a [script="echo {{ goal | sh }} >goal"] start -> a -> exit'


def checkout_of(repo: Path) -> tuple[str, ...]:
    return tuple(
        git(*words, cwd=repo)
        for words in (
            ("status", "--porcelain=v2", "--branch"), ("ls-files", "-s"),
            ("symbolic-ref", "HEAD"), ("rev-parse", "HEAD"), ("stash", "list"),
        )
    )  # fmt: skip


def test_a_run_is_recorded_and_told(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(
        tmp_path / "two.dot",
        'a [script="echo 1 >>log"] b [script="echo 2 >>log"] start -> a -> b -> exit',
    )
    result = wf.ok("run", workflow)
    run = run_id(1)
    assert result.out == f"{run}\n"
    base = git("rev-parse", "--short=9", "HEAD", cwd=repo)
    assert result.err == (
        f"run {run} started on branch wf/run/{run}, from {base}\n"
        "  a@1 success 0ms\n"
        "  b@1 success 0ms\n"
        "success (0ms)\n"
        f"branch:       wf/run/{run}\n"
        f"look at it:   git wf log {run}\n"
        f"              git diff main...wf/run/{run}\n"
        f"take it over: git merge --squash wf/run/{run}\n"
    )
    assert git("log", "--format=%s", f"wf/run/{run}", cwd=repo) == (
        f"wf({run}): b (success)\nwf({run}): a (success)\nfirst"
    )
    assert git("show", f"wf/run/{run}:log", cwd=repo) == "1\n2"
    assert git("status", "--porcelain", cwd=repo) == ""


# Refusals: the exit status, the words, and nothing made.


def test_outside_a_repository(wf: Program, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(folder):
        wf.fails(
            128, ["run", str(workflow)],
            f"error: not a git repository: '{folder}'\n"
            "hint: git init, then git commit, or git wf run --in-place WORKFLOW\n",
            cwd=folder,
        )  # fmt: skip


def test_without_a_commit(wf: Program, tmp_path: Path) -> None:
    git("init", "-q", "empty", cwd=tmp_path)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(tmp_path / "empty"):
        wf.fails(
            128, ["run", str(workflow)],
            "error: no commit yet: a run starts from a commit\n"
            "hint: git commit --allow-empty -m 'first commit'\n"
            "hint: git wf run --in-place WORKFLOW runs without a repository\n",
            cwd=tmp_path / "empty",
        )  # fmt: skip


@pytest.mark.parametrize("within", [".", "objects"])
def test_in_a_bare_repository(wf: Program, repo: Path, tmp_path: Path, within: str) -> None:
    git("clone", "-q", "--bare", str(repo), "bare.git", cwd=tmp_path)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(tmp_path / "bare.git"):
        wf.fails(
            128, ["run", str(workflow)],
            "error: this is a bare repository: a run starts from a checkout\n"
            "hint: git worktree add ../checkout, then run it there\n"
            "hint: git wf run --in-place WORKFLOW runs without a repository\n",
            cwd=tmp_path / "bare.git" / within,
        )  # fmt: skip


def test_in_the_git_directory(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow)],
            "error: not in a worktree: a run starts from a checkout\n"
            "hint: git worktree add ../checkout, then run it there\n"
            "hint: git wf run --in-place WORKFLOW runs without a repository\n",
            cwd=repo / ".git",
        )  # fmt: skip


def test_a_workflow_that_does_not_parse(wf: Program, repo: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.dot"
    path.write_text("digraph G {\n  start [shape=Mdiamond]\n  start -- exit\n}\n")
    with untouched(repo):
        wf.fails(
            128, ["run", str(path)],
            f"{path}:3:9: error: '--' is not supported: edges have a direction (syntax)\n"
            "  3 |   start -- exit\n"
            "    |         ^\n"
            "  fix: write '->'\n"
            f"fatal: {path}:3:9: '--' is not supported: edges have a direction\n"
            "hint: write '->'\n",
        )  # fmt: skip


def test_a_file_that_is_not_there(wf: Program, repo: Path, tmp_path: Path) -> None:
    write_workflow(tmp_path / "w.dot", 'a [prompt="@p.md"] start -> a -> exit')
    with untouched(repo):
        wf.fails(
            128, ["run", "no.dot"], "error: no file 'no.dot'\nhint: ls . lists what is there\n"
        )
        wf.fails(
            128, ["run", "no/no.dot"],
            "error: no file 'no/no.dot'\nhint: there is no directory 'no'\n",
        )  # fmt: skip
        wf.fails(
            128, ["run", str(tmp_path / "w.dt")],
            f"error: no file '{tmp_path}/w.dt'\nhint: did you mean '{tmp_path}/w.dot'?\n",
        )  # fmt: skip
        wf.fails(
            128, ["run", str(tmp_path)],
            f"error: '{tmp_path}' is a directory\n"
            "hint: name the workflow file or the run.toml in it\n",
        )  # fmt: skip
        result = wf("run", tmp_path / "w.dot")
        assert (result.status, result.out, result.err.splitlines()[0]) == (
            128, "", f"{tmp_path}/w.dot:4:11: error: file reference does not exist: '@p.md' "
            "(unresolved_file_ref)",
        )  # fmt: skip
        wf.fails(
            128, ["run", str(tmp_path / "w.dot"), "--goal-file", "no.md"],
            "error: cannot read goal file 'no.md': no such file or directory\n"
            "hint: --goal TEXT gives the goal itself\n",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[workflw]\n", "unknown key 'workflw'\nhint: did you mean 'workflow'?"),
        ("[run]\ngaol = 'x'\n", "unknown key 'run.gaol'\nhint: did you mean 'run.goal'?"),
        (
            "[[run.hooks]]\nevnt = 'x'\n",
            "unknown key 'run.hooks[0].evnt'\nhint: did you mean 'run.hooks[0].event'?",
        ),
        (
            "[checkpoint]\nzzz = 1\n",
            "unknown key 'checkpoint.zzz'\n"
            "hint: known in 'checkpoint': builtin_excludes, exclude_globs, syntax",
        ),
        ("[run]\ngoal = 3\n", "'run.goal': a string is needed, not a number\nhint: goal = \"3\""),
        ("_version = 2\n", "'_version' 2 is not known\n"
         "hint: upgrade git-wf; this one knows _version = 1"),
        (
            "[checkpoint]\nsyntax = 'regex'\n",
            "'checkpoint.syntax': 'regex' is neither 'gitignore' nor 'glob'\n"
            "hint: leave it out for gitignore's rules, or write syntax = \"glob\"",
        ),
        ("[agents]\nstub = 'x'\n", "unknown key 'agents.stub'\nhint: a backend is a table: "
         '[agents.stub] command = ["…"]'),
        ("[agents.stub]\ncommand = []\n", "'agents.stub.command' is empty\n"
         'hint: command = ["…"]'),
        ("x = [\n", "invalid value (at end of document)\n"
         'hint: a line is key = "text", key = 1 or key = ["a", "b"], or begins a [table]'),
        ("[run]\n", 'no workflow is named\nhint: [workflow] graph = "workflow.dot"'),
    ],
)  # fmt: skip
def test_a_bad_run_config(wf: Program, repo: Path, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with untouched(repo):
        wf.fails(128, ["run", str(path)], f"error: {path}: {told}\n")


def test_a_bad_project_file(wf: Program, repo: Path, tmp_path: Path) -> None:
    (repo / ".wf").mkdir()
    (repo / ".wf" / "project.toml").write_text("[checkpoint]\nexclude_glob = []\n")
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow)],
            "error: .wf/project.toml: unknown key 'checkpoint.exclude_glob'\n"
            "hint: did you mean 'checkpoint.exclude_globs'?\n",
        )  # fmt: skip
    text = '[[run.hooks]]\nevent = "run_begin"\nscript = "true"\n'
    (repo / ".wf" / "project.toml").write_text(text)
    config = tmp_path / "run.toml"
    config.write_text('[workflow]\ngraph = "w.dot"\n')
    with untouched(repo):
        told = wf("run", config).err.splitlines()[0]
    assert told == "error: .wf/project.toml: 'run.hooks[0].event': unknown event 'run_begin'"


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("namespace", "a/b", "a word of letters, digits and hyphens"),
        ("namespace", "-x", "a word of letters, digits and hyphens"),
        ("metaNamespace", "wf/meta", "a directory of refs, such as refs/heads/wf/meta"),
        ("metaNamespace", "refs/../x", "a directory of refs, such as refs/heads/wf/meta"),
        ("worktreePool", "-1", "a number"),
        ("worktreePool", "many", "a number"),
        ("dirty", "maybe", "one of head, include, in-place, refuse"),
        ("durable", "perhaps", "true or false"),
        ("retryDelay", "soon", "a duration, such as 250ms or 5s"),
    ],
)  # fmt: skip
def test_bad_settings(
    wf: Program, repo: Path, tmp_path: Path, key: str, value: str, wanted: str
) -> None:
    git("config", f"wf.{key}", value, cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow)],
            f"error: config 'wf.{key}': '{value}' is not {wanted}\n"
            f"hint: git config --show-origin wf.{key} tells where it is set\n",
        )  # fmt: skip


def test_a_state_directory_must_be_absolute(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.stateDir", "state", cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow)],
            "error: config 'wf.stateDir': 'state' is not an absolute path\n"
            "hint: git config wf.stateDir /PATH, or ~/PATH\n",
        )  # fmt: skip


def test_a_state_directory_that_cannot_be_made(wf: Program, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    git("config", "wf.stateDir", str(tmp_path / "file"), cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        for words in (["run"], ["run", "--in-place"]):
            result = wf(*words, workflow)
            assert (result.status, result.out) == (128, "")
            told = f"error: cannot make state directory '{tmp_path}/file/git-wf/"
            assert result.err.startswith(told)
            assert result.err.endswith(
                ": Not a directory\nhint: git config wf.stateDir PATH names another place\n"
            )


@pytest.mark.parametrize("branch", ["wf", "wf/run"])
def test_a_branch_in_the_way(wf: Program, repo: Path, tmp_path: Path, branch: str) -> None:
    git("branch", branch, cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow)],
            f"error: branch '{branch}' is in the way of 'wf/run/…'\n"
            "hint: git config wf.namespace NAME\n"
            f"hint: git branch -m {branch} NEW-NAME\n",
        )  # fmt: skip


def test_no_identity_where_none_may_be_made_up(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in IDENTITY:
        monkeypatch.delenv(name)
    git("config", "user.useConfigOnly", "true", cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow)],
            "error: no git identity, and user.useConfigOnly is set\n"
            'hint: git config user.name "Your Name" && git config user.email you@example.com\n',
        )  # fmt: skip


def test_no_identity(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in IDENTITY:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EMAIL", "")
    result = wf.ok("run", write_workflow(tmp_path / "w.dot", TWO))
    author = git("log", "-1", "--format=%an <%ae> %cn <%ce>", f"wf/run/{run_id(1)}", cwd=repo)
    if "no git identity" in result.err:  # else this machine knows a name for its user
        told = "notice: no git identity: commits are by git-wf <git-wf@localhost>"
        assert result.err.splitlines()[1].startswith(told)
        assert author == "git-wf <git-wf@localhost> git-wf <git-wf@localhost>"


def put_git_in_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """A git first on PATH that tells another version, and else is the real one."""
    real = shutil.which("git")
    fake = tmp_path / "fake" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f"#!/bin/sh\nfor word; do test \"$word\" = version && echo 'git version {version}' && exit"
        f'\ndone\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")


def test_an_old_git(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    wf.ok("run", workflow)
    put_git_in_front(tmp_path, monkeypatch, "2.37.1")
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow)],
            "error: git 2.37.1 is too old: git-wf needs 2.38 to write\n"
            "hint: upgrade git; git wf log and git wf show work with it all the same\n",
        )  # fmt: skip
        assert wf.ok("log", run_id(1)).err == ""


def test_a_missing_backend(wf: Program, repo: Path, tmp_path: Path) -> None:
    write_workflow(tmp_path / "w.dot", 'a [prompt="p"] start -> a -> exit')
    config = tmp_path / "run.toml"
    config.write_text(
        '[workflow]\ngraph = "w.dot"\n[agents]\ndefault = "x"\n'
        '[agents.x]\ncommand = ["no-such-agent", "-p"]\n'
    )
    with untouched(repo):
        result = wf("run", config)
        assert (result.status, result.out) == (128, "")
        assert "no-such-agent" in result.err.splitlines()[0]


def test_the_same_id_twice(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    wf.ok("run", workflow, "--id", run_id(7))
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow), "--id", run_id(7)],
            f"error: run {run_id(7)} exists already\nhint: git wf log {run_id(7)}\n",
        )  # fmt: skip


@pytest.mark.parametrize("given", ["x", "../../../../../../tmp/x", "", "8" * 26, "0" * 25 + "\n"])
def test_an_id_that_is_none(wf: Program, repo: Path, tmp_path: Path, given: str) -> None:
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        result = wf("run", workflow, "--id", given)
    assert (result.status, result.out) == (128, "")
    assert result.err.endswith("is not a run id\nhint: a run id is a ULID: 26 letters and digits\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "give a WORKFLOW, or --resume, or --run-branch"),
        (["W", "--run-branch", "x"], "give a WORKFLOW, or --resume, or --run-branch"),
        (["W", "--goal", "a", "--goal-file", "b"], "give --goal or --goal-file, not both"),
        (["--run-branch", "x", "--goal", "g"], "--goal is for a new run"),
        (["--resume", "x", "--input", "a=b"], "--input is for a new run"),
        (["--resume", "x", "--id", "a"], "--id is for a new run"),
        (["W", "--input", "a"], "input 'a' is not KEY=VALUE"),
        (["W", "--label", "=a"], "label '=a' is not KEY=VALUE"),
        (
            ["W", "--dirty", "x"],
            "invalid value for '--dirty': 'x' is not one of 'head', 'include', 'in-place', "
            "'refuse'",
        ),
        (["W", "--dirty", "head", "--in-place"], "give --in-place or --dirty, not both"),
    ],
)  # fmt: skip
def test_usage(wf: Program, repo: Path, tmp_path: Path, words: list[str], told: str) -> None:
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    given = [str(workflow) if word == "W" else word for word in words]
    with untouched(repo):
        wf.fails(129, ["run", *given], f"error: {told}\nhint: git wf run -h\n")


def test_an_unknown_option(wf: Program, repo: Path) -> None:
    result = wf("run", "w.dot", "--zzz")  # what comes between is click's
    assert (result.status, result.out) == (129, "")
    assert result.err.startswith("error: no such option")
    assert result.err.endswith("\nhint: git wf run -h\n")


@pytest.mark.parametrize("mode", ["head", "refuse"])
def test_dirty(wf: Program, repo: Path, tmp_path: Path, mode: str) -> None:
    (repo / "README").write_text("changed\n")
    (repo / "new file").write_text("new\n")
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    if mode == "refuse":
        git("config", "wf.dirty", "refuse", cwd=repo)
        with untouched(repo):
            wf.fails(
                128, ["run", str(workflow)],
                "error: uncommitted changes: README, new file\n"
                "hint: git stash, git commit, or --dirty head to start from HEAD without them\n"
                "hint: --dirty include starts with them\n",
            )  # fmt: skip
    before = checkout_of(repo)
    result = wf.ok("run", workflow, "--dirty", "head")
    assert result.err.splitlines()[1] == (
        "notice: starting from HEAD: left out are README, new file"
    )
    assert git("show", f"wf/run/{result.out.strip()}:README", cwd=repo) == "hello"
    assert checkout_of(repo) == before
    assert (repo / "README").read_text() == "changed\n"


# What is asked for.


def test_a_dry_run_touches_nothing(wf: Program, repo: Path, tmp_path: Path) -> None:
    (repo / "README").write_text("changed\n")
    workflow = write_workflow(
        tmp_path / "w.dot", 'a [script="touch made"] b [prompt="p"] start -> a -> b -> exit'
    )
    config = tmp_path / "run.toml"
    config.write_text(
        '[workflow]\ngraph = "w.dot"\n[agents]\ndefault = "x"\n[agents.x]\ncommand = ["true"]\n'
    )
    with untouched(repo, tmp_path / "folder"):
        result = wf.ok("run", config, "--dry-run")
    assert result.out == ""
    assert [line.split()[0] for line in result.err.splitlines()] == [
        "run", "a@1", "b@1", "success",
    ]  # fmt: skip
    (tmp_path / "outside").mkdir()
    with untouched(tmp_path / "outside"):
        wf.ok("run", workflow.with_name("run.toml"), "--dry-run", cwd=tmp_path / "outside")


def test_in_place(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    before = contents(repo)
    result = wf.ok("run", workflow, "--in-place", "--no-snapshot")
    assert result.out == f"{run_id(1)}\n"
    after = contents(repo)
    assert (repo / "log").read_text() == "1\n2\n"
    assert {path for path in after if after[path] != before.get(path)} == {"log"}


@pytest.mark.parametrize("where", ["outside", "empty", "bare"])
def test_in_place_without_a_checkout(wf: Program, repo: Path, tmp_path: Path, where: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if where != "outside":
        git("init", "-q", *(["--bare"] if where == "bare" else []), ".", cwd=folder)
    before = contents(folder)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    wf.ok("run", workflow, "--in-place", "--no-snapshot", cwd=folder)
    after = contents(folder)
    assert (folder / "log").read_text() == "1\n2\n"
    assert {path for path in after if after[path] != before.get(path)} == {"log"}
    kept = list(Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/runs/*/checkpoint.json"))
    assert [json.loads(path.read_bytes())["current_node"] for path in kept] == ["b"]


def test_goals(wf: Program, repo: Path, tmp_path: Path) -> None:
    """--goal, then run.toml's, then the graph's; with inputs in them."""
    write_workflow(tmp_path / "w.dot", f'graph [goal="of the graph"] {ECHO}')
    config = tmp_path / "run.toml"
    config.write_text('[workflow]\ngraph = "w.dot"\n[run]\ngoal = "{{ inputs.name }} of run.toml"\n'
                      '[run.inputs]\nname = "N"\n')  # fmt: skip
    (tmp_path / "goal.md").write_text("of a file")
    goals = [
        goal_of(wf, repo, "run", str(tmp_path / "w.dot")),
        goal_of(wf, repo, "run", str(config)),
        goal_of(wf, repo, "run", str(config), "--input", "name=a=b"),
        goal_of(wf, repo, "run", str(config), "--goal", "given"),
        goal_of(wf, repo, "run", str(config), "--goal", ""),
        goal_of(wf, repo, "run", str(config), "--goal-file", str(tmp_path / "goal.md")),
    ]
    assert goals == ["of the graph", "N of run.toml", "a=b of run.toml", "given", "", "of a file"]


def goal_of(wf: Program, repo: Path, *words: str) -> str:
    run = wf.ok(*words).out.strip()
    goal = json.loads(git("show", f"wf/meta/{run}:run.json", cwd=repo))["goal"]
    assert git("show", f"wf/run/{run}:goal", cwd=repo) == goal
    return str(goal)


def test_labels_and_inputs_are_recorded(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path / "w.dot", 'a [script="echo {{ inputs.x | sh }} >x"] '
                              "start -> a -> exit")  # fmt: skip
    value = "a 'b' $(c) \\ ; é"
    wf.ok("run", workflow, "--input", f"x={value}", "--label", "k=v=w", "--label", "t=")
    record = json.loads(git("show", f"wf/meta/{run_id(1)}:run.json", cwd=repo))
    assert (record["labels"], record["inputs"]) == ({"k": "v=w", "t": ""}, {"x": value})
    assert git("show", f"wf/run/{run_id(1)}:x", cwd=repo) == value


def test_json(wf: Program, repo: Path, tmp_path: Path) -> None:
    (repo / "new").write_text("left out")  # a notice
    result = wf.ok("run", write_workflow(tmp_path / "w.dot", TWO), "--json", "-q")
    events = [json.loads(line) for line in result.out.splitlines()]
    assert result.err == "notice: starting from HEAD: left out are new\n"
    assert [event["event"] for event in events] == [
        "run_started", "notice", "edge_selected",
        "stage_started", "stage_completed", "edge_selected", "checkpoint_saved",
        "stage_started", "stage_completed", "edge_selected", "checkpoint_saved",
        "run_finished",
    ]  # fmt: skip
    assert {event["run_id"] for event in events} == {run_id(1)}
    assert {event["time"] for event in events} == {"2030-01-02T03:04:05.000000Z"}
    assert (events[-1]["status"], events[-1]["failure_reason"]) == ("success", None)
    stored = git("show", f"wf/meta/{run_id(1)}:events.jsonl", cwd=repo)
    assert [json.loads(line) for line in stored.splitlines()] == events


def test_quiet_and_verbose(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    quiet = wf.ok("run", workflow, "-q")
    assert (quiet.out, quiet.err) == (f"{run_id(1)}\n", "")
    verbose = wf.ok("run", workflow, "-v").err
    commit = git("rev-parse", "--short=9", f"wf/run/{run_id(2)}", cwd=repo)
    assert verbose.splitlines()[1:9] == [
        "    start -> a (weight)",
        "  a@1 …",
        "  a@1 success 0ms",
        "    a -> b (weight)",
        f"    checkpoint @1 {git('rev-parse', '--short=9', f'wf/run/{run_id(2)}^', cwd=repo)}",
        "  b@1 …",
        "  b@1 success 0ms",
        "    b -> exit (weight)",
    ]
    assert verbose.splitlines()[9] == f"    checkpoint @2 {commit}"


def test_keep_worktree(wf: Program, repo: Path, tmp_path: Path) -> None:
    result = wf.ok("run", write_workflow(tmp_path / "w.dot", TWO), "--keep-worktree")
    (line,) = [line for line in result.err.splitlines() if line.startswith("worktree:")]
    worktree = Path(line.split(None, 1)[1])
    assert (worktree / "log").read_text() == "1\n2\n"
    wf.ok("run", tmp_path / "w.dot")
    assert (worktree / "log").read_text() == "1\n2\n"
    assert git("symbolic-ref", "HEAD", cwd=worktree) == f"refs/heads/wf/run/{run_id(1)}"


def test_by_the_older_names(wf: Program, repo: Path, tmp_path: Path) -> None:
    """--run-branch and --resume PATH/checkpoint.json are `resume`."""
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    state = Path(os.environ["XDG_STATE_HOME"])
    for option in ("--run-branch", "--resume"):
        run = wf.ok("run", workflow).out.strip()
        wf.ok("rewind", run, "a")
        (run_dir,) = state.glob(f"git-wf/*/runs/{run}")
        given = f"wf/run/{run}"
        if option == "--resume":
            disk = json.loads(git("show", f"wf/meta/{run}:checkpoint.json", cwd=repo))
            (run_dir / "checkpoint.json").write_text(json.dumps(disk))
            given = str(run_dir / "checkpoint.json")
        result = wf.ok("run", option, given)
        assert result.out == ""
        assert git("show", f"wf/run/{run}:log", cwd=repo) == "1\n2"
    with untouched(repo):
        result = wf("run", "--resume", "nowhere/checkpoint.json")
        assert (result.status, result.err) == (
            128, "error: no file 'nowhere/checkpoint.json'\nhint: git wf resume RUN needs no file\n"
        )  # fmt: skip


# Settings.


def test_the_namespace(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.namespace", "acme", cwd=repo)
    git("branch", "wf", cwd=repo)
    wf.ok("run", write_workflow(tmp_path / "w.dot", TWO))
    run = run_id(1)
    assert git("for-each-ref", "--format=%(refname)", cwd=repo).splitlines() == [
        f"refs/acme/meta/{run}", f"refs/heads/acme/run/{run}", "refs/heads/main", "refs/heads/wf",
    ]  # fmt: skip
    message = git("log", "-1", "--format=%B", f"acme/run/{run}", cwd=repo)
    assert message.startswith(f"acme({run}): b (success)\n\nAcme-Run: {run}\n")
    assert wf.ok("log", run).out.splitlines()[0].startswith(f"run {run}")


def test_the_namespace_by_git_c(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git -c wf.namespace=acme wf run` exports it as git does."""
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'wf.namespace'='acme'")
    wf.ok("run", write_workflow(tmp_path / "w.dot", TWO))
    assert git("rev-parse", "--verify", f"refs/heads/acme/run/{run_id(1)}", cwd=repo)


def test_metadata_as_branches(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.metaNamespace", "refs/heads/wf/meta", cwd=repo)
    wf.ok("run", write_workflow(tmp_path / "w.dot", TWO))
    run = run_id(1)
    assert git("for-each-ref", "--format=%(refname)", cwd=repo).splitlines() == [
        "refs/heads/main", f"refs/heads/wf/meta/{run}", f"refs/heads/wf/run/{run}",
    ]  # fmt: skip
    wf.ok("rewind", run, "a")
    wf.ok("resume", run)


@pytest.mark.parametrize("size", [0, 1])
def test_the_worktree_pool(wf: Program, repo: Path, tmp_path: Path, size: int) -> None:
    git("config", "wf.worktreePool", str(size), cwd=repo)
    git("config", "wf.stateDir", str(tmp_path / "state"), cwd=repo)
    wf.ok("run", write_workflow(tmp_path / "w.dot", TWO))
    assert len(list(tmp_path.glob("state/git-wf/*/trees/[0-9]"))) == size
    assert len(git("worktree", "list", cwd=repo).splitlines()) == 1 + size
    assert not Path(os.environ["XDG_STATE_HOME"]).exists()


def test_durable(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.durable", "true", cwd=repo)
    wf.ok("run", write_workflow(tmp_path / "w.dot", TWO))
    assert git("show", f"wf/run/{run_id(1)}:log", cwd=repo) == "1\n2"


def test_the_retry_delay(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.retryDelay", "250ms", cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", 'a [script="false", max_retries=1] '
                              "start -> a -> exit")  # fmt: skip
    result = wf("run", workflow, "--json", "-q")
    (delay,) = [
        event["delay_s"]
        for event in map(json.loads, result.out.splitlines())
        if event["event"] == "stage_retrying"
    ]
    assert (result.status, 0.125 <= delay <= 0.375) == (1, True)


# What is kept out of checkpoints.

MAKES = (
    'a [script="mkdir -p d/e node_modules/x; echo 2 >tracked.log; echo 2 >README;'
    " echo 1 >d/e/n.log;"
    ' echo 1 >d/keep.log; echo 1 >d/f.txt; echo 1 >g.tmp; echo 1 >node_modules/x/y"] '
    "start -> a -> exit"
)


@pytest.fixture
def tracked(repo: Path) -> Path:
    """The repository, with a tracked file that the patterns hold back."""
    (repo / "tracked.log").write_text("1\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "a log", cwd=repo)
    return repo


def changed_in(repo: Path, run: str) -> list[str]:
    return git("diff", "--name-only", f"main...wf/run/{run}", cwd=repo).splitlines()


def notices_of(result: Result) -> list[str]:
    return [line for line in result.err.splitlines() if line.startswith("notice: ")]


def test_exclude_globs_add_up(wf: Program, tracked: Path, tmp_path: Path) -> None:
    write_workflow(tmp_path / "w.dot", MAKES)
    (tracked / ".wf").mkdir()
    (tracked / ".wf" / "project.toml").write_text('[checkpoint]\nexclude_globs = ["*.log"]\n')
    git("add", "-A", cwd=tracked)
    git("commit", "-q", "-m", "project", cwd=tracked)
    config = tmp_path / "run.toml"
    config.write_text('[workflow]\ngraph = "w.dot"\n[run.checkpoint]\nexclude_globs = '
                      '["!keep.log"]\n')  # fmt: skip
    git("config", "wf.excludeGlobs", "*.tmp", cwd=tracked)
    result = wf.ok("run", config)
    assert changed_in(tracked, run_id(1)) == ["README", "d/f.txt", "d/keep.log"]
    assert notices_of(result) == [
        "notice: changes of tracked files held back by exclude_globs: tracked.log",
        "notice: left out by the built-in excludes: node_modules/",
    ]


def test_glob_syntax_and_no_builtin_excludes(wf: Program, tracked: Path, tmp_path: Path) -> None:
    write_workflow(tmp_path / "w.dot", MAKES)
    config = tmp_path / "run.toml"
    config.write_text('[workflow]\ngraph = "w.dot"\n[checkpoint]\nexclude_globs = ["*.log"]\n'
                      'syntax = "glob"\nbuiltin_excludes = false\n')  # fmt: skip
    result = wf.ok("run", config)
    assert changed_in(tracked, run_id(1)) == [
        "README", "d/e/n.log", "d/f.txt", "d/keep.log", "g.tmp", "node_modules/x/y",
    ]  # fmt: skip
    assert notices_of(result) == [
        "notice: changes of tracked files held back by exclude_globs: tracked.log"
    ]


def test_a_bad_pattern(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.excludeGlobs", "[[:nope:]]", cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    with untouched(repo):
        result = wf("run", workflow)
    assert (result.status, result.out) == (128, "")
    assert result.err.startswith("error: bad exclude pattern '[[:nope:]]': ")


# Where it is run.


@pytest.mark.parametrize("where", ["subdirectory", "linked", "submodule", "git_dir", "hook"])
def test_where_it_is_run(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    fsck: Callable[[Path], None], where: str,
) -> None:  # fmt: skip
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    cwd, home = repo, repo
    if where == "subdirectory":
        cwd = repo / "sub" / "dir"
        cwd.mkdir(parents=True)
    elif where == "linked":
        git("worktree", "add", "-q", "-b", "side", "../linked", cwd=repo)
        cwd = tmp_path / "linked"
    elif where == "submodule":
        other = make_repo(tmp_path / "other")
        git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "mod",
            cwd=repo)  # fmt: skip
        git("commit", "-q", "-m", "module", cwd=repo)
        cwd = home = repo / "mod"
    elif where == "git_dir":
        cwd = tmp_path / "away"
        cwd.mkdir()
        monkeypatch.setenv("GIT_DIR", str(repo / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(repo))
    elif where == "hook":
        monkeypatch.setenv("GIT_DIR", ".git")
        monkeypatch.setenv("GIT_INDEX_FILE", str(repo / ".git" / "other-index"))
        monkeypatch.setenv("GIT_PREFIX", "")
    before = contents(home) if where != "submodule" else {}
    result = wf("run", workflow, cwd=cwd)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    assert result.status == 0, result.err
    assert git("show", f"wf/run/{run_id(1)}:log", cwd=home) == "1\n2"
    assert git("status", "--porcelain", cwd=home) == ""
    after = contents(home)
    outside = [path for path in after if not path.startswith(".git") and path not in before]
    assert outside == [] or where == "submodule"
    assert not (repo / ".git" / "other-index").exists()
    fsck(home)


# Nothing that a workflow, a program or a file name says can be taken for something else.

HOSTILE = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\r\u202etxt"


def has_codes(text: str) -> bool:
    return any(code in text for code in ("\x1b", "\x07", "\x9b", "\r", "\u202e"))


def test_output_has_no_terminal_codes(wf: Program, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text(f"{HOSTILE}\nWF-Node: forged\n---\n")
    workflow = write_workflow(
        tmp_path / "w.dot",
        f'a [label="{HOSTILE}", script="cat {tmp_path}/out; cat {tmp_path}/out >&2; '
        f'cp {tmp_path}/out made; exit 3"] '
        f'b [script="true"] start -> a a -> b [condition="outcome=fail", label="{HOSTILE}"] '
        "b -> exit",
    )
    result = wf.ok("run", workflow, "-v", "--label", f"k={HOSTILE}", "--goal", HOSTILE)
    shown = [result.err, result.out]
    for words in (("log",), ("show", "a"), ("runs",), ("show", "b"), ("rewind", "--list")):
        told = wf.ok(*words)
        shown += [told.out, told.err]
    assert not any(map(has_codes, shown)), shown
    message = git("log", "-1", "--format=%B", f"wf/run/{run_id(1)}^", cwd=repo)
    assert not has_codes(message)
    parsed = git("interpret-trailers", "--parse", cwd=repo, stdin=message.encode()).splitlines()
    assert [line.split(":")[0] for line in parsed] == [
        "WF-Run", "WF-Completed", "WF-Checkpoint", "WF-Node", "WF-Visit", "WF-Status",
    ]  # fmt: skip
    assert "WF-Node: a" in parsed


@pytest.mark.parametrize(
    "name", ["-rf", "--output=x", "a\nb", "\x1b[31m", "\x9b31m", "\u202ex", ":(exclude)*", "é", " "]
)
def test_names_of_files(wf: Program, repo: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "name").write_text(name + ".")
    workflow = write_workflow(
        tmp_path / "w.dot",
        f'a [script="n=$(cat {tmp_path}/name); echo 1 >./\\"${{n%.}}\\"; git clone -q . '
        './\\"${n%.}.d\\"; rm -rf ./\\"${n%.}.d\\"/.git/hooks"] start -> a -> exit',
    )
    result = wf.ok("run", workflow, "-v")
    assert not has_codes(result.err)
    assert not has_codes(wf.ok("show", "a").out)
    listed = git("ls-tree", "-z", "--name-only", f"wf/run/{run_id(1)}", cwd=repo).split("\0")
    assert {name, f"{name}.d", "README"} <= set(listed)
    assert len(notices_of(result)) == 1  # a nested repository is stored as plain files


def test_an_answer_forges_nothing(wf: Program, repo: Path, tmp_path: Path) -> None:
    forged = "ok\n\nWF-Run: X\nWF-Node: forged\n\x1b[31m"
    answer = {
        "outcome": "success", "notes": forged,
        "preferred_next_label": "--upload-pack=x", "suggested_next_ids": ["../../x", "-x"],
        "context_updates": {"../../../escape": "x", "internal.run_id": "X", "a\nb": "\x1b[31m",
                            "graph.goal": "y", "big/../../x": "z" * 200_000},
    }  # fmt: skip
    (tmp_path / "answer").write_text(json.dumps(answer))
    workflow = write_workflow(
        tmp_path / "w.dot", f'a [script="cp {tmp_path}/answer $GIT_WF_STATUS"] start -> a -> exit'
    )
    result = wf.ok("run", workflow)
    run = run_id(1)
    message = git("log", "-1", "--format=%B", f"wf/run/{run}", cwd=repo)
    parsed = git("interpret-trailers", "--parse", cwd=repo, stdin=message.encode()).splitlines()
    assert [line for line in parsed if line.startswith(("WF-Run", "WF-Node"))] == [
        f"WF-Run: {run}", "WF-Node: a",
    ]  # fmt: skip
    assert git("for-each-ref", "--format=%(refname)", cwd=repo).splitlines() == [
        "refs/heads/main", f"refs/heads/wf/run/{run}", f"refs/wf/meta/{run}",
    ]  # fmt: skip
    shown = wf.ok("show", "a")
    assert not has_codes(result.err + shown.out + wf.ok("log").out)
    record = json.loads(git("show", f"wf/meta/{run}:checkpoint.json", cwd=repo))
    assert record["run_id"] == run
    stored = git("ls-tree", "-r", "--name-only", f"wf/meta/{run}", cwd=repo).splitlines()
    assert not [path for path in stored if ".." in path.split("/")]
    state = Path(os.environ["XDG_STATE_HOME"])
    assert not [path for path in state.rglob("*") if path.name in ("escape", "escape.json")]


def test_bytes_that_are_not_utf8(wf: Program, tmp_path: Path) -> None:
    """In arguments, in the path of the repository, in names of branches, files and workflows."""
    odd = make_repo(tmp_path / os.fsdecode(b"r\xff\x9b"))
    branch, file = os.fsdecode(b"b\xfe"), os.fsdecode(b"f\xfd\x9b2J")
    git("switch", "-q", "-c", branch, cwd=odd)
    workflow = write_workflow(
        tmp_path / os.fsdecode(b"w\xfc.dot"),
        'a [script="echo {{ inputs.x | sh }} >x; echo {{ goal | sh }} >g; '
        'printf 1 >\\"$(printf \'f\\\\375\\\\2332J\')\\""] start -> a -> exit',
    )
    result = wf.ok(
        "run", workflow, "--goal", os.fsdecode(b"g\xff"), "--input", os.fsdecode(b"x=i\xfb"),
        "--label", os.fsdecode(b"k=\xfa"), cwd=odd,
    )  # fmt: skip
    run = f"wf/run/{run_id(1)}"
    assert git("show", f"{run}:x", cwd=odd) == os.fsdecode(b"i\xfb")
    assert git("show", f"{run}:g", cwd=odd) == os.fsdecode(b"g\xff")
    assert file in git("ls-tree", "-z", "--name-only", run, cwd=odd).split("\0")
    for words in (("log",), ("show", "a"), ("runs",), ("log", "--json"), ("show", "a", "--json")):
        shown = wf.ok(*words, cwd=odd)
        assert not has_codes(shown.out + shown.err)
    wf.ok("rewind", "@0", cwd=odd)
    wf.ok("resume", cwd=odd)
    wf.ok("fork", "a", cwd=odd)
    assert git("show", f"{run}:x", cwd=odd) == os.fsdecode(b"i\xfb")
    assert "\udc9b" not in result.err


def test_a_repository_with_a_line_break_in_its_path(wf: Program, tmp_path: Path) -> None:
    odd = make_repo(tmp_path / "a\nb")
    wf.fails(
        128, ["log"],
        "error: a repository with a line break in its path is not supported\n"
        "hint: mv it to a path without one\n",
        cwd=odd,
    )  # fmt: skip


HOSTILE_CONFIG = """
[status] showUntrackedFiles = no
 short = true
 branch = true
[diff] external = EVIL
 noprefix = true
 orderFile = not-in-every-worktree
 renames = copies
[log] showSignature = true
 follow = true
 decorate = full
 date = relative
[core] quotePath = true
 fsmonitor = EVIL
 hooksPath = HOOKS
 autocrlf = true
 safecrlf = true
 abbrev = 4
 pager = EVIL
 editor = EVIL
 logAllRefUpdates = false
 untrackedCache = true
 splitIndex = true
 attributesFile = ATTRIBUTES
[color] ui = always
[commit] gpgSign = true
[gpg] program = EVIL
[init] templateDir = TEMPLATE
[format] pretty = fuller
[trailer] separators = "="
[column] ui = always
[submodule] recurse = true
[feature] manyFiles = true
[index] version = 4
[i18n] commitEncoding = latin1
 logOutputEncoding = latin1
[transfer] hideRefs = refs/wf
[diff "evil"] textconv = EVIL
 command = EVIL
"""


def test_a_hostile_configuration(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    fsck: Callable[[Path], None],
) -> None:  # fmt: skip
    """None of the user's settings changes what is recorded, and no program of theirs is run."""
    evil = tmp_path / "evil"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >>{tmp_path}/was-run\nexit 1\n')
    evil.chmod(0o755)
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        shutil.copy(evil, hooks / name)
    shutil.copytree(hooks, repo / ".git" / "hooks")
    (tmp_path / "attributes").write_text("* diff=evil\n")
    text = HOSTILE_CONFIG.replace("EVIL", str(evil)).replace("HOOKS", str(hooks))
    text = text.replace("ATTRIBUTES", f"{tmp_path}/attributes")
    (tmp_path / "config").write_text(text.replace("TEMPLATE", str(hooks.parent)))
    (repo / "untracked").write_text("x")
    workflow = write_workflow(
        tmp_path / "w.dot",
        'a [script="echo 1 >>README; echo 1 >\\"é w\\""] b [script="test $GIT_WF_VISIT -ge 2"] '
        'start -> a -> b -> exit b -> a [condition="outcome=fail"]',
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    told = wf.ok("run", workflow).err
    assert told.splitlines()[1] == "notice: starting from HEAD: left out are untracked"
    listed = wf.ok("log", "--json").json["checkpoints"]  # the table is coloured, as asked for
    assert [(one["node"], one["visit"], one["files_changed"]) for one in listed] == [
        ("a", 1, 2), ("b", 1, 0), ("a", 2, 1), ("b", 2, 0),
    ]  # fmt: skip
    assert " README | 1 +\n" in wf.ok("show", "a@2").out
    wf.ok("rewind", "b@1")
    wf.ok("resume")
    wf.ok("fork", "b@1")
    assert wf.ok("resume", "-q").err == ""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for run in (run_id(1), run_id(2)):
        assert git("show", f"wf/run/{run}:README", cwd=repo) == "hello\n1\n1"
        assert git("ls-tree", "-z", "--name-only", f"wf/run/{run}", cwd=repo) == "README\0é w\0"
    assert not (tmp_path / "was-run").exists()
    fsck(repo)


@pytest.mark.parametrize(
    "lock",
    ["$(git rev-parse --git-dir)/index.lock", "$(git rev-parse --git-dir)/HEAD.lock",
     "$(git rev-parse --git-common-dir)/refs/heads/$(git branch --show-current).lock"],
)  # fmt: skip
def test_a_lock_that_a_node_left(wf: Program, repo: Path, tmp_path: Path, lock: str) -> None:
    workflow = write_workflow(
        tmp_path / "w.dot",
        f'a [script="touch {lock}; echo 1 >log"] b [script="echo 2 >>log"] start -> a -> b -> exit',
    )
    result = wf.ok("run", workflow)
    assert notices_of(result) == []
    assert git("log", "--format=%s", f"main..wf/run/{run_id(1)}", cwd=repo).splitlines() == [
        f"wf({run_id(1)}): b (success)", f"wf({run_id(1)}): a (success)",
    ]  # fmt: skip
    assert git("show", f"wf/run/{run_id(1)}:log", cwd=repo) == "1\n2"


def test_a_node_that_removes_its_worktree(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(
        tmp_path / "w.dot",
        'a [script="echo 1 >log"] b [script="d=$PWD; cd /; rm -rf \\"$d\\""] '
        "start -> a -> b -> exit",
    )
    result = wf("run", workflow, "--json", "-q")
    events = [json.loads(line) for line in result.out.splitlines()]
    assert (result.status, events[-1]["event"], events[-1]["status"]) == (
        0,
        "run_finished",
        "success",
    )
    assert wf.ok("log").out.splitlines()[0].endswith("success")
    assert git("show", f"wf/run/{run_id(1)}:log", cwd=repo) == "1"
    wf.ok("rewind", "a")
    wf.ok("run", write_workflow(tmp_path / "w.dot", TWO))


@pytest.mark.parametrize("ends", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
@pytest.mark.parametrize("option", ["--json", "-v"])
def test_streams_that_are_closed_or_full(
    repo: Path, tmp_path: Path, ends: str, option: str
) -> None:
    """A run goes on whoever looks at it."""
    workflow = write_workflow(tmp_path / "w.dot", TWO)
    line = f'exec "$0" -m git_wf run "$1" {option} --id {run_id(1)} {ends}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, str(workflow)],
        cwd=repo, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert git("show", f"wf/run/{run_id(1)}:log", cwd=repo) == "1\n2"
    assert "conclusion.json" in git("ls-tree", "--name-only", f"wf/meta/{run_id(1)}", cwd=repo)
