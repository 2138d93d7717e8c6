"""Snapshots: saved states of a workspace outside any run; their record, and how they are named.

A snapshot is a commit without parent; its tree is `files/` and `snapshot.json`, the record:

| field | type | note |
|---|---|---|
| `format` | int | 1 |
| `message` | string | as it was given |
| `created_at` | string | RFC 3339, UTC, microseconds |
| `session`, `step`, `message_count` | string, int, int; or null | what the caller counts |
| `automatic` | string or null | why git-wf made it by itself: `restore`, `run` |
| `since` | string or null | the snapshot that the workspace was at: the state before this one |
| `usual_modes` | [string, string] | permissions of files, and of executable ones |
| `modes` | {path: string} | other permissions, octal |
| `empty_dirs` | [path] | |
| `left_out` | {path: why} | what is not covered; a directory ends with a slash |
| `head`, `branch`, `index_tree` | string or null | of the repository, at that moment |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from git_wf.core.checkpoint import FORMAT, check_format
from git_wf.errors import StateUnreadable, UserError

RESTORE, RUN = "restore", "run"
_HEX = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
_ORDINAL = re.compile(r"@([0-9]+)")
NEWEST = ("last", "latest")
LIST_HINT = "git wf snapshot list"
_WORDS = {"A": "added", "D": "deleted", "M": "modified", "T": "type_changed", "R": "renamed"}
_TEXT, _NUMBER = (str, type(None)), (int, type(None))
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "message": str,
    "created_at": str,
    "session": _TEXT,
    "step": _NUMBER,
    "message_count": _NUMBER,
    "automatic": _TEXT,
    "since": _TEXT,
    "usual_modes": list,
    "modes": dict,
    "empty_dirs": list,
    "left_out": dict,
    "head": _TEXT,
    "branch": _TEXT,
    "index_tree": _TEXT,
}


@dataclass(frozen=True)
class Record:
    """`snapshot.json`. Unknown fields are kept in `extra`."""

    message: str
    created_at: str
    session: str | None = None
    step: int | None = None
    message_count: int | None = None
    automatic: str | None = None
    since: str | None = None
    usual_modes: Sequence[str] = ("644", "755")
    modes: Mapping[str, str] = field(default_factory=dict)
    empty_dirs: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    head: str | None = None
    branch: str | None = None
    index_tree: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        known = {name: getattr(self, name) for name in _FIELDS}
        lists = {name: list(known[name]) for name in ("usual_modes", "empty_dirs")}
        return {**self.extra, "format": FORMAT, **known, **lists}

    @classmethod
    def from_json(cls, data: Any, origin: str) -> Record:
        """Raises `StateUnreadable`, naming `origin`, where `data` is no record that we know."""
        check_format(data, origin)
        known = {name: data[name] for name in _FIELDS if name in data}
        for name, value in known.items():
            if not isinstance(value, _FIELDS[name]) or isinstance(value, bool):
                raise StateUnreadable(f"read snapshot '{origin}': '{name}' has the wrong type")
        if "message" not in known or "created_at" not in known:
            raise StateUnreadable(f"read snapshot '{origin}': no message or no created_at")
        _check_modes(known, origin)
        rest = {key: data[key] for key in data if key not in _FIELDS and key != "format"}
        return cls(**known, extra=rest)


def _check_modes(known: Mapping[str, Any], origin: str) -> None:
    modes = [*known.get("usual_modes", ()), *known.get("modes", {}).values()]
    octal = all(isinstance(mode, str) and re.fullmatch(r"[0-7]{1,4}", mode) for mode in modes)
    if not octal or len(known.get("usual_modes", "ab")) != 2:
        raise StateUnreadable(f"read snapshot '{origin}': permissions are not octal numbers")
    paths = [*known.get("empty_dirs", ()), *known.get("left_out", {}).values()]
    if not all(isinstance(path, str) for path in paths):
        raise StateUnreadable(f"read snapshot '{origin}': a path is not a text")


@dataclass(frozen=True)
class Snapshot:
    """A snapshot in the list of a workspace. `ordinal` counts from 1, in the order of making."""

    id: str  # of the commit
    key: str  # the ULID in its ref
    ordinal: int
    record: Record

    @property
    def is_counted(self) -> bool:
        """Whether a person made it."""
        return self.record.automatic is None


def resolve(text: str, snapshots: Sequence[Snapshot]) -> Snapshot:
    """The snapshot that `last`, `latest`, `@N`, an id or a unique prefix of one names.

    `snapshots` are the oldest first. `last` is the newest, but for those that a restore made.
    Raises `UserError`.
    """
    if text in NEWEST:
        made = [one for one in snapshots if one.record.automatic != RESTORE]
        if not made:
            raise nothing_saved()
        return made[-1]
    matched = _ORDINAL.fullmatch(text)
    if matched:
        found = [one for one in snapshots if one.ordinal == int(matched[1])]
    elif _HEX.fullmatch(text):
        found = [one for one in snapshots if one.id.startswith(text.lower())]
    else:
        found = [one for one in snapshots if one.key == text.upper()]
    if not found:
        if not snapshots:
            raise nothing_saved()
        raise UserError(f"no snapshot '{text}'", hint=LIST_HINT)
    if len(found) > 1:
        ids = ", ".join(short_id(one.id, snapshots) for one in found)
        raise UserError(f"'{text}' is ambiguous: {ids}", hint=LIST_HINT)
    return found[0]


def by_step(step: int, snapshots: Sequence[Snapshot]) -> Snapshot:
    """The newest snapshot that was saved as `step`. Raises `UserError`."""
    for one in reversed(snapshots):
        if one.record.step == step:
            return one
    raise UserError(f"no snapshot of step {step}", hint=LIST_HINT)


def nothing_saved() -> UserError:
    return UserError("no snapshot of this workspace yet", hint="git wf snapshot save MESSAGE")


def short_id(full: str, snapshots: Sequence[Snapshot], width: int = 9) -> str:
    """As few digits as name one snapshot only, and not less than nine."""
    others = {one.id for one in snapshots} - {full}
    while width < len(full) and any(one.startswith(full[:width]) for one in others):
        width += 1
    return full[:width]


def rewound(
    snapshots: Sequence[Snapshot], cursor: str | None, is_changed: bool, count: int
) -> Snapshot:
    """The snapshot that is `count` steps back, as a person counts.

    `cursor` is the snapshot that the workspace was last saved as, or restored to; edits since then
    (`is_changed`) are the first step. Snapshots that git-wf made by itself are no steps. Raises
    `UserError` where there are not so many.
    """
    if not any(one.is_counted for one in snapshots):
        hint = "git wf snapshot restore last" if snapshots else None
        raise nothing_saved() if hint is None else UserError("nothing to rewind to", hint=hint)
    steps = _steps(snapshots, cursor, is_changed)
    if count > len(steps):
        there = "no step" if not steps else f"only {len(steps)}"
        raise UserError(f"cannot go back {count}: there is {there}", hint=LIST_HINT)
    return steps[count - 1]


def _steps(snapshots: Sequence[Snapshot], cursor: str | None, is_changed: bool) -> list[Snapshot]:
    """What can be gone back to, the nearest first."""
    by_id = {one.id: one for one in snapshots}
    here = by_id.get(cursor or "")
    if here is None:
        here, is_changed = snapshots[-1], True
    steps: list[Snapshot] = []
    seen = set()
    # Of a workspace that is at a state which git-wf kept, the edits in it are not saved either.
    if is_changed and here.is_counted:
        steps.append(here)
    while here is not None and here.id not in seen:
        seen.add(here.id)
        here = by_id.get(here.record.since or "") or _before(snapshots, here)
        if here is not None and here.is_counted and here.id not in seen:
            steps.append(here)
    return steps


def _before(snapshots: Sequence[Snapshot], one: Snapshot) -> Snapshot | None:
    older = [other for other in snapshots if other.ordinal < one.ordinal]
    return older[-1] if older else None


@dataclass(frozen=True)
class FileChange:
    """`status` is git's letter. Insertions and deletions are None of a binary file.

    `mode`: permissions before and after, where nothing else changed; None are the usual ones.
    """

    status: str
    path: str
    old_path: str | None
    insertions: int | None
    deletions: int | None
    mode: tuple[int | None, int | None] | None = None

    @property
    def word(self) -> str:
        return _WORDS.get(self.status, self.status)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "status": self.word,
            "old_path": self.old_path,
            "insertions": self.insertions,
            "deletions": self.deletions,
        }
