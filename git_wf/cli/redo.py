"""`git wf redo`."""

from __future__ import annotations

from git_wf.cli.common import dry_run_option, json_option, open_here, preview_option, run_argument
from git_wf.cli.group import verb
from git_wf.cli.turned import write_listed, write_turned


@verb("redo")
@run_argument
@preview_option
@dry_run_option
@json_option
def command(run: str | None, only_list: bool, dry_run: bool, as_json: bool) -> None:
    """Make once more what `git wf undo` took back last.

    With RUN, of that run. A run that made checkpoints since stays as it is.

    \b
    git wf redo
    git wf redo 01JK --dry-run
    """
    from git_wf.ops.undo import listed, redo

    with open_here() as project:
        if only_list:
            write_listed(listed(project, "redo", run), as_json)
            return
        write_turned(redo(project, run, dry_run=dry_run), "redo", as_json)
