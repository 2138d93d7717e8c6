from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import Program, run_id


def test_newest_first(loop: LoopRun) -> None:
    loop.wf.ok("fork", "@2")
    forked = run_id(2)
    result = loop.wf.ok("runs")
    assert result.err == ""
    assert result.out == (
        f"{forked}  interrupted  2 checkpoints  work   loop  just now"
        f"  kind=test, fork of {loop.run}\n"
        f"{loop.run}  success      6 checkpoints  check  loop  just now  kind=test\n"
    )


def test_before_the_first_checkpoint(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "@0")
    assert loop.wf.ok("runs").out == (
        f"{loop.run}  interrupted  0 checkpoints  -  loop  just now  kind=test\n"
    )


def test_one_checkpoint_long_ago(loop: LoopRun) -> None:
    loop.wf.ok("fork", "@1")
    loop.wf.clock.moment += timedelta(days=3)
    assert loop.wf.ok("runs").out.splitlines()[0] == (
        f"{run_id(2)}  interrupted   1 checkpoint  plan   loop  3 days ago"
        f"  kind=test, fork of {loop.run}"
    )


def test_the_json_object(loop: LoopRun) -> None:
    loop.wf.ok("fork", "@2")
    told = loop.wf.ok("runs", "--json").json
    forked, first = told["runs"]
    assert first == {
        "run_id": loop.run,
        "dialect": "wf",
        "workflow": "loop",
        "status": "success",
        "created_at": "2030-01-02T03:04:05.000000Z",
        "updated_at": "2030-01-02T03:04:05.000000Z",
        "checkpoints": 6,
        "current_node": "check",
        "branch": loop.branch,
        "metadata_ref": loop.meta,
        "labels": {"kind": "test"},
        "forked_from": None,
        "parent": None,
        "waiting": None,
        "archived": False,
        "notes": [],
    }
    assert forked == {
        **first,
        "run_id": run_id(2),
        "status": "interrupted",
        "created_at": "2030-01-02T03:04:06.000000Z",
        "updated_at": "2030-01-02T03:04:06.000000Z",
        "checkpoints": 2,
        "current_node": "work",
        "branch": f"wf/run/{run_id(2)}",
        "metadata_ref": f"refs/wf/meta/{run_id(2)}",
        "forked_from": {
            "run": loop.run,
            "commit": loop.commits()[2],
            "metadata_commit": loop.metadata()[2],
            "ordinal": 2,
        },
    }
    assert told["format"] == 1 and list(told) == ["format", "runs"]


def test_a_record_is_not_opened_where_the_message_tells_enough(loop: LoopRun) -> None:
    loop.replace_metadata("checkpoint.json", b"[]")
    told = loop.wf.ok("runs").out
    assert told.startswith(f"{loop.run}  success  6 checkpoints  check  loop  ")


def test_one_that_cannot_be_read_is_listed(loop: LoopRun) -> None:
    loop.wf.ok("fork")
    loop.replace_metadata("checkpoint.json", b"[]", f"finalize run\n\nWF-Run: {loop.run}\n")
    git("update-ref", "-d", f"refs/wf/meta/{run_id(2)}", cwd=loop.repo)
    result = loop.wf.ok("runs")
    assert result.out == (
        f"{run_id(2)}  unknown  0 checkpoints  -  -    "
        f"run {run_id(2)} has no metadata ref 'refs/wf/meta/{run_id(2)}'\n"
        f"{loop.run}  unknown  0 checkpoints  -  -    "
        f"read '{loop.meta}:checkpoint.json': not a JSON object\n"
    )
    assert loop.wf.ok("runs", "--json").json["runs"][1] == {
        "run_id": loop.run,
        "dialect": "wf",
        "workflow": None,
        "status": "unknown",
        "created_at": None,
        "updated_at": None,
        "checkpoints": 0,
        "current_node": None,
        "branch": loop.branch,
        "metadata_ref": loop.meta,
        "labels": {},
        "forked_from": None,
        "parent": None,
        "waiting": None,
        "archived": False,
        "notes": [f"read '{loop.meta}:checkpoint.json': not a JSON object"],
    }


def test_without_runs(wf: Program) -> None:
    result = wf.ok("runs")
    assert (result.out, result.err) == ("", "no runs in this repository\n")
    assert wf.ok("runs", "--json").json == {"format": 1, "runs": []}


def test_in_a_bare_clone(loop: LoopRun, bare: Path) -> None:
    here, there = loop.wf.ok("runs"), loop.wf.ok("runs", cwd=bare)
    assert here.out == there.out


def test_labels_are_plain_text(loop: LoopRun, tmp_path: Path) -> None:
    loop.wf.ok("run", "--label", "odd=\x1b[31mred\nline", tmp_path / "loop.dot")
    assert loop.wf.ok("runs").out.splitlines()[0].endswith("  odd=[31mred line")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], [3, 2, 1]),
        (["--status", "success"], [1]),
        (["--status", "succeeded", "--status", "interrupted"], [3, 2, 1]),
        (["--status", "fail"], []),
        (["--workflow", "loop"], [3, 2, 1]),
        (["--workflow", "other"], []),
        (["--label", "kind"], [3, 2, 1]),
        (["--label", "kind=test", "--label", "kind"], [3, 2, 1]),
        (["--label", "kind=x"], []),
        (["--label", "other"], []),
        (["--sort", "created"], [1, 2, 3]),
        (["--sort", "checkpoints"], [3, 2, 1]),
        (["--sort", "-checkpoints"], [1, 2, 3]),
        (["--sort", "status"], [2, 3, 1]),
        (["--sort", "-status"], [1, 2, 3]),
        (["--sort", "workflow"], [1, 2, 3]),
        (["--sort", "updated"], [1, 2, 3]),
    ],
)
def test_those_that_are_asked_for(loop: LoopRun, words: list[str], found: list[int]) -> None:
    loop.wf.ok("fork", loop.run, "@2")
    loop.wf.ok("fork", loop.run, "@1")
    runs = loop.wf.ok("runs", "--json", *words).json["runs"]
    assert [one["run_id"] for one in runs] == [run_id(number) for number in found]


def test_none_of_that_kind(loop: LoopRun) -> None:
    result = loop.wf.ok("runs", "--status", "fail")
    assert (result.out, result.err) == ("", "no such runs in this repository\n")


def test_no_such_order(loop: LoopRun) -> None:
    loop.wf.fails(
        129,
        ["runs", "--sort", "size"],
        "error: --sort 'size' is none of created, updated, status, workflow, checkpoints\n"
        "hint: git wf runs -h\n",
    )
