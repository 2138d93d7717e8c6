"""What operations on refs share: a plan is shown, or applied under the run's lock."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from git_wf.core.clock import milliseconds
from git_wf.core.names import RefName, operation_id
from git_wf.errors import Conflict, UserError
from git_wf.ops.project import Project
from git_wf.store.files import Lock, holder
from git_wf.store.plans import RefPlan, WorktreeStep, apply_plan, plan_script, plan_to_json
from git_wf.store.rescue import Rescue
from git_wf.store.runs import StoredRun
from git_wf.store.worktree import Worktree, find_worktree, git_dir_of

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


def operation_of(moment: datetime, verb: str, run: StoredRun, target: str) -> str:
    """The id of an operation on a run as it is now."""
    tips = (run.refs.run_tip or "", run.refs.meta_tip or "")
    return operation_id(milliseconds(moment), verb, run.run_id, target, *tips)


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
    project: Project, run: StoredRun, moment: datetime, operation: str
) -> tuple[WorktreeStep, ...]:
    """What makes git-wf's own worktree follow the run branch, after a rescue.

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
    rescue = Rescue(
        project.settings.names.rescue_ref(run.run_id, operation), run.refs.run_tip, run.run_id
    )
    kept = [f"--exclude={pattern}" for pattern in _excluded(project, run)]
    commands = (("reset", "--hard", "--quiet"), ("clean", "-fdq", *kept))
    return (WorktreeStep(path, git_dir, commands, rescue),)


def refuse_users_checkout(project: Project, run: str) -> None:
    """A branch must not move under a worktree that git-wf did not make."""
    for worktree in _checked_out(project, run):
        if not worktree.is_ours:
            branch = project.settings.names.short_branch(run)
            raise UserError(
                f"branch '{branch}' is checked out at '{worktree.path}'",
                hint=f"git -C '{worktree.path}' switch --detach",
            )
    return None


def _checked_out(project: Project, run: str) -> list[Worktree]:
    branch = project.settings.names.run_branch(run)
    return find_worktree(project.repo, branch, project.state_dir)


def _excluded(project: Project, run: StoredRun) -> list[str]:
    config = run.record.get("config") or {}
    own = (config.get("checkpoint") or {}).get("exclude_globs") or []
    return [*project.settings.exclude_globs, *(str(pattern) for pattern in own)]
