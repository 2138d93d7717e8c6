"""One run, byte for byte: what it writes into a repository is compared with what is stored.

Clock, ids and identity are fixed. `run.json` names the places of the repository and of the
worktree, so both are at fixed places. `pytest --update tests/ops/test_golden.py` writes the stored
text anew; its diff is to be read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_wf.store.files import remove_tree
from tests.conftest import git
from tests.program import Program

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
PLACE = Path("/tmp/git-wf-golden")
DATE = "2030-01-02T03:04:05Z"

WORKFLOW = """\
digraph Golden {
    graph [goal="Make it {{ inputs.word }}"]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    write [script="
        echo line >>log.txt
        mkdir -p src/deep
        echo 'print(1)' >src/deep/main.py
        ln -s src/deep/main.py link
        printf '#!/bin/sh\\\\n' >tool && chmod +x tool
        printf 'odd' >'name with ä and \\ttab'
        echo scrap >scrap.tmp
        echo built >build.out
    "]
    big [script="awk 'BEGIN { for (i = 0; i < 11000; i++) print \\"0123456789\\" }'"]
    look [script="true"]
    check [script="
        echo line >>log.txt
        test $(wc -l <log.txt) -ge 3 || { echo too short >&2; exit 1; }
        git rm -q --cached link && rm link
    "]
    mend [script="
        echo mended >>log.txt
        # Its date is its own; ours come from the clock.
        GIT_AUTHOR_DATE=@ GIT_COMMITTER_DATE=@ git commit -q -m 'of the node' log.txt
        printf '%s' '{\\"notes\\": \\"first line\\\\n---\\\\nlast line\\"}' >$GIT_WF_STATUS
    "]
    broken [script="echo 'no way' >&2; exit 3"]
    start -> write -> big -> look -> check
    check -> mend [condition="outcome=fail"]
    check -> broken [condition="outcome=success"]
    mend -> check
    broken -> exit
}
"""
RUN = "01Q3G996490000000000000001"
RUN_TOML = """\
_version = 1
[workflow]
graph = "golden.dot"
[run.inputs]
word = "last"
[checkpoint]
exclude_globs = ["*.tmp"]
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is always the same, for one test at a time on this machine."""
    with open(f"{PLACE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_tree(PLACE)
        PLACE.mkdir(mode=0o700)
        monkeypatch.setenv("XDG_STATE_HOME", os.fspath(PLACE / "state"))
        try:
            yield PLACE
        finally:
            remove_tree(PLACE)


@pytest.fixture
def golden_run(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A repository with one run in it, which loops, fails once and recovers, and fails."""
    repo = place / "repo"
    repo.mkdir()
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_DATE", DATE)
    git("init", "-q", ".", cwd=repo)
    (repo / ".gitignore").write_text("*.out\n")
    (repo / "golden.dot").write_text(WORKFLOW.replace("DATE=@", f"DATE={DATE}"))
    (repo / "run.toml").write_text(RUN_TOML)
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "first", cwd=repo)
    monkeypatch.delenv("GIT_AUTHOR_DATE")
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    wf = Program(lambda: tuple(capfd.readouterr()), repo)  # type: ignore[arg-type]
    result = wf("run", "run.toml", "--id", RUN, "--label", "kind=golden")
    assert result.status == 1, result.err
    return repo


@pytest.mark.parametrize("ref", ["run", "meta"])
def test_what_a_run_writes(golden_run: Path, ref: str, request: pytest.FixtureRequest) -> None:
    name = f"refs/heads/wf/run/{RUN}" if ref == "run" else f"refs/wf/meta/{RUN}"
    commits = git("rev-list", "--reverse", name, cwd=golden_run).splitlines()
    told = [git("log", "--format=raw", name, cwd=golden_run)]
    for commit in commits:
        subject = git("log", "-1", "--format=%s", commit, cwd=golden_run)
        told.append(f"\ntree of {commit}: {subject}")
        told.append(git("ls-tree", "-r", commit, cwd=golden_run))
    text = "\n".join(told) + "\n"
    stored = GOLDEN / f"{ref}.txt"
    if request.config.getoption("--update"):
        stored.write_text(text, encoding="utf-8")
    assert text == stored.read_text(encoding="utf-8")


def test_the_last_checkpoint(golden_run: Path, request: pytest.FixtureRequest) -> None:
    told = git("show", f"wf/meta/{RUN}:checkpoint.json", cwd=golden_run)
    stored = GOLDEN / "checkpoint.json"
    if request.config.getoption("--update"):
        stored.write_text(told + "\n", encoding="utf-8")
    assert told + "\n" == stored.read_text(encoding="utf-8")
