"""`git wf archive`: finished runs are folded into one ref, and every command still finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from git_wf.core.names import RunId
from git_wf.errors import StateUnreadable, UserError
from git_wf.ops.change import Change, carry_out, held_runs, next_operation, script_of
from git_wf.ops.folding import archived_share, folded
from git_wf.ops.log import recorded_status
from git_wf.ops.project import Project
from git_wf.ops.select import find_run
from git_wf.ops.shares import (
    Belongings,
    has_leftovers,
    joined_plan,
    leftover_share,
)
from git_wf.store.plans import RefPlan
from git_wf.store.runs import RunIndex, RunRefs


@dataclass(frozen=True)
class Archived:
    change: Change
    runs: tuple[RunId, ...]
    finished: tuple[RunId, ...]  # that were archived before; what was left of them is gone now
    script: str | None  # of a dry run


def archive(project: Project, words: Sequence[str], *, dry_run: bool) -> Archived:
    """Raises `UserError` where a run has not ended, or the user has its branch checked out."""
    known = project.store.refs()
    chosen = list(dict.fromkeys(find_run(project, word, known).run_id for word in words))
    with held_runs(project, chosen, only_ask=dry_run):
        moment = project.clock.now()
        if not dry_run:  # what was read before the locks were held may be out of date
            known = project.store.refs()
        belongings = Belongings.read(project)
        runs = [known[run] for run in chosen if run in known]
        left = [one.run_id for one in runs if one.is_archived]
        for run in left:
            if not has_leftovers(project, run, known, belongings):
                raise UserError(f"run {run} is archived already", hint=f"git wf log {run}")
        for refs in runs:
            if not refs.is_archived:
                _refuse_unfinished(project, refs)
        entering = [one for one in runs if not one.is_archived]
        plan = _plan(project, entering, left, known, belongings, moment)
        change = carry_out(project, plan, moment, dry_run=dry_run)
    return Archived(
        change,
        tuple(one.run_id for one in entering),
        tuple(left),
        script_of(project, plan, moment) if dry_run else None,
    )


def _plan(
    project: Project,
    entering: Sequence[RunRefs],
    left: Sequence[RunId],
    known: RunIndex,
    belongings: Belongings,
    moment: datetime,
) -> RefPlan:
    tips = [tip for one in entering for tip in (one.run_id, one.run_tip or "", one.meta_tip or "")]
    operation = next_operation(known.last_operation, moment, "archive", *tips)
    shares = [leftover_share(project, run, known, belongings, operation) for run in left]
    entries = []
    for refs in entering:
        share, entry = archived_share(project, refs, belongings, operation, moment)
        shares.append(share)
        entries.append(entry)
    updates, objects = (
        folded(project, known.archive, entries, operation, moment) if entries else ([], [])
    )
    ids = [*(one.run_id for one in entering), *left]
    told = ids[0] if len(ids) == 1 else f"{len(ids)} runs"
    return joined_plan(
        project,
        "archive",
        ids,
        shares,
        reason=f"{project.settings.names.namespace}: archive {told}",
        more=updates,
        more_objects=objects,
        gone=ids,
    )


def _refuse_unfinished(project: Project, refs: RunRefs) -> None:
    if refs.meta_tip is None:
        raise StateUnreadable(f"run {refs.run_id} has no metadata: it cannot be archived")
    run = project.store.load(refs)
    if run.conclusion is None:
        raise UserError(
            f"run {refs.run_id} has not ended: it is {recorded_status(run)}",
            hint=[f"git wf resume {refs.run_id} goes on with it", f"git wf rm {refs.run_id}"],
        )
