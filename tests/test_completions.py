"""The completions, asked in the shells themselves, for `git-wf` and for `git wf`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from git_wf.cli.group import VERBS
from tests.surface import every_command, program_options
from tests.tree import ROOT

COMPLETIONS = ROOT / "completions"
RUNS = ("01JKXYZAAAAAAAAAAAAAAAAAAA", "01JKXYZBBBBBBBBBBBBBBBBBBB")
GIT_COMPLETIONS = (
    Path("/usr/share/bash-completion/completions/git"),
    Path("/usr/share/git/completion/git-completion.bash"),
    Path("/usr/local/etc/bash_completion.d/git-completion.bash"),
)

Ask = Callable[[str], set[str]]  # a command line → what completes its last word


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A repository with two runs and some files; gives the environment to complete in."""
    top = tmp_path_factory.mktemp("completions")
    repository, bin_dir, data = top / "repository", top / "bin", top / "data"
    env = {
        "PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}",
        "HOME": os.fspath(top),
        "PWD": os.fspath(repository),
        "XDG_DATA_HOME": os.fspath(data),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }
    who = ["-c", "user.name=Ada Author", "-c", "user.email=ada@example.com"]
    for command in (
        ["init", "-q", os.fspath(repository)],
        ["-C", os.fspath(repository), *who, "commit", "-q", "--allow-empty", "-m", "first"],
        *(["-C", os.fspath(repository), "branch", f"wf/run/{run}"] for run in RUNS),
    ):
        subprocess.run(["git", *command], env=env, check=True)
    for name in ("a.dot", "b.fabro", "c.txt", "run.toml", "sub/d.gv"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("")
    # Completion must not start the program: this one would be noticed.
    bin_dir.mkdir()
    (bin_dir / "git-wf").write_text("#!/bin/sh\necho started >&2\nexit 1\n")
    (bin_dir / "git-wf").chmod(0o755)
    for source, target in (
        ("git-wf.fish", "fish/vendor_completions.d/git-wf.fish"),
        ("git-wf.conf.fish", "fish/vendor_conf.d/git-wf.fish"),
        ("_git-wf", "zsh/site-functions/_git-wf"),
    ):
        (data / target).parent.mkdir(parents=True)
        shutil.copy(COMPLETIONS / source, data / target)
    return env


BASH_SCRIPT = r"""
for file in "${GIT_COMPLETION}" "${OURS}"; do [ -z "$file" ] || source "$file" || exit; done
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9 COMP_KEY=9
COMP_POINT=${#COMP_LINE}
specification=$(complete -p "$1")
specification=${specification##*-F }
"${specification%% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def in_bash(place: dict[str, str]) -> Ask:
    needs("bash")

    def ask(line: str) -> set[str]:
        theirs = next((path for path in GIT_COMPLETIONS if path.is_file()), None)
        if theirs is None and not line.startswith("git-wf "):
            pytest.skip("git's completion for bash is not installed")
        env = {
            **place,
            "OURS": os.fspath(COMPLETIONS / "git-wf.bash"),
            "GIT_COMPLETION": os.fspath(theirs) if theirs and line.startswith("git ") else "",
        }
        done = subprocess.run(
            ["bash", "--norc", "-c", BASH_SCRIPT, "bash", *line.split(" ")],
            env=env, cwd=place["PWD"], capture_output=True, text=True, check=True,
        )  # fmt: skip
        # `compopt` has nothing to change where no completion is going on.
        told = [text for text in done.stderr.splitlines() if "compopt" not in text]
        assert told == []
        return {word.strip() for word in done.stdout.splitlines() if word.strip()}

    return ask


@pytest.fixture
def in_fish(place: dict[str, str]) -> Ask:
    needs("fish")

    def ask(line: str) -> set[str]:
        done = subprocess.run(
            ["fish", "-c", "complete -C $argv[1]", line],
            env=place, cwd=place["PWD"], capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "started" not in done.stderr
        return {entry.split("\t")[0] for entry in done.stdout.splitlines()}

    return ask


# Every word that a completion adds goes to a file as well; the end is told on the terminal.
ZSH_SCRIPT = r"""
PS1='' PS2='' RPS1=''
unset zle_bracketed_paste
fpath=($XDG_DATA_HOME/zsh/site-functions $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
  if [[ " ${@[1,(i)(-|--)]} " == *\ -[a-zA-Z0-9]#[OAD]\ * ]]; then
    builtin compadd "$@"
    return
  fi
  typeset -a added
  builtin compadd -A added "$@"
  (( $#added )) && print -rl -- $added >>$CAPTURED
  builtin compadd "$@"
}
tell_end() { print -r -- "<<""end>>" }
capture() { comppostfuncs=(tell_end); _main_complete }
zle -C capture list-choices capture
bindkey '^I' capture
print -r -- "<<""ready>>"
"""


@pytest.fixture(scope="module")
def zsh(place: dict[str, str]) -> Iterator[pexpect.spawn]:
    needs("zsh")
    script = Path(place["HOME"], "capture.zsh")
    script.write_text(ZSH_SCRIPT)
    env = {**place, "CAPTURED": f"{place['HOME']}/captured"}
    shell = pexpect.spawn(
        "zsh", ["-f"], env=env, cwd=place["PWD"], encoding="utf-8", dimensions=(80, 120), timeout=60
    )
    shell.sendline("setopt extended_glob; source ~/capture.zsh")
    shell.expect_exact("<<ready>>")
    yield shell
    shell.close(force=True)


@pytest.fixture
def in_zsh(zsh: pexpect.spawn, place: dict[str, str]) -> Ask:
    captured = Path(place["HOME"], "captured")

    def ask(line: str) -> set[str]:
        captured.write_text("")
        zsh.send(f"{line}\t")
        zsh.expect_exact("<<end>>")
        zsh.send("\x15")  # forget the line
        assert "started" not in zsh.before
        return set(captured.read_text().splitlines())

    return ask


@pytest.fixture(params=["bash", "fish", "zsh"])
def complete(request: pytest.FixtureRequest) -> Ask:
    ask: Ask = request.getfixturevalue(f"in_{request.param}")
    return ask


@pytest.mark.parametrize("program", ["git-wf", "git wf"])
def test_verbs(complete: Ask, program: str) -> None:
    assert complete(f"{program} ") == set(VERBS)


@pytest.mark.parametrize("program", ["git-wf", "git wf"])
@pytest.mark.parametrize("verb", ["log", "show", "rewind", "fork", "resume"])
def test_runs(complete: Ask, program: str, verb: str) -> None:
    assert complete(f"{program} {verb} ") == set(RUNS)


def test_run_branches(complete: Ask) -> None:
    assert complete("git wf run --run-branch ") == {f"wf/run/{run}" for run in RUNS}


@pytest.mark.parametrize("line", ["git wf run ", "git-wf validate ", "git wf validate a.dot "])
def test_workflow_files(complete: Ask, line: str) -> None:
    found = {name.rstrip("/") for name in complete(line)} - {".git"}
    if line.endswith("a.dot "):
        found.add("a.dot")  # zsh offers no file twice
    assert found == {"a.dot", "b.fabro", "run.toml", "sub"}


def test_values(complete: Ask) -> None:
    assert complete("git wf run --dirty ") == {"head", "include", "in-place", "refuse"}
    assert complete("git-wf validate --format ") == {"github", "text"}
    assert complete("git-wf graph --format ") == {"svg", "png", "text"}


def test_a_workflow_or_a_run(complete: Ask) -> None:
    found = {name.rstrip("/") for name in complete("git wf graph ")} - {".git"}
    assert found == {*RUNS, "a.dot", "b.fabro", "run.toml", "sub"}


def test_git_lists_the_command(complete: Ask) -> None:
    assert "wf" in complete("git w")


def test_verbs_of_snapshot(complete: Ask) -> None:
    subs = {name.partition(" ")[2] for name in every_command() if name.startswith("snapshot ")}
    assert complete("git wf snapshot ") == subs


@pytest.mark.parametrize("verb", every_command())
def test_options_are_those_of_the_program(complete: Ask, verb: str) -> None:
    assert complete(f"git-wf {verb} --") == program_options(verb), (
        f"completions/ and the options of 'git wf {verb}' differ: make them the same"
    )


def test_a_namespace_of_ones_own(in_bash: Ask, in_fish: Ask, place: dict[str, str]) -> None:
    git = ["git", "-C", place["PWD"]]
    subprocess.run([*git, "branch", "other/run/01JKXYZCCCCCCCCCCCCCCCCCCC"], env=place, check=True)
    subprocess.run([*git, "config", "wf.namespace", "other"], env=place, check=True)
    try:
        assert in_bash("git wf log ") == {"01JKXYZCCCCCCCCCCCCCCCCCCC"}
        assert in_fish("git wf log ") == {"01JKXYZCCCCCCCCCCCCCCCCCCC"}
    finally:
        subprocess.run([*git, "config", "--unset", "wf.namespace"], env=place, check=True)


def test_bash_completes_in_the_repository_of_the_command_line(
    in_bash: Ask, place: dict[str, str]
) -> None:
    elsewhere = {**place, "PWD": place["HOME"]}
    place_was = place["PWD"]
    place["PWD"] = elsewhere["PWD"]
    try:
        assert in_bash(f"git -C {place_was} wf log ") == set(RUNS)
    finally:
        place["PWD"] = place_was
