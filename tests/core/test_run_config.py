from __future__ import annotations

from typing import Any

import pytest

from git_wf.core.run_config import merge_tables, read_run_config, to_tables
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


TOP = "known in the top level: _version, agents, checkpoint, run, workflow"


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
    ("data", "message"),
    [
        ({"run": {"goal": 3}}, "'run.goal': expected 'str | null', got 'int'"),
        ({"run": 3}, "'run': expected 'object', got 'int'"),
        ({"run": {"hooks": [{"event": "a"}, {"event": 1}]}},
         "'run.hooks[1].event': expected 'str', got 'int'"),
        ({"run": {"hooks": [{}]}}, "'run.hooks[0]': object missing required field 'event'"),
        ({"checkpoint": {"exclude_globs": "*.log"}},
         "'checkpoint.exclude_globs': expected 'array', got 'str'"),
        ({"_version": "1"}, "'_version': expected 'int', got 'str'"),
    ],
)  # fmt: skip
def test_wrong_types(data: dict[str, Any], message: str) -> None:
    assert told(data) == (message, ())


@pytest.mark.parametrize(
    ("data", "message", "hints"),
    [
        ({"_version": 2}, "'_version' 2 is not known", ("upgrade git-wf",)),
        ({"checkpoint": {"syntax": "x"}},
         "'checkpoint.syntax': 'x' is neither 'gitignore' nor 'glob'", ()),
        ({"agents": {"me": "you"}}, "unknown key 'agents.me'",
         ('a backend is a table: [agents.me] command = ["…"]',)),
        ({"agents": {"me": {"command": []}}}, "'agents.me.command' is empty", ()),
        ({"agents": {"me": {"command": ["x"], "prompt": "arg"}}},
         "'agents.me': prompt is 'stdin', output is 'text' or 'json'", ()),
        ({"agents": {"me": {"command": ["x"], "output": "xml"}}},
         "'agents.me': prompt is 'stdin', output is 'text' or 'json'", ()),
        ({"run": {"prepare": {"steps": [{"script": "a"}, {"script": " "}]}}},
         "'run.prepare.steps[1].script' is empty", ()),
        ({"run": {"prepare": {"steps": [{"script": "a", "timeout": "soon"}]}}},
         "'run.prepare.steps[0].timeout': 'soon' is not a duration", ()),
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
    assert told({"run": {"checkpoint": 3}})[0] == (
        "'run.checkpoint': expected 'object | null', got 'int'"
    )


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
