"""Every test runs sealed: its own HOME, no configuration of the machine, a fixed identity."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada Author",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.com",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="write stored outputs (tests/golden) anew"
    )


@pytest.fixture(autouse=True)
def sealed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    for key in list(os.environ):
        if key.startswith(("GIT_", "XDG_", "WF_")) or key in ("EMAIL", "PAGER", "NO_COLOR"):
            monkeypatch.delenv(key)
    empty = home / "template"
    empty.mkdir()
    (home / "gitconfig").touch()
    sealing = {
        "HOME": os.fspath(home),
        "XDG_CONFIG_HOME": os.fspath(home / ".config"),
        "XDG_STATE_HOME": os.fspath(home / ".state"),
        "XDG_DATA_HOME": os.fspath(home / ".data"),
        "XDG_CACHE_HOME": os.fspath(home / ".cache"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.fspath(home / "gitconfig"),  # never /dev/null: root could write it
        "GIT_TEMPLATE_DIR": os.fspath(empty),
        "GIT_EDITOR": "false",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "init.defaultBranch",
        "GIT_CONFIG_VALUE_0": "main",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "COLUMNS": "100",
        **IDENTITY,
    }
    for key, value in sealing.items():
        monkeypatch.setenv(key, value)
    nowhere = home / "nowhere"
    nowhere.mkdir()
    monkeypatch.chdir(nowhere)
    yield


def git(*args: str, cwd: Path, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)) -> str:
    """What plain git prints, without the last newline."""
    done = subprocess.run(["git", *args], cwd=cwd, input=stdin, capture_output=True, check=False)
    told = done.stderr.decode("utf-8", "replace")
    assert done.returncode in ok, f"git {' '.join(args)}: {done.returncode}: {told}"
    return os.fsdecode(done.stdout).removesuffix("\n")


def make_repo(path: Path) -> Path:
    """A repository with one commit on `main`."""
    path.mkdir(parents=True, exist_ok=True)
    git("init", "-q", ".", cwd=path)
    (path / "README").write_text("hello\n")
    git("add", "-A", cwd=path)
    git("commit", "-q", "-m", "first", cwd=path)
    return path


@contextmanager
def at_work(path: Path) -> Iterator[None]:
    """Inside, somebody writes to the file again and again, as a git does that holds a lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.02):
            os.utime(path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def fsck() -> Callable[[Path], None]:
    """Judges a repository: nothing but dangling objects may be told."""

    def check(path: Path) -> None:
        done = subprocess.run(
            ["git", "fsck", "--full", "--no-progress"], cwd=path, capture_output=True, check=False
        )
        told = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
        bad = [line for line in told if not line.startswith("dangling ")]
        assert done.returncode == 0 and not bad, "\n".join(bad)

    return check
