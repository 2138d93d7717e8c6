"""`[run.push] remote`: checkpoints are pushed while the run goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import git
from tests.program import Program, run_id, write_workflow
from tests.tree import ROOT

CONFIG = '_version = 1\n[workflow]\ngraph = "w.dot"\n[run.push]\nremote = "origin"\n'


@pytest.fixture
def origin(repo: Path, tmp_path: Path) -> Path:
    path = tmp_path / "origin.git"
    git("init", "-q", "--bare", str(path), cwd=tmp_path)
    git("remote", "add", "origin", f"file://{path}", cwd=repo)
    git("push", "-q", "origin", "main", cwd=repo)
    return path


def workflow(tmp_path: Path, body: str) -> Path:
    write_workflow(tmp_path / "w.dot", body)
    (tmp_path / "run.toml").write_text(CONFIG)
    return tmp_path / "run.toml"


def runs(path: Path) -> str:
    return git(
        "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/wf", "refs/wf", cwd=path
    )


def waits_for(origin: Path, count: int) -> str:
    """A node that ends once the remote has so many commits of the run."""
    counted = f"git --git-dir={origin} rev-list --count main..wf/run/$GIT_WF_RUN_ID"
    loop = f"n=$({counted} 2>/dev/null || echo 0); [ $n -ge {count} ] && exit 0; sleep 0.05"
    return f"for i in $(seq 200); do {loop}; done; exit 1"


def test_checkpoints_are_pushed_while_it_runs(
    wf: Program, repo: Path, origin: Path, tmp_path: Path
) -> None:
    body = f'a [script="date >a"] b [script="{waits_for(origin, 1)}"] start -> a -> b -> exit'
    wf.ok("run", workflow(tmp_path, body))
    assert runs(origin) == runs(repo)
    assert git("for-each-ref", "refs/wf/claim", cwd=origin) == ""


def test_a_push_that_fails_is_no_part_of_the_run(
    wf: Program, repo: Path, origin: Path, tmp_path: Path
) -> None:
    body = f'a [script="mv {origin} {origin}.gone"] start -> a -> exit'
    result = wf.ok("run", workflow(tmp_path, body))
    assert f"\nwarning: run {run_id(1)} is not at 'origin': " in result.err
    (tmp_path / "origin.git.gone").rename(origin)
    wf.ok("push", "--all")
    assert git("rev-parse", f"wf/run/{run_id(1)}", cwd=origin) in runs(repo)


def test_a_remote_that_is_not_there_is_told_at_once(
    wf: Program, repo: Path, tmp_path: Path
) -> None:
    result = wf("run", workflow(tmp_path, 'a [script="date >a"] start -> a -> exit'))
    assert result.status == 128
    assert "error: remote 'origin': " in result.err
    assert runs(repo) == ""


def test_a_secret_stays_here(wf: Program, repo: Path, origin: Path, tmp_path: Path) -> None:
    token = "ghp_" + "A1b2" * 9
    body = f'a [script="echo {token} >key"] start -> a -> exit'
    result = wf.ok("run", workflow(tmp_path, body))
    assert "secrets found in what would leave this machine" in result.err
    assert token not in result.err
    assert runs(origin) == ""


def test_a_run_whose_claim_is_taken_over_stops(
    wf: Program, repo: Path, origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("git_wf.ops.sharing.RENEWED", 0.1)
    steal = f"git --git-dir={origin} update-ref refs/wf/claim/$GIT_WF_RUN_ID refs/heads/main"
    body = f'a [script="{steal}; sleep 60"] b [script="date >b"] start -> a -> b -> exit'
    result = wf("run", workflow(tmp_path, body))
    assert result.status == 130
    assert "the claim on the run is lost: 'refs/wf/claim/" in result.err
    assert git("rev-parse", f"refs/wf/claim/{run_id(1)}", cwd=origin) == git(
        "rev-parse", "main", cwd=repo
    )


def test_a_claim_is_renewed(repo: Path, origin: Path, tmp_path: Path) -> None:
    """By a clock that goes on: a claim tells when it was made."""
    git("config", "core.logAllRefUpdates", "always", cwd=origin)
    seen = f"git --git-dir={origin} log -g --format=%H refs/wf/claim/$GIT_WF_RUN_ID | sort -u"
    loop = f"[ $({seen} | wc -l) -ge 2 ] && exit 0; sleep 0.05"
    body = f'a [script="for i in $(seq 200); do {loop}; done; exit 1"] start -> a -> exit'
    path = workflow(tmp_path, body)
    code = (
        "import git_wf.ops.sharing as sharing; sharing.RENEWED = 0.1\n"
        "from git_wf.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", path], cwd=repo, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
