from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import git
from tests.program import Program, run_id, write_workflow

NODES = """\
a [script="echo a >a"]
b [script="echo b >b"]
c [script="echo broken >README"]
d [script="echo d >d"]
start -> a -> b -> c -> d -> exit"""


@pytest.fixture
def run(wf: Program, repo: Path, tmp_path: Path) -> str:
    """A run of `a b c d`; `c` breaks README."""
    wf.ok("run", write_workflow(tmp_path / "w.dot", NODES))
    return run_id(1)


def places(repo: Path) -> tuple[str, str, str]:
    return (
        git("for-each-ref", cwd=repo),
        re.sub("(?m)^HEAD .*", "", git("worktree", "list", "--porcelain", cwd=repo)),
        git("status", "--porcelain", cwd=repo),
    )


def test_the_node_that_broke_it(wf: Program, repo: Path, run: str) -> None:
    before = places(repo)
    result = wf.ok("bisect", "--", "grep", "-q", "hello", "README")
    assert result.err.splitlines() == [
        "@4 d@1: bad (1), 4 left",
        "@0: good (0), 3 left",
        "@2 b@1: good (0), 1 left",
        "@3 c@1: bad (1), 0 left",
    ]
    assert (
        result.out
        == f"""\
c@1 is the first bad checkpoint of {run}
checkpoint  @3  2030-01-02T03:04:05.000000Z
status      success
commit      {git("rev-parse", f"wf/run/{run}~1", cwd=repo)}
command     grep -q hello README

 README | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)
"""
    )
    assert places(repo) == before
    git("fsck", "--strict", cwd=repo)


def test_as_json(wf: Program, repo: Path, run: str) -> None:
    told = wf.ok("bisect", run, "--json", "--", "grep", "-q", "hello", "README").json
    assert (told["format"], told["run_id"], told["first_bad"]["ordinal"]) == (1, run, 3)
    assert [one["node"] for one in told["candidates"]] == ["c"]
    probes = [(one["ordinal"], one["verdict"], one["exit_status"]) for one in told["probes"]]
    assert probes == [(4, "bad", 1), (0, "good", 0), (2, "good", 0), (3, "bad", 1)]


def test_the_ends_can_be_named(wf: Program, run: str) -> None:
    result = wf.ok("bisect", run[:24], "b..c", "--", "grep", "-q", "hello", "README")
    assert result.err == "@3 c@1: bad (1), 1 left\n@2 b@1: good (0), 0 left\n"
    assert result.out.startswith("c@1 is the first bad checkpoint")


def test_each_probe_begins_anew(wf: Program, run: str) -> None:
    """What the command leaves in the worktree, ignored or not, is gone before the next one."""
    script = "test ! -e made && test ! -e b.o && echo '*.o' >.gitignore && touch made b.o && "
    script += "rm -f .git && grep -q hello README"
    assert wf.ok("bisect", "--", "sh", "-c", script).out.startswith("c@1 is the first")


def test_where_the_command_cannot_tell(wf: Program, run: str) -> None:
    script = "test -e a || exit 0; test -e d && exit 1; exit 125"
    result = wf("bisect", "--", "sh", "-c", script)
    assert result.status == 1
    first, *listed = result.out.splitlines()
    assert first == "the first bad checkpoint is one of these; the command cannot tell:"
    assert [line.split()[1] for line in listed] == ["a@1", "b@1", "c@1", "d@1"]


def test_around_one_that_cannot_tell(wf: Program, run: str) -> None:
    script = "test -e b -a ! -e d && grep -q hello README && exit 125; grep -q hello README"
    result = wf("bisect", "--", "sh", "-c", script)
    assert [line.split()[0] for line in result.err.splitlines()] == ["@4", "@0:", "@2", "@1", "@3"]
    assert [line.split()[1] for line in result.out.splitlines()[1:]] == ["b@1", "c@1"]


@pytest.mark.parametrize(
    ("words", "err"),
    [
        (
            ["--", "true"],
            "@4 d@1: good (0), 4 left\n"
            "error: the command succeeds at d@1, which is to be the bad end\n"
            "hint: git wf bisect RUN GOOD..BAD names other ends; git wf log lists them\n",
        ),
        (
            ["--", "sh", "-c", "exit 126"],
            "@4 d@1: bad (126), 4 left\n@0: bad (126), 3 left\n"
            "error: the command ends with status 126 at @0, which is to be the good end\n"
            "hint: git wf bisect RUN GOOD..BAD names other ends; git wf log lists them\n",
        ),
        (
            ["--", "sh", "-c", "kill -9 $$"],
            "error: the command ended by signal 9 at d@1: the search is ended\n"
            "hint: 0 is good, 125 cannot tell, any other up to 127 is bad\n",
        ),
        (
            ["--", "./no-such"],
            "error: run './no-such': No such file or directory\n"
            "hint: git wf bisect -- COMMAND runs it in a worktree of the run: "
            "name a program on PATH, or one that the run has\n",
        ),
        (
            ["@3..@1", "--", "true"],
            "error: no checkpoint between 'c@1' and 'a@1': the good end comes first\n"
            "hint: git wf log lists them\n",
        ),
        (["@2", "--", "true"], "error: no run matches '@2'\nhint: git wf runs lists them\n"),
        (
            ["a..b", "c..d", "--", "true"],
            "error: 'a..b c..d' is not a run and a range\nhint: git wf bisect RUN @2..@7 -- make\n",
        ),
    ],
)
def test_what_is_refused(wf: Program, repo: Path, run: str, words: list[str], err: str) -> None:
    before = places(repo)
    wf.fails(128, ["bisect", *words], err)
    assert places(repo) == before


@pytest.mark.parametrize("words", [[], ["@1..@2"], ["--"]])
def test_without_a_command(wf: Program, run: str, words: list[str]) -> None:
    wf.fails(
        129,
        ["bisect", *words],
        "error: a command is needed: git wf bisect [RUN] [GOOD..BAD] -- COMMAND\n"
        "hint: git wf bisect -h\n",
    )


def test_what_a_killed_search_left_goes(wf: Program, repo: Path, run: str) -> None:
    before = places(repo)
    trees = repo.parent / "left"
    git("worktree", "add", "-q", "--detach", "--lock", "--reason", "git-wf run bisect", str(trees),
        cwd=repo)  # fmt: skip
    wf.ok("bisect", "--", "grep", "-q", "hello", "README")
    assert places(repo) == before
