"""Uncommitted changes that a run starts with: `--dirty include` and `--dirty in-place`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import git
from tests.judge import contents, untouched
from tests.program import Program, run_id, write_workflow

ONE = 'a [script="cat README new >made; rm new"] start -> a -> exit'


@pytest.fixture
def dirty(repo: Path) -> Path:
    """Changes in index and worktree, an untracked file, an ignored one, a new mode, a link."""
    (repo / "gone").write_text("gone\n")
    (repo / ".gitignore").write_text("*.o\n")
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "second", cwd=repo)
    (repo / "README").write_text("staged\n")
    git("add", "README", cwd=repo)
    (repo / "README").write_text("worktree\n")
    (repo / "new").write_text("new\n")
    (repo / "x.o").write_text("ignored\n")
    (repo / "x.log").write_text("log\n")
    (repo / "gone").unlink()
    (repo / "link").symlink_to("new")
    (repo / "run me").write_text("#!/bin/sh\n")
    (repo / "run me").chmod(0o755)
    return repo


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    return write_workflow(tmp_path / "w.dot", ONE)


def checkout_of(repo: Path) -> dict[str, str]:
    """Everything but objects and what is git-wf's own."""
    shared = (".git/objects", ".git/refs", ".git/git-wf", ".git/logs", ".git/worktrees")
    return {path: told for path, told in contents(repo).items() if not path.startswith(shared)}


def test_include(wf: Program, dirty: Path, workflow: Path, fsck: Callable[[Path], None]) -> None:
    head = git("rev-parse", "HEAD", cwd=dirty)
    git("config", "wf.excludeGlobs", "*.log", cwd=dirty)
    before = checkout_of(dirty)
    result = wf.ok("run", workflow, "--dirty", "include")
    assert checkout_of(dirty) == before
    run = run_id(1)
    base = git("rev-parse", f"wf/run/{run}~1", cwd=dirty)
    assert git("log", "-1", "--format=%s%n%P%n%an <%ae>", base, cwd=dirty) == (
        f"wf({run}): uncommitted changes\n{head}\nAda Author <ada@example.com>"
    )
    trailers = git("log", "-1", "--format=%(trailers:only)", base, cwd=dirty)
    assert trailers.strip() == f"WF-Run: {run}"
    assert git("diff", "--name-status", head, base, cwd=dirty).splitlines() == [
        "M\tREADME", "D\tgone", "A\tlink", "A\tnew", "A\trun me",
    ]  # fmt: skip
    assert git("show", f"{base}:README", cwd=dirty) == "worktree"
    assert git("ls-tree", base, "run me", "link", cwd=dirty).split()[0::4][:2] == [
        "120000", "100755",
    ]  # fmt: skip
    assert git("show", f"wf/run/{run}:made", cwd=dirty) == "worktree\nnew"
    assert result.err.splitlines()[0].endswith(f", from {base[:9]}")
    assert result.err.splitlines()[1:3] == [
        "notice: starting from HEAD and the uncommitted changes: README, gone, link, new, run me",
        "  a@1 success 0ms",
    ]
    assert f"git diff {base[:9]}...wf/run/{run}\n" in result.err
    record = json.loads(git("show", f"refs/wf/meta/{run}:run.json", cwd=dirty))
    assert (record["base_sha"], record["uncommitted_on"]) == (base, head)
    fsck(dirty)
    (entry,) = wf.ok("log", "--json").json["checkpoints"]
    assert (entry["ordinal"], entry["files_changed"]) == (1, 2)
    wf.ok("rewind", "@0")
    assert git("rev-parse", f"wf/run/{run}", cwd=dirty) == base
    result = wf.ok("resume")
    assert f"git diff {base[:9]}...wf/run/{run}\n" in result.err
    wf.ok("fork", "@0")
    wf.ok("resume", run_id(2))
    assert git("show", f"wf/run/{run_id(2)}:made", cwd=dirty) == "worktree\nnew"


def test_include_by_configuration_from_a_subdirectory(
    wf: Program, dirty: Path, workflow: Path
) -> None:
    git("config", "wf.dirty", "include", cwd=dirty)
    (dirty / "sub").mkdir()
    wf.ok("run", workflow, cwd=dirty / "sub")
    assert git("show", f"wf/run/{run_id(1)}:made", cwd=dirty) == "worktree\nnew"


def test_nothing_to_include(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path / "w.dot", 'a [script="true"] start -> a -> exit')
    wf.ok("run", workflow, "--dirty", "include")
    git("config", "wf.excludeGlobs", "*.log", cwd=repo)
    (repo / "x.log").write_text("only what is excluded\n")
    result = wf.ok("run", workflow, "--dirty", "include")
    assert "notice" not in result.err
    for number in (1, 2):
        base = git("rev-parse", f"wf/run/{run_id(number)}~1", cwd=repo)
        assert base == git("rev-parse", "HEAD", cwd=repo)


def test_what_is_left_out_is_told(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.excludeGlobs", "README", cwd=repo)
    (repo / "README").write_text("changed\n")
    (repo / "b").write_text("b\n")
    os.mkfifo(repo / "pipe")
    workflow = write_workflow(tmp_path / "w.dot", 'a [script="true"] start -> a -> exit')
    result = wf.ok("run", workflow, "--dirty", "include")
    assert "notice: starting from HEAD and the uncommitted changes: b\n" in result.err
    assert "notice: left out of the base: README" in result.err
    assert git("show", f"wf/run/{run_id(1)}:README", cwd=repo) == "hello"


def test_a_merge_that_is_not_finished(wf: Program, repo: Path, workflow: Path) -> None:
    git("switch", "-qc", "other", cwd=repo)
    (repo / "README").write_text("theirs\n")
    git("commit", "-qam", "theirs", cwd=repo)
    git("switch", "-q", "main", cwd=repo)
    (repo / "README").write_text("ours\n")
    git("commit", "-qam", "ours", cwd=repo)
    git("merge", "-q", "other", cwd=repo, ok=(1,))
    with untouched(repo):
        wf.fails(
            128, ["run", str(workflow), "--dirty", "include"],
            "error: unmerged files: README\n"
            "hint: finish the merge, or --dirty head to start from HEAD without it\n",
        )  # fmt: skip


def test_in_place_in_a_dirty_checkout(wf: Program, dirty: Path, workflow: Path) -> None:
    before = checkout_of(dirty)
    result = wf.ok("run", workflow, "--dirty", "in-place")
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/wf/rescue", cwd=dirty).splitlines()
    assert ref.startswith(f"refs/wf/rescue/{run_id(1)}/")
    assert result.err.splitlines()[1] == (
        f"notice: the uncommitted changes, as they are now, are kept at {ref}: "
        f"git restore --source={ref} :/ brings them back "
        "(files made since, the index and ignored files stay as they are then)"
    )
    assert (dirty / "made").read_text() == "worktree\nnew\n" and not (dirty / "new").exists()
    assert git("for-each-ref", "refs/heads/wf", cwd=dirty) == ""
    (dirty / "sub").mkdir()
    git("restore", f"--source={ref}", ":/", cwd=dirty / "sub")
    (dirty / "sub").rmdir()
    (dirty / "made").unlink()
    assert {k: v for k, v in checkout_of(dirty).items() if k != ".git/index"} == {
        k: v for k, v in before.items() if k != ".git/index"
    }


RUIN = """
git add -A && git commit -qm theirs
git rm -qf README 'run me' && rm -f link new staged && mkdir new staged && echo x >new/x
mkdir -p deep && echo other >deep/untracked && echo later >later && echo gone >gone
"""


def test_the_restore_of_the_notice_brings_everything_back(
    wf: Program, dirty: Path, tmp_path: Path
) -> None:
    """Whatever a node did: files that were added, changed, removed or untracked."""
    (dirty / "staged").write_text("staged\n")
    git("add", "staged", cwd=dirty)
    (dirty / "deep" / "er").mkdir(parents=True)
    (dirty / "deep" / "untracked").write_text("deep\n")
    (dirty / "deep" / "er" / "too").write_text("deeper\n")
    before = {path: told for path, told in contents(dirty).items() if not path.startswith(".git/")}
    script = RUIN.replace("\n", "; ").strip("; ")
    workflow = write_workflow(tmp_path / "w.dot", f'a [script="{script}"] start -> a -> exit')
    result = wf.ok("run", workflow, "--dirty", "in-place")
    command = result.err.splitlines()[1].partition(": git ")[2].partition(" brings")[0]
    git(*command.split(), cwd=dirty)
    after = {path: told for path, told in contents(dirty).items() if not path.startswith(".git/")}
    made_since = {path: after.pop(path) for path in ("later", "gone")}
    assert (sorted(made_since), after) == (["gone", "later"], before)


def test_in_place_is_for_a_dirty_checkout_only(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("config", "wf.dirty", "in-place", cwd=repo)
    workflow = write_workflow(tmp_path / "w.dot", 'a [script="echo a >a"] start -> a -> exit')
    wf.ok("run", workflow)
    assert not (repo / "a").exists()
    assert git("show", f"wf/run/{run_id(1)}:a", cwd=repo) == "a"
    (repo / "README").write_text("changed\n")
    wf.ok("run", workflow)
    assert (repo / "a").exists()


def test_a_refusal_keeps_nothing(wf: Program, dirty: Path, tmp_path: Path) -> None:
    broken = write_workflow(tmp_path / "w.dot", 'a [script="true"] start -> nowhere')
    for mode in ("include", "in-place"):
        with untouched(dirty):
            assert wf("run", broken, "--dirty", mode).status == 128
