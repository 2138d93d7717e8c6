"""What operations on refs share: a plan is shown, or applied under the run's lock."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from git_wf.core.clock import milliseconds
from git_wf.core.names import Oid, RefName, operation_id, ulid_milliseconds
from git_wf.errors import Conflict, UserError, shell_quoted
from git_wf.ops.project import Project
from git_wf.store.files import Lock, holder
from git_wf.store.plans import RefPlan, WorktreeStep, apply_plan, plan_script, plan_to_json
from git_wf.store.rescue import Rescue
from git_wf.store.runs import RunRefs, StoredRun
from git_wf.store.worktree import Worktree, find_worktree, git_dir_of, list_worktrees

_OTHER_FILES = 128  # that are open beside the locks
_CLOCK_SLACK = 24 * 3600 * 1000  # milliseconds that a clock may have gone back
LOCK_PATIENCE = 0.3  # seconds: a probe by somebody else is over by then


@dataclass(frozen=True)
class Change:
    """An operation: planned, and perhaps applied."""

    plan: RefPlan
    applied: bool
    rescued: tuple[RefName, ...] = ()

    def to_json(self) -> dict[str, Any]:
        told = plan_to_json(self.plan, self.applied)
        return {**told, "kept": [*told["kept"], *self.rescued]}


def carry_out(project: Project, plan: RefPlan, moment: datetime, *, dry_run: bool) -> Change:
    """Applies a plan, or only hands it back."""
    if dry_run:
        return Change(plan, applied=False)
    names, durable = project.settings.names, project.settings.durable
    rescued = apply_plan(project.repo, plan, project.identity, moment, names=names, durable=durable)
    return Change(plan, applied=True, rescued=rescued)


def script_of(project: Project, plan: RefPlan, moment: datetime) -> str:
    """The plan as plain git."""
    return plan_script(project.repo, plan, project.identity.env(moment), project.settings.names)


def operation_of(after: str, moment: datetime, verb: str, run: StoredRun, target: str) -> str:
    """The id of an operation on a run as it is now."""
    tips = (run.refs.run_tip or "", run.refs.meta_tip or "")
    return next_operation(after, moment, verb, run.run_id, target, *tips)


def next_operation(after: str, moment: datetime, *seed: str) -> str:
    """The id of an operation, later than `after` even where clocks went back.

    The same operation on the same state at the same moment has the same id.
    """
    at_least = ulid_milliseconds(after) + 1 if after else 0
    return operation_id(max(milliseconds(moment), at_least), *seed)


def moment_of_new_run(project: Project) -> datetime:
    """Now, but behind the newest run where the clock went back: that is the one that is meant.

    An id of another day is not one of this clock.
    """
    now, newest = project.clock.now(), project.store.newest_id()
    behind = ulid_milliseconds(newest) + 1 - milliseconds(now) if newest else 0
    return now + timedelta(milliseconds=behind) if 0 < behind < _CLOCK_SLACK else now


def this_process() -> str:
    """How the holder of a lock is told to others."""
    return f"process {os.getpid()} on {socket.gethostname()}"


@contextlib.contextmanager
def held_run(project: Project, run: str, *, only_ask: bool = False) -> Iterator[None]:
    """Holds the lock of a run. Raises `Conflict` where somebody else does.

    A dry run only asks for it: it makes no file, and works in a repository that is read-only.
    """
    if only_ask:
        if project.store.is_live(run):
            raise held_elsewhere(run, project.store.lock_path(run))
        yield
        return
    lock = take_run_lock(project, run)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def held_runs(project: Project, runs: Sequence[str], *, only_ask: bool = False) -> Iterator[None]:
    """As `held_run`, of several: all of them are held, or none."""
    _allow_open_files(len(runs))
    with contextlib.ExitStack() as stack:
        for run in sorted(set(runs)):  # in one order for everybody: nobody waits for another
            stack.enter_context(held_run(project, run, only_ask=only_ask))
        yield


def _allow_open_files(count: int) -> None:
    """Each lock is an open file, and a shell allows a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"{count} runs at once are more than this system lets a program lock",
            hint=f"name fewer, or ulimit -Hn {needed}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def take_run_lock(project: Project, run: str) -> Lock:
    lock = Lock(project.store.lock_path(run), this_process())
    if not lock.acquire(LOCK_PATIENCE):
        raise held_elsewhere(run, project.store.lock_path(run))
    return lock


def held_elsewhere(run: str, lock: Path) -> Conflict:
    """What those are told who come too late for a run's lock."""
    return Conflict(
        f"run {run} is going on: {holder(lock)} holds it",
        hint="wait until it has ended, or end it with Ctrl-C there",
    )


def own_worktree_step(
    project: Project,
    run: StoredRun,
    moment: datetime,
    operation: str,
    left_at: Oid | None = None,
) -> tuple[WorktreeStep, ...]:
    """What makes git-wf's own worktree follow the run branch, after a rescue.

    `left_at` is what the worktree has, where that is not the tip of the run branch.
    Raises `UserError` where the branch is checked out in a worktree that is the user's.
    """
    refuse_users_checkout(project, run.run_id)
    ours = _checked_out(project, run.run_id)
    if not ours or run.refs.run_tip is None:
        return ()
    path = ours[0].path
    git_dir = git_dir_of(project.repo, path)
    if git_dir is None or not path.is_dir():
        return ()
    ref = project.settings.names.rescue_ref(run.run_id, operation)
    rescue = Rescue(ref, left_at or run.refs.run_tip, run.run_id)
    kept = [f"--exclude={pattern}" for pattern in _excluded(project, run)]
    commands = (("reset", "--hard", "--quiet"), ("clean", "-fdq", *kept))
    return (WorktreeStep(path, git_dir, commands, rescue),)


def is_worktree_behind(project: Project, refs: RunRefs, old_tip: Oid | None) -> bool:
    """Whether git-wf's own worktree still has what the run branch was at before it was moved:
    a command was killed between the two."""
    tip, read = refs.run_tip, project.store.reader.read_commit
    ours = [one.path for one in _checked_out(project, refs.run_id) if one.is_ours]
    if not ours or not tip or not old_tip or project.store.reader.find(old_tip) is None:
        return False
    git_dir = git_dir_of(project.repo, ours[0])
    if git_dir is None or not ours[0].is_dir() or read(tip).tree == read(old_tip).tree:
        return False
    return project.repo.at_worktree(ours[0], git_dir).index_is_at(old_tip)


def refuse_users_checkout(project: Project, run: str) -> None:
    """A branch must not move under a worktree that git-wf did not make."""
    refuse_checked_out(project, run, list_worktrees(project.repo, project.state_dir))


def refuse_checked_out(project: Project, run: str, worktrees: Iterable[Worktree]) -> None:
    """The same, of worktrees that were listed before."""
    branch = project.settings.names.run_branch(run)
    for worktree in worktrees:
        if worktree.branch == branch and not worktree.is_ours:
            raise UserError(
                f"branch '{project.settings.names.short_branch(run)}' is checked out at "
                f"'{worktree.path}'",
                hint=f"git -C {shell_quoted(str(worktree.path))} switch --detach",
            )


def refuse_archived(refs: RunRefs) -> None:
    """An archived run has no refs that could move."""
    if refs.is_archived:
        raise UserError(
            f"run {refs.run_id} is archived",
            hint=[
                f"git wf undo {refs.run_id} brings it back",
                f"git wf fork {refs.run_id} starts a new run from it",
            ],
        )


def _checked_out(project: Project, run: str) -> list[Worktree]:
    branch = project.settings.names.run_branch(run)
    return find_worktree(project.repo, branch, project.state_dir)


def _excluded(project: Project, run: StoredRun) -> list[str]:
    config = run.record.get("config") or {}
    own = (config.get("checkpoint") or {}).get("exclude_globs") or []
    return [*project.settings.exclude_globs, *(str(pattern) for pattern in own)]
