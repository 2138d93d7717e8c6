"""The snapshot that `git wf run` saves first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.program import Program, run_id, write_workflow

BODY = 'a [script="echo ran >ran"] start -> a -> exit'


@pytest.fixture
def workflow(repo: Path) -> Path:
    path = write_workflow(repo / "w.dot", BODY)
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "workflow", cwd=repo)
    return path


def saved(wf: Program) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = wf.ok("snapshot", "list", "--json").json["snapshots"]
    return told


def test_what_is_not_committed_is_saved(wf: Program, repo: Path, workflow: Path) -> None:
    wf.ok("run", workflow)
    assert saved(wf) == []  # nothing to save
    (repo / "README").write_text("edited\n")
    wf.ok("run", workflow)
    (one,) = saved(wf)
    assert (one["message"], one["made_by"]) == (f"run:{run_id(2)}", "run")
    (repo / "README").write_text("worse\n")
    told = wf.ok("run", "--restore", "last")
    assert told.out.startswith("restored ") and (repo / "README").read_text() == "edited\n"
    assert len(wf.ok("runs").out.splitlines()) == 2


def test_in_place_the_folder_of_the_run(wf: Program, repo: Path, workflow: Path) -> None:
    wf.ok("run", "--in-place", workflow)
    assert (repo / "ran").exists()
    (one,) = saved(wf)
    assert one["message"] == f"run:{run_id(1)}"
    wf.ok("run", "--restore", "last", workflow)
    assert not (repo / "ran").exists()


@pytest.mark.parametrize(
    ("option", "variable", "file", "is_saved"),
    [
        ("", "", "", True),
        ("--no-snapshot", "on", "true", False),
        ("", "off", "true", False),
        ("", "on", "false", True),
        ("", "", "false", False),
    ],
)
def test_who_decides(
    wf: Program, repo: Path, workflow: Path, monkeypatch: pytest.MonkeyPatch,
    option: str, variable: str, file: str, is_saved: bool,
) -> None:  # fmt: skip
    if variable:
        monkeypatch.setenv("GIT_WF_SNAPSHOTS", variable)
    if file:
        (repo / ".wf").mkdir()
        (repo / ".wf" / "project.toml").write_text(f"[checkpoints]\nauto = {file}\n")
    (repo / "README").write_text("edited\n")
    wf.ok("run", workflow, *([option] if option else []))
    assert bool(saved(wf)) is is_saved


def test_what_goes_wrong_is_a_notice(
    wf: Program, repo: Path, workflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(repo))
    (repo / "README").write_text("edited\n")
    result = wf.ok("run", workflow)
    assert "notice: no snapshot was saved before the run: " in result.err


@pytest.mark.parametrize(
    ("words", "status", "err"),
    [
        (["--restore", "last"], 128,
         "error: no snapshot of this workspace yet\nhint: git wf snapshot save MESSAGE\n"),
        (["--restore", "last", "--run-branch", "x"], 129,
         "error: --restore is for a workspace: --resume goes on with a run\n"
         "hint: git wf run -h\n"),
    ],
)  # fmt: skip
def test_what_is_refused(wf: Program, words: list[str], status: int, err: str) -> None:
    wf.fails(status, ["run", *words], err)


def test_a_bad_word_in_the_environment(
    wf: Program, workflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_WF_SNAPSHOTS", "maybe")
    wf.fails(
        128, ["run", str(workflow)],
        "error: GIT_WF_SNAPSHOTS: 'maybe' is neither on nor off\nhint: GIT_WF_SNAPSHOTS=off\n",
    )  # fmt: skip
    assert wf.ok("runs").out == ""
