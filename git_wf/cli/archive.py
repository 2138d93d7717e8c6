"""`git wf archive`."""

from __future__ import annotations

import sys

import click

from git_wf.cli.common import dry_run_option, json_option, open_here, preview_option
from git_wf.cli.group import verb
from git_wf.cli.output import tell_kept, write, write_error, write_json


@verb("archive")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@preview_option
@dry_run_option
@json_option
def command(runs: tuple[str, ...], only_list: bool, dry_run: bool, as_json: bool) -> None:
    """Fold finished runs into one ref, refs/wf/archive; every command still finds them.

    Their branches, metadata refs, worktrees and run directories go. `git wf undo RUN` brings a
    run back, `git wf fork RUN` starts a new one from it.

    \b
    git wf archive 01JK 01JM
    git wf archive 01JK --dry-run
    """
    from git_wf.ops.archive import archive

    with open_here() as project:
        done = archive(project, runs, dry_run=dry_run or only_list)
        if as_json:
            write_json({**done.change.to_json(), "runs": [*done.runs, *done.finished]})
        elif only_list:
            for run in done.runs:
                write(run)
        elif done.script is not None:
            sys.stdout.write(done.script)
        else:
            for run in done.runs:
                write(f"archived run {run}")
            for run in done.finished:
                write(f"run {run} was archived before: what was left of it is gone now")
            tell_kept(done.change.plan.kept, done.change.rescued, None)
            if done.runs:
                write_error("hint: git wf undo brings back what was archived")
