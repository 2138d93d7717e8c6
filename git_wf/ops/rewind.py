"""`git wf rewind`: the run branch goes back, the metadata goes forward to a commit that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from git_wf.core.names import Oid, RefName
from git_wf.core.timeline import Entry
from git_wf.core.trailers import metadata_message, parse_trailers
from git_wf.errors import StateUnreadable, UserError
from git_wf.ops.adopt import target_state
from git_wf.ops.change import (
    Change,
    carry_out,
    held_run,
    is_worktree_behind,
    operation_of,
    own_worktree_step,
    refuse_archived,
    script_of,
)
from git_wf.ops.project import Project
from git_wf.ops.select import Selected, select
from git_wf.store.objects import Commit
from git_wf.store.plans import NewObject, RefPlan, new_commit, new_tree
from git_wf.store.refs import RefUpdate
from git_wf.store.runs import StoredRun


@dataclass(frozen=True)
class Rewound:
    change: Change
    run_id: str
    entry: Entry
    next_node: str | None
    script: str | None  # of a dry run


def rewind(project: Project, words: Sequence[str], *, dry_run: bool) -> Rewound:
    """`[RUN] [TARGET]`; without a target one checkpoint back.

    Raises `Conflict` while the run is live, `UserError` where there is nothing to go back to or
    the user has the branch checked out.
    """
    selected = select(project, words, only_ours=True)
    with held_run(project, selected.run.run_id, only_ask=dry_run):
        if not dry_run:  # what was read before the lock was held may be out of date
            selected = select(project, words, only_ours=True)
        moment = project.clock.now()
        entry = selected.entry(project, default="1")
        plan = plan_rewind(project, selected, entry, moment)
        change = carry_out(project, plan, moment, dry_run=dry_run)
    script = script_of(project, plan, moment) if dry_run else None
    next_node = entry.next_node_id if entry.ordinal else None
    return Rewound(change, selected.run.run_id, entry, next_node, script)


def plan_rewind(project: Project, selected: Selected, entry: Entry, moment: datetime) -> RefPlan:
    run, names = selected.run, project.settings.names
    refuse_archived(run.refs)
    target, tip = require_recorded(entry), run.refs.run_tip
    if tip is None or run.refs.meta_tip is None:
        hint = f"fetch it: {project.store.fetch_command(run.refs)}"
        raise StateUnreadable(f"run {run.run_id} has no run branch", hint=hint)
    operation = operation_of(selected.last_operation, moment, "rewind", run, entry.name)
    objects, metadata = _metadata(project, selected, entry, moment, operation)
    if tip == entry.commit and _is_there_already(project, run, objects[-1]):
        return _finishing_plan(project, run, entry, moment, operation)
    kept: tuple[RefName, ...] = ()
    updates = [RefUpdate(names.meta_ref(run.run_id), metadata, run.refs.meta_tip)]
    if tip != target:
        # In this order: a crash between two of them leaves a rewind that a resumption finishes.
        kept = (names.old_ref(run.run_id, operation, "run"),)
        updates.insert(0, RefUpdate(kept[0], tip, None))
        updates.append(RefUpdate(names.run_branch(run.run_id), target, tip))
    return RefPlan(
        operation="rewind",
        run_id=run.run_id,
        reason=f"{names.namespace}: rewind {entry.name}",
        updates=tuple(updates),
        objects=tuple(objects),
        kept=kept,
        target=entry.name,
        worktrees=own_worktree_step(project, run, moment, operation),
    )


def _finishing_plan(
    project: Project, run: StoredRun, entry: Entry, moment: datetime, operation: str
) -> RefPlan:
    """The run is there already: what is left is a worktree that a killed rewind did not come to."""
    assert run.refs.meta_tip is not None, run
    told = parse_trailers(project.store.reader.read_commit(run.refs.meta_tip).message)
    old_tip = Oid(told.get(project.settings.names.trailer("Rewound-From"), "")) or None
    if not is_worktree_behind(project, run.refs, old_tip):
        raise UserError(
            f"run {run.run_id} is at {entry.name} already", hint="git wf resume goes on from there"
        )
    return RefPlan(
        operation="rewind",
        run_id=run.run_id,
        reason=f"{project.settings.names.namespace}: rewind {entry.name}",
        updates=(),
        target=entry.name,
        worktrees=own_worktree_step(project, run, moment, operation, old_tip),
    )


LIST_HINT = "git wf rewind --list tells the checkpoints that can be named"


def require_recorded(entry: Entry, done: str = "gone back to") -> Oid:
    """The run commit of a checkpoint that both refs know."""
    if entry.commit is None:
        raise UserError(
            f"checkpoint {entry.name} has no run commit: it cannot be {done}", hint=LIST_HINT
        )
    if entry.metadata_commit is None:
        raise UserError(
            f"checkpoint {entry.name} has no metadata: it cannot be {done}", hint=LIST_HINT
        )
    return entry.commit


def _metadata(
    project: Project, selected: Selected, entry: Entry, moment: datetime, operation: str
) -> tuple[list[NewObject], Oid]:
    """The new metadata commit, and its tree where that is not the target's, byte for byte.

    A fork that goes back to before its fork point keeps its own `run.json`: the target's names
    the run that it was forked from.
    """
    run = selected.run
    assert entry.metadata_commit is not None and run.refs.meta_tip is not None, entry
    form = project.repo.object_format
    objects: list[NewObject] = []
    tree = project.store.reader.read_commit(entry.metadata_commit).tree
    if entry.run != run.run_id:
        state = target_state(project, selected, entry)
        entries = {**state.tree, b"run.json": run.tree[b"run.json"]}
        objects += state.objects
        objects.append(new_tree("the state to go back to", entries, form))
        tree = objects[-1].oid
    commit = Commit(
        tree=tree,
        parents=(run.refs.meta_tip,),
        author=project.identity.author_line(moment),
        committer=project.identity.committer_line(moment),
        message=metadata_message(
            project.settings.names,
            run.run_id,
            f"rewind to {entry.name}",
            Op=operation,
            Target=entry.name,
            Rewound_From=run.refs.run_tip or "",
        ),
    )
    objects.append(new_commit("the metadata commit that tells of it", commit, form))
    return objects, objects[-1].oid


def _is_there_already(project: Project, run: StoredRun, made: NewObject) -> bool:
    from git_wf.store.objects import decode_commit

    assert run.refs.meta_tip is not None
    now = project.store.reader.read_commit(run.refs.meta_tip).tree
    return decode_commit(made.data).tree == now
