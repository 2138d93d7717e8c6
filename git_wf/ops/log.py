"""`git wf log` and `git wf runs`: what there is, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from git_wf.core.checkpoint import FORMAT
from git_wf.core.clock import rfc3339_seconds
from git_wf.core.dialects import OURS
from git_wf.core.names import Oid
from git_wf.core.outcome import normal_status
from git_wf.core.timeline import Entry
from git_wf.errors import StateUnreadable
from git_wf.ops.project import Project
from git_wf.ops.select import find_run
from git_wf.store.archive import ArchivedRun
from git_wf.store.dialects import ForeignRun
from git_wf.store.runs import (
    ChangeCounts,
    RunRefs,
    RunStore,
    StoredRun,
    Timeline,
    TipSummary,
)


@dataclass(frozen=True)
class RunLog:
    """A run with its timeline, and what changed at those checkpoints that were counted."""

    run: StoredRun
    timeline: Timeline
    status: str
    branch: str  # short name
    metadata_ref: str
    notices: tuple[str, ...]
    store: RunStore = field(repr=False)
    counts: dict[Oid, ChangeCounts] = field(default_factory=dict, repr=False)

    def count_changes(self, entries: Sequence[Entry]) -> None:
        """Counts what changed at these checkpoints: git compares two trees for each."""
        self.counts.update(self.store.change_counts(self.timeline, entries))

    def counts_of(self, entry: Entry) -> ChangeCounts | None:
        """None where it is not known: without a commit, or where objects are missing."""
        return self.counts.get(entry.commit) if entry.commit else None

    def to_json(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """With those of its checkpoints that are asked for."""
        self.count_changes(entries)
        record, refs = self.run.record, self.run.refs
        return {
            "format": FORMAT,
            "run_id": self.run.run_id,
            "dialect": self.run.dialect,
            "workflow": record.get("workflow_slug"),
            "status": self.status,
            "finalized": self.run.conclusion is not None,
            "waiting": waiting_json(self.run, self.status),
            "base": self.run.base or None,
            "branch": self.branch if refs.run_tip and not refs.is_archived else None,
            "metadata_ref": self.metadata_ref if refs.meta_tip and not refs.is_archived else None,
            "archived": refs.is_archived,
            "forked_from": record.get("forked_from"),
            "parent": record.get("parent"),
            "totals": dict(self.run.checkpoint.totals) if self.run.checkpoint else {},
            "checkpoints": [self.checkpoint_json(entry) for entry in entries],
            "notices": list(self.notices),
        }

    def checkpoint_json(self, entry: Entry) -> dict[str, Any]:
        return {**entry.to_json(), **counts_json(self.counts_of(entry))}


def read_log(project: Project, run: str | None, newest: int | None = None) -> RunLog:
    """The run that `run` names, else the default one. Where only the newest so many checkpoints
    are wanted, those before them may be left out, but for one."""
    return _read_log(project, find_run(project, run, project.store.every()), newest)


def read_logs(project: Project) -> list[RunLog]:
    """Of all runs, oldest first."""
    return [_read_log(project, refs) for refs in project.store.every().values()]


def _read_log(project: Project, refs: RunRefs, newest: int | None = None) -> RunLog:
    store = project.store
    stored = store.load(refs)
    timeline = store.timeline(stored, newest)
    return RunLog(
        run=stored,
        timeline=timeline,
        status=run_status(project, stored),
        branch=store.run_ref(refs).removeprefix("refs/heads/"),
        metadata_ref=store.meta_ref(refs),
        notices=tuple(_notices(stored, timeline)),
        store=store,
    )


def counts_json(counts: ChangeCounts | None) -> dict[str, int | None]:
    return {
        "files_changed": counts.files if counts else None,
        "insertions": counts.insertions if counts else None,
        "deletions": counts.deletions if counts else None,
    }


def run_status(project: Project, run: StoredRun) -> str:
    """One of `running, success, partial_success, fail, waiting, interrupted, unknown`."""
    return "running" if project.store.is_live(run.run_id) else recorded_status(run)


def recorded_status(run: StoredRun) -> str:
    """The same, of a run that nobody goes on with, or that we hold ourselves."""
    if run.conclusion is not None:
        return str(run.conclusion.get("status") or "unknown")
    if run.foreign is not None:
        return "unknown"  # it may go on where it was begun
    return "waiting" if run.waiting is not None else "interrupted"


def waiting_json(run: StoredRun, status: str) -> dict[str, Any] | None:
    """What a run waits for, as recorded; None where it does not wait."""
    if status != "waiting" or run.waiting is None:
        return None
    return {key: value for key, value in run.waiting.items() if key != "format"}


def _notices(run: StoredRun, timeline: Timeline) -> list[str]:
    if run.foreign is not None:
        return list(timeline.notices)
    notices = []
    if run.refs.run_tip is None:
        notices.append("no run branch: the metadata alone is shown")
    tip = timeline.entries[-1].ordinal if timeline.entries else 0
    recorded = run.checkpoint.ordinal if run.checkpoint else 0
    if run.refs.run_tip is not None and recorded > tip:
        notices.append(f"the metadata is at @{recorded}, the run branch at @{tip}")
    elif recorded < tip:
        notices.append(
            f"the run branch is at @{tip}, the metadata at @{recorded}: git wf resume joins them"
        )
    return notices


class RunSummary(NamedTuple):
    """One line of `git wf runs`."""

    run_id: str
    workflow: str | None
    status: str
    created_at: str | None
    updated_at: str | None
    checkpoints: int
    current_node: str | None
    branch: str | None
    metadata_ref: str | None
    labels: Mapping[str, str]
    forked_from: Mapping[str, Any] | None
    problem: str | None = None
    waiting: Mapping[str, Any] | None = None  # what for, where the status is `waiting`
    parent: Mapping[str, Any] | None = None  # `run, node, visit` that it is a child of
    is_archived: bool = False
    dialect: str = OURS

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "dialect": self.dialect,
            "workflow": self.workflow,
            "status": self.status,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "checkpoints": self.checkpoints,
            "current_node": self.current_node,
            "branch": self.branch,
            "metadata_ref": self.metadata_ref,
            "labels": dict(self.labels),
            "forked_from": self.forked_from,
            "parent": self.parent,
            "waiting": self.waiting,
            "archived": self.is_archived,
            "notes": [self.problem] if self.problem else [],
        }


# What runs can be sorted by.
SORT_KEYS: Mapping[str, Callable[[RunSummary], Any]] = {
    "created": lambda run: run.run_id,
    "updated": lambda run: run.updated_at or "",
    "status": lambda run: run.status,
    "workflow": lambda run: run.workflow or "",
    "checkpoints": lambda run: run.checkpoints,
}


@dataclass(frozen=True)
class WantedRuns:
    """Which runs are asked for: of any of the statuses, of any of the workflows, with all labels.

    `sort` is one of SORT_KEYS; with `-` before it backwards. Runs that are alike in it are in the
    order in which they were begun.
    """

    statuses: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # `key` or `key=value`
    workflows: tuple[str, ...] = ()
    sort: str = "-created"

    def of(self, runs: Iterable[RunSummary]) -> list[RunSummary]:
        words = {normal_status(word) or word for word in self.statuses}
        kept = [
            run
            for run in sorted(runs, key=SORT_KEYS["created"])
            if (not words or run.status in words)
            and (not self.workflows or run.workflow in self.workflows)
            and all(_has_label(run, label) for label in self.labels)
        ]
        key = SORT_KEYS[self.sort.removeprefix("-")]
        return sorted(kept, key=key, reverse=self.sort.startswith("-"))


def _has_label(run: RunSummary, label: str) -> bool:
    key, equals, value = label.partition("=")
    return key in run.labels and (not equals or str(run.labels[key]) == value)


def list_runs(project: Project) -> list[RunSummary]:
    """All runs, newest first. One that cannot be read is listed, with what is wrong.

    Where the newest metadata commit tells enough, nothing else is read of a run.
    """
    store = project.store
    known = store.every()
    archived = known.archive.entries(store.reader)
    foreign = store.load_elsewhere(known)
    told = store.summaries(known)
    live = store.live_runs()
    is_open = set(known.open)
    found = []
    for run in reversed(list(known)):
        if run in told:
            found.append(_told_summary(project, known[run], told[run], run in live))
        elif run in is_open:
            found.append(summarize(project, known[run], foreign.get(run)))
        else:
            found.append(archived_summary(run, archived[run]))
    return found


def _told_summary(project: Project, refs: RunRefs, told: TipSummary, is_live: bool) -> RunSummary:
    store, summary = project.store, told.summary
    return RunSummary(
        run_id=refs.run_id,
        workflow=summary.workflow,
        status="running" if is_live else summary.status or "interrupted",
        created_at=summary.created_at,
        updated_at=rfc3339_seconds(told.seconds),
        checkpoints=summary.checkpoints,
        current_node=summary.node,
        branch=store.run_ref(refs).removeprefix("refs/heads/") if refs.run_tip else None,
        metadata_ref=store.meta_ref(refs),
        labels=summary.labels,
        forked_from=None,
    )


def archived_summary(run: str, entry: ArchivedRun | StateUnreadable) -> RunSummary:
    """Of an archived run, by its entry alone."""
    if isinstance(entry, StateUnreadable):
        return _unreadable(run, entry, is_archived=True)
    told = entry.summary
    return RunSummary(
        run_id=run,
        workflow=told.get("workflow"),
        status=str(told.get("status")),
        created_at=told.get("created_at"),
        updated_at=told.get("updated_at"),
        checkpoints=int(told.get("checkpoints") or 0),
        current_node=told.get("current_node"),
        branch=None,
        metadata_ref=None,
        labels=told.get("labels") or {},
        forked_from=told.get("forked_from"),
        parent=told.get("parent"),
        is_archived=True,
    )


def _unreadable(run: str, err: StateUnreadable, *, is_archived: bool = False) -> RunSummary:
    return RunSummary(
        run, None, "unknown", None, None, 0, None, None, None, {}, None, err.message,
        is_archived=is_archived,
    )  # fmt: skip


def summarize(project: Project, refs: RunRefs, run: StoredRun | None = None) -> RunSummary:
    """What a list shows of a run; `run` where it was read already."""
    store = project.store
    branch = store.run_ref(refs).removeprefix("refs/heads/") if refs.run_tip else None
    meta = store.meta_ref(refs) if refs.meta_tip else None
    try:
        run = run or store.load(refs)
    except StateUnreadable as err:
        return _unreadable(refs.run_id, err)._replace(branch=branch, metadata_ref=meta)
    record, checkpoint, status = run.record, run.checkpoint, run_status(project, run)
    summary = RunSummary(
        run_id=refs.run_id,
        workflow=record.get("workflow_slug"),
        status=status,
        created_at=record.get("created_at"),
        updated_at=_updated_at(project, run),
        checkpoints=checkpoint.ordinal if checkpoint else 0,
        current_node=checkpoint.current_node if checkpoint else None,
        branch=branch,
        metadata_ref=meta,
        labels=record.get("labels") or {},
        forked_from=record.get("forked_from"),
        parent=record.get("parent"),
        waiting=waiting_json(run, status),
        dialect=run.dialect,
    )
    return summary if run.foreign is None else _of_foreign(summary, run.foreign)


def _updated_at(project: Project, run: StoredRun) -> str | None:
    """When the newest thing happened to a run: the date of its newest metadata commit."""
    if run.foreign is not None or run.refs.meta_tip is None:
        return None
    committer = project.store.reader.read_commit(run.refs.meta_tip).committer
    return rfc3339_seconds(int(committer.rsplit(" ", 2)[1]))


def _of_foreign(summary: RunSummary, run: ForeignRun) -> RunSummary:
    """The checkpoints of both sides, and what of the run is missing."""
    last = run.entries[-1] if run.entries else None
    return summary._replace(
        updated_at=last.timestamp if last else summary.created_at,
        checkpoints=len(run.entries),
        current_node=last.node if last else None,
        problem="; ".join(run.notices) or None,
    )
