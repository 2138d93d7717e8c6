"""`git wf snapshot list`, `show` and `diff`: what was saved, and what has changed since."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.snapshot import (
    RESTORE,
    FileChange,
    Snapshot,
    nothing_saved,
    resolve,
    short_id,
)
from git_wf.ops.snapshot import described
from git_wf.ops.workspace import Workspace, locked, scan_now
from git_wf.store.snapshot_diff import changed_files, diff_text
from git_wf.store.snapshots import Contents


@dataclass(frozen=True)
class Listed:
    """A snapshot in the list: what it changed against the state before it."""

    snapshot: Snapshot
    short: str
    files_changed: int
    insertions: int
    deletions: int
    is_current: bool

    @property
    def notes(self) -> list[str]:
        record, notes = self.snapshot.record, []
        if record.automatic:
            notes.append(record.automatic)
        if record.session is not None:
            notes.append(f"session {record.session}")
        if record.step is not None:
            notes.append(f"step {record.step}")
        if record.left_out:
            notes.append(f"{len(record.left_out)} not saved")
        return notes

    def to_json(self) -> dict[str, Any]:
        return {
            **described(self.snapshot, self.short),
            "files_changed": self.files_changed,
            "insertions": self.insertions,
            "deletions": self.deletions,
            "is_current": self.is_current,
            "notes": self.notes,
        }


def list_snapshots(workspace: Workspace, limit: int | None = None) -> list[Listed]:
    """The newest first."""
    snapshots = workspace.store.snapshots()
    chosen = snapshots[::-1] if limit is None else snapshots[::-1][:limit]
    return list(_listed(workspace, snapshots, chosen))


def _listed(
    workspace: Workspace, snapshots: Sequence[Snapshot], chosen: Sequence[Snapshot]
) -> Iterator[Listed]:
    cursor = workspace.store.cursor()
    counts = workspace.store.counts(chosen)
    for one in chosen:
        short = short_id(one.id, snapshots)
        yield Listed(one, short, *counts[one.id], is_current=one.id == cursor)


@dataclass(frozen=True)
class ShownSnapshot:
    listed: Listed
    files: Sequence[FileChange]  # against the state before it

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **self.listed.to_json(),
            "record": self.listed.snapshot.record.to_json(),
            "files": [one.to_json() for one in self.files],
        }


def show_snapshot(workspace: Workspace, reference: str) -> ShownSnapshot:
    store = workspace.store
    snapshots = store.snapshots()
    one = resolve(reference, snapshots)
    (listed,) = _listed(workspace, snapshots, [one])
    old, new = store.pair(one)
    return ShownSnapshot(listed, changed_files(store.repo, old, new, {}))


@dataclass(frozen=True)
class Difference:
    """Two states compared. `second` is None where it is the workspace as it is now."""

    first: str
    second: str | None
    files: Sequence[FileChange]
    directories: Mapping[str, str]  # `added` or `deleted` empty directories
    left_out: Mapping[str, str]  # not compared, and why
    text: bytes  # what git prints of it, where that was asked for

    @property
    def is_different(self) -> bool:
        return bool(self.files or self.directories)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "from": self.first,
            "to": self.second,
            "files": [one.to_json() for one in self.files],
            "empty_dirs": dict(self.directories),
            "insertions": sum(one.insertions or 0 for one in self.files),
            "deletions": sum(one.deletions or 0 for one in self.files),
            "left_out": dict(self.left_out),
        }


def compare(
    workspace: Workspace, references: Sequence[str], words: Sequence[str] | None = None
) -> Difference:
    """A snapshot (the current one where none is named) against the workspace, or another one.

    With `words`, options of `git diff-tree`, what git prints is in the answer.
    """
    snapshots = workspace.store.snapshots()
    if not snapshots:
        raise nothing_saved()
    if len(references) == 2:
        first, second = (resolve(one, snapshots) for one in references)
        pair = (workspace.store.contents(first), workspace.store.contents(second))
        names = tuple(short_id(one.id, snapshots) for one in (first, second))
        return _difference(workspace, names[0], names[1], pair, {}, words)
    with locked(workspace):
        snapshots = workspace.store.snapshots()
        first = resolve(references[0], snapshots) if references else _newest(workspace, snapshots)
        with _now(workspace, snapshots) as (contents, env):
            pair = (workspace.store.contents(first), contents)
            short = short_id(first.id, snapshots)
            return _difference(workspace, short, None, pair, env, words)


def _newest(workspace: Workspace, snapshots: Sequence[Snapshot]) -> Snapshot:
    """The snapshot that the workspace was last saved as, or restored to."""
    cursor = workspace.store.cursor()
    for one in snapshots:
        if one.id == cursor:
            return one
    made = [one for one in snapshots if one.record.automatic != RESTORE]
    return (made or list(snapshots))[-1]


@contextmanager
def _now(
    workspace: Workspace, snapshots: Sequence[Snapshot]
) -> Iterator[tuple[Contents, dict[str, str]]]:
    scan = scan_now(workspace, snapshots)
    with workspace.store.tree_for_now(workspace.scanner(), scan) as (files, env):
        yield Contents.of_state(files, scan.state), env


def _difference(
    workspace: Workspace,
    first: str,
    second: str | None,
    pair: tuple[Contents, Contents],
    env: Mapping[str, str],
    words: Sequence[str] | None,
) -> Difference:
    repo, (old, new) = workspace.store.repo, pair
    changed = {one.path: one for one in changed_files(repo, old.files, new.files, env)}
    for path, mode in _mode_changes(old, new):
        same = FileChange("M", path, None, 0, 0)
        if path not in changed or changed[path].status == "M":
            changed[path] = replace(changed.get(path, same), mode=mode)
    files = [changed[path] for path in sorted(changed)]
    directories = {
        **{os.fsdecode(path): "added" for path in set(new.empty) - set(old.empty)},
        **{os.fsdecode(path): "deleted" for path in set(old.empty) - set(new.empty)},
    }
    text = b"" if words is None else diff_text(repo, old.files, new.files, words, env)
    left_out = {os.fsdecode(path): why for path, why in {**old.left_out, **new.left_out}.items()}
    return Difference(first, second, files, dict(sorted(directories.items())), left_out, text)


def _mode_changes(
    old: Contents, new: Contents
) -> Iterator[tuple[str, tuple[int | None, int | None]]]:
    """Other permissions than before, as far as they are not the usual ones; of files in both."""
    for path in sorted({*old.modes, *new.modes}):
        was, now = old.modes.get(path), new.modes.get(path)
        if was != now:
            yield os.fsdecode(path), (was, now)


def file_contents(
    workspace: Workspace, found: Difference, largest: int
) -> dict[str, tuple[str | None, str | None]]:
    """What the changed files hold before and after, as far as it is text of at most `largest`
    bytes. Of the workspace as it is now the files are read as they lie there."""
    store, snapshots = workspace.store, workspace.store.snapshots()
    first = store.contents(resolve(found.first, snapshots)).files
    second = store.contents(resolve(found.second, snapshots)).files if found.second else None

    def recorded(tree: str, path: str) -> str | None:
        if "\n" in path:
            return None  # it cannot be asked for
        info = store.reader.find(f"{tree}:{path}")
        if info is None or info.kind != "blob" or info.size > largest:
            return None
        return _text(store.reader.read(info.oid)[1])

    def now(path: str) -> str | None:
        place = workspace.top / path
        try:
            if place.is_symlink() or place.stat().st_size > largest:
                return None
            return _text(place.read_bytes())
        except OSError:
            return None

    return {
        one.path: (
            recorded(first, one.old_path or one.path),
            now(one.path) if second is None else recorded(second, one.path),
        )
        for one in found.files
    }


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8") if b"\0" not in data else None
    except UnicodeDecodeError:
        return None
