"""`git wf rm`."""

from __future__ import annotations

import sys

import click

from git_wf.cli.common import dry_run_option, json_option, open_here, preview_option
from git_wf.cli.group import verb
from git_wf.cli.output import tell_kept, write, write_error, write_json


@verb("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@preview_option
@dry_run_option
@json_option
def command(runs: tuple[str, ...], only_list: bool, dry_run: bool, as_json: bool) -> None:
    """Remove runs: branch, state, worktree and run directory. They are kept for a while.

    What is not recorded in a worktree goes to refs/wf/rescue/ first. The tips stay under
    refs/wf/old/ for wf.undoExpire (90 days); until then `git wf undo` brings a run back.

    \b
    git wf rm 01JK
    git wf rm 01JK 01JM --dry-run
    """
    from git_wf.ops.rm import rm

    with open_here() as project:
        done = rm(project, runs, dry_run=dry_run or only_list)
        if as_json:
            write_json({**done.change.to_json(), "runs": [*done.runs, *done.finished]})
        elif only_list:
            for run in done.runs:
                write(run)
        elif done.script is not None:
            sys.stdout.write(done.script)
        else:
            for run in done.runs:
                write(f"removed run {run}")
            for run in done.finished:
                write(f"run {run} was removed before: what was left of it is gone now")
            tell_kept(done.change.plan.kept, done.change.rescued, done.kept_until)
            if done.runs:
                write_error("hint: git wf undo brings back what was removed")
