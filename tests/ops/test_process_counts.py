"""The gate of the speed budgets: how many git processes a run starts for a node, exactly.

Two runs that differ in nothing but their number of nodes are compared, so that what a run costs
once does not count, nor the helpers that live as long as it does. Both find worktrees in the pool.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import git
from tests.program import Program, write_workflow

RADAR = ("diff-tree", "merge-tree")


class Counting:
    """Runs workflows, and counts the git processes of each by their verb."""

    def __init__(self, wf: Program, log: Path) -> None:
        self._wf = wf
        self._log = log

    def between(self, few: str, many: str) -> dict[str, int]:
        """What `many` starts more than `few`; of the merge radar nothing."""
        self._count(many)
        before, after = self._count(few), self._count(many)
        after.subtract(before)
        return {verb: more for verb, more in after.items() if more and verb not in RADAR}

    def _count(self, body: str) -> Counter[str]:
        self._log.unlink(missing_ok=True)
        self._wf.ok("run", write_workflow(self._log.with_name("w.dot"), body))
        events = (json.loads(line) for line in self._log.read_text().splitlines())
        # A process that another git started has the other's id before its own.
        return Counter(
            one["name"] for one in events if one["event"] == "cmd_name" and "/" not in one["sid"]
        )


@pytest.fixture
def count(wf: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    log = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE2_EVENT", os.fspath(log))
    return Counting(wf, log)


def chain(nodes: int, script: str, name: str = "n") -> str:
    """`n1 -> n2 -> …` between start and exit, and their declarations."""
    names = [f"{name}{number}" for number in range(1, nodes + 1)]
    made = "".join(f'{one} [script="{script.replace("NAME", one)}"] ' for one in names)
    return f"{made} start -> {' -> '.join(names)} -> exit"


def test_two_processes_a_node_that_changes_something(count: Counting):
    script = "mkdir -p d/NAME; echo NAME >d/NAME/new; echo NAME >>README; rm -f d/n1/new"
    more = count.between(chain(3, script), chain(13, script))
    assert more == {"status": 10, "update-index": 10}


def test_one_process_a_node_that_changes_nothing(count: Counting):
    assert count.between(chain(3, "true"), chain(13, "true")) == {"status": 10}


def test_the_same_in_a_big_repository(count: Counting, repo: Path):
    """Its index is split."""
    oid = git("hash-object", "-w", "--stdin", cwd=repo, stdin=b"")
    lines = "".join(f"100644 {oid}\t{'long' * 20}/{number}\n" for number in range(4000))
    git("update-index", "--index-info", cwd=repo, stdin=lines.encode())
    git("commit", "-q", "-m", "big", cwd=repo)
    git("reset", "-q", "--hard", cwd=repo)
    script = "echo NAME >>README; echo NAME >NAME"
    more = count.between(chain(3, script), chain(7, script))
    assert more == {"status": 4, "update-index": 4}
    assert list((repo / ".git" / "worktrees").glob("*/sharedindex.*"))


def test_two_processes_a_node_of_a_parallel_branch(count: Counting, repo: Path):
    git("config", "wf.worktreePool", "3", cwd=repo)
    assert count.between(section(2), section(7)) == {"status": 10, "update-index": 10}


def section(nodes: int) -> str:
    """Two parallel branches of so many nodes each."""
    found = "f [shape=component] j [shape=tripleoctagon] start -> f j -> exit "
    for branch in "ab":
        names = [f"{branch}{number}" for number in range(nodes)]
        found += "".join(f'{name} [script="echo x >{name}"] ' for name in names)
        found += f"f -> {' -> '.join(names)} -> j "
    return found
