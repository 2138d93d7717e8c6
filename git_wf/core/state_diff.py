"""What changed between two recorded checkpoints: in the context, and in the outcomes of nodes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CONTEXT = "context"
OUTCOME = "outcome"
_PARTS = ((CONTEXT, "context_values"), (OUTCOME, "node_outcomes"))
_MISSING = object()


@dataclass(frozen=True)
class StateChange:
    """One key. Of an outcome it is the node; what has no value on a side is None there."""

    part: str  # CONTEXT or OUTCOME
    key: str
    old: Any
    new: Any
    is_new: bool = False
    is_gone: bool = False

    def to_json(self) -> dict[str, Any]:
        change = "added" if self.is_new else "removed" if self.is_gone else "changed"
        return {
            "part": self.part,
            "key": self.key,
            "change": change,
            "old": self.old,
            "new": self.new,
        }

    def lines(self) -> list[str]:
        """As a unified diff: a text by its lines, anything else by those of its JSON."""
        old = [] if self.is_new else value_lines(self.old)
        new = [] if self.is_gone else value_lines(self.new)
        listed = list(difflib.unified_diff(old, new, n=3, lineterm=""))
        return [line for line in listed[2:] if line]

    def counts(self) -> tuple[int, int]:
        """How many lines came, and how many went."""
        lines = self.lines()
        return sum(line[0] == "+" for line in lines), sum(line[0] == "-" for line in lines)


def compare_states(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> list[StateChange]:
    """By part, then by key. The records are checkpoints; None is the state before the first."""
    return [
        change
        for part, name in _PARTS
        for change in _changes(part, _table(before, name), _table(after, name))
    ]


def _changes(
    part: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[StateChange]:
    for key in sorted({*before, *after}):
        old, new = before.get(key, _MISSING), after.get(key, _MISSING)
        if old == new and type(old) is type(new):
            continue
        yield StateChange(
            part,
            key,
            None if old is _MISSING else old,
            None if new is _MISSING else new,
            is_new=old is _MISSING,
            is_gone=new is _MISSING,
        )


def _table(record: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    found = (record or {}).get(name)
    return found if isinstance(found, dict) else {}


def value_lines(value: Any) -> list[str]:
    """A text as it is, anything else as JSON with sorted keys."""
    if isinstance(value, str):
        return value.split("\n")
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n")
