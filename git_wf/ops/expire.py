"""What operations left behind is kept for `wf.undoExpire`; then its refs go."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from git_wf.core.clock import milliseconds, rfc3339
from git_wf.core.names import RefName, RunId, ulid_milliseconds
from git_wf.errors import Conflict, GitFailed
from git_wf.ops.project import Project
from git_wf.store.files import write_atomic
from git_wf.store.refs import RefUpdate, list_refs, move_refs
from git_wf.store.runs import RunIndex

_STAMP = "expired"  # in the state directory: when it was last looked for what has expired
_PAUSE = timedelta(days=1)


def expired_refs(project: Project, known: RunIndex, moment: datetime) -> list[RefUpdate]:
    """Kept tips that are older than `wf.undoExpire`.

    And what was rescued from worktrees of runs that are gone, once the last of their tips goes.
    """
    expire = project.settings.undo_expire
    if expire is None:
        return []
    oldest = milliseconds(moment) - expire * 1000
    gone: list[RefName] = []
    ending: set[RunId] = set()
    left: set[RunId] = set(known)
    for ref, kept in known.kept.items():
        if ulid_milliseconds(kept.operation) < oldest:
            gone.append(ref)
            ending.add(kept.run)
        else:
            left.add(kept.run)
    names = project.settings.names
    rescued = list_refs(project.repo, names.rescue_root) if ending - left else {}
    for ref in rescued:
        told = names.rescued_run(ref)
        if told is not None and told[0] in ending - left:
            gone.append(ref)
    return [RefUpdate(ref, None, known.tip(ref) or rescued.get(ref)) for ref in gone]


def expire_daily(project: Project) -> None:
    """Drops what has expired, at most once a day. Nothing depends on it: it may fail."""
    stamp, moment = project.state_dir / _STAMP, project.host.clock.now()
    with suppress(OSError, ValueError):
        last = datetime.fromisoformat(stamp.read_text().strip().replace("Z", "+00:00"))
        if last <= moment < last + _PAUSE:
            return
    with suppress(GitFailed, Conflict, OSError):
        write_atomic(stamp, f"{rfc3339(moment)}\n".encode())
        updates = expired_refs(project, project.store.refs(), moment)
        reason = f"{project.settings.names.namespace}: expire"
        move_refs(project.repo, updates, reason, project.identity.env(moment))
