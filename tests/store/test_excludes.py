from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_wf.errors import UserError
from git_wf.store.excludes import Excludes
from tests.conftest import git

NAMES = ["a", "b", "ab", "a.log", "build", "keep", "éé", "a\nb", "-x", "[a]", "a b"]
PARTS = [*NAMES, "*", "**", "?", "*.log", "a*", "[ab]", "[!a]*", "\\*", "*a*", "[a-b]b"]
GLOB_PARTS = [*PARTS, "b**", "b**a"]


def paths():
    return st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


def patterns(first: tuple[str, ...], parts: list[str]):
    chosen = st.lists(st.sampled_from(parts), min_size=1, max_size=3).map("/".join)
    return st.tuples(st.sampled_from(first), chosen, st.sampled_from(["", "", "/"])).map("".join)


def ignored_by_git(repo: Path, lines: list[str], path: str) -> bool:
    (repo / ".git/info").mkdir(exist_ok=True)
    (repo / ".git/info/exclude").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-q", "-z", "--stdin"],
        cwd=repo, input=os.fsencode(path) + b"\0", check=False,
    )  # fmt: skip
    return done.returncode == 0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    lines=st.lists(patterns(("", "", "/", "!", "**/"), PARTS), min_size=1, max_size=3),
    path=paths(),
    stars=st.booleans(),
)
def test_gitignore_patterns_mean_what_git_says(
    repo: Path, lines: list[str], path: str, stars: bool
):
    lines = [*lines[:1], "a/**", *lines[1:]] if stars else lines
    lines = [line for line in lines if "\n" not in line and not line.endswith(" ")] or ["a"]
    assert Excludes(lines).holds(path) == ignored_by_git(repo, lines, path)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(pattern=patterns(("", "./", "**/"), GLOB_PARTS), path=paths())
def test_glob_patterns_mean_what_git_says(repo: Path, pattern: str, path: str):
    git("rm", "-rq", "--cached", ".", cwd=repo)
    blob = git("hash-object", "-w", "--stdin", cwd=repo, stdin=b"")
    entry = f"100644 {blob}\t{path}\0".encode()
    git("update-index", "-z", "--index-info", cwd=repo, stdin=entry)
    left = git("ls-files", "-z", "--", ".", f":(glob,exclude){pattern}", cwd=repo)
    assert Excludes([pattern], "glob").holds(path) == (left == "")


def test_more_globs_than_a_random_walk_finds():
    def held(pattern: str, *names: str) -> list[str]:
        return [name for name in names if Excludes([pattern], "glob").holds(name)]

    assert held("[[:digit:]]x", "1x", "ax") == ["1x"]
    assert held("[]a]", "]", "a", "b") == ["]", "a"]
    assert held("[z-a]", "z", "a", "m") == ["z"]
    assert held("a[!/]b", "a/b", "acb") == ["acb"]
    assert held("[\\]]", "]", "\\") == ["]"]
    assert held("sub/", "sub/", "sub", "sub/x") == ["sub/", "sub/x"]
    assert held("s*", "sub/", "sub/x") == ["sub/"]
    assert held("a?", "a\udcff", "aé", "ab") == ["a\udcff", "ab"]


@pytest.mark.parametrize(
    ("pattern", "syntax", "message"),
    [
        ("!", "gitignore", "bad exclude pattern '!': git takes it for no pattern"),
        ("a\\", "gitignore", "bad exclude pattern 'a\\': git takes it for no pattern"),
        ("[z-a]x", "gitignore", "bad exclude pattern '[z-a]x': git takes it for no pattern"),
        ("[[:digit:]]", "gitignore",
         "bad exclude pattern '[[:digit:]]': character classes are not known here"),
        ("/dist", "glob",
         "bad exclude pattern '/dist': glob patterns are relative to the top of the worktree"),
        ("a/../..", "glob", "bad exclude pattern 'a/../..': it names nothing in the worktree"),
        ("", "glob", "bad exclude pattern '': it names nothing in the worktree"),
        ("a[", "glob", "bad exclude pattern 'a[': a bracket is not closed"),
        ("a[b", "glob", "bad exclude pattern 'a[b': a bracket is not closed"),
        ("[[:no:]]", "glob", "bad exclude pattern '[[:no:]]': no character class 'no'"),
        ("a\\", "glob", "bad exclude pattern 'a\\': it ends in a backslash"),
        ("a", "regex", "no such syntax of exclude globs: 'regex'"),
    ],
)  # fmt: skip
def test_bad_patterns_are_refused(pattern: str, syntax: str, message: str):
    with pytest.raises(UserError) as raised:
        Excludes([pattern], syntax)
    assert raised.value.message == message


def test_names_that_are_not_utf8_and_names_with_newlines():
    excludes = Excludes(["*.log", "build/"])
    held = [
        name
        for name in ("\udcff.log", "a\n.log", "a.log\n", "build/\udcfe\n", "x\udcff/a.log", "a")
        if excludes.holds(name)
    ]
    assert held == ["\udcff.log", "a\n.log", "build/\udcfe\n", "x\udcff/a.log"]


def test_many_directories_do_not_pile_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("git_wf.store.excludes._VERDICTS", 2)
    excludes = Excludes(["b/", "!x"])
    assert [excludes.holds(path) for path in ("a/b/c", "a/c/c", "b/c/d/e", "e/f")] == [
        True, False, True, False,
    ]  # fmt: skip


def test_builtin_directories():
    excludes = Excludes()
    assert excludes.builtin_directory("web/node_modules/a/node_modules/b") == "web/node_modules/"
    assert excludes.builtin_directory("node_modules") is None
    assert excludes.builtin_directory("node_modules/") == "node_modules/"
    assert excludes.builtin_directory("my_node_modules/a") is None
    assert Excludes(builtin=False).builtin_directory("node_modules/a") is None
