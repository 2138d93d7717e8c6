"""Runs of Fabro and Arc, read by the rules of formats.md, section 5, in repositories made here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_wf.core.names import Names, Oid, RunId
from git_wf.core.timeline import Entry
from git_wf.store.repo import Repo
from git_wf.store.runs import RunStore, StoredRun, Timeline
from tests.conftest import git
from tests.foreign import GRAPH, RUN, Foreign, plain_run, record

Row = tuple[str, str, str | None, str | None, tuple[str, ...]]


def read(one: Foreign, names: Names | None = None) -> tuple[StoredRun, Timeline]:
    store = RunStore(Repo.find(one.path, dict(os.environ)), names or Names())
    try:
        run = store.load(store.every()[RunId(one.run)])
        return run, store.timeline(run)
    finally:
        store.close()


def rows(timeline: Timeline) -> list[Row]:
    """Name, status, both commits and notes of each checkpoint."""
    assert [entry.ordinal for entry in timeline.entries] == list(
        range(1, len(timeline.entries) + 1)
    )
    return [
        (one.name, one.recorded_status, one.commit, one.metadata_commit, one.notes)
        for one in timeline.entries
    ]


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., Foreign]:
    return lambda **names: Foreign.begin(tmp_path / "theirs", **names)


def test_the_plain_case(tmp_path: Path) -> None:
    one = plain_run(tmp_path / "theirs")
    run, timeline = read(one)
    _, _, planned, worked, _ = one.metadata
    assert rows(timeline) == [
        ("plan@1", "success", one.commits[0], planned, ()),
        ("work@1", "success", one.commits[1], worked, ()),
    ]
    assert [entry.next_node_id for entry in timeline.entries] == ["work", "exit"]
    assert [entry.timestamp for entry in timeline.entries] == [
        "2026-03-14T18:50:01.420942Z", "2026-03-14T18:50:02.420942Z",
    ]  # fmt: skip
    assert [entry.duration_ms for entry in timeline.entries] == [1500, 1500]
    assert timeline.notices == ()
    assert timeline.start == Entry(0, "", 0, "", one.base, one.metadata[1], run=RUN)
    assert (run.dialect, run.base, run.conclusion) == ("fabro", one.base, {"status": "success"})
    assert run.record["workflow_slug"] == "Loop"
    assert run.record["created_at"] == "2026-03-14T18:50:02.417260Z"
    assert run.record["base_branch"] == "main"
    assert run.checkpoint is not None and run.checkpoint.ordinal == 2
    assert run.checkpoint.previous == {
        "ordinal": 1, "node": "plan", "visit": 1, "status": "success",
        "commit": one.commits[0], "metadata_commit": planned,
    }  # fmt: skip
    assert "internal.run_id" not in run.checkpoint.context_values


def test_a_commit_without_a_trailer_is_the_kth_of_its_node(begin: Callable[..., Foreign]) -> None:
    one = begin()
    one.record_metadata("init run", {"graph.fabro": GRAPH})
    for visit in (1, 2):
        one.record_metadata(
            "checkpoint", {"checkpoint.json": record("work", visits={"work": visit})}
        )
        one.commit("work", completed=visit + 1, checkpoint="f" * 40 if visit == 2 else "")
    _, timeline = read(one)
    assert rows(timeline) == [
        ("work@1", "success", one.commits[0], one.metadata[1], ()),
        ("work@2", "success", one.commits[1], one.metadata[2], ()),
    ]
    assert timeline.notices == (
        "1 commit names metadata that is not there",
        "not finalized: the run was interrupted, or goes on somewhere else",
    )


def test_the_trailer_comes_before_the_count(begin: Callable[..., Foreign]) -> None:
    """A commit of the node's first visit is gone, after a rewind by its owner."""
    one = begin()
    one.record_metadata("init run", {})
    for visit in (1, 2):
        state = record("work", visits={"work": visit})
        one.record_metadata("checkpoint", {"checkpoint.json": state})
    one.commit("work", checkpoint=one.metadata[2])
    _, timeline = read(one)
    assert rows(timeline) == [
        ("work@1", "success", None, one.metadata[1], ("no run commit",)),
        ("work@2", "success", one.commits[0], one.metadata[2], ()),
    ]


def test_a_section_is_its_fan_out_and_its_fan_in(begin: Callable[..., Foreign]) -> None:
    """`fork@1` is the commit after its branches, never the base that they started from."""
    one = begin()
    one.record_metadata("init run", {})
    one.commit("fork", "parallel_base", completed=0)
    one.commit("branch1", completed=None, files={"a.txt": "a\n"})
    one.record_metadata("checkpoint", {"checkpoint.json": record("fork")})
    one.commit("fork")
    one.record_metadata(
        "checkpoint", {"checkpoint.json": record("merge", visits={"fork": 1, "merge": 1})}
    )
    one.commit("merge", checkpoint=one.metadata[2])
    one.record_metadata("finalize run", {})
    run, timeline = read(one)
    assert rows(timeline) == [
        ("fork@1", "success", one.commits[2], one.metadata[1], ()),
        ("merge@1", "success", one.commits[3], one.metadata[2], ()),
    ]
    assert run.base == one.base  # the parent of the section's base
    assert [timeline.entry_of(Oid(commit)) for commit in one.commits] == [
        timeline.entries[0], timeline.entries[0], timeline.entries[0], timeline.entries[1],
    ]  # fmt: skip


def test_without_metadata_the_branch_alone_is_read(begin: Callable[..., Foreign]) -> None:
    one = begin()
    one.commit("fan_out", "parallel_base", completed=0)
    one.commit("branch_a", completed=None)
    one.commit("fan_out")
    one.commit("verify", "failed", completed=3)
    one.commit("verify", "succeeded", completed=4)
    run, timeline = read(one)
    assert rows(timeline) == [
        ("fan_out@1", "success", one.commits[2], None, ("no metadata",)),
        ("verify@1", "failed", one.commits[3], None, ("no metadata",)),
        ("verify@2", "succeeded", one.commits[4], None, ("no metadata",)),
    ]
    assert [entry.status for entry in timeline.entries] == ["success", "fail", "success"]
    assert timeline.notices == ("no metadata ref: what the run branch has is shown",)
    assert (run.conclusion, run.checkpoint, run.record["graph"]) == (None, None, None)


def test_commits_that_no_metadata_knows_are_in_their_place(begin: Callable[..., Foreign]) -> None:
    one = begin()
    one.record_metadata("init run", {})
    first = one.record_metadata("checkpoint", {"checkpoint.json": record("a")})
    one.commit("a", checkpoint=first)
    one.commit("b")
    last = one.record_metadata(
        "checkpoint", {"checkpoint.json": record("c", visits={"a": 1, "b": 1, "c": 1})}
    )
    one.commit("c", checkpoint=last)
    one.commit("d")
    _, timeline = read(one)
    assert rows(timeline) == [
        ("a@1", "success", one.commits[0], first, ()),
        ("b@1", "success", one.commits[1], None, ("no metadata",)),
        ("c@1", "success", one.commits[2], last, ()),
        ("d@1", "success", one.commits[3], None, ("no metadata",)),
    ]


def test_metadata_alone(begin: Callable[..., Foreign]) -> None:
    one = begin()
    files = {"start.json": {"run_id": RUN, "start_time": "2026-03-26T14:31:30.596269Z"}}
    one.record_metadata("init run", files)
    one.record_metadata("checkpoint", {**files, "checkpoint.json": record("work", status="fail")})
    one.record_metadata("finalize run", {**files, "checkpoint.json": record("work", status="fail")})
    run, timeline = read(one)
    assert rows(timeline) == [("work@1", "fail", None, one.metadata[1], ("no run commit",))]
    assert timeline.notices == ("no run branch: what the metadata has is shown",)
    assert (run.dialect, run.base, run.conclusion) == ("fabro", "", {"status": "fail"})
    assert run.record["created_at"] == "2026-03-26T14:31:30.596269Z"


def test_two_runs_on_one_metadata_ref(begin: Callable[..., Foreign]) -> None:
    one = begin(run="01JTEST1234567890ABCDE")  # no ULID either
    for _ in range(2):
        one.record_metadata("init run", {})
        one.record_metadata("checkpoint", {"checkpoint.json": record("work")})
        one.record_metadata("finalize run", {"checkpoint.json": record("work")})
    _, timeline = read(one)
    assert rows(timeline) == [
        ("work@1", "success", None, one.metadata[1], ("no run commit",)),
        ("work@1", "success", None, one.metadata[4], ("no run commit",)),
    ]
    assert timeline.start.metadata_commit == one.metadata[0]
    assert timeline.notices == (
        "no run branch: what the metadata has is shown",
        "the metadata ref holds 2 runs, one after the other: all of them are shown",
    )


def test_a_state_that_is_committed_again_is_one_checkpoint(begin: Callable[..., Foreign]) -> None:
    one = begin()
    one.record_metadata("init run", {})
    for title in ("checkpoint", "checkpoint"):
        one.record_metadata(title, {"checkpoint.json": record("work")})
    one.commit("work")
    _, timeline = read(one)
    assert rows(timeline) == [("work@1", "success", one.commits[0], one.metadata[1], ())]


@pytest.mark.parametrize("spelling", ["{at:03}-{node}@{visit}", "{node}@{visit}"])
def test_the_checkpoint_inside_of_the_run_record(
    begin: Callable[..., Foreign], spelling: str
) -> None:
    """The newest layout. The start node is among the checkpoints, without a commit."""
    one = begin()
    spec = {
        "run_id": RUN,
        "workflow_slug": "hello",
        "graph": {
            "name": "Hello",
            "nodes": {
                "exit": {"id": "exit", "attrs": {"shape": {"String": "Msquare"}}},
                "go": {"id": "go", "attrs": {"shape": {"String": "Mdiamond"}}},
                "greet": {"id": "greet", "attrs": {"max_visits": {"Integer": 3},
                                                   "timeout": {"Duration": "30s"}}},
            },
            "edges": [
                {"from": "go", "to": "greet", "attrs": {}},
                {"from": "greet", "to": "exit",
                 "attrs": {"condition": {"String": "outcome=success"}}},
            ],
            "attrs": {"goal": {"String": "say it"}},
        },
        "git": {"branch": "main", "sha": "0" * 40},
    }  # fmt: skip
    whole: dict[str, Any] = {"spec": spec, "start": {}, "checkpoint": None, "conclusion": None}
    one.record_metadata("init run", {"run.json": whole, "graph.fabro": GRAPH})
    began = {
        "current_node": "go", "completed_nodes": ["go"], "node_visits": {"go": 1},
        "node_outcomes": {"go": {"status": "succeeded"}}, "next_node_id": "greet",
    }  # fmt: skip
    trace = {f"stages/{spelling.format(at=2, node='greet', visit=1)}/stdout.log": "hi\n"}
    one.record_metadata("checkpoint", {"run.json": {**whole, "checkpoint": began}})
    sha = one.commit("greet", "succeeded")
    greeted = {**record("greet", status="succeeded"), "git_commit_sha": sha}
    one.record_metadata("checkpoint", {"run.json": {**whole, "checkpoint": greeted}, **trace})
    run, timeline = read(one)
    assert rows(timeline) == [("greet@1", "succeeded", sha, one.metadata[2], ())]
    assert timeline.entries[0].status == "success"
    record_of_run = run.record
    assert (record_of_run["workflow_slug"], record_of_run["base_branch"]) == ("hello", "main")
    assert [node["id"] for node in record_of_run["graph"]["nodes"]] == ["go", "greet", "exit"]
    assert record_of_run["graph"]["nodes"][1]["attributes"] == {"max_visits": 3, "timeout": "30s"}
    assert record_of_run["goal"] == "say it"


def test_the_conclusion_inside_of_the_run_record(begin: Callable[..., Foreign]) -> None:
    one = begin()
    ended = {"spec": {}, "checkpoint": record("work"), "conclusion": {"status": "FAILED"}}
    one.record_metadata("finalize run", {"run.json": ended})
    run, _ = read(one)
    assert run.conclusion == {"status": "fail"}


def test_arcs_own_metadata_ref(begin: Callable[..., Foreign]) -> None:
    one = begin(dialect="arc")
    ref = f"refs/arc/{RUN}"
    files = {"manifest.json": {"workflow_name": "Loop"}, "graph.dot": GRAPH}
    one.record_metadata("init run", files, ref=ref, credit=False)
    named = one.record_metadata(
        "checkpoint", {**files, "checkpoint.json": record("plan")}, ref=ref, credit=False
    )
    one.commit("plan", checkpoint=named)
    run, timeline = read(one)
    assert rows(timeline) == [("plan@1", "success", one.commits[0], named, ())]
    assert (run.dialect, run.record["workflow_slug"]) == ("arc", "Loop")


def test_both_refs_need_not_be_in_one_namespace(tmp_path: Path) -> None:
    one = plain_run(tmp_path / "theirs")
    git("branch", "-m", f"fabro/run/{RUN}", f"arc/run/{RUN}", cwd=one.path)
    run, timeline = read(one)
    assert [entry.notes for entry in timeline.entries] == [(), ()]
    assert run.refs.place is not None
    assert run.refs.place.run_ref == f"refs/heads/arc/run/{RUN}"


def test_commits_of_people_belong_to_the_next_checkpoint(begin: Callable[..., Foreign]) -> None:
    one = begin()
    one.record_metadata("init run", {})
    mended = one.somebody("mend it by hand\n", {"a.txt": "a\n"})
    one.commit("work")
    merged = one.somebody("Merge main into it\n", {"b.txt": "b\n"})
    run, timeline = read(one)
    assert rows(timeline) == [("work@1", "success", one.commits[1], None, ("no metadata",))]
    # The base is the parent of the oldest commit of the run itself: what was before is no part.
    assert run.base == mended
    assert timeline.ranges == {one.commits[1]: 0, merged: 1}
    assert timeline.notices[0] == "a commit of somebody else on top of the run's last one"


def test_a_user_may_have_a_branch_beside_them(begin: Callable[..., Foreign]) -> None:
    one = begin()
    for branch in ("fabro/run/attempt", "fabro/meta/x/y", "arc/run/01jlower", "fabro/run/AB"):
        git("branch", branch, "main", cwd=one.path)
    store = RunStore(Repo.find(one.path, dict(os.environ)), Names())
    assert list(store.every()) == []
    store.close()


# What is missing.


def forget(one: Foreign, oid: str) -> None:
    """Removes one object, as a partial clone whose server is gone."""
    folder = one.path / ".git" / "objects" / "pack"
    for pack in list(folder.glob("*.pack")):
        data = pack.read_bytes()
        for path in folder.glob(f"{pack.stem}.*"):
            path.unlink()
        git("unpack-objects", "-q", cwd=one.path, stdin=data)
    (one.path / ".git" / "objects" / oid[:2] / oid[2:]).unlink()


def test_a_record_that_is_missing(tmp_path: Path) -> None:
    one = plain_run(tmp_path / "theirs")
    forget(one, git("rev-parse", f"{one.metadata[2]}:checkpoint.json", cwd=one.path))
    _, timeline = read(one)
    assert rows(timeline) == [
        ("plan@1", "success", one.commits[0], None, ("no metadata",)),
        ("work@1", "success", one.commits[1], one.metadata[3], ()),
    ]
    assert timeline.notices == ("1 checkpoint of the metadata cannot be read",)


def test_a_metadata_commit_that_is_missing_ends_the_chain(tmp_path: Path) -> None:
    one = plain_run(tmp_path / "theirs")
    forget(one, one.metadata[2])
    _, timeline = read(one)
    assert rows(timeline) == [
        ("plan@1", "success", one.commits[0], None, ("no metadata",)),
        ("work@1", "success", one.commits[1], one.metadata[3], ()),
    ]
    assert timeline.notices == ("1 commit names metadata that is not there",)


def test_tips_that_are_missing(tmp_path: Path) -> None:
    one = plain_run(tmp_path / "theirs")
    forget(one, one.metadata[-1])
    forget(one, one.commits[-1])
    _, timeline = read(one)
    assert rows(timeline) == []
    assert timeline.notices == (
        f"commit {one.commits[-1]} of the run branch is not in this repository",
        f"commit {one.metadata[-1]} of the metadata ref is not in this repository",
    )


def test_one_broken_run_hides_no_other(tmp_path: Path) -> None:
    one = plain_run(tmp_path / "theirs")
    other = Foreign(one.path, run="01KKPTSEVJR1P4CYAYQSNGXRKB", made=one.made)
    other.commit("work")
    forget(one, one.commits[-1])
    forget(one, one.metadata[-1])
    store = RunStore(Repo.find(one.path, dict(os.environ)), Names())
    known = store.every()
    found = store.load_elsewhere(known)
    store.close()
    counts = {run: len(stored.foreign.entries) for run, stored in found.items() if stored.foreign}
    assert counts == {one.run: 0, other.run: 1}


def test_records_that_are_no_json(begin: Callable[..., Foreign]) -> None:
    one = begin()
    odd: list[Any] = ["no JSON", [], {"current_node": ""}, {"current_node": "work"}]
    for state in odd:
        one.record_metadata("checkpoint", {"checkpoint.json": state, "run.json": "[" * 10})
    _, timeline = read(one)
    assert rows(timeline) == [("work@1", "", None, one.metadata[3], ("no run commit",))]
    assert timeline.notices[1] == "3 checkpoints of the metadata cannot be read"


# Namespaces.


@pytest.mark.parametrize("names", [Names("fabro"), Names("arc"), Names("studio"),
                                   Names("fabro", "refs/heads/fabro/meta")])  # fmt: skip
def test_whatever_our_own_namespace_is(tmp_path: Path, names: Names) -> None:
    one = plain_run(tmp_path / "theirs")
    run, timeline = read(one, names)
    assert run.dialect == "fabro"
    assert len(timeline.entries) == 2
    store = RunStore(Repo.find(one.path, dict(os.environ)), names)
    assert list(store.refs()) == []  # theirs are none that we change
    store.close()
