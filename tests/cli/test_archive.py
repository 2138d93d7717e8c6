from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.cli.test_rm import ref_list, state_files
from tests.conftest import git
from tests.program import Program, run_id, write_workflow

ARCHIVE = "refs/wf/archive"


@pytest.fixture
def three(wf: Program, repo: Path, tmp_path: Path) -> Program:
    workflow = write_workflow(tmp_path / "a.dot", 'a [script="date >a"]\nstart -> a -> exit')
    for _ in range(3):
        wf.ok("run", workflow)
    return wf


def entry(repo: Path, run: str) -> dict[str, object]:
    told: dict[str, object] = json.loads(git("show", f"{ARCHIVE}:{run}/entry.json", cwd=repo))
    return told


def test_a_run_is_folded_in(loop: LoopRun, fsck: Callable[[Path], None]) -> None:
    base, tip, meta = loop.commits()[0], loop.resolve(loop.branch), loop.resolve(loop.meta)
    listed = loop.wf.ok("runs", "--json").json["runs"]
    result = loop.wf.ok("archive", loop.run)
    assert (result.out, result.err) == (
        f"archived run {loop.run}\n", "hint: git wf undo brings back what was archived\n",
    )  # fmt: skip
    archive = loop.resolve(ARCHIVE)
    assert ref_list(loop.repo) == {"refs/heads/main": base, ARCHIVE: archive}
    parents = git("rev-parse", f"{ARCHIVE}^@", cwd=loop.repo).splitlines()
    (told,) = (parent for parent in parents if parent != tip)
    assert git("log", "-1", "--format=%s", told, cwd=loop.repo) == "archive"
    assert loop.resolve(f"{told}^@") == meta
    assert loop.resolve(f"{told}^{{tree}}") == loop.resolve(f"{meta}^{{tree}}")
    stored = entry(loop.repo, loop.run)
    assert stored["refs"] == {f"refs/heads/{loop.branch}": tip, loop.meta: told}
    assert git("ls-tree", "--name-only", ARCHIVE, cwd=loop.repo) == loop.run
    assert state_files("runs/*") == []
    (summary,) = loop.wf.ok("runs", "--json").json["runs"]
    assert summary == {**listed[0], "branch": None, "metadata_ref": None, "archived": True}
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    fsck(loop.repo)


def test_every_command_finds_it(loop: LoopRun) -> None:
    before = loop.wf.ok("log", "--json").json
    shown = loop.wf.ok("show", "plan@2", "--json").out
    drawn = loop.wf.ok("graph", "--format", "text", loop.run).out
    loop.wf.ok("archive", loop.run)
    told = loop.wf.ok("log", loop.run[:10], "--json").json
    assert told == {**before, "branch": None, "metadata_ref": None, "archived": True}
    assert loop.wf.ok("show", "plan@2", "--json").out == shown
    assert loop.wf.ok("graph", "--format", "text", loop.run).out == drawn
    assert loop.wf.ok("verify", loop.run).err.endswith(": no problems\n")
    assert loop.wf.ok("du", loop.run, "--json").json["runs"][0]["objects"] > 0
    assert "\narchived, from " in loop.wf.ok("log").out
    assert "archived\n" in loop.wf.ok("runs").out
    archive = loop.resolve(ARCHIVE)
    loop.wf.ok("fork", loop.run, "@4")
    loop.wf.ok("resume", run_id(2))
    assert len(loop.wf.ok("log", run_id(2), "--json").json["checkpoints"]) == 6
    assert loop.resolve(ARCHIVE) == archive


@pytest.mark.parametrize("words", [["rewind", "@2"], ["resume"]])
def test_what_needs_its_refs_names_the_way_back(loop: LoopRun, words: list[str]) -> None:
    loop.wf.ok("archive", loop.run)
    before = loop.refs()
    loop.wf.fails(
        128,
        words,
        f"error: run {loop.run} is archived\n"
        f"hint: git wf undo {loop.run} brings it back\n"
        f"hint: git wf fork {loop.run} starts a new run from it\n",
    )
    loop.wf.fails(
        128, ["archive", loop.run],
        f"error: run {loop.run} is archived already\nhint: git wf log {loop.run}\n",
    )  # fmt: skip
    assert loop.refs() == before


def test_one_commit_a_call(three: Program, repo: Path) -> None:
    three.ok("archive", run_id(1))
    first = git("rev-parse", ARCHIVE, cwd=repo)
    told = three.ok("archive", run_id(2), run_id(3), "--json").json
    assert (told["operation"], told["run_id"], told["runs"]) == (
        "archive", None, [run_id(2), run_id(3)],
    )  # fmt: skip
    parents = git("rev-parse", f"{ARCHIVE}^@", cwd=repo).splitlines()
    assert parents[0] == first and len(parents) == 5
    assert git("ls-tree", "--name-only", ARCHIVE, cwd=repo).splitlines() == [
        run_id(1), run_id(2), run_id(3),
    ]  # fmt: skip
    assert three.ok("undo").out == "undone: archive, 2 runs\n"
    assert git("rev-parse", ARCHIVE, cwd=repo) == first
    assert three.ok("undo").out == f"undone: archive, run {run_id(1)}\n"
    assert ref_list(repo, ARCHIVE) == {}


def test_what_is_removed_can_be_collected(
    three: Program, repo: Path, fsck: Callable[[Path], None]
) -> None:
    """The archive is begun anew with the runs that are left."""
    for number in (1, 2, 3):
        three.ok("archive", run_id(number))
    tips = entry(repo, run_id(2))["refs"]
    assert isinstance(tips, dict)
    three.ok("rm", run_id(2))
    assert [one["run_id"] for one in three.ok("runs", "--json").json["runs"]] == [
        run_id(3), run_id(1),
    ]  # fmt: skip
    three.clock.advance(91 * 86400)
    three.ok("prune")
    for tree in state_files("trees/*"):
        git("worktree", "remove", "--force", str(tree), cwd=repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    for tip in tips.values():
        git("cat-file", "-e", tip, cwd=repo, ok=(1,))
    fsck(repo)
    assert three.ok("verify").err.startswith("2 runs, ")


def test_a_removed_one_comes_back_as_it_was_before(three: Program, repo: Path) -> None:
    """Not archived; and then the archive of the others can be undone."""
    before = ref_list(repo, f"refs/heads/wf/run/{run_id(1)}")
    three.ok("archive", run_id(1), run_id(2))
    three.ok("rm", run_id(1))
    three.ok("undo")
    assert ref_list(repo, f"refs/heads/wf/run/{run_id(1)}") == before
    assert three.ok("undo").out == f"undone: archive, run {run_id(2)}\n"


def test_only_what_has_ended(loop: LoopRun) -> None:
    loop.wf.ok("fork")
    before = loop.refs()
    loop.wf.fails(
        128,
        ["archive", loop.run, run_id(2)],
        f"error: run {run_id(2)} has not ended: it is interrupted\n"
        f"hint: git wf resume {run_id(2)} goes on with it\nhint: git wf rm {run_id(2)}\n",
    )
    assert loop.refs() == before


def test_the_newest_run_is_one_that_is_not_archived(three: Program) -> None:
    three.ok("archive", run_id(3))
    assert three.ok("log", "--json").json["run_id"] == run_id(2)
    three.ok("archive", run_id(1), run_id(2))
    assert three.ok("log", "--json").json["run_id"] == run_id(3)


def test_an_entry_that_cannot_be_read_is_listed(three: Program, repo: Path) -> None:
    three.ok("archive", run_id(1), run_id(2))
    blob = git("hash-object", "-w", "--stdin", cwd=repo, stdin=b"[]")
    bad = git("mktree", cwd=repo, stdin=f"100644 blob {blob}\tentry.json\n".encode())
    listed = git("ls-tree", ARCHIVE, cwd=repo).splitlines()
    listed[0] = f"040000 tree {bad}\t{run_id(1)}"
    tree = git("mktree", cwd=repo, stdin="\n".join(listed).encode() + b"\n")
    commit = git("commit-tree", tree, "-p", ARCHIVE, "-m", "damaged", cwd=repo)
    git("update-ref", ARCHIVE, commit, cwd=repo)
    listed_runs = three.ok("runs", "--json").json["runs"]
    assert [(one["run_id"], one["status"]) for one in listed_runs] == [
        (run_id(3), "success"), (run_id(2), "success"), (run_id(1), "unknown"),
    ]  # fmt: skip
    name = f"{ARCHIVE}:{run_id(1)}/entry.json"
    assert listed_runs[2]["notes"] == [f"read '{name}': not a JSON object"]
    three.fails(128, ["log", run_id(1)], f"fatal: read '{name}': not a JSON object\n")


def test_in_another_clone(loop: LoopRun, tmp_path: Path) -> None:
    loop.wf.ok("archive", loop.run)
    clone = tmp_path / "clone"
    git("clone", "-q", str(loop.repo), str(clone), cwd=tmp_path)
    git("fetch", "-q", "origin", f"{ARCHIVE}:{ARCHIVE}", cwd=clone)
    assert len(loop.wf.ok("log", "--json", cwd=clone).json["checkpoints"]) == 6
    loop.wf.ok("undo", cwd=clone)
    assert loop.wf.ok("runs", "--json", cwd=clone).json["runs"][0]["branch"] == loop.branch
