from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from git_wf.core.names import is_run_id, ulid
from git_wf.store.files import Lock
from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import run_id

OWN = ulid(1_900_000_000_000, bytes(10))


def record_of(loop: LoopRun, run: str) -> dict[str, object]:
    told: dict[str, object] = json.loads(git("show", f"wf/meta/{run}:run.json", cwd=loop.repo))
    return told


def test_bare(loop: LoopRun, fsck: Callable[[Path], None]) -> None:
    """`git wf fork`: a new run where the newest checkpoint is; the source keeps every byte."""
    commits, metadata = loop.commits(), loop.metadata()
    before, new = loop.refs(), run_id(2)
    result = loop.wf.ok("fork")
    assert result.out == f"{new}\n"
    assert result.err == (
        f"forked from run {loop.run} at check@2 ({commits[6][:9]}), branch wf/run/{new}\n"
        f"hint: git wf resume {new}\n"
    )
    added = set(loop.refs().splitlines()) - set(before.splitlines())
    assert set(before.splitlines()) <= set(loop.refs().splitlines())
    assert added == {
        f"{commits[6]} commit\trefs/heads/wf/run/{new}",
        f"{loop.resolve(f'wf/meta/{new}')} commit\trefs/wf/meta/{new}",
    }
    assert loop.resolve(f"wf/meta/{new}^@") == metadata[6]
    told = ["log", "-1", "--format=%(trailers:key=WF-Op,valueonly,separator=)"]
    operation = git(*told, f"wf/meta/{new}", cwd=loop.repo)
    assert is_run_id(operation)
    assert git("log", "-1", "--format=%B", f"wf/meta/{new}", cwd=loop.repo).rstrip() == (
        f"fork from {loop.run} @6\n\nWF-Run: {new}\nWF-Op: {operation}\n"
        f"WF-Forked-From: {loop.run}\nWF-Target: check@2"
    )
    changed = git("diff", "--name-status", metadata[6], f"wf/meta/{new}", cwd=loop.repo)
    assert changed == "M\trun.json"
    for ref in (f"refs/heads/wf/run/{new}", f"refs/wf/meta/{new}"):
        told = git("log", "-g", "-1", "--format=%gs", ref, cwd=loop.repo)
        assert told == f"wf: fork {loop.run} check@2"
    fsck(loop.repo)


def test_the_record(loop: LoopRun) -> None:
    loop.wf.ok("fork", "plan@2")
    origin = {
        "run": loop.run,
        "commit": loop.commits()[4],
        "metadata_commit": loop.metadata()[4],
        "ordinal": 4,
    }
    assert record_of(loop, run_id(2)) == {
        **record_of(loop, loop.run),
        "run_id": run_id(2),
        "created_at": "2030-01-02T03:04:06.000000Z",
        "working_directory": None,
        "forked_from": origin,
        "lineage": [origin],
    }
    loop.wf.ok("fork", run_id(2), "@1")
    lineage = record_of(loop, run_id(3))["lineage"]
    assert isinstance(lineage, list)
    assert lineage[0] == origin
    assert lineage[1] == {
        "run": run_id(2),
        "commit": loop.commits()[1],
        "metadata_commit": loop.metadata()[1],
        "ordinal": 1,
    }


@pytest.mark.parametrize(
    ("target", "ordinal"),
    [("@0", 0), ("@3", 3), ("plan@1", 1), ("work", 5), ("2", 4), ("COMMIT", 2), ("META", 2)],
)
def test_targets(loop: LoopRun, target: str, ordinal: int) -> None:
    commits = loop.commits()
    target = {"COMMIT": commits[2], "META": loop.metadata()[2]}.get(target, target)
    loop.wf.ok("fork", target)
    assert loop.resolve(f"wf/run/{run_id(2)}") == commits[ordinal]
    told = loop.wf.ok("log", "--json").json
    assert (told["run_id"], len(told["checkpoints"])) == (run_id(2), ordinal)
    loop.wf("resume", run_id(2))
    told = loop.wf.ok("log", "--json").json
    assert [one["ordinal"] for one in told["checkpoints"]] == [1, 2, 3, 4, 5, 6]
    assert (told["status"], told["base"]) == ("success", commits[0])
    subjects = git("log", "--format=%s", f"{commits[ordinal]}..wf/run/{run_id(2)}", cwd=loop.repo)
    assert all(one.startswith(f"wf({run_id(2)}): ") for one in subjects.splitlines())


def test_the_json_object(loop: LoopRun) -> None:
    planned = loop.wf.ok("fork", "@2", "--json", "--dry-run", "--id", OWN).json
    done = loop.wf.ok("fork", "@2", "--json", "--id", OWN).json
    assert done == {
        "format": 1,
        "operation": "fork",
        "run_id": loop.run,
        "new_run_id": OWN,
        "target": "work@1",
        "updates": [
            {"ref": f"refs/wf/meta/{OWN}", "old": None, "new": loop.resolve(f"wf/meta/{OWN}")},
            {"ref": f"refs/heads/wf/run/{OWN}", "old": None, "new": loop.commits()[2]},
        ],
        "kept": [],
        "applied": True,
    }
    assert (planned["applied"], planned["new_run_id"]) == (False, OWN)


def test_an_id_of_our_own(loop: LoopRun) -> None:
    assert loop.wf.ok("fork", "--id", OWN.lower()).out == f"{OWN}\n"
    loop.wf.fails(
        128,
        ["fork", "--id", OWN],
        f"error: run {OWN} exists already\nhint: git wf log {OWN}\n",
    )
    loop.wf.fails(
        128,
        ["fork", "--id", "mine"],
        "error: 'mine' is not a run id\nhint: a run id is a ULID: 26 letters and digits\n",
    )


def test_of_a_live_run(loop: LoopRun) -> None:
    """Nothing of the source moves, so it may be going on."""
    lock = Lock(loop.repo / ".git" / "git-wf" / f"{loop.run}.lock", "process 1 on example")
    assert lock.acquire()
    try:
        loop.wf.ok("fork", "plan@2")
    finally:
        lock.release()


def test_one_fetch_brings_it_whole(loop: LoopRun, tmp_path: Path) -> None:
    """The two share their past: the fork's refs alone are enough to read and resume it."""
    loop.wf.ok("fork", "plan@2")
    clone = tmp_path / "clone"
    git("init", "-q", str(clone), cwd=tmp_path)
    new = run_id(2)
    refs = [f"refs/heads/wf/run/{new}", f"refs/wf/meta/{new}"]
    git("fetch", "-q", str(loop.repo), *(f"{ref}:{ref}" for ref in refs), cwd=clone)
    here, there = (loop.wf.ok("log", new, cwd=place).out for place in (loop.repo, clone))
    assert here == there
    loop.wf.ok("resume", cwd=clone)
    assert len(loop.wf.ok("log", "--json", cwd=clone).json["checkpoints"]) == 6


def test_a_checkpoint_without_metadata(loop: LoopRun) -> None:
    """A crash can leave it: the metadata commit of the tip is gone."""
    metadata = loop.metadata()
    git("update-ref", loop.meta, metadata[4], cwd=loop.repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=loop.repo)
    git("gc", "-q", "--prune=now", cwd=loop.repo)
    before = loop.refs()
    told = loop.wf.ok("log", "--json").json["checkpoints"]
    assert [one["notes"] for one in told[3:]] == [[], ["no metadata"], ["no metadata"]]
    assert [one["ordinal"] for one in told] == [1, 2, 3, 4, 5, 6]
    error = "error: checkpoint work@2 has no metadata: it cannot be"
    hint = f"hint: git wf fork {run_id(1)} @4 starts from the newest that has\n"
    listed = "hint: git wf rewind --list tells the checkpoints that can be named\n"
    loop.wf.fails(128, ["rewind", "work@2"], f"{error} gone back to\n{listed}")
    loop.wf.fails(128, ["fork", "work@2"], f"{error} forked from\n{hint}")
    assert loop.refs() == before
    assert loop.wf.ok("show", "work@2", "--json").json["record"] is None
    assert "note        no metadata\n" in loop.wf.ok("show", "work@2").out
