"""`git wf setup`."""

from __future__ import annotations

import click

from git_wf.cli.common import current_host, json_option
from git_wf.cli.group import verb
from git_wf.cli.output import write, write_json
from git_wf.core.checkpoint import FORMAT
from git_wf.core.names import Names


@verb("setup")
@click.option("--undo", is_flag=True, help="Remove what setup wrote.")
@json_option
def command(undo: bool, as_json: bool) -> None:
    """Teach plain git to show runs, by one include.path line in your git configuration.

    After it, `git log --format=wf wf/run/ID` shows node, visit and status of every checkpoint,
    `--format=wf-full` all that is recorded, and `git wf-log BRANCH` is short for the first.
    """
    from git_wf.ops.setup import setup, undo_setup

    host = current_host()
    done = undo_setup(host) if undo else setup(host, Names())
    if as_json:
        write_json({"format": FORMAT, "file": str(done.path), "changed": done.changed})
    elif undo:
        write(f"removed '{done.path}'" if done.changed else "nothing to remove")
    else:
        write(f"{'wrote' if done.changed else 'up to date:'} '{done.path}'")
        write("try: git log --format=wf wf/run/ID")
