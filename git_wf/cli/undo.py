"""`git wf undo`."""

from __future__ import annotations

from git_wf.cli.common import dry_run_option, json_option, open_here, preview_option, run_argument
from git_wf.cli.group import verb
from git_wf.cli.turned import write_listed, write_turned


@verb("undo")
@run_argument
@preview_option
@dry_run_option
@json_option
def command(run: str | None, only_list: bool, dry_run: bool, as_json: bool) -> None:
    """Take back the newest operation: a rewind, fork, rm, prune or archive.

    With RUN, the newest one of that run. Repeated, it goes further back; `git wf redo` goes
    forward again. Checkpoints that a run made since are never dropped.

    \b
    git wf undo
    git wf undo 01JK --dry-run
    """
    from git_wf.ops.undo import listed, undo

    with open_here() as project:
        if only_list:
            write_listed(listed(project, "undo", run), as_json)
            return
        write_turned(undo(project, run, dry_run=dry_run), "undo", as_json)
