"""What `git wf undo` and `git wf redo` say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from git_wf.cli.output import tell_kept, write, write_error, write_json

if TYPE_CHECKING:
    from git_wf.ops.undo import Turned

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
