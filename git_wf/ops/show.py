"""`git wf show`: one checkpoint, its record and what it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.checkpoint import FORMAT, Checkpoint
from git_wf.core.dialects import TRACE_DIRECTORIES, is_ours, is_trace_of, own_checkpoint
from git_wf.core.timeline import Entry
from git_wf.errors import UserError
from git_wf.ops.log import counts_json
from git_wf.ops.project import Project
from git_wf.ops.select import Selected, select
from git_wf.store.runs import ChangeCounts, StoredRun


@dataclass(frozen=True)
class Shown:
    run: StoredRun
    entry: Entry
    previous_commit: str | None
    counts: ChangeCounts | None  # None where it is not known
    checkpoint: Checkpoint | None  # None without metadata
    record: Mapping[str, Any] | None  # the same as recorded, `git_commit_sha` filled in
    stat: str  # of the files, as git prints it
    trace: tuple[str, ...]  # names of this visit's trace files, `plan/stdout.log`

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "run_id": self.run.run_id,
            **self.entry.to_json(),
            **counts_json(self.counts),
            "record": self.record,
        }


def show(project: Project, words: Sequence[str]) -> Shown:
    """`[RUN] TARGET`; without a target the newest checkpoint."""
    selected = select(project, words)
    entries = selected.timeline.entries
    if not entries and selected.target is None:
        raise UserError(
            f"run {selected.run.run_id} has no checkpoint yet", hint="git wf resume goes on"
        )
    return show_entry(project, selected, selected.entry(project, default="0"))


def show_entry(project: Project, selected: Selected, entry: Entry) -> Shown:
    """What there is of one checkpoint of a run."""
    entries = selected.timeline.entries
    before = [one for one in (selected.timeline.start, *entries) if one.ordinal < entry.ordinal]
    previous = before[-1].commit if before else None
    store = project.store
    stat = ""
    counts = store.change_counts(selected.timeline, [entry])
    if entry.commit in counts and previous:
        stat = project.repo.git(
            "diff-tree", "-r", "--stat=80", "--summary", "--find-renames", "--no-ext-diff",
            "--no-textconv", previous, str(entry.commit),
        ).decode("utf-8", "replace")  # fmt: skip
    record = read_record(project, entry)
    return Shown(
        run=selected.run,
        entry=entry,
        previous_commit=previous,
        counts=counts.get(entry.commit) if entry.commit and entry.ordinal else _no_counts(entry),
        checkpoint=None if record is None else checkpoint_of(entry, record),
        record=record,
        stat=stat,
        trace=tuple(_trace(project, entry, of_ours=record is None or is_ours(record))),
    )


def _no_counts(entry: Entry) -> ChangeCounts | None:
    return None if entry.ordinal else ChangeCounts()  # before the first node nothing changed


def read_checkpoint(project: Project, entry: Entry) -> Checkpoint | None:
    """The record of a checkpoint, with `git_commit_sha` joined from the run branch."""
    record = read_record(project, entry)
    return None if record is None else checkpoint_of(entry, record)


def read_record(project: Project, entry: Entry) -> dict[str, Any] | None:
    """A checkpoint as it was recorded, by whomever; `git_commit_sha` is filled in.

    Raises `StateUnreadable` where the record is of a newer format than we know.
    """
    if entry.metadata_commit is None or not entry.ordinal:
        return None
    record = project.store.read_checkpoint(entry.metadata_commit)
    return None if record is None else {**record, "git_commit_sha": entry.commit}


def read_artifact(project: Project, entry: Entry, key: str) -> bytes:
    """The JSON of a context value that is stored apart. Raises `StateUnreadable`."""
    return project.store.reader.read_blob(f"{entry.metadata_commit}:artifacts/{key}.json")


def checkpoint_of(entry: Entry, record: Mapping[str, Any]) -> Checkpoint:
    if is_ours(record):
        return Checkpoint.from_json(record, f"{entry.metadata_commit}:checkpoint.json")
    return own_checkpoint(entry.run, record, entry.ordinal, None)


def _trace(project: Project, entry: Entry, *, of_ours: bool) -> list[str]:
    """Ours is that of this visit only; Fabro's and Arc's hold those of all visits so far."""
    if entry.metadata_commit is None:
        return []
    listed = project.repo.git(
        "ls-tree", "-r", "-z", "--name-only", f"{entry.metadata_commit}:", *TRACE_DIRECTORIES,
        ok=(0, 128),
    )  # fmt: skip
    names = [name for name in listed.decode("utf-8", "replace").split("\0") if name]
    return [name for name in names if of_ours or is_trace_of(name, entry.node, entry.visit)]
