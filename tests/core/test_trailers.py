from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_wf.core.names import Names
from git_wf.core.trailers import (
    MAX_NOTES,
    ForeignCommitFields,
    RunCommitFields,
    foreign_commit_fields,
    message,
    metadata_message,
    one_line,
    parse_trailers,
    plain_text,
    run_commit_fields,
    run_commit_message,
)
from tests.conftest import git

NAMES = Names()
RUN = "01JKXYZ0000000000000000000"
FIELDS = RunCommitFields(RUN, "plan", 2, "success", 3, "c" * 40)
TRAILERS = (
    f"WF-Run: {RUN}\nWF-Completed: 3\nWF-Checkpoint: {'c' * 40}\nWF-Node: plan\nWF-Visit: 2\n"
    "WF-Status: success\n"
)


def test_a_run_commit() -> None:
    assert run_commit_message(NAMES, FIELDS) == f"wf({RUN}): plan (success)\n\n{TRAILERS}"
    told = run_commit_message(NAMES, FIELDS, "two\r\n\tlines \n\n\n---\n")
    assert told == (f"wf({RUN}): plan (success)\n\n    two\n    \tlines\n\n\n    ---\n\n{TRAILERS}")
    branch = RunCommitFields(RUN, "a", 1, "fail", 3, "c" * 40, "f@1/1-a")
    assert run_commit_message(NAMES, branch).endswith("WF-Status: fail\nWF-Branch: f@1/1-a\n")
    for fields in (FIELDS, branch):
        assert run_commit_fields(NAMES, run_commit_message(NAMES, fields, "x")) == fields


def test_long_notes_are_cut() -> None:
    told = run_commit_message(NAMES, FIELDS, "x" * 3 * MAX_NOTES)
    assert told.count("x") == MAX_NOTES and told.endswith(TRAILERS)


def test_a_metadata_commit() -> None:
    told = metadata_message(NAMES, RUN, "rewind to plan@2", Rewound_From="abc", Op="")
    assert told == f"rewind to plan@2\n\nWF-Run: {RUN}\nWF-Rewound-From: abc\n"
    fabro = metadata_message(Names("fabro"), RUN, "init run")
    assert fabro == f"init run\n\nFabro-Run: {RUN}\n"


def test_plain_text() -> None:
    assert plain_text("a\x1b[1m\u202eb\tc\r\nd\re\x85\x00\x7f") == "a[1mb\tc\nd\ne"
    assert one_line("  a \n\n b\tc ") == "a b c"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s\n\nA: 1\nB-c: 2\n", {"A": "1", "B-c": "2"}), ("s\n\nA: 1\nno\n", {}),
        ("A: 1\n", {}), ("", {}), ("s\n\nA:\n", {"A": ""}), ("s\n\nA: 1\n\n\n", {"A": "1"}),
        ("s\n\nA:x: y\n", {"A": "x: y"}), ("s\n\n1A: x\n", {}),
    ],
)  # fmt: skip
def test_trailers_are_read(text: str, found: dict[str, str]) -> None:
    assert parse_trailers(text) == found


def test_what_is_no_run_commit() -> None:
    good = run_commit_message(NAMES, FIELDS)
    assert run_commit_fields(NAMES, good.replace("wf(", "other(").replace("WF-", "Other-")) is None
    assert run_commit_fields(NAMES, good.replace("wf(", "fabro(")) is None
    assert run_commit_fields(NAMES, "first\n") is None
    assert run_commit_fields(NAMES, good.replace(f"WF-Run: {RUN}", "WF-Run: other")) is None
    assert run_commit_fields(NAMES, f"wf({RUN}): plan (success)\n") is None


def test_what_is_missing_is_guessed() -> None:
    """An older writer had three trailers; numbers may be none."""
    text = f"wf({RUN}): plan (fail)\n\nWF-Run: {RUN}\nWF-Completed: many\nWF-Visit: -1\n"
    assert run_commit_fields(NAMES, text) == RunCommitFields(RUN, "plan", 1, "fail", None, None)


@pytest.mark.parametrize("namespace", ["fabro", "arc", "studio"])
def test_a_namespace_is_the_word_in_all_of_it(namespace: str) -> None:
    text = run_commit_message(Names(namespace), FIELDS)
    told = text.replace("wf(", f"{namespace}(").replace("WF-", f"{namespace.title()}-")
    assert text == told.replace("Wf-", "WF-")
    assert run_commit_fields(Names(namespace), text) == FIELDS
    found = None if namespace == "studio" else FIELDS
    assert run_commit_fields(NAMES, text) == found  # readers look in wf, fabro and arc


CREDIT = "\n⚒️ Generated with [Fabro](https://example.org)\n"


def test_a_run_commit_of_fabros() -> None:
    text = (
        f"fabro({RUN}): verify (failed)\n\nFabro-Run: {RUN}\nFabro-Completed: 12\n"
        f"Fabro-Checkpoint: {'c' * 40}\n"
    )
    found = ForeignCommitFields("fabro", RUN, "verify", "failed", 12, "c" * 40)
    for told in (text, text + CREDIT):
        assert foreign_commit_fields(told) == found
        assert run_commit_fields(NAMES, told) is None
    assert found.is_checkpoint


@pytest.mark.parametrize(
    ("text", "is_checkpoint"),
    [
        (f"arc({RUN}): plan (success)\n\nArc-Completed: 2\n", True),
        (f"fabro({RUN}): f (parallel_base)\n\nFabro-Run: {RUN}\nFabro-Completed: 0\n", False),
        (f"fabro({RUN}): branch1 (success)\n", False),
        (f"fabro({RUN}): plan (success)\n\nFabro-Completed: many\n", False),
    ],
)
def test_what_is_no_checkpoint_of_fabros(text: str, is_checkpoint: bool) -> None:
    found = foreign_commit_fields(text)
    assert found is not None and found.is_checkpoint is is_checkpoint


@pytest.mark.parametrize(
    "text", ["", "first\n", f"wf({RUN}): plan (success)\n", f"fabro({RUN}): plan\n",
             f"x fabro({RUN}): plan (success)\n", f"fabro({RUN}): plan (success) x\n"],
)  # fmt: skip
def test_what_is_none_of_fabros(text: str) -> None:
    assert foreign_commit_fields(text) is None


# No free text can make git lose the trailers. git is the judge: a batch of messages becomes
# commits by one process, and another tells what it sees in all of them.

ODD_LINES = st.sampled_from([
    "---", "--- ", "-- >8 --", "# ------------------------ >8 ------------------------", "# x",
    "Signed-off-by: A <a@example.com>", "WF-Node: other", "(cherry picked from commit abc)", "",
    " ", "\t", "diff --git a/x b/x", "Index: x", "From abc Mon Sep 17 00:00:00 2001", "a: b", ":",
    "    ", "\x0c", "\u2028", "\x85", "WF-Run", "--", "* x", "Subject: [PATCH] x", "\\", "\r",
])  # fmt: skip
TEXT = st.characters(exclude_categories=["Cs"])
NOTES = st.lists(ODD_LINES | st.text(TEXT, max_size=30), max_size=8).map("\n".join)


@pytest.fixture
def seen_by_git(repo: Path) -> Callable[[list[str]], list[str]]:
    """What `%(trailers:only,unfold)` shows of each message, whatever else is in it."""

    def ask(messages: list[str]) -> list[str]:
        stream = b""
        for position, text in enumerate(messages):
            data = text.encode()
            stream += b"commit refs/test/%d\n" % position
            stream += b"committer C <c@example.com> 1 +0000\n"
            stream += b"data %d\n%s\n" % (len(data), data)
        for ref in git("for-each-ref", "--format=%(refname)", "refs/test", cwd=repo).splitlines():
            git("update-ref", "-d", ref, cwd=repo)
        git("fast-import", "--quiet", "--force", cwd=repo, stdin=stream)
        form = "--format=%(refname:lstrip=2)%0a%(contents:trailers:only,unfold)%00"
        told = git("for-each-ref", form, "refs/test", cwd=repo)
        parts = [part.lstrip("\n").split("\n", 1) for part in told.split("\0") if part.strip()]
        found = {int(number): rest for number, rest in parts}
        return [found[position].rstrip("\n") + "\n" for position in range(len(messages))]

    return ask


@settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(batch=st.lists(NOTES, min_size=20, max_size=40))
def test_no_text_can_hide_the_trailers(
    seen_by_git: Callable[[list[str]], list[str]], batch: list[str]
) -> None:
    messages = [run_commit_message(NAMES, FIELDS, notes) for notes in batch]
    for text, seen in zip(messages, seen_by_git(messages), strict=True):
        assert seen == TRAILERS, repr(text)
        told = dict(line.split(": ", 1) for line in seen.splitlines())
        assert parse_trailers(text) == told
        assert run_commit_fields(NAMES, text) == FIELDS


VALUE = st.text(TEXT, max_size=20)


@settings(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(batch=st.lists(st.tuples(VALUE, VALUE, NOTES), min_size=10, max_size=30))
def test_values_cannot_either(
    seen_by_git: Callable[[list[str]], list[str]], batch: list[tuple[str, str, str]]
) -> None:
    """A subject or a value of any text."""
    messages = [
        message(f"s {subject}", [("WF-Run", RUN), ("WF-Target", value)], notes)
        for subject, value, notes in batch
    ]
    for text, seen in zip(messages, seen_by_git(messages), strict=True):
        lines = seen.splitlines() if "\x1c" not in seen else seen.split("\n")
        assert lines[0] == f"WF-Run: {RUN}", repr(text)
        assert parse_trailers(text).get("WF-Target") is not None


@settings(
    max_examples=12, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(notes=NOTES)
def test_nor_from_interpret_trailers(tmp_path: Path, notes: str) -> None:
    text = run_commit_message(NAMES, FIELDS, notes)
    done = subprocess.run(
        ["git", "interpret-trailers", "--parse"],
        input=text.encode(), capture_output=True, check=True, cwd=tmp_path, env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout.decode() == TRAILERS
