"""`git wf inspect`: what was recorded of a checkpoint, all of it or one field."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.timeline import Entry
from git_wf.errors import UserError
from git_wf.ops.project import Project
from git_wf.ops.select import select
from git_wf.ops.show import Shown, read_artifact, show_entry

_ARTIFACT = "$artifact"


@dataclass(frozen=True)
class Inspected:
    shown: Shown
    record: Mapping[str, Any]

    @property
    def entry(self) -> Entry:
        return self.shown.entry

    def to_json(self) -> dict[str, Any]:
        return self.shown.to_json()

    def field_json(self, path: str, value: Any) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "run_id": self.shown.run.run_id,
            "ordinal": self.entry.ordinal,
            "field": path,
            "value": value,
        }


def inspect(project: Project, words: Sequence[str]) -> Inspected:
    """`[RUN] [TARGET]`; without a target the newest checkpoint.

    Raises `UserError` where nothing was recorded of it.
    """
    selected = select(project, words)
    entry = selected.entry(project, default="0")
    shown = show_entry(project, selected, entry)
    if shown.record is None:
        why = "has no metadata" if entry.ordinal else "is before the first checkpoint"
        raise UserError(
            f"{entry.name} of run {selected.run.run_id} {why}: there is no record",
            hint="git wf log lists the checkpoints",
        )
    return Inspected(shown, shown.record)


def find_field(project: Project, found: Inspected, path: str) -> Any:
    """The value at a path such as `node_outcomes.plan.status` or `completed_nodes.0`.

    Keys can have dots of their own (`context_values.command.output`): the longest one that is
    there wins. What was stored apart, as an artifact, is read. Raises `UserError`.
    """
    missing = object()
    value = next(_values_at(found.record, path), missing)
    if value is missing:
        raise _no_field(found.record, path)
    if isinstance(value, dict) and list(value) == [_ARTIFACT]:
        data = read_artifact(project, found.entry, str(value[_ARTIFACT]))
        return json.loads(data)
    return value


def _values_at(value: Any, path: str) -> Iterator[Any]:
    """What a path can mean, the reading with the longest keys first."""
    if not path:
        yield value
    elif isinstance(value, list):
        head, _, rest = path.partition(".")
        if head.isdecimal() and int(head) < len(value):
            yield from _values_at(value[int(head)], rest)
    elif isinstance(value, dict):
        cuts = [at for at, letter in enumerate(path) if letter == "."]
        for cut in (len(path), *reversed(cuts)):
            if path[:cut] in value:
                yield from _values_at(value[path[:cut]], path[cut + 1 :])


def _no_field(record: Mapping[str, Any], path: str) -> UserError:
    near = difflib.get_close_matches(path, list(field_paths(record)), n=1, cutoff=0.6)
    hint = f"did you mean '{near[0]}'?" if near else "git wf inspect shows all fields"
    return UserError(f"no field '{path}' in the record", hint=hint)


def field_paths(value: Any, before: str = "") -> Iterator[str]:
    """All paths to a value, and to what is in it."""
    pairs = value.items() if isinstance(value, dict) else ()
    for key, inside in pairs:
        path = f"{before}{key}"
        yield path
        yield from field_paths(inside, f"{path}.")
