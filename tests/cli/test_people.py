"""Human nodes through the program: without a terminal, with answers given beforehand."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import git
from tests.judge import untouched
from tests.program import BEGIN, Program, run_id, write_workflow

SHIP = """\
h [shape=hexagon, label="Ship?"]
y [script="echo yes >said"]
n [script="echo no >said"]
start -> h
h -> y [label="[A] Approve"]
h -> n [label="[R] Revise"]
y -> exit
n -> exit"""
AFTER_WORK = SHIP.replace("start -> h", 'a [script="echo a >>log"]\nstart -> a -> h')
LOOP = """\
plan [script="echo plan >>log"]
review [shape=hexagon, label="Good?"]
start -> plan -> review
review -> exit [label="[Y] Yes"]
review -> plan [label="[N] No"]"""
ASKED = """\
waiting for an answer
  h@1: Ship?
    A  Approve
    R  Revise
"""


@pytest.fixture
def ship(tmp_path: Path) -> Path:
    return write_workflow(tmp_path / "ship.dot", AFTER_WORK)


@pytest.fixture
def waiting(wf: Program, ship: Path) -> str:
    """The id of a run that did `a` and waits in `h`."""
    assert wf("run", ship).status == 3
    return run_id(1)


def answers(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def said(repo: Path, run: str) -> str:
    return git("show", f"wf/run/{run}:said", cwd=repo)


def visited(repo: Path, run: str) -> list[str]:
    listed = git("log", "--reverse", "--format=%s", f"main..wf/run/{run}", cwd=repo)
    return [line.split(": ", 1)[1].partition(" ")[0] for line in listed.splitlines()]


# H01, H03: the durable wait.


def test_without_a_terminal_the_run_waits(wf: Program, repo: Path, ship: Path) -> None:
    result = wf("run", ship)
    run = run_id(1)
    base = git("rev-parse", "--short=9", "HEAD", cwd=repo)
    assert (result.status, result.out) == (3, f"{run}\n")
    assert result.err == (
        f"run {run} started on branch wf/run/{run}, from {base}\n"
        "  a@1 success 0ms\n"
        f"{ASKED}"
        f"branch:       wf/run/{run}\n"
        f"look at it:   git wf log {run}\n"
        f"              git diff main...wf/run/{run}\n"
        f"go on:        git wf resume {run} --answer A\n"
    )
    assert git("log", "-1", "--format=%s", f"refs/wf/meta/{run}", cwd=repo) == "wait h@1"
    recorded = json.loads(git("show", f"refs/wf/meta/{run}:waiting.json", cwd=repo))
    assert recorded == {
        "format": 1,
        "node": "h",
        "visit": 1,
        "question": "Ship?",
        "choices": [
            {"key": "A", "label": "[A] Approve", "to": "y", "freeform": False},
            {"key": "R", "label": "[R] Revise", "to": "n", "freeform": False},
        ],
        "since": "2030-01-02T03:04:05.000000Z",
        "deadline": None,
    }
    assert not git("show", f"refs/wf/meta/{run}", "--", "conclusion.json", cwd=repo).count("diff")


@pytest.mark.parametrize(
    ("answer", "node"), [("A", "y"), ("R", "n"), ("revise", "n"), ("n", "n"), ("2", "n")]
)
def test_an_answer_goes_on(wf: Program, repo: Path, waiting: str, answer: str, node: str) -> None:
    wf.ok("resume", waiting, "--answer", answer)
    assert visited(repo, waiting) == ["a", "h", node]
    record = json.loads(git("show", f"refs/wf/meta/{waiting}:checkpoint.json", cwd=repo))
    key, label = ("A", "[A] Approve") if node == "y" else ("R", "[R] Revise")
    context = record["context_values"]
    assert (context["human.gate.selected"], context["human.gate.label"]) == (key, label)
    assert context["human.gate.text"] == ""
    names = git("ls-tree", "--name-only", f"refs/wf/meta/{waiting}", cwd=repo).split()
    assert "waiting.json" not in names and "conclusion.json" in names


def test_a_wait_before_the_first_checkpoint(wf: Program, repo: Path, tmp_path: Path) -> None:
    assert wf("run", write_workflow(tmp_path / "w.dot", SHIP)).status == 3
    assert wf("resume").status == 3
    wf.ok("resume", "--answer", "R")
    assert visited(repo, run_id(1)) == ["h", "n"]


def test_a_wrong_answer_changes_nothing(wf: Program, repo: Path, waiting: str) -> None:
    with untouched(repo / ".git" / "refs", repo / ".git" / "objects"):
        wf.fails(
            128, ["resume", waiting, "--answer", "X"],
            "error: 'X' is no answer to 'h'\nhint: A  Approve\nhint: R  Revise\n",
        )  # fmt: skip
        wf.fails(
            128, ["resume", waiting, "--answer", ""],
            "error: '' is no answer to 'h'\nhint: A  Approve\nhint: R  Revise\n",
        )  # fmt: skip


def test_without_an_answer_it_waits_on_and_says_so(wf: Program, repo: Path, waiting: str) -> None:
    with untouched(repo / ".git" / "refs", repo / ".git" / "objects"):
        result = wf("resume")
    assert (result.status, result.out) == (3, "")
    assert result.err == (
        f"{ASKED}branch:       wf/run/{waiting}\n"
        f"look at it:   git wf log {waiting}\n"
        f"              git diff main...wf/run/{waiting}\n"
        f"go on:        git wf resume {waiting} --answer A\n"
    )


def test_an_answer_in_another_clone(wf: Program, repo: Path, waiting: str, tmp_path: Path) -> None:
    git("clone", "-q", str(repo), "other", cwd=tmp_path)
    other = tmp_path / "other"
    git(
        "fetch", "-q", "origin", "refs/wf/*:refs/wf/*", "refs/heads/wf/*:refs/heads/wf/*", cwd=other
    )
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    wf.ok("resume", waiting, "--answer", "A", cwd=other)
    assert said(other, waiting) == "yes"


def test_an_answer_that_nobody_asked_for(wf: Program, repo: Path, tmp_path: Path) -> None:
    wf.ok("run", write_workflow(tmp_path / "w.dot", 'a [script="true"] start -> a -> exit'))
    wf.ok("rewind", "@0")
    wf.fails(
        128, ["resume", run_id(1), "--answer", "A"],
        f"error: run {run_id(1)} waits for no answer\nhint: git wf resume {run_id(1)}\n",
    )  # fmt: skip


def test_a_rewound_run_is_asked_again(wf: Program, repo: Path, waiting: str) -> None:
    wf.ok("resume", "--answer", "R")
    wf.ok("rewind", "a")
    assert wf("resume").status == 3
    wf.ok("rewind", "a")
    wf.ok("resume", "--answer", "A")  # before anybody was asked
    assert said(repo, waiting) == "yes"


def test_a_fork_of_a_waiting_run(wf: Program, repo: Path, waiting: str) -> None:
    wf.ok("fork")
    wf.ok("resume", run_id(2), "--answer", "R")
    assert said(repo, run_id(2)) == "no"
    assert wf("log", waiting, "--json").json["status"] == "waiting"


def test_by_the_older_names(wf: Program, repo: Path, waiting: str, tmp_path: Path) -> None:
    wf.ok("run", "--run-branch", f"wf/run/{waiting}", "--answer", "A")
    assert said(repo, waiting) == "yes"
    wf.fails(
        129, ["run", str(tmp_path / "ship.dot"), "--answer", "A"],
        "error: --answer is for a run that waits: with --resume or --run-branch\n"
        "hint: git wf run -h\n",
    )  # fmt: skip


def test_log_and_runs_tell_what_for(wf: Program, repo: Path, waiting: str) -> None:
    lines = wf.ok("log").out.splitlines()
    assert lines[0] == f"run {waiting}  ship  waiting"
    assert "\n".join(lines[1:6]) == f"{ASKED}go on: git wf resume {waiting} --answer A"
    told = wf.ok("log", "--json").json
    assert (told["status"], told["waiting"]["node"], told["finalized"]) == ("waiting", "h", False)
    assert wf.ok("runs").out.split() == (
        f"{waiting} waiting 1 checkpoint a ship just now waits for h: Ship?".split()
    )
    assert wf.ok("runs", "--json").json["runs"][0]["waiting"]["question"] == "Ship?"
    wf.ok("resume", "--answer", "A")
    assert wf.ok("log", "--json").json["waiting"] is None
    assert "waits for" not in wf.ok("runs").out


# Answers that are given beforehand.


def test_auto_approve(wf: Program, repo: Path, ship: Path) -> None:
    wf.ok("run", ship, "--auto-approve")
    assert said(repo, run_id(1)) == "yes"


def test_auto_approve_on_resume(wf: Program, repo: Path, waiting: str) -> None:
    wf.ok("resume", "--auto-approve")
    assert said(repo, waiting) == "yes"


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", 'h = "R"\n'), ("a.json", '{"h": ["R"]}'), ("a", 'h = ["r"]')]
)
def test_answers_from_a_file(
    wf: Program, repo: Path, ship: Path, tmp_path: Path, name: str, text: str
) -> None:
    wf.ok("run", ship, "--answers", answers(tmp_path / name, text))
    assert said(repo, run_id(1)) == "no"


def test_one_answer_a_visit_also_when_it_goes_on(wf: Program, repo: Path, tmp_path: Path) -> None:
    loop = write_workflow(tmp_path / "loop.dot", LOOP)
    two = answers(tmp_path / "two.toml", 'review = ["N", "N"]')
    assert wf("run", loop, "--answers", two).status == 3
    assert wf("resume", "--answers", two).status == 3  # the third visit has none
    three = answers(tmp_path / "three.toml", 'review = ["Y", "Y", "No"]')
    assert wf("resume", "--answers", three).status == 3
    wf.ok("resume", "--answers", three, "--answer", "yes")
    assert git("show", f"wf/run/{run_id(1)}:log", cwd=repo).split() == ["plan"] * 4


def test_answers_first_and_approval_after(wf: Program, repo: Path, tmp_path: Path) -> None:
    loop = write_workflow(tmp_path / "loop.dot", LOOP)
    no = answers(tmp_path / "no.toml", 'review = "N"')
    wf.ok("run", loop, "--answers", no, "--auto-approve")
    assert visited(repo, run_id(1)) == ["plan", "review", "plan", "review"]


TEXTS_HINT = 'hint: write h = "A": an answer is a text, or a list of texts, one a visit'
JSON_HINT = 'hint: {"node": "answer", "another": ["first visit", "second visit"]}'


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.toml", 'hh = "A"', "answers: 'hh' is no human node\nhint: did you mean 'h'?"),
        ("a.toml", 'other = "A"', "answers: 'other' is no human node\nhint: there are: h"),
        ("a.toml", 'a = "A"', "answers: 'a' is no human node\nhint: there are: h"),
        (
            "a.toml", 'h = ["A", "X"]',
            "answers: 'X' is no answer to 'h'\nhint: A  Approve\nhint: R  Revise",
        ),
        ("a.toml", "h = 1", "{}: 'h': an answer is a text, or a list of texts, one a visit\n"
         'hint: h = "A"'),
        ("a.toml", "[h]\nx = 'A'", "answers: 'h.x': 'h' has no child workflow\n" + TEXTS_HINT),
        ("a.toml", 'h = ["A", "\\u0000"]', "{}: 'h[1]' has a NUL byte\n"
         "hint: no answer can have one"),
        ("a.json", "[]", "{}: not an object of nodes and answers\n" + JSON_HINT),
        ("a.json", '{"h": {}}', "answers: 'h': 'h' has no child workflow\n" + TEXTS_HINT),
        ("a.json", "{", "{}: not JSON: expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)\n" + JSON_HINT),
    ],
)  # fmt: skip
def test_answers_that_are_refused(
    wf: Program, repo: Path, ship: Path, tmp_path: Path, name: str, text: str, told: str
) -> None:
    path = answers(tmp_path / name, text)
    with untouched(repo):
        wf.fails(
            128,
            ["run", str(ship), "--answers", str(path)],
            "error: " + told.replace("{}:", f"{path}:") + "\n",
        )
        wf.fails(
            128, ["run", str(ship), "--answers", "no"],
            "error: no file 'no'\nhint: ls . lists what is there\n",
        )  # fmt: skip


def test_a_dry_run_takes_no_answers(wf: Program, ship: Path, tmp_path: Path) -> None:
    path = answers(tmp_path / "a.toml", 'h = "R"')
    result = wf("run", ship, "--dry-run", "--answers", path)
    assert (result.status, result.err.splitlines()[0]) == (
        129, "error: --answers is not for a dry run, which takes the first choice",
    )  # fmt: skip


# H05


def test_two_edges_to_one_target(wf: Program, repo: Path, tmp_path: Path) -> None:
    body = """h [shape=hexagon, label="OK?"] start -> h
h -> exit [label="Y) Yes"] h -> exit [label="N - No"]"""
    result = wf("run", write_workflow(tmp_path / "w.dot", body))
    assert "    Y  Yes\n    N  No\n" in result.err
    wf.ok("resume", "--answer", "N")
    record = json.loads(git("show", f"refs/wf/meta/{run_id(1)}:checkpoint.json", cwd=repo))
    assert record["context_values"]["human.gate.selected"] == "N"
    assert record["context_values"]["human.gate.label"] == "N - No"


def test_free_text(wf: Program, repo: Path, tmp_path: Path) -> None:
    body = """h [shape=hexagon, label="What?"] start -> h
say [script="echo {{ context.human.gate.text | sh }} >said"]
h -> exit [label="[S] Stop"] h -> say [label="[T] Tell", freeform=true] say -> exit"""
    result = wf("run", write_workflow(tmp_path / "w.dot", body))
    assert "    S  Stop\n    T  Tell  (any text)\n" in result.err
    wf.ok("resume", "--answer", "it's \x1b[31mred")
    assert said(repo, run_id(1)) == "it's \x1b[31mred"


# Time-outs, from when the question was asked first.


@pytest.mark.parametrize("default", [True, False])
def test_time_runs_out_while_nobody_is_there(
    wf: Program, repo: Path, tmp_path: Path, default: bool
) -> None:
    more = ', timeout="1h"' + (', human.default_choice="n"' if default else "")
    body = AFTER_WORK.replace('label="Ship?"', f'label="Ship?"{more}')
    result = wf("run", write_workflow(tmp_path / "w.dot", body))
    assert (result.status, result.err.splitlines()[2]) == (
        3, "waiting for an answer, until 2030-01-02T04:04:05.000000Z",
    )  # fmt: skip
    assert wf("resume").status == 3
    wf.clock.moment += timedelta(hours=1)
    wf.fails(
        128, ["resume", run_id(1), "--answer", "A"],
        f"error: the time to answer 'h' is over\nhint: git wf resume {run_id(1)} goes on\n",
    )  # fmt: skip
    result = wf("resume")
    if default:
        assert (result.status, said(repo, run_id(1))) == (0, "no")
    else:
        assert (result.status, result.err.splitlines()[1]) == (
            1, "  h@1 fail 0ms: nobody answered within 1h",
        )  # fmt: skip
    assert (wf.clock.now() - BEGIN).total_seconds() < 3700


# Without git.


def test_in_place(wf: Program, repo: Path, ship: Path) -> None:
    result = wf("run", "--in-place", ship)
    assert result.status == 3
    command = result.err.splitlines()[-1].partition("git wf ")[2].replace("'", "").split()
    assert command[-2:] == ["--answer", "A"]
    assert wf(*command[:-2]).status == 3
    assert wf(*command[:-1], "X").err.startswith("error: 'X' is no answer to 'h'\n")
    wf.ok(*command[:-1], "R")
    assert (repo / "said").read_text() == "no\n"
    assert (repo / "log").read_text() == "a\n"


def test_in_place_before_the_first_checkpoint(wf: Program, repo: Path, tmp_path: Path) -> None:
    result = wf("run", "--in-place", write_workflow(tmp_path / "w.dot", SHIP))
    command = result.err.splitlines()[-1].partition("git wf ")[2].replace("'", "").split()
    wf.ok(*command)
    assert (repo / "said").read_text() == "yes\n"
