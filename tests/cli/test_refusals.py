"""What is refused says what is wrong, and what to type instead: words to whole lines.

What needs more of a scene is refused in the tests of its verb; that no error of this kind is
without a hint is a house rule.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judge import untouched
from tests.program import Program, write_workflow

FILES = {
    "w.dot": 'a [script="true"] start -> a -> exit',
    "goal.dot": 'a [script="true"] start -> a -> exit',
    "zero.dot": 'a [script="true", max_visits=0] start -> a -> exit',
}
HEAD = '[workflow]\ngraph = "w.dot"\n'
TEXTS = {
    "nul.md": "a goal\0",
    "latin.md": b"caf\xe9",
    "a.json": "{",
    "list.json": "[]",
    "a.toml": "a = 3",
    "latin.toml": b"x = '\xe9'",
    "torn.toml": "[workflow\n",
    "none.toml": "_version = 1\n",
    "version.toml": f"_version = 'x'\n{HEAD}",
    "goal.toml": f"{HEAD}[run]\ngoal = 3\n",
    "push.toml": f"{HEAD}[run.push]\nremote = 'origin'\n",
    "matcher.toml": f"{HEAD}[[run.hooks]]\nevent = 'stage_start'\nmatcher = '('\nscript = 'x'\n",
    "exclude.toml": f"{HEAD}[checkpoint]\nexclude_globs = ['!']\n",
    "gone.toml": '[workflow]\ngraph = "gone.dot"\n',
    "agent.toml": '[workflow]\ngraph = "w.dot"\n[agents.x]\ncommand = "foo --bar"\n',
}
TOML = 'hint: a line is key = "text", key = 1 or key = ["a", "b"], or begins a [table]'
JSON = 'hint: {"node": "answer", "another": ["first visit", "second visit"]}'
GOAL = "hint: a goal can name {{ inputs.NAME }}, {{ env.NAME }} and {{ graph.NAME }}"
NO_RUNS = "error: no runs in this repository\nhint: git wf run WORKFLOW starts one"


@pytest.fixture(autouse=True)
def files(repo: Path) -> None:
    for name, body in FILES.items():
        write_workflow(repo / name, body)
    for name, text in TEXTS.items():
        (repo / name).write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    ("words", "err"),
    [
        ("run goals.dot", "error: no file 'goals.dot'\nhint: did you mean 'goal.dot'?"),
        ("run zzzzzzzz", "error: no file 'zzzzzzzz'\nhint: ls . lists what is there"),
        ("run no/w.dot", "error: no file 'no/w.dot'\nhint: there is no directory 'no'"),
        ("run .", "error: '.' is a directory\nhint: name the workflow file or the run.toml in it"),
        ("run gone.toml", "error: no file 'gone.dot'\nhint: ls . lists what is there"),
        ("run latin.toml", "error: latin.toml: not UTF-8 at byte 5\nhint: save it as UTF-8"),
        (
            "run torn.toml",
            "error: torn.toml: expected ']' at the end of a table declaration "
            f"(at line 1, column 10)\n{TOML}",
        ),
        (
            "run none.toml",
            'error: none.toml: no workflow is named\nhint: [workflow] graph = "workflow.dot"',
        ),
        (
            "run version.toml",
            "error: version.toml: '_version': a whole number is needed, not a string\n"
            "hint: _version = 1",
        ),
        (
            "run goal.toml",
            "error: goal.toml: 'run.goal': a string is needed, not a number\nhint: goal = \"3\"",
        ),
        (
            "run agent.toml",
            "error: agent.toml: 'agents.x.command': a list of strings is needed, not a string\n"
            'hint: command = ["foo", "--bar"]',
        ),
        (
            "run matcher.toml",
            "error: matcher.toml: 'run.hooks[0].matcher': bad expression: missing ), "
            "unterminated subpattern at position 0\n"
            "hint: a regular expression as Python reads it, such as ^build$",
        ),
        (
            "run push.toml",
            "error: remote 'origin': 'origin' does not appear to be a git repository\n"
            "hint: git remote -v lists the remotes\n"
            "hint: leave 'run.push.remote' out of the run config",
        ),
        (
            "run --in-place push.toml",
            "error: 'run.push.remote' cannot be used in place: "
            "there are no checkpoints\n"
            "hint: leave it out, or run it in a worktree: without --in-place",
        ),
        (
            "run exclude.toml",
            "error: bad exclude pattern '!': git takes it for no pattern\n"
            "hint: exclude_globs, and git config wf.excludeGlobs, hold lines of a .gitignore",
        ),
        ("run w.dot --goal {{inputs.far}}", f"error: goal: undefined name 'inputs.far'\n{GOAL}"),
        (
            "run w.dot --goal-file gone.md",
            "error: cannot read goal file 'gone.md': no such file or directory\n"
            "hint: --goal TEXT gives the goal itself",
        ),
        (
            "run w.dot --goal-file latin.md",
            "error: goal file 'latin.md' is not UTF-8 at byte 3\nhint: save it as UTF-8",
        ),
        (
            "run w.dot --goal-file nul.md",
            "error: the goal has a NUL byte\nhint: --goal-file names a text file",
        ),
        ("run w.dot --id x", "error: 'x' is not a run id\n"
         "hint: a run id is a ULID: 26 letters and digits"),
        ("run w.dot --answers gone.json", "error: no file 'gone.json'\nhint: ls . lists what "
         "is there"),
        (
            "run w.dot --answers a.json",
            "error: a.json: not JSON: expecting property name enclosed in double quotes: "
            f"line 1 column 2 (char 1)\n{JSON}",
        ),
        (
            "run w.dot --answers list.json",
            f"error: list.json: not an object of nodes and answers\n{JSON}",
        ),
        (
            "run w.dot --answers a.toml",
            "error: a.toml: 'a': an answer is a text, or a list of texts, one a visit\n"
            'hint: a = "A"',
        ),
        (
            "run zero.dot",
            "zero.dot:4:30: error: 'max_visits' is less than 1: '0' (attribute_value)\n"
            '  4 | a [script="true", max_visits=0] start -> a -> exit\n'
            "    |                              ^\n"
            "  fix: write 1 or more, or leave max_visits out\n"
            "fatal: 'zero.dot' cannot be run: 1 error\nhint: git wf validate zero.dot",
        ),
        ("graph goals.dot", "error: no file 'goals.dot'\nhint: did you mean 'goal.dot'?"),
        ("prune --merged=nowhere", "error: no branch or commit 'nowhere'\n"
         "hint: git branch --all lists the branches"),
        ("resume", NO_RUNS),
        ("show a", NO_RUNS),
        ("log", NO_RUNS),
        ("rewind a@1", NO_RUNS),
        ("diff @1..@2 @3..@4", "error: '@1..@2 @3..@4' is not a run and a range A..B\n"
         "hint: git wf diff RUN @2..@7"),
    ],
)  # fmt: skip
def test_refused(wf: Program, repo: Path, words: str, err: str) -> None:
    with untouched(repo):
        wf.fails(128, words.split(" "), f"{err}\n")


@pytest.mark.parametrize(
    ("variable", "value", "err"),
    [
        (
            "GIT_COMMITTER_DATE", "never",
            "error: GIT_COMMITTER_DATE: 'never' is not a date that git reads\n"
            "hint: export GIT_COMMITTER_DATE='2030-01-02T03:04:05Z', or unset it\n",
        ),
    ],
)  # fmt: skip
def test_refused_by_the_environment(
    wf: Program,
    repo: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    err: str,
) -> None:
    monkeypatch.setenv(variable, value)
    with untouched(repo):
        wf.fails(128, ["run", "w.dot"], err)
