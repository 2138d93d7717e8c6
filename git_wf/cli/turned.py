"""What `git wf undo` and `git wf redo` say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_wf.cli.output import table, tell_kept, write, write_error, write_json
from git_wf.core.checkpoint import FORMAT

if TYPE_CHECKING:
    from git_wf.ops.undo import Listed, Turned

_DONE = {"undo": "undone", "redo": "redone"}
_OTHER = {"undo": "redo", "redo": "undo"}


def write_turned(done: Turned, verb: str, as_json: bool) -> None:
    if as_json:
        write_json(done.to_json())
    elif done.script is not None:
        sys.stdout.write(done.script)
    elif done.is_finished:
        write(f"finished the {verb} that was cut off: {', '.join(done.runs)}")
    else:
        runs = f"run {done.runs[0]}" if len(done.runs) == 1 else f"{len(done.runs)} runs"
        write(f"{_DONE[verb]}: {done.act.title}, {runs}")
        tell_kept(done.change.plan.kept, done.change.rescued, done.kept_until)
        write_error(f"hint: git wf {_OTHER[verb]} takes that back")


def write_listed(operations: Sequence[Listed], as_json: bool) -> None:
    """`--list`: the one that would be turned next comes first."""
    if as_json:
        write_json({"format": FORMAT, "operations": [one.to_json() for one in operations]})
        return
    rows = [
        (str(number), one.act.title, " ".join(one.runs))
        for number, one in enumerate(operations, start=1)
    ]
    for line in table(rows, right=(0,)):
        write(line)
