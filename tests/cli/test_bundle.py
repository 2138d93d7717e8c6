"""`git wf export` and `import`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.cli.test_remotes import TOKEN, all_refs, of_runs
from tests.conftest import git
from tests.program import Program, run_id, write_workflow


@pytest.fixture
def clone(loop: LoopRun, tmp_path: Path) -> Path:
    """Of the project, without its runs."""
    git("clone", "-q", "--single-branch", f"file://{loop.repo}", "clone", cwd=tmp_path)
    return tmp_path / "clone"


def test_a_run_in_a_file(
    loop: LoopRun, clone: Path, tmp_path: Path, fsck: Callable[[Path], None]
) -> None:
    loop.wf.ok("rewind", "plan@2")
    file = tmp_path / "run.bundle"
    result = loop.wf.ok("export", loop.run[:12], "-o", file)
    base = loop.commits()[0]
    assert (result.out, result.err) == (
        f"exported run {loop.run} to {file}\n",
        f"it begins from commit {base[:12]}, which is not in it\n",
    )
    git("bundle", "verify", "-q", str(file), cwd=clone)
    assert loop.wf.ok("import", file, cwd=clone).out == f"fetched run {loop.run} from {file}\n"
    assert of_runs(clone) == all_refs(loop)
    loop.wf.ok("verify", cwd=clone)
    fsck(clone)
    here, there = (loop.wf.ok("log", "--json", cwd=place).json for place in (loop.repo, clone))
    assert here == there
    loop.wf.ok("resume", cwd=clone)
    loop.wf.ok("export", "-o", file, cwd=clone)
    loop.wf.ok("import", file)
    assert of_runs(clone) == all_refs(loop)
    assert loop.wf.ok("import", file).out == f"run {loop.run} is as {file} has it\n"


def test_where_the_project_is_not(loop: LoopRun, tmp_path: Path) -> None:
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "run.bundle"
    git("init", "-q", str(elsewhere), cwd=tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "another project", cwd=elsewhere)
    loop.wf.ok("export", "-o", file)
    base = loop.commits()[0]
    loop.wf.fails(
        128,
        ["import", str(file)],
        f"error: '{file}' begins from commit {base[:12]}, which is not here\n"
        "hint: git fetch brings it, from where the project is\n"
        "hint: git wf export --full RUN -o FILE\n",
        cwd=elsewhere,
    )
    assert of_runs(elsewhere) == {}
    told = loop.wf.ok("export", "--full", "-o", file, "--json").json
    assert (told["run_id"], told["base"], told["size"]) == (loop.run, None, file.stat().st_size)
    loop.wf.ok("import", file, cwd=elsewhere)
    assert of_runs(elsewhere) == all_refs(loop)


def test_a_run_without_a_commit(wf: Program, repo: Path, tmp_path: Path) -> None:
    wf.ok("run", write_workflow(tmp_path / "w.dot", "start -> exit"))
    git("clone", "-q", "--single-branch", f"file://{repo}", "clone", cwd=tmp_path)
    file = tmp_path / "run.bundle"
    wf.ok("export", "-o", file)
    wf.ok("import", file, cwd=tmp_path / "clone")
    assert of_runs(tmp_path / "clone") == of_runs(repo)


def test_damaged_files(loop: LoopRun, clone: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.bundle"
    result = loop.wf("import", file, cwd=clone)
    assert result.err == (
        f"error: there is no file '{file}'\nhint: git wf export RUN -o FILE makes one\n"
    )
    file.write_text("nothing of the kind\n")
    result = loop.wf("import", file, cwd=clone)
    assert result.err == (
        f"error: '{file}' is no file of runs, or is damaged\n"
        "hint: git wf export RUN -o FILE makes one\n"
    )
    loop.wf.ok("export", "-o", file)
    whole = file.read_bytes()
    for damaged in (whole[:-30], whole[:-40] + b"x" + whole[-39:]):
        file.write_bytes(damaged)
        result = loop.wf("import", file, cwd=clone)
        assert result.status == 128 and "hint: " in result.err
        assert of_runs(clone) == {}


def test_what_is_not_whole_is_not_exported(loop: LoopRun, tmp_path: Path) -> None:
    loop.replace_metadata("run.json", b"{}")
    result = loop.wf("export", "-o", tmp_path / "run.bundle")
    assert result.status == 128
    assert not list(tmp_path.glob("*bundle*"))


def test_where_it_cannot_be_written(loop: LoopRun, tmp_path: Path) -> None:
    result = loop.wf("export", "-o", tmp_path / "no" / "run.bundle")
    assert result.status == 128 and "run.bundle" in result.err


def test_a_secret_is_not_exported(loop: LoopRun, tmp_path: Path) -> None:
    body = f'a [script="echo {TOKEN} >key"]\nstart -> a -> exit'
    loop.wf.ok("run", write_workflow(tmp_path / "leak.dot", body))
    file = tmp_path / "run.bundle"
    result = loop.wf("export", run_id(2), "-o", file)
    assert result.status == 128 and not file.exists()
    assert "key:1: GitHub Token\n" in result.err and TOKEN not in result.err
    loop.wf.ok("export", run_id(2), "-o", file, "--no-scan")
