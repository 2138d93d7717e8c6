"""The ordered checkpoints of a run, and how a target such as `plan@2` is understood.

| target | means |
|---|---|
| `plan` | the latest visit of node `plan` |
| `plan@2` | its second visit |
| `@4` | the checkpoint with ordinal 4; `@0` is the state before the first node |
| `N` | one to five digits: N checkpoints back |
| a commit | a run commit or metadata commit of the run, or one in a checkpoint's range |

A node inside a parallel section has no checkpoint in the timeline. It stands for the state in
which the outermost fan-out around it comes next, so that the whole section runs again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from git_wf.core.names import Oid, visit_name
from git_wf.errors import UserError

_ORDINAL = re.compile(r"@([0-9]{1,9})")
_BACK = re.compile(r"[0-9]{1,5}")
_VISIT = re.compile(r"(.+)@([0-9]{1,9})")


class Entry(NamedTuple):
    """One checkpoint of a timeline. Ordinal 0, without a node, is the state before the first."""

    ordinal: int
    node: str
    visit: int
    status: str
    commit: Oid | None
    metadata_commit: Oid | None
    run: str  # whose checkpoint it is: in a fork the earlier ones are the source's
    timestamp: str = ""
    next_node_id: str | None = None
    duration_ms: int | None = None
    recorded_status: str = ""
    merged: tuple[Oid, ...] = ()
    notes: tuple[str, ...] = ()
    section: str = ""  # the fan-out that comes next, where a node inside its section was asked for

    @property
    def name(self) -> str:
        """`plan@2`; `@0` for the state before the first node."""
        return visit_name(self.node, self.visit) if self.ordinal else "@0"

    @property
    def is_whole(self) -> bool:
        """Whether both of its commits are known: one can go back to it."""
        return self.commit is not None and self.metadata_commit is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "ordinal": self.ordinal,
            "node": self.node,
            "visit": self.visit,
            "status": self.status,
            "recorded_status": self.recorded_status or self.status,
            "next_node_id": self.next_node_id,
            "commit": self.commit,
            "metadata_commit": self.metadata_commit,
            "timestamp": self.timestamp or None,
            "duration_ms": self.duration_ms,
            "merged": list(self.merged),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Sections:
    """What is known of the parallel sections of a run."""

    fan_outs: Mapping[str, str] = field(default_factory=dict)  # node inside → outermost fan-out
    visits: Callable[[Entry, str], int] = lambda entry, node: 0  # of a node, up to a checkpoint

    def find(
        self, node: str, visit: int | None, entries: Sequence[Entry], start: Entry
    ) -> Entry | None:
        """The state before the fan-out whose section holds that visit; the latest without one."""
        fan_out = self.fan_outs.get(node)
        if fan_out is None:
            return None
        states = (start, *entries)
        made = [at for at, entry in enumerate(entries) if entry.node == fan_out]
        if visit is not None:
            made = [at for at in made if self.visits(entries[at], node) >= visit][:1]
        is_next = not entries or entries[-1].next_node_id == fan_out
        if is_next and (visit is None or not made):
            return states[-1]._replace(section=fan_out)
        return states[made[-1]]._replace(section=fan_out) if made else None


def is_target_form(text: str) -> bool:
    """Whether `text` can only be a target, by its form: `plan@2`, `@4` or `N`."""
    return bool(_ORDINAL.fullmatch(text) or _BACK.fullmatch(text) or _VISIT.fullmatch(text))


def find_target(
    text: str,
    entries: Sequence[Entry],
    start: Entry,
    commit_of: Callable[[str], Oid | None],
    entry_of: Callable[[Oid], Entry | None],
    sections: Callable[[], Sections] = Sections,
) -> Entry:
    """The entry that `text` names; `start` is `@0`.

    `commit_of` gives the commit that a revision names, `entry_of` the entry whose range holds a
    commit; `sections` is asked where the timeline has no such node. Raises `UserError`, with what
    there is to choose from.
    """
    if found := _ORDINAL.fullmatch(text):
        return _by_ordinal(int(found[1]), entries, start)
    if _BACK.fullmatch(text):
        return _back(int(text), entries, start)
    visits = [entry for entry in entries if entry.node == text]
    if visits:
        return visits[-1]
    named = _VISIT.fullmatch(text)
    node, visit = (named[1], int(named[2])) if named else (text, None)
    if all(entry.node != node for entry in entries):
        inner = sections().find(node, visit, entries, start)
        if inner is not None:
            return inner
    if visit is not None:
        return _by_visit(node, visit, entries)
    commit = commit_of(text)
    if commit is not None:
        entry = entry_of(commit)
        if entry is start and not commit.startswith(text.lower()):
            # `HEAD` and `main` mean the user's checkout, which is where most runs began.
            raise UserError(
                f"'{text}' is where the run began, not one of its checkpoints",
                hint="@0 is the state before the first node",
            )
        if entry is None:
            raise UserError(f"commit '{text}' is not one of the run", hint="git wf log lists them")
        return entry
    raise _unknown(text, entries)


def _by_ordinal(ordinal: int, entries: Sequence[Entry], start: Entry) -> Entry:
    for entry in (start, *entries):
        if entry.ordinal == ordinal:
            return entry
    if not entries:
        told = f"no checkpoint '@{ordinal}': the run has none yet, only '@0'"
        raise UserError(told, hint="git wf resume goes on with the run")
    raise UserError(
        f"no checkpoint '@{ordinal}': the run has @{entries[0].ordinal} to @{entries[-1].ordinal}",
        hint="git wf log lists them",
    )


def _back(count: int, entries: Sequence[Entry], start: Entry) -> Entry:
    if count > len(entries):
        raise UserError(
            f"cannot go {count} checkpoints back: the run has {len(entries)}",
            hint="@0 is the state before the first node",
        )
    return (start, *entries)[len(entries) - count]


def _by_visit(node: str, visit: int, entries: Sequence[Entry]) -> Entry:
    visits = [entry for entry in entries if entry.node == node]
    for entry in visits:
        if entry.visit == visit:
            return entry
    if not visits:
        raise _unknown(node, entries)
    listed = ", ".join(entry.name for entry in visits)
    raise UserError(f"no checkpoint '{visit_name(node, visit)}'", hint=f"there is {listed}")


def _unknown(text: str, entries: Sequence[Entry]) -> UserError:
    nodes = list(dict.fromkeys(entry.node for entry in entries))
    near = difflib.get_close_matches(text, nodes, n=1, cutoff=0.5)
    if near:
        return UserError(f"no node '{text}' in the timeline", hint=f"did you mean '{near[0]}'?")
    return UserError(
        f"no node, ordinal or commit '{text}' in the timeline", hint="git wf log lists them"
    )
