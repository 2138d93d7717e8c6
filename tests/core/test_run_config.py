from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from git_wf.core.run_config import merge_tables, read_run_config, to_tables
from git_wf.core.values import DURATION_HINT
from git_wf.errors import UserError

WHOLE: dict[str, Any] = {
    "_version": 1,
    "workflow": {"graph": "w.dot"},
    "run": {
        "goal": "x",
        "inputs": {"a": "b", "n": 1, "f": 1.5, "yes": True},
        "env": {"A": "b", "TOKEN": {"from": "{{ env.T }}", "secret": True}},
        "prepare": {"steps": [{"script": "make", "timeout": "5m"}]},
        "hooks": [{"event": "run_start", "script": "true", "id": "h", "blocking": True}],
        "push": {"remote": "origin"},
    },
    "checkpoint": {"exclude_globs": ["*.log"], "syntax": "glob", "builtin_excludes": False},
    "agents": {"default": "me", "me": {"command": ["cat"], "output": "json", "resume": ["-r"]}},
}


def test_all_that_can_be_said() -> None:
    config = read_run_config(WHOLE, "run.toml")
    assert config.run.prepare.steps[0].timeout == "5m"
    assert config.checkpoint.exclude_globs == ["*.log"]
    tables = to_tables(config)
    assert read_run_config(tables, "again") == config
    assert tables["run"]["inputs"] == WHOLE["run"]["inputs"]


def test_nothing_said() -> None:
    config = read_run_config({}, "run.toml")
    assert (config.version, config.checkpoint.syntax) == (1, "gitignore")
    assert to_tables(config) == {
        "workflow": {}, "run": {"prepare": {}, "push": {}}, "checkpoint": {},
    }  # fmt: skip


def told(data: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    with pytest.raises(UserError) as caught:
        read_run_config(data, "run.toml")
    return caught.value.message.removeprefix("run.toml: "), caught.value.hints


TOP = "known in the top level: _version, agents, checkpoint, checkpoints, run, workflow"


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        ({"chekpoint": {}}, "unknown key 'chekpoint'", "did you mean 'checkpoint'?"),
        ({"zzz": 1}, "unknown key 'zzz'", TOP),
        ({"run": {"gaol": "x"}}, "unknown key 'run.gaol'", "did you mean 'run.goal'?"),
        ({"run": {"checkpoint": {"sintax": "x"}}}, "unknown key 'run.checkpoint.sintax'",
         "did you mean 'run.checkpoint.syntax'?"),
        ({"run": {"prepare": {"steps": [{"script": "a"}, {"skript": "b"}]}}},
         "unknown key 'run.prepare.steps[1].skript'",
         "did you mean 'run.prepare.steps[1].script'?"),
        ({"run": {"hooks": [{"event": "a", "evnt": "b"}]}}, "unknown key 'run.hooks[0].evnt'",
         "did you mean 'run.hooks[0].event'?"),
        ({"run": {"env": {"A": {"form": "x"}}}}, "unknown key 'run.env.A.form'",
         "did you mean 'run.env.A.from'?"),
        ({"agents": {"me": {"comand": ["x"]}}}, "unknown key 'agents.me.comand'",
         "did you mean 'agents.me.command'?"),
        ({"workflow": {"zzz": 1}}, "unknown key 'workflow.zzz'", "known in 'workflow': graph"),
    ],
)  # fmt: skip
def test_unknown_keys(data: dict[str, Any], message: str, hint: str) -> None:
    assert told(data) == (message, (hint,))


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        ({"run": {"goal": 3}}, "'run.goal': a string is needed, not a number", 'goal = "3"'),
        ({"run": {"goal": True}}, "'run.goal': a string is needed, not true", 'goal = "true"'),
        ({"run": {"goal": ["x"]}}, "'run.goal': a string is needed, not a list", 'goal = "…"'),
        ({"run": {"goal": date(2030, 1, 2)}}, "'run.goal': a string is needed, not a date",
         'goal = "…"'),
        ({"run": 3}, "'run': a table is needed, not a number", "[run]"),
        ({"run": {"hooks": 3}}, "'run.hooks': a list of tables is needed, not a number",
         "[[run.hooks]]"),
        ({"run": {"hooks": ["x"]}}, "'run.hooks[0]': a table is needed, not a string",
         "[[run.hooks]]"),
        ({"run": {"hooks": [{"event": "a"}, {"event": 1}]}},
         "'run.hooks[1].event': a string is needed, not a number", 'event = "stage_start"'),
        ({"run": {"hooks": [{}]}}, "'run.hooks[0].event' is missing", 'event = "stage_start"'),
        ({"run": {"hooks": [{"event": "a", "blocking": "yes"}]}},
         "'run.hooks[0].blocking': true or false is needed, not a string", "blocking = true"),
        ({"run": {"env": {"A": 3}}}, "'run.env.A': a string or a table is needed, not a number",
         'A = "3"'),
        ({"run": {"env": {"A": {"secret": True}}}}, "'run.env.A.from' is missing",
         'from = "{{ env.NAME }}"'),
        ({"run": {"env": {"A": {"from": 1}}}}, "'run.env.A.from': a string is needed, not a number",
         'from = "{{ env.NAME }}"'),
        ({"run": {"inputs": {"a b": {}}}},
         "'run.inputs.a b': a string, a number, true or false is needed, not a table",
         '"a b" = "…"'),
        ({"run": {"prepare": {"steps": "x"}}},
         "'run.prepare.steps': a list of tables is needed, not a string", "[[run.prepare.steps]]"),
        ({"checkpoint": {"exclude_globs": "*.log x"}},
         "'checkpoint.exclude_globs': a list of strings is needed, not a string",
         'exclude_globs = ["*.log", "x"]'),
        ({"checkpoint": {"exclude_globs": ["a", 1]}},
         "'checkpoint.exclude_globs[1]': a string is needed, not a number",
         'exclude_globs = ["1"]'),
        ({"agents": {"x": 3}}, "'agents.x': a table or a string is needed, not a number",
         "[agents.x]"),
        ({"agents": {"x": {"command": "foo -x"}}},
         "'agents.x.command': a list of strings is needed, not a string",
         'command = ["foo", "-x"]'),
        ({"_version": "1"}, "'_version': a whole number is needed, not a string", "_version = 1"),
        ({"_version": True}, "'_version': a whole number is needed, not true", "_version = 1"),
    ],
)  # fmt: skip
def test_wrong_types(data: dict[str, Any], message: str, hint: str) -> None:
    assert told(data) == (message, (hint,))


NUL_HINT = "write it without: no program could be given one"


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"run": {"goal": "a\0"}}, "run.goal"),
        ({"run": {"inputs": {"k": "\0"}}}, "run.inputs.k"),
        ({"run": {"env": {"A": "x\0y"}}}, "run.env.A"),
        ({"run": {"env": {"A\0": "x"}}}, "run.env"),
        ({"run": {"env": {"A": {"from": "{{ env.A }}\0"}}}}, "run.env.A.from"),
        ({"run": {"prepare": {"steps": [{"script": "a"}, {"script": "\0"}]}}},
         "run.prepare.steps[1].script"),
        ({"run": {"hooks": [{"event": "run_start", "command": ["a", "\0"]}]}},
         "run.hooks[0].command[1]"),
        ({"run": {"hooks": [{"event": "run_start", "http": "http://127.0.0.1/\0"}]}},
         "run.hooks[0].http"),
        ({"agents": {"x": {"command": ["true", "\0"]}}}, "agents.x.command[1]"),
        ({"agents": {"default": "\0"}}, "agents.default"),
        ({"checkpoint": {"exclude_globs": ["\0"]}}, "checkpoint.exclude_globs[0]"),
        ({"workflow": {"graph": "\0"}}, "workflow.graph"),
    ],
)  # fmt: skip
def test_nul_bytes(data: dict[str, Any], path: str) -> None:
    assert told(data) == (f"'{path}' has a NUL byte", (NUL_HINT,))


@pytest.mark.parametrize(
    ("data", "message", "hints"),
    [
        ({"_version": 2}, "'_version' 2 is not known",
         ("upgrade git-wf; this one knows _version = 1",)),
        ({"checkpoint": {"syntax": "x"}},
         "'checkpoint.syntax': 'x' is neither 'gitignore' nor 'glob'",
         ("leave it out for gitignore's rules, or write syntax = \"glob\"",)),
        ({"agents": {"me": "you"}}, "unknown key 'agents.me'",
         ('a backend is a table: [agents.me] command = ["…"]',)),
        ({"agents": {"me": {"command": []}}}, "'agents.me.command' is empty",
         ('command = ["…"]',)),
        ({"agents": {"me": {"command": [""]}}}, "'agents.me.command' is empty",
         ('command = ["…"]',)),
        ({"agents": {"me": {"command": ["x"], "prompt": "arg"}}},
         "'agents.me.prompt': 'arg' is not 'stdin'",
         ("leave it out: a program gets its prompt on stdin",)),
        ({"agents": {"me": {"command": ["x"], "output": "xml"}}},
         "'agents.me.output': 'xml' is neither 'text' nor 'json'",
         ('output = "json" for one JSON object, or one a line; else leave it out',)),
        ({"run": {"prepare": {"steps": [{"script": "a"}, {"script": " "}]}}},
         "'run.prepare.steps[1].script' is empty", ('script = "make deps"',)),
        ({"run": {"prepare": {"steps": [{"script": "a", "timeout": "soon"}]}}},
         "'run.prepare.steps[0].timeout': 'soon' is not a duration", (DURATION_HINT,)),
        ({"run": {"env": {"A=B": "c"}}}, "'run.env': 'A=B' is no name of a variable",
         ('one line a variable: NAME = "value"',)),
        ({"run": {"env": {"": "c"}}}, "'run.env': '' is no name of a variable",
         ('one line a variable: NAME = "value"',)),
        ({"run": {"env": {"GIT_WF_NODE": "c"}}},
         "'run.env.GIT_WF_NODE' is a variable of git-wf's own",
         ("another name: 'GIT_WF_…' is what git-wf tells programs",)),
        ({"run": {"env": {"A": {"from": "{{ env.A }}", "secret": True},
                          "T": {"from": "in the open", "secret": True}}}},
         "'run.env.T' is a secret that stands in the file",
         ('T = { from = "{{ env.T }}", secret = true } reads it from the environment',)),
    ],
)  # fmt: skip
def test_values_that_are_none(data: dict[str, Any], message: str, hints: tuple[str, ...]) -> None:
    assert told(data) == (message, hints)


def test_the_checkpoint_table_within_run() -> None:
    """It means the same; `[checkpoint]` is laid over it."""
    config = read_run_config(
        {
            "run": {"goal": "x", "checkpoint": {"exclude_globs": ["a"], "syntax": "glob"}},
            "checkpoint": {"exclude_globs": ["b"], "builtin_excludes": False},
        },
        "run.toml",
    )
    assert config.checkpoint.exclude_globs == ["a", "b"]
    assert (config.checkpoint.syntax, config.checkpoint.builtin_excludes) == ("glob", False)
    assert config.run.goal == "x" and config.run.checkpoint is None
    assert told({"run": {"checkpoint": 3}}) == (
        "'run.checkpoint': a table is needed, not a number", ("[run.checkpoint]",),
    )  # fmt: skip


def test_merging() -> None:
    """Tables by key, lists replace, patterns add up, hooks of the same id replace each other."""
    below = {
        "run": {
            "goal": "a", "inputs": {"x": 1, "y": 2}, "prepare": {"steps": [{"script": "one"}]},
            "hooks": [{"id": "h", "event": "a"}, {"event": "b"}, "odd"],
        },
        "checkpoint": {"exclude_globs": ["a"]},
        "agents": "odd",
    }  # fmt: skip
    above = {
        "run": {
            "inputs": {"y": 3}, "prepare": {"steps": [{"script": "two"}]},
            "hooks": [{"id": "h", "event": "c"}, {"event": "d"}],
        },
        "checkpoint": {"exclude_globs": ["b"]},
        "agents": {"default": "me"},
    }  # fmt: skip
    kept = repr(below), repr(above)
    assert merge_tables(below, above) == {
        "run": {
            "goal": "a", "inputs": {"x": 1, "y": 3}, "prepare": {"steps": [{"script": "two"}]},
            "hooks": [{"event": "b"}, "odd", {"id": "h", "event": "c"}, {"event": "d"}],
        },
        "checkpoint": {"exclude_globs": ["a", "b"]},
        "agents": {"default": "me"},
    }  # fmt: skip
    assert (repr(below), repr(above)) == kept
    assert merge_tables({"hooks": 1, "exclude_globs": 2}, {"hooks": [], "exclude_globs": []}) == {
        "hooks": [], "exclude_globs": [],
    }  # fmt: skip
