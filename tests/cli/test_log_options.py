from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import Program, run_id, write_workflow


def names(loop: LoopRun, *words: str) -> list[str]:
    """The checkpoints that are shown, by the table and by every other form alike."""
    shown = loop.wf.ok("log", "--json", *words).json["checkpoints"]
    found = [f"{one['node']}@{one['visit']}" for one in shown]
    table = loop.wf.ok("log", *words).out.splitlines()[2:]
    assert [line.split()[1] for line in table] == found
    form = loop.wf.ok("log", "--format=%(node)@%(visit)", *words).out
    assert form.splitlines() == found
    lines = loop.wf.ok("log", "--jsonl", *words).out.splitlines()
    assert [json.loads(line) for line in lines] == [{"run_id": loop.run, **one} for one in shown]
    return found


ALL = ["plan@1", "work@1", "check@1", "plan@2", "work@2", "check@2"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], ALL),
        (["-n", "2"], ALL[-2:]),
        (["-n2"], ALL[-2:]),
        (["-2"], ALL[-2:]),
        (["-n", "0"], []),
        (["-n", "99"], ALL),
        (["--reverse"], ALL[::-1]),
        (["--reverse", "-n", "2"], ["check@2", "work@2"]),
        (["--node", "plan"], ["plan@1", "plan@2"]),
        (["--node", "plan", "--node", "work@2"], ["plan@1", "plan@2", "work@2"]),
        (["--status", "fail"], ["check@1"]),
        (["--status", "succeeded", "-n", "1"], ["check@2"]),
        (["@1..@3"], ["work@1", "check@1"]),
        (["plan@1..plan"], ["work@1", "check@1", "plan@2"]),
        (["..work@1"], ["plan@1", "work@1"]),
        (["@4.."], ["work@2", "check@2"]),
        (["1.."], ["check@2"]),
        (["@3..@1"], []),
        (["--since", "2030-01-01"], ALL),
        (["--since", "2030-02-01"], []),
        (["--", "work"], ["work@1", "work@2"]),
        (["@2..", "--", "log"], ["plan@2"]),
    ],
)
def test_which_are_shown(loop: LoopRun, words: list[str], found: list[str]) -> None:
    assert names(loop, *words) == found


def test_formats(loop: LoopRun) -> None:
    commits = loop.commits()[1:]
    text = "%H %(commit) %(run) %(ordinal) [%<(7)%(node)] %(status) %(duration)|%(cost)%n  %an"
    out = loop.wf.ok("log", f"--format={text}", "-n", "1").out
    line = f"{commits[5]} {commits[5]} {loop.run} 6 [check  ] success 0ms|"
    assert out == f"{line}\n  Ada Author\n"
    metas = loop.wf.ok("log", "--format=%(meta)").out.splitlines()
    assert metas == loop.metadata()[1:7]


def test_git_and_git_wf_agree(loop: LoopRun) -> None:
    """On node, visit and status of every commit, as git's own formatter reads them."""
    text = "%H %(trailers:key=WF-Node,valueonly,separator=) "
    text += "%(trailers:key=WF-Visit,valueonly,separator=) "
    text += "%(trailers:key=WF-Status,valueonly,separator=)"
    base = loop.commits()[0]
    plain = git("log", "--reverse", f"--format={text}", loop.branch, f"^{base}", cwd=loop.repo)
    ours = loop.wf.ok("log", "--format=%H %(node) %(visit) %(status)").out
    assert ours == plain + "\n"


def test_named_formats(loop: LoopRun) -> None:
    loop.wf.ok("setup")
    for name in ("oneline", "fuller", "wf", "wf-full"):
        plain = git("log", "--reverse", "-3", f"--format={name}", loop.branch, cwd=loop.repo)
        ours = loop.wf.ok("log", "-n", "3", f"--pretty={name}").out.removesuffix("\n")
        decorated = "\n".join(line.rstrip() for line in ours.splitlines())
        assert decorated == "\n".join(line.rstrip() for line in plain.splitlines())


def test_oneline_and_stat(loop: LoopRun) -> None:
    commits = [commit[:7] for commit in loop.commits()]
    assert loop.wf.ok("log", "--oneline", "..@2").out == (
        f"{commits[1]} @1 plan@1 (success)\n{commits[2]} @2 work@1 (success)\n"
    )
    assert loop.wf.ok("log", "--stat", "@1..@2").out == (
        f"{commits[2]} @2 work@1 (success)\n\n work | 1 +\n 1 file changed, 1 insertion(+)\n"
    )
    patch = loop.wf.ok("log", "-p", "@1..@2").out
    assert patch.startswith(f"{commits[2]} @2 work@1 (success)\n\ndiff --git a/work b/work\n")


def test_nul(loop: LoopRun) -> None:
    told = loop.wf.ok("log", "-z", "--format=%(node)%n.", "-n", "2").out
    assert told == "work\n.\0check\n.\0"
    assert loop.wf.ok("log", "-z", "--jsonl").out.count("\0") == 6
    assert loop.wf.ok("log", "-z").out.count("\0") == 6


def test_options_of_git(loop: LoopRun) -> None:
    assert loop.wf.ok("log", "--author=nobody").out == ""
    assert (
        len(loop.wf.ok("log", "--author=Ada", "--abbrev=12").out.splitlines()[0].split()[0]) == 12
    )
    loop.wf.fails(
        128,
        ["log", "--no-such-option"],
        "error: unrecognized argument: --no-such-option\nhint: git wf log -h\n",
    )


def test_all_runs(loop: LoopRun) -> None:
    loop.wf.ok("fork", "plan@1")
    told = loop.wf.ok("log", "--all").out
    assert [line for line in told.splitlines() if line.startswith("run ")] == [
        f"run {loop.run}  loop  success",
        f"run {run_id(2)}  loop  interrupted",
    ]
    runs = loop.wf.ok("log", "--all", "--json").json["runs"]
    assert [len(one["checkpoints"]) for one in runs] == [6, 1]
    assert len(loop.wf.ok("log", "--all", "--oneline").out.splitlines()) == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a", "b"], "log takes a run and a range A..B"),
        (["a..b", "c..d"], "log takes a run and a range A..B"),
        (["--graph", "--node", "a"], "--graph draws all nodes, newest first: no --node, --status,"),
        (["-n", "x"], "Invalid value for '-n'"),
    ],
)
def test_usage(loop: LoopRun, words: list[str], told: str) -> None:
    result = loop.wf("log", *words)
    assert (result.status, result.out) == (129, "")
    assert told.lower() in result.err.lower()


def test_paths_are_those_of_the_directory(wf: Program, repo: Path, tmp_path: Path) -> None:
    (repo / "sub").mkdir()
    (repo / "sub" / "x").write_text("x")
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "sub", cwd=repo)
    body = 'a [script="echo a >sub/x"]\nb [script="echo b >x"]\nstart -> a -> b -> exit'
    wf.ok("run", write_workflow(tmp_path / "w.dot", body))
    assert wf.ok("log", "--format=%(node)", "--", "x", cwd=repo / "sub").out == "a\n"
    assert wf.ok("log", "--format=%(node)", "--", "x").out == "b\n"


FAN = """\
f [shape=component]
j [shape=tripleoctagon]
a [script="echo a >a"]
b [script="echo b >b"]
start -> f
f -> a -> j
f -> b -> j
j -> exit"""


def test_the_graph(wf: Program, repo: Path, tmp_path: Path) -> None:
    wf.ok("run", write_workflow(tmp_path / "w.dot", FAN))
    out = wf.ok("log", "--graph", "--format=%(title)").out
    lines = [line for line in out.splitlines() if any(c.isalnum() for c in line)]
    assert [line.lstrip("*|\\/-. ") for line in lines] == [
        "@2 j@1 (success)",
        "b@1 (success) in f@1/2-b",
        "a@1 (success) in f@1/1-a",
        "@1 f@1 (success)",
    ]
    assert any(line.startswith("|") for line in lines), out
    assert wf.ok("log", "--graph", "--oneline", "-n", "1").out.count("(success)") == 1
    # A merge is shown as what it brought to the run branch.
    assert " 2 files changed" in wf.ok("log", "--stat", "@1..").out


def test_commits_of_a_node_are_shown_and_are_no_checkpoints(
    wf: Program, repo: Path, tmp_path: Path
) -> None:
    script = "echo 1 >one && git add one && git commit -qm 'by hand' && echo 2 >two"
    wf.ok("run", write_workflow(tmp_path / "w.dot", f'a [script="{script}"]\nstart -> a -> exit'))
    assert wf.ok("log", "--format=%(title)|%(node)").out == "by hand|\n@1 a@1 (success)|a\n"
    assert wf.ok("log", "--format=%(title)", "--reverse").out == "@1 a@1 (success)\nby hand\n"


def test_what_models_cost(wf: Program, repo: Path, tmp_path: Path) -> None:
    program = tmp_path / "agent"
    answer = {"result": "ok", "usage": {"input_tokens": 1200, "output_tokens": 34}, "cost_usd": 0.5}
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(answer)!r})\n")
    program.chmod(0o755)
    write_workflow(tmp_path / "w.dot", 'a [prompt="x"]\nb [prompt="y"]\nstart -> a -> b -> exit')
    config = tmp_path / "run.toml"
    config.write_text(
        '_version = 1\n[workflow]\ngraph = "w.dot"\n[agents]\ndefault = "mine"\n'
        f'[agents.mine]\ncommand = [{json.dumps(os.fspath(program))}]\noutput = "json"\n'
    )
    wf.ok("run", config)
    assert wf.ok("log").out.splitlines()[2] == "used: 2,400 tokens in, 68 out, $1.0000"
    totals = wf.ok("log", "--json").json["totals"]
    assert (totals["input_tokens"], totals["output_tokens"], totals["cost_usd"]) == (2400, 68, 1.0)
    assert wf.ok("log", "--format=%(node) %(cost)").out == "a 0.5\nb 0.5\n"
