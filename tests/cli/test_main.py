from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from git_wf import __version__
from git_wf.cli.group import VERBS
from tests.cli.conftest import LoopRun
from tests.program import Program
from tests.tree import ROOT

HEAVY = {
    "rich", "rich_click", "git", "asyncio", "msgspec", "lark", "pathspec", "ulid", "filelock",
    "platformdirs", "tomli",
}  # fmt: skip


def program(*words: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    """`git-wf` as a process of its own."""
    command = [sys.executable, "-m", "git_wf", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, cwd=cwd, env=env, check=False, **{"capture_output": True, **options}
    )


def imported(*words: str, cwd: Path) -> set[str]:
    """The modules that a command line imports, at the top."""
    command = [sys.executable, "-X", "importtime", "-m", "git_wf", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, check=True)
    lines = done.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines if "|" in line}


USAGE = [
    ([], None),
    (["bogus"], "error: 'bogus' is not a git wf command\nhint: git wf -h\n"),
    (["lgo"], "error: 'lgo' is not a git wf command; did you mean 'log'?\nhint: git wf -h\n"),
    (["--bogus"], "error: no such option '--bogus'\nhint: git wf -h\n"),
    (["show", "--bogus"], "error: no such option '--bogus'\nhint: git wf show -h\n"),
    (["log", "a", "b"], "error: log takes a run and a range A..B\nhint: git wf log -h\n"),
    (["runs", "a"], "error: got unexpected extra argument (a)\nhint: git wf runs -h\n"),
    (["setup", "a"], "error: got unexpected extra argument (a)\nhint: git wf setup -h\n"),
    (["fork", "--id"], "error: option '--id' requires an argument\nhint: git wf fork -h\n"),
    (["validate"], "error: missing argument 'FILE...'\nhint: git wf validate -h\n"),
    (["validate", "--format", "x", "f"],
     "error: invalid value for '--format': 'x' is not one of 'text', 'github'\n"
     "hint: git wf validate -h\n"),
    (["run"], "error: give a WORKFLOW, or --resume, or --run-branch\nhint: git wf run -h\n"),
    (["run", "w.dot", "--input", "x"],
     "error: input 'x' is not KEY=VALUE\nhint: git wf run -h\n"),
    (["run", "w.dot", "--label", "=x"],
     "error: label '=x' is not KEY=VALUE\nhint: git wf run -h\n"),
    (["run", "w.dot", "--goal", "x", "--goal-file", "y"],
     "error: give --goal or --goal-file, not both\nhint: git wf run -h\n"),
    (["run", "--run-branch", "wf/run/x", "--input", "a=b"],
     "error: --input is for a new run\nhint: git wf run -h\n"),
    (["run", "w.dot", "--dirty", "x"],
     "error: invalid value for '--dirty': 'x' is not one of"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), USAGE)
def test_usage(wf: Program, words: list[str], told: str | None) -> None:
    result = wf(*words)
    assert result.status == 129
    if told is None:
        assert result.out == wf.ok("-h").out and result.err == ""
    elif told.endswith("\n"):
        assert (result.out, result.err) == ("", told)
    else:  # the choices grow
        assert result.err.startswith(told)


def test_the_version(wf: Program) -> None:
    for words in (["--version"],):
        result = wf.ok(*words)
        assert (result.out, result.err) == (f"git-wf {__version__}\n", "")
    modules = imported("--version", cwd=wf.cwd)
    assert "git_wf" in modules and not modules & {*HEAVY, "click"}


@pytest.mark.parametrize("words", [["log"], ["log", "--json"], ["runs"], ["show", "@1"]])
def test_readers_start_fast(loop: LoopRun, words: list[str]) -> None:
    modules = imported(*words, cwd=loop.repo)
    assert "click" in modules and not modules & HEAVY


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help(wf: Program, word: str) -> None:
    result = wf.ok(word)
    assert result.err == "" and not re.search(r"[ \t]$", result.out, re.MULTILINE)
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", result.out, re.MULTILINE)
        told = wf.ok(verb, word)
        assert told.out.startswith(f"Usage: git wf {verb} ") and told.err == ""


FAULT = """
import sys
from pathlib import Path
from git_wf.cli.main import exit_status
from git_wf.ops.host import Host

class Odd(dict):
    def items(self):
        raise RuntimeError("no \\x1b[31mclock")
    keys = items

sys.exit(exit_status(["log"], Host(Path.cwd(), Odd(), None)))
"""


def test_a_fault_of_ours(wf: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback reaches the user: it is in a file that the last line names."""

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", FAULT], cwd=wf.cwd, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (128, b"")
    fault, hint = done.stderr.decode().splitlines()
    assert fault == "fatal: a fault in git-wf: RuntimeError: no [31mclock"
    (file,) = tmp_path.glob("git-wf-crash-*.log")
    assert hint == f"hint: the details are in '{file}'"
    text = file.read_text()
    assert text.startswith(f"git-wf {__version__}, Python {sys.version}\n\nTraceback ")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_closed_pipe(loop: LoopRun) -> None:
    """As `git wf log | head -0`: no word, and the status of a program that SIGPIPE ended."""
    for words in (["log"], ["log", "--json"], ["-h"], ["--version"]):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = program(*words, cwd=loop.repo, stdout=writer, stderr=subprocess.PIPE,
                           capture_output=False)  # fmt: skip
        finally:
            os.close(writer)
        assert (done.returncode, done.stderr) == (141, b""), words


def test_a_full_disk(loop: LoopRun) -> None:
    if not Path("/dev/full").exists():
        return
    with open("/dev/full", "wb") as full:
        done = program("log", cwd=loop.repo, stdout=full, stderr=subprocess.PIPE,
                       capture_output=False)  # fmt: skip
    assert done.returncode == 128
    assert done.stderr == b"fatal: no space left on device\n"


def test_as_a_module(loop: LoopRun) -> None:
    done = program("log", cwd=loop.repo)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().startswith(f"run {loop.run}  loop  success\n")


def test_git_is_not_there(wf: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for verb in ("log", "runs", "show", "rewind", "fork"):
        wf.fails(128, [verb], "error: git is not installed\nhint: install git 2.38 or newer\n")


def test_a_setting_that_is_none(loop: LoopRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "wf.namespace")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "a/b")
    loop.wf.fails(
        128,
        ["log"],
        "error: config 'wf.namespace': 'a/b' is not a word of letters, digits and hyphens\n"
        "hint: git config --show-origin wf.namespace tells where it is set\n",
    )


def test_a_read_only_repository(loop: LoopRun) -> None:
    """Reading works, a dry run too; what writes says where it cannot."""
    places = [path for path in (loop.repo / ".git").rglob("*") if path.is_dir()]
    places.append(loop.repo / ".git")
    for place in places:
        place.chmod(0o555)
    try:
        for words in (["log"], ["runs"], ["show"], ["rewind", "-n"], ["fork", "-n"]):
            loop.wf.ok(*words)
        if os.access(loop.repo / ".git", os.W_OK):
            return  # the superuser may write all the same
        for verb in ("rewind", "fork"):
            result = loop.wf(verb)
            assert (result.status, result.out) == (128, "")
            assert result.err.startswith("fatal: permission denied: '")
    finally:
        for place in places:
            place.chmod(0o755)


def test_a_file_where_a_directory_is_needed(loop: LoopRun) -> None:
    """The same kind of fault, for the superuser too."""
    locks = loop.repo / ".git" / "git-wf"
    locks.rmdir()
    locks.touch()
    before = loop.refs()
    loop.wf.fails(128, ["rewind"], f"fatal: not a directory: '{locks}'\n")
    assert loop.refs() == before
