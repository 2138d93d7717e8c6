"""`git wf snapshot`: a workspace is saved, looked at, and given back what it held.

A workspace is the worktree that one stands in, or a folder outside any repository; then a private
repository in the state directory keeps its snapshots. Every restore first saves what there is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.clock import rfc3339
from git_wf.core.names import CROCKFORD
from git_wf.core.snapshot import (
    RESTORE,
    Record,
    Snapshot,
    by_step,
    nothing_saved,
    resolve,
    rewound,
    short_id,
)
from git_wf.errors import UserError
from git_wf.ops.workspace import Workspace, locked, scan_now
from git_wf.store.captured import noted_tree
from git_wf.store.restoring import Plan, Planner, Restorer, ignored_by, restored_state
from git_wf.store.scan import Scan
from git_wf.store.snapshots import Contents, SnapshotStore

_SHOWN = 10  # obstacles that are told

# Saving.


@dataclass(frozen=True)
class Asked:
    """What a caller says of a snapshot."""

    message: str
    session: str | None = None
    step: int | None = None
    message_count: int | None = None
    automatic: str | None = None
    allow_empty: bool = False


@dataclass(frozen=True)
class Saved:
    """`is_new` is false where nothing has changed since `snapshot`."""

    snapshot: Snapshot
    short: str
    is_new: bool
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "operation": "save",
            "is_new": self.is_new,
            **described(self.snapshot, self.short),
            "notices": list(self.notices),
        }


def described(one: Snapshot, short: str) -> dict[str, Any]:
    """A snapshot as JSON tells it."""
    record = one.record
    return {
        "id": one.id,
        "short_id": short,
        "ordinal": one.ordinal,
        "message": record.message,
        "timestamp": record.created_at,
        "step": record.step,
        "session": record.session,
        "message_count": record.message_count,
        "automatic": not one.is_counted,
        "made_by": record.automatic,
        "left_out": dict(record.left_out),
    }


def save(workspace: Workspace, asked: Asked) -> Saved:
    """Saves the workspace, unless it is as it was at the current snapshot."""
    with locked(workspace) as told:
        snapshots = workspace.store.snapshots()
        scan = scan_now(workspace, snapshots)
        current = _same(workspace, scan, snapshots)
        if current is not None and not asked.allow_empty and _is_kept(current, asked):
            if scan.is_settled:
                workspace.store.remember(scan.state)
            short = short_id(current.id, snapshots)
            return Saved(current, short, False, (*workspace.notices, *told))
        made = _save(workspace, scan, asked, snapshots)
        short = short_id(made.id, [*snapshots, made])
        return Saved(made, short, True, (*workspace.notices, *told, *left_out_notices(made)))


def _is_kept(current: Snapshot, asked: Asked) -> bool:
    """Whether the current snapshot says all that is asked for."""
    if asked.automatic is not None:
        return True
    record = current.record
    return current.is_counted and (asked.step, asked.session, asked.message_count) in (
        (None, None, None),
        (record.step, record.session, record.message_count),
    )


def left_out_notices(one: Snapshot) -> list[str]:
    return [f"not saved: '{path}': {why}" for path, why in sorted(one.record.left_out.items())]


def _same(workspace: Workspace, scan: Scan, snapshots: Sequence[Snapshot]) -> Snapshot | None:
    """The current snapshot, where the workspace is just as it says."""
    cursor = workspace.store.cursor()
    current = next((one for one in snapshots if one.id == cursor), None)
    if current is None or scan.is_changed or scan.state.snapshot != current.id:
        return None
    record = current.record
    empty = [os.fsdecode(path) for path in scan.state.empty]
    left_out = {os.fsdecode(path): why for path, why in scan.state.left_out.items()}
    is_same = (list(record.empty_dirs), dict(record.left_out)) == (empty, left_out)
    return current if is_same else None


def _save(
    workspace: Workspace, scan: Scan, asked: Asked, snapshots: Sequence[Snapshot]
) -> Snapshot:
    store, moment = workspace.store, workspace.moment
    record = Record(
        message=asked.message,
        created_at=rfc3339(moment),
        session=asked.session,
        step=asked.step,
        message_count=asked.message_count,
        automatic=asked.automatic,
        since=store.cursor(),
    )
    record = replace(record, **_repository_state(store))
    key = _next_key(workspace, moment, snapshots)
    made = store.save(workspace.scanner(), scan, record, key, moment)
    if scan.before is None and record.head is None:
        store.note_counts({made.id: first_counts(scan)})
    ordinal = snapshots[-1].ordinal + 1 if snapshots else 1
    return replace(made, ordinal=ordinal)


def first_counts(scan: Scan) -> tuple[int, int, int]:
    """Files, insertions and deletions of what there was nothing before."""
    read = [one.hashed.lines for one in scan.found.values() if one.hashed is not None]
    return len(scan.found), sum(read), 0


def _next_key(workspace: Workspace, moment: datetime, snapshots: Sequence[Snapshot]) -> str:
    """A ULID that sorts behind those that there are, whatever the clock says."""
    key = workspace.host.new_id(moment)
    newest = snapshots[-1].key if snapshots else ""
    return key if key > newest else increased(newest)


def increased(ulid: str) -> str:
    """The next one in order."""
    digits = [CROCKFORD.index(digit) for digit in ulid]
    for place in reversed(range(len(digits))):
        digits[place] = (digits[place] + 1) % 32
        if digits[place]:
            break
    return "".join(CROCKFORD[digit] for digit in digits)


def _repository_state(store: SnapshotStore) -> dict[str, Any]:
    if not store.is_own:
        return {}
    head = store.reader.find("HEAD")
    branch = store.repo.head_ref()
    try:
        data = (store.repo.git_dir / "index").read_bytes()
    except OSError:
        data = b""
    return {
        "head": head.oid if head is not None else None,
        "branch": branch.removeprefix("refs/heads/") if branch else None,
        "index_tree": noted_tree(data, store.repo.object_format) if data else None,
    }


# Restoring.


@dataclass(frozen=True)
class Restored:
    """What a restore did. `before` is the snapshot of the state before it."""

    snapshot: Snapshot
    short: str
    written: int
    removed: int
    before: Snapshot | None
    before_short: str | None
    paths: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return bool(self.written or self.removed)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "operation": "restore",
            **described(self.snapshot, self.short),
            "written": self.written,
            "removed": self.removed,
            "before": self.before.id if self.before is not None else None,
            "paths": list(self.paths),
            "notices": list(self.notices),
        }


def restore(
    workspace: Workspace,
    reference: str | None,
    *,
    step: int | None = None,
    paths: Sequence[str] = (),
) -> Restored:
    """Gives the workspace, or some paths in it, the state of a snapshot."""
    with locked(workspace) as told:
        snapshots = workspace.store.snapshots()
        if step is not None:
            target = by_step(step, snapshots)
        else:
            target = resolve(reference or "", snapshots)
        only = [_inside(workspace, path) for path in paths] or None
        return _restore(workspace, snapshots, target, only, told)


def rewind(workspace: Workspace, count: int) -> Restored:
    """Goes back so many steps, as a person counts them."""
    with locked(workspace) as told:
        snapshots = workspace.store.snapshots()
        if not snapshots:
            raise nothing_saved()
        scan = scan_now(workspace, snapshots)
        cursor = workspace.store.cursor()
        is_changed = scan.is_changed or scan.state.snapshot != cursor
        target = rewound(snapshots, cursor, is_changed, count)
        return _restore(workspace, snapshots, target, None, told, scan)


def _inside(workspace: Workspace, path: str) -> bytes:
    """A path of the caller's as one from the top; whether it exists does not matter."""
    whole = os.path.normpath(os.path.join(os.path.realpath(workspace.host.cwd), path))
    inside = os.path.relpath(whole, os.path.realpath(workspace.top))
    if inside.startswith("../") or inside == "..":
        raise UserError(
            f"'{path}' is outside of '{workspace.top}'",
            hint="git wf snapshot restore REF -w FOLDER",
        )
    return b"" if inside == "." else os.fsencode(inside)


def _restore(
    workspace: Workspace,
    snapshots: Sequence[Snapshot],
    chosen: Snapshot,
    only: Sequence[bytes] | None,
    told: Sequence[str],
    scan: Scan | None = None,
) -> Restored:
    store = workspace.store
    target = store.contents(chosen)
    scan = scan or scan_now(workspace, snapshots)
    plan = _plan(workspace, scan, target, only)
    if plan.uncaptured:
        scan = scan_now(workspace, snapshots, plan.uncaptured)
        plan = _plan(workspace, scan, target, only)
    _refuse_obstacles(plan)
    before = _same(workspace, scan, snapshots)
    short = short_id(chosen.id, snapshots)
    if before is None and not plan.is_empty:
        asked = Asked(f"before restore of {short}", automatic=RESTORE)
        before = _save(workspace, scan, asked, snapshots)
    before_short = short_id(before.id, [*snapshots, before]) if before is not None else None
    restorer = Restorer(store.repo, store.reader, store.place)
    restorer.apply(plan, {"target": short, "before": before_short})
    if only is None:
        state = restored_state(scan, target, plan, restorer, whole=True)
        state.snapshot, state.tree = chosen.id, target.files  # type: ignore[assignment]
        store.move_cursor(chosen.id, f"restore {short}", workspace.moment)
        store.remember(state)
    return Restored(
        snapshot=chosen,
        short=short,
        written=len(plan.writes) + len(plan.modes) + len(plan.directories),
        removed=len(plan.removals),
        before=before,
        before_short=before_short,
        paths=tuple(os.fsdecode(one) for one in only or ()),
        notices=(*workspace.notices, *told, *left_out_notices(chosen)),
    )


def _plan(workspace: Workspace, scan: Scan, target: Contents, only: Sequence[bytes] | None) -> Plan:
    store = workspace.store
    ignored = ignored_by(store.repo, store.reader, store.place, target.files)
    return Planner(store.repo, scan, target, only).plan(ignored)


def _refuse_obstacles(plan: Plan) -> None:
    """What was never saved is neither overwritten nor removed."""
    for path in plan.uncaptured:
        plan.obstacles.setdefault(path, "never saved")
    if not plan.obstacles:
        return
    lines = [
        f"'{os.fsdecode(path)}' ({why})" for path, why in sorted(plan.obstacles.items())[:_SHOWN]
    ]
    more = len(plan.obstacles) - len(lines)
    if more:
        lines.append(f"{more} more")
    raise UserError(
        f"in the way, and not saved: {', '.join(lines)}",
        hint="move it away, then restore again; nothing was changed",
    )


# Removing.


@dataclass(frozen=True)
class Deleted:
    snapshots: tuple[Snapshot, ...]
    shorts: tuple[str, ...]
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        pairs = zip(self.snapshots, self.shorts, strict=True)
        return {
            "format": FORMAT,
            "operation": "delete",
            "deleted": [described(one, short) for one, short in pairs],
            "notices": list(self.notices),
        }


def chosen_snapshots(workspace: Workspace, references: Sequence[str]) -> list[Snapshot]:
    """What is to be deleted; all, where nothing is named. Raises `UserError`."""
    snapshots = workspace.store.snapshots()
    if not references:
        return snapshots
    chosen = {resolve(reference, snapshots).id for reference in references}
    return [one for one in snapshots if one.id in chosen]


def delete(workspace: Workspace, ids: Sequence[str]) -> Deleted:
    """Deletes snapshots by their full ids, whoever deleted some of them meanwhile."""
    with locked(workspace) as told:
        snapshots = workspace.store.snapshots()
        gone = [one for one in snapshots if one.id in set(ids)]
        return _delete(workspace, snapshots, gone, told)


def prune(workspace: Workspace, keep: int | None, older_than: float | None) -> Deleted:
    """Deletes all but the newest `keep` that a person made, and what is as old as those others.

    With `older_than` (seconds) only what is older. The current snapshot always stays.
    """
    with locked(workspace) as told:
        snapshots = workspace.store.snapshots()
        current = workspace.store.cursor()
        gone = [one for one in snapshots if one.id != current]
        if keep is not None:
            counted = [one for one in snapshots if one.is_counted]
            kept = counted[-keep:] if keep else []
            first = kept[0].ordinal if kept else None
            gone = [one for one in gone if first is None or one.ordinal < first]
        if older_than is not None:
            newest = rfc3339(workspace.moment - timedelta(seconds=older_than))
            gone = [one for one in gone if one.record.created_at < newest]
        return _delete(workspace, snapshots, gone, told)


def _delete(
    workspace: Workspace,
    snapshots: Sequence[Snapshot],
    gone: Sequence[Snapshot],
    told: Sequence[str],
) -> Deleted:
    if gone:
        workspace.store.delete(gone, workspace.moment)
    shorts = tuple(short_id(one.id, snapshots) for one in gone)
    return Deleted(tuple(gone), shorts, (*workspace.notices, *told))
