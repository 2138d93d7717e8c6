"""`git wf show`: one checkpoint, its record and what it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.checkpoint import FORMAT, Checkpoint
from git_wf.core.timeline import Entry
from git_wf.errors import UserError
from git_wf.ops.project import Project
from git_wf.ops.select import Selected, select
from git_wf.store.runs import ChangeCounts, StoredRun


@dataclass(frozen=True)
class Shown:
    run: StoredRun
    entry: Entry
    previous_commit: str | None
    counts: ChangeCounts
    checkpoint: Checkpoint | None  # `git_commit_sha` filled in; None without metadata
    stat: str  # of the files, as git prints it
    trace: tuple[str, ...]  # names of this visit's trace files, `plan/stdout.log`

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "run_id": self.run.run_id,
            **self.entry.to_json(),
            "files_changed": self.counts.files,
            "insertions": self.counts.insertions,
            "deletions": self.counts.deletions,
            "record": self.checkpoint.to_json() if self.checkpoint else None,
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
    if entry.commit and previous:
        stat = project.repo.git(
            "diff-tree", "-r", "--stat=80", "--summary", "--find-renames", "--no-ext-diff",
            "--no-textconv", previous, entry.commit,
        ).decode("utf-8", "replace")  # fmt: skip
    counts = store.change_counts(selected.timeline)
    return Shown(
        run=selected.run,
        entry=entry,
        previous_commit=previous,
        counts=(counts.get(entry.commit) if entry.commit else None) or ChangeCounts(),
        checkpoint=read_checkpoint(project, entry),
        stat=stat,
        trace=tuple(_trace(project, entry)),
    )


def read_checkpoint(project: Project, entry: Entry) -> Checkpoint | None:
    """The record of a checkpoint, with `git_commit_sha` joined from the run branch."""
    if entry.metadata_commit is None or not entry.ordinal:
        return None
    tree = project.store.tree_of(entry.metadata_commit)
    data = project.store.read_json(tree, "checkpoint.json", entry.run)
    if data is None:
        return None
    checkpoint = Checkpoint.from_json(data, f"{entry.metadata_commit}:checkpoint.json")
    checkpoint.git_commit_sha = entry.commit
    return checkpoint


def _trace(project: Project, entry: Entry) -> list[str]:
    if entry.metadata_commit is None:
        return []
    listed = project.repo.git(
        "ls-tree", "-r", "-z", "--name-only", f"{entry.metadata_commit}:", "nodes/"
    )
    return [name for name in listed.decode("utf-8", "replace").split("\0") if name]
