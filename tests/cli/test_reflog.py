from __future__ import annotations

import socket

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import run_id


def titles(loop: LoopRun, *words: str) -> list[str]:
    return [move["title"] for move in loop.wf.ok("reflog", *words, "--json").json["moves"]]


def test_a_finished_run(loop: LoopRun) -> None:
    metadata = loop.metadata()
    assert (
        loop.wf.ok("reflog").out
        == f"""\
{metadata[-1][:9]}  finalize run          Ada Author  just now
{metadata[-2][:9]}  checkpoints @1 to @6  Ada Author  just now
{metadata[0][:9]}  init run              Ada Author  just now
"""
    )


def test_the_whole_story(loop: LoopRun) -> None:
    """A rewind, a resumption, a fork, a rewind of it that is undone."""
    tip = loop.resolve(loop.branch)
    loop.wf.ok("rewind", "check@1")
    loop.wf.ok("fork", "work@1")
    loop.wf.ok("resume", loop.run)
    loop.wf.ok("rewind", loop.run, "plan@1")
    loop.wf.ok("undo", loop.run)
    assert titles(loop, loop.run) == [
        "undo of 'rewind to plan@1'",
        "rewind to plan@1",
        "finalize run",
        "checkpoints @4 to @6",
        "resume",
        f"forked to {run_id(2)}",
        "rewind to check@1",
        "finalize run",
        "checkpoints @1 to @6",
        "init run",
    ]
    moves = loop.wf.ok("reflog", loop.run, "--json").json["moves"]
    first = moves[6]
    assert (first["from"], first["author"]) == (tip, "Ada Author <ada@example.com>")
    assert [loop.resolve(ref) for ref in first["kept"]] == [tip]
    assert moves[4]["where"] == socket.gethostname()
    assert moves[3]["ordinals"] == [4, 6]
    assert {git("cat-file", "-t", move["commit"], cwd=loop.repo) for move in moves} == {"commit"}
    assert titles(loop, run_id(2)) == [f"fork from {loop.run} @2"]


def test_what_is_kept_is_named_as_long_as_it_is(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "check@1")
    line = loop.wf.ok("reflog", "-n", "1").out
    (kept,) = loop.wf.ok("reflog", "--json").json["moves"][0]["kept"]
    assert line.endswith(f"kept: {kept}\n") and line.count("\n") == 1
    git("update-ref", "-d", kept, cwd=loop.repo)
    assert "kept:" not in loop.wf.ok("reflog").out


def test_of_a_run_that_is_gone(loop: LoopRun) -> None:
    loop.wf.ok("rm", loop.run)
    assert titles(loop, loop.run[:20])[:2] == ["remove", "finalize run"]


def test_what_was_rescued(loop: LoopRun) -> None:
    ref = f"refs/wf/rescue/{loop.run}/{run_id(9)}"
    git("update-ref", ref, loop.branch, cwd=loop.repo)
    moves = loop.wf.ok("reflog", "--json").json["moves"]
    assert [move["kept"] for move in moves if move["title"] == "rescue"] == [[ref]]


@pytest.mark.parametrize("word", ["nothing", "0000"])
def test_no_such_run(loop: LoopRun, word: str) -> None:
    loop.wf.fails(
        128,
        ["reflog", word],
        f"error: no run matches '{word}'\nhint: git wf runs lists them\n",
    )
