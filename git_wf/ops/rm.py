"""`git wf rm`: runs go, with their worktrees and directories; their tips are kept for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from git_wf.core.names import RunId, run_marks
from git_wf.errors import Conflict, UserError
from git_wf.ops.change import Change, carry_out, held_runs, next_operation, script_of
from git_wf.ops.folding import unfolded
from git_wf.ops.project import Project
from git_wf.ops.select import find_run, matching_runs
from git_wf.ops.shares import (
    Belongings,
    has_leftovers,
    joined_plan,
    leaving_share,
    leftover_share,
    removed_runs,
)
from git_wf.store.plans import RefPlan
from git_wf.store.processes import end_processes, leftover_processes
from git_wf.store.runs import RunIndex, RunRefs


@dataclass(frozen=True)
class Removed:
    change: Change
    runs: tuple[RunId, ...]
    finished: tuple[RunId, ...]  # that were removed before; what was left of them is gone now
    kept_until: datetime | None  # None: for ever
    script: str | None  # of a dry run


def rm(project: Project, words: Sequence[str], *, dry_run: bool) -> Removed:
    """Raises `Conflict` where one of the runs is live, `UserError` where the user has its branch
    checked out; then all of them stay."""
    known = project.store.refs()
    runs, left = _runs_and_leftovers(project, words, known)
    with held_runs(project, [*runs, *left], only_ask=dry_run):
        moment = project.clock.now()
        if not dry_run:  # what was read before the locks were held may be out of date
            known = project.store.refs()
            end_leftovers(project, [*runs, *left])
        refs = [_refs(known, run) for run in runs]
        plan = plan_removal(project, "rm", refs, left, known, moment)
        change = carry_out(project, plan, moment, dry_run=dry_run)
    return Removed(
        change,
        tuple(runs),
        tuple(left),
        kept_until(project, moment),
        script_of(project, plan, moment) if dry_run else None,
    )


def end_leftovers(project: Project, runs: Sequence[RunId]) -> None:
    """What a killed engine left running must not write into a worktree that goes."""
    belongings = Belongings.read(project)
    for run in runs:
        if belongings.worktrees_of(project, run):
            marks = run_marks(run, project.repo.key)
            end_processes(partial(leftover_processes, marks), project.host.clock)


def kept_until(project: Project, moment: datetime) -> datetime | None:
    """When what is kept from now on expires."""
    expire = project.settings.undo_expire
    return None if expire is None else moment + timedelta(seconds=expire)


def plan_removal(
    project: Project,
    verb: str,
    runs: Sequence[RunRefs],
    left: Sequence[RunId],
    known: RunIndex,
    moment: datetime,
) -> RefPlan:
    """`verb` is `rm` or `prune`; `left` are runs that are gone but for worktree or directory."""
    names = project.settings.names
    tips = [tip for one in runs for tip in (one.run_id, one.run_tip or "", one.meta_tip or "")]
    operation = next_operation(known.last_operation, moment, verb, *tips)
    belongings = Belongings.read(project)
    shares = [
        leaving_share(project, one, belongings, operation, moment, "remove", Command=verb)
        for one in runs
    ]
    shares += [leftover_share(project, run, known, belongings, operation) for run in left]
    archived = [one.run_id for one in runs if one.is_archived]
    update, objects = unfolded(project, known.archive, archived, operation, moment)
    ids = [*(one.run_id for one in runs), *left]
    return joined_plan(
        project,
        verb,
        ids,
        shares,
        reason=f"{names.namespace}: {verb} {_listed(ids)}".rstrip(),
        more=update,
        more_objects=objects,
        gone=ids,
    )


def _runs_and_leftovers(
    project: Project, words: Sequence[str], known: RunIndex
) -> tuple[list[RunId], list[RunId]]:
    """The runs that are named; and those that a command which was killed did not clear away."""
    runs: dict[RunId, None] = {}
    left: dict[RunId, None] = {}
    for word in words:
        gone = [] if matching_runs(project, word, known) else removed_runs(project, word, known)
        if len(gone) != 1:
            runs[find_run(project, word, known).run_id] = None
        elif not has_leftovers(project, gone[0], known, Belongings.read(project)):
            raise UserError(
                f"run {gone[0]} was removed already", hint=f"git wf undo {gone[0]} brings it back"
            )
        else:
            left[gone[0]] = None
    return list(runs), list(left)


def _listed(runs: Sequence[RunId]) -> str:
    return " ".join(runs) if len(runs) <= 1 else f"{len(runs)} runs"


def _refs(known: RunIndex, run: RunId) -> RunRefs:
    if run not in known:
        raise Conflict(f"run {run} was removed meanwhile")
    return known[run]
