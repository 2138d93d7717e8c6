"""Human nodes on a terminal: the program is asked through a real one."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from tests.conftest import git
from tests.program import write_workflow
from tests.tree import ROOT

ASK = """\
a [script="echo a >>log"]
h [shape=hexagon, label="Ship it?"%s]
y [script="echo yes >said"]
n [script="echo {{ context.human.gate.text | sh }} >said"]
start -> a -> h
h -> y [label="[A] Approve"]
h -> n [label="[T] Tell why", freeform=%s]
y -> exit
n -> exit"""
Talk = Callable[..., pexpect.spawn]


@pytest.fixture
def talk(repo: Path) -> Iterator[Talk]:
    children = []

    def spawn(*words: str | Path) -> pexpect.spawn:
        child = pexpect.spawn(
            sys.executable, ["-m", "git_wf", *map(str, words)], cwd=os.fspath(repo), timeout=30,
            env={**os.environ, "PYTHONPATH": os.fspath(ROOT)}, encoding="utf-8", echo=False,
        )  # fmt: skip
        children.append(child)
        return child

    yield spawn
    for child in children:
        child.close(force=True)


@pytest.fixture
def workflow(tmp_path: Path) -> Callable[..., Path]:
    def write(more: str = "", freeform: str = "false") -> Path:
        return write_workflow(tmp_path / "w.dot", ASK % (more, freeform))

    return write


def ended(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus)


def file_of(repo: Path, name: str) -> str:
    branch = git("for-each-ref", "--format=%(refname)", "refs/heads/wf/run", cwd=repo)
    return git("show", f"{branch}:{name}", cwd=repo)


def test_it_asks_until_the_answer_fits(
    talk: Talk, repo: Path, workflow: Callable[..., Path]
) -> None:
    child = talk("run", workflow())
    child.expect_exact("h: Ship it?\r\n  A  Approve\r\n  T  Tell why\r\nanswer: ")
    child.sendline("perhaps")
    child.expect_exact("notice: 'perhaps' is none of A, T\r\nanswer: ")
    child.sendline("")
    child.expect_exact("notice: '' is none of A, T\r\nanswer: ")
    child.sendline("approve")
    child.expect_exact("h@1 success")
    assert ended(child) == 0
    assert file_of(repo, "said") == "yes"


def test_free_text(talk: Talk, repo: Path, workflow: Callable[..., Path]) -> None:
    child = talk("run", workflow(freeform="true"))
    child.expect_exact("  T  Tell why  (any text)\r\nanswer: ")
    child.sendline("it's “too” early")
    assert ended(child) == 0
    assert file_of(repo, "said") == "it's “too” early"


def test_prompts_are_not_in_the_data(talk: Talk, repo: Path, workflow: Callable[..., Path]) -> None:
    out = repo.parent / "out"
    child = talk("run", workflow(), "--json", "-q")
    child.close(force=True)
    line = f"{sys.executable} -m git_wf run --json -q {workflow()} >{out}"
    child = pexpect.spawn(
        "sh", ["-c", line], cwd=os.fspath(repo), timeout=30, encoding="utf-8", echo=False,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
    )  # fmt: skip
    child.expect_exact("answer: ")
    child.sendline("A")
    assert ended(child) == 0
    events = [json.loads(line)["event"] for line in out.read_text().splitlines()]
    assert "waiting" in events and events[-1] == "run_finished"


@pytest.mark.parametrize("default", [True, False])
def test_time_runs_out(
    talk: Talk, repo: Path, workflow: Callable[..., Path], default: bool
) -> None:
    more = ', timeout="1s"' + (', human.default_choice="y"' if default else "")
    child = talk("run", workflow(more))
    child.expect(r"answer before \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: ")
    if default:
        assert ended(child) == 0
        assert file_of(repo, "said") == "yes"
    else:
        child.expect_exact("nobody answered within 1s")
        assert ended(child) == 1


def test_who_goes_away_can_answer_later(
    talk: Talk, repo: Path, workflow: Callable[..., Path]
) -> None:
    child = talk("run", workflow())
    child.expect_exact("answer: ")
    child.sendeof()
    child.expect_exact("waiting for an answer")
    assert ended(child) == 3
    child = talk("resume")
    child.expect_exact("answer: ")
    child.sendline("A")
    assert ended(child) == 0
    assert file_of(repo, "log") == "a"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_h07_ended_while_it_asked(
    talk: Talk, repo: Path, workflow: Callable[..., Path], how: signal.Signals
) -> None:
    child = talk("run", workflow())
    child.expect_exact("h: Ship it?\r\n  A  Approve\r\n  T  Tell why\r\nanswer: ")
    if how == signal.SIGINT:
        child.sendintr()
        assert ended(child) == 130
    else:
        child.kill(how)
        child.wait()
    child = talk("resume")
    child.expect_exact("h: Ship it?\r\n  A  Approve\r\n  T  Tell why\r\nanswer: ")
    child.sendline("A")
    assert ended(child) == 0
    assert (file_of(repo, "log"), file_of(repo, "said")) == ("a", "yes")


def test_in_the_background_nobody_is_asked(
    talk: Talk, repo: Path, workflow: Callable[..., Path]
) -> None:
    line = f"set -m; {sys.executable} -m git_wf run {workflow()} & wait $!; echo ended $?"
    child = pexpect.spawn(
        "sh", ["-c", line], cwd=os.fspath(repo), timeout=30, encoding="utf-8", echo=False,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
    )  # fmt: skip
    child.expect_exact("ended 3")
    assert ended(child) == 0
