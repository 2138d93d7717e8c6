"""A repository of each object format, seen through our own eyes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_wf.store.repo import Repo
from tests.conftest import git


@pytest.fixture(params=["sha1", "sha256"])
def object_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(tmp_path: Path, object_format: str) -> Repo:
    """A repository with one commit on `main`: `README` and `src/a`."""
    path = tmp_path / "repo"
    path.mkdir()
    git("init", "-q", f"--object-format={object_format}", ".", cwd=path)
    (path / "src").mkdir()
    (path / "README").write_text("hello\n")
    (path / "src" / "a").write_text("a\n")
    git("add", "-A", cwd=path)
    git("commit", "-q", "-m", "first", cwd=path)
    return Repo.find(path, os.environ)
