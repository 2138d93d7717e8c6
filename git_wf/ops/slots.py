"""Worktrees that killed processes left behind, and that nobody will come back to."""

from __future__ import annotations

from git_wf.core.clock import milliseconds
from git_wf.core.names import RunId, operation_id
from git_wf.errors import Conflict, GitFailed, StateUnreadable
from git_wf.ops.project import Project
from git_wf.store.rescue import Rescue, rescue_worktree
from git_wf.store.worktree import (
    Slot,
    give_back,
    head_state,
    keep,
    remove_unready,
    reopen_slot,
    reserved_slots,
)


def clear_abandoned(project: Project, run: str) -> list[str]:
    """Lets go of them. Whoever calls this holds the lock of `run`. Returns what was rescued.

    A run that was killed before it had begun, or after it had ended, is not resumed; what is in
    the worktree of one that was killed in between is left to `git wf resume`.
    """
    rescued = []
    remove_unready(project.repo, run)
    for path, owner in reserved_slots(project.repo):
        if owner == run or project.store.is_live(owner) or not _is_over(project, owner):
            continue
        slot = reopen_slot(project.repo, path, owner)
        if slot is not None:
            rescued += _let_go(project, slot, owner)
    return rescued


def _is_over(project: Project, run: str) -> bool:
    refs = project.store.run_refs(RunId(run))
    if refs is None:
        return True
    try:
        return project.store.load(refs).conclusion is not None
    except StateUnreadable:
        return False


def _let_go(project: Project, slot: Slot, owner: str) -> list[str]:
    names, moment = project.settings.names, project.clock.now()
    try:
        parent = head_state(slot).commit
        if parent is None:
            keep(slot)
            return []
        seed = ("abandoned", owner, str(slot.path), parent)
        ref = names.rescue_ref(owner, operation_id(milliseconds(moment), *seed))
        rescue = Rescue(ref, parent, owner)
        made = rescue_worktree(slot.repo, names, rescue, project.identity, moment)
    except (GitFailed, Conflict, OSError):
        keep(slot)
        return []
    give_back(slot, project.settings.worktree_pool)
    return [f"unrecorded changes in the worktree of run {owner} are kept at {ref}"] if made else []
