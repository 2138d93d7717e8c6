from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import git
from tests.program import Program, run_id, wf, write_workflow

__all__ = ["wf"]

LOOP = """\
plan [script="echo plan >>log"]
work [script="cat log >work"]
check [script="test $(wc -l <log) -ge 2"]
start -> plan -> work -> check
check -> exit [condition="outcome=success"]
check -> plan [condition="outcome=fail"]"""


@dataclass
class LoopRun:
    """A finished run of six checkpoints: plan@1 work@1 check@1 (fail) plan@2 work@2 check@2."""

    wf: Program
    repo: Path
    run: str  # its id

    @property
    def branch(self) -> str:
        return f"wf/run/{self.run}"

    @property
    def meta(self) -> str:
        return f"refs/wf/meta/{self.run}"

    @property
    def fetch(self) -> str:
        """What brings its refs from another repository."""
        refs = (f"refs/heads/{self.branch}", self.meta)
        return "git fetch REMOTE " + " ".join(f"'{ref}:{ref}'" for ref in refs)

    def commits(self, run: str = "") -> list[str]:
        """The base and the run commits, in order."""
        listed = git("rev-list", "--reverse", f"wf/run/{run or self.run}", cwd=self.repo)
        return listed.splitlines()

    def metadata(self, run: str = "") -> list[str]:
        """The metadata commits, in order: `init run`, then one a checkpoint, `finalize run`."""
        ref = f"refs/wf/meta/{run or self.run}"
        return git("rev-list", "--reverse", ref, cwd=self.repo).splitlines()

    def resolve(self, revision: str) -> str:
        return git("rev-parse", revision, cwd=self.repo)

    def refs(self) -> str:
        return git("for-each-ref", cwd=self.repo)

    def replace_metadata(
        self, name: str, content: bytes | None, message: str | None = None
    ) -> None:
        """A new metadata tip with another file in it, or without it."""
        index = {**os.environ, "GIT_INDEX_FILE": os.fspath(self.repo / ".git" / "odd-index")}
        run_in = {"cwd": self.repo, "env": index}
        git_in(["read-tree", self.meta], **run_in)
        if content is None:
            git_in(["rm", "-q", "--cached", name], **run_in)
        else:
            blob = git("hash-object", "-w", "--stdin", cwd=self.repo, stdin=content)
            git_in(["update-index", "--add", "--cacheinfo", f"100644,{blob},{name}"], **run_in)
        tree = git_in(["write-tree"], **run_in)
        (self.repo / ".git" / "odd-index").unlink()
        told = message or git("log", "-1", "--format=%B", self.meta, cwd=self.repo)
        commit = git("commit-tree", tree, "-p", self.meta, "-m", told, cwd=self.repo)
        git("update-ref", self.meta, commit, cwd=self.repo)


def git_in(words: list[str], cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def loop(wf: Program, repo: Path, tmp_path: Path) -> LoopRun:
    wf.ok("run", "--label", "kind=test", write_workflow(tmp_path / "loop.dot", LOOP))
    return LoopRun(wf, repo, run_id(1))


@pytest.fixture
def bare(loop: LoopRun, tmp_path: Path) -> Path:
    """A bare clone that fetched the refs of the run; the run directory is gone."""
    path = tmp_path / "bare.git"
    git("init", "-q", "--bare", str(path), cwd=tmp_path)
    refspecs = ["refs/heads/*:refs/heads/*", "refs/wf/*:refs/wf/*"]
    git("fetch", "-q", str(loop.repo), *refspecs, cwd=path)
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    return path
