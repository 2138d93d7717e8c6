"""The man page: clean, found by man and git, and in step with the program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.surface import every_command, program_options
from tests.tree import ROOT

PAGES = sorted((ROOT / "man").glob("*.[1-9]"))
PAGE = ROOT / "man" / "git-wf.1"


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_mandoc_finds_nothing(page: Path) -> None:
    done = subprocess.run(
        [needs("mandoc"), "-T", "lint", "-W", "warning", page], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_groff_finds_nothing(page: Path) -> None:
    needs("groff")
    done = subprocess.run(
        ["groff", "-mandoc", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_git_opens_it(tmp_path: Path) -> None:
    """What `git wf --help` does, where `share/man` is where the installer puts it."""
    needs("man")
    section = tmp_path / "man1"
    section.mkdir()
    (section / PAGE.name).symlink_to(PAGE)
    # git looks for a page of `git-wf` only where there is such a command.
    command = tmp_path / "git-wf"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "MANPATH": os.fspath(tmp_path),
        "MANPAGER": "cat",
        "MANWIDTH": "80",
    }
    done = subprocess.run(["git", "wf", "--help"], env=env, capture_output=True, text=True)
    if "minimized" in done.stdout:
        pytest.skip("this system has a man that shows no pages")
    assert done.returncode == 0, done.stderr
    assert "run workflows over a git repository" in done.stdout


def documented(verb: str) -> set[str]:
    """The long options that the synopsis and the section of a verb name."""
    text = PAGE.read_text()
    synopsis = text.split(".Sh SYNOPSIS\n")[1].split(".Sh ")[0]
    lines = synopsis.split(".Nm git wf\n")
    mine = "".join(part for part in lines if part.startswith(f".Cm {verb}\n"))
    mine += text.split(f".Ss git wf {verb}\n")[1].split("\n.S")[0]
    said = [line for line in mine.splitlines() if re.match(r"\.(Op|It) Fl ", line)]
    words = " ".join(said).replace("Fl -", "--").replace("| -", "--")
    return set(re.findall(r"--[a-z][a-z-]*", words.replace(", -", " --"))) | {"--help"}


def test_it_has_every_verb() -> None:
    sections = re.findall(r"^\.Ss git wf ([\w -]+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(every_command())


@pytest.mark.parametrize("verb", every_command())
def test_options_are_those_of_the_program(verb: str) -> None:
    assert documented(verb) == program_options(verb), (
        f"man/git-wf.1 and the options of 'git wf {verb}' differ: make them the same"
    )
