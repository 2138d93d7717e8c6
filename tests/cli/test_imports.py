"""What starts the program must not wait for: each of these takes as long as Python, or several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import Program, write_workflow
from tests.tree import ROOT

HEAVY = ["rich", "rich_click", "git", "asyncio", "msgspec", "lark", "pathspec", "ulid",
         "importlib.metadata", "tempfile"]  # fmt: skip


def imported(repo: Path, words: list[str], watched: list[str]) -> list[str]:
    """Which of the watched modules a command line of the program has imported at its end."""
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('imported', *[m for m in {watched} if m in sys.modules]))\n"
        "from git_wf.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path}\n{code}", *words],
        cwd=repo, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()[-1].split(" ")[1:]


@pytest.mark.parametrize("words", [["log"], ["log", "-n", "20"], ["runs"], ["show", "a"]])
def test_readers_import_nothing_heavy(wf: Program, words: list[str]) -> None:
    wf.ok("run", write_workflow(wf.cwd.parent / "w.dot", 'a [script="true"] start -> a -> exit'))
    assert imported(wf.cwd, words, HEAVY) == []


def test_the_version_imports_next_to_nothing(repo: Path) -> None:
    assert imported(repo, ["--version"], [*HEAVY, "click", "typing", "dataclasses", "re"]) == []
