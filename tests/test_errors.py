from __future__ import annotations

import pytest

from git_wf.core.graph import Diagnostic
from git_wf.errors import (
    EXIT_FATAL,
    Conflict,
    GitFailed,
    StateUnreadable,
    UserError,
    WfError,
    WorkflowInvalid,
    git_verb,
)


@pytest.mark.parametrize(
    ("hint", "hints"), [(None, ()), ("a", ("a",)), (["a", "b"], ("a", "b")), ([], ())]
)
def test_hints(hint: str | list[str] | None, hints: tuple[str, ...]) -> None:
    err = UserError("no run", hint=hint)
    assert (err.message, str(err), err.hints, err.code) == ("no run", "no run", hints, EXIT_FATAL)


def test_an_invalid_workflow() -> None:
    found = [Diagnostic("syntax", "error", "no")]
    err = WorkflowInvalid("not valid", found, hint="x", file="w.dot", text="a")
    assert (err.diagnostics, err.file, err.text, err.hints) == (
        tuple(found), "w.dot", "a", ("x",)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        ("", "exit status 128"), ("one\ntwo\n\n", "two"),
        ("hint: x\nfatal: bad\nhint: y\n", "fatal: bad"), ("error: a\nfatal: b\n", "error: a"),
    ],
)  # fmt: skip
def test_a_failed_git(stderr: str, told: str) -> None:
    err = GitFailed(["git", "-C", "x", "log"], 128, stderr, hint="h")
    assert (err.message, err.hints) == (f"git log: {told}", ("h",))
    assert (err.argv, err.status, err.stderr) == (("git", "-C", "x", "log"), 128, stderr)


@pytest.mark.parametrize(
    ("argv", "verb"),
    [
        (["git", "--git-dir", "log", "-c", "a=b", "--bare", "show", "log"], "show"),
        (["update-ref"], "update-ref"), (["git"], ""), ([], ""), (["git", "-c"], ""),
    ],
)  # fmt: skip
def test_the_verb_of_a_command_line(argv: list[str], verb: str) -> None:
    assert git_verb(argv) == verb


def test_all_are_of_one_family() -> None:
    for kind in (UserError, WorkflowInvalid, GitFailed, StateUnreadable, Conflict):
        assert issubclass(kind, WfError)
