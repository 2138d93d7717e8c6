"""`git wf redo`."""

from __future__ import annotations

from git_wf.cli.common import dry_run_option, json_option, open_here, run_argument
from git_wf.cli.group import verb
from git_wf.cli.turned import write_turned


@verb("redo")
@run_argument
@dry_run_option
@json_option
def command(run: str | None, dry_run: bool, as_json: bool) -> None:
    """Make once more what `git wf undo` took back last.

    With RUN, of that run. A run that made checkpoints since stays as it is.

    \b
    git wf redo
    git wf redo 01JK --dry-run
    """
    from git_wf.ops.undo import redo

    with open_here() as project:
        write_turned(redo(project, run, dry_run=dry_run), "redo", as_json)
