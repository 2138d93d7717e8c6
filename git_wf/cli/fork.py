"""`git wf fork`."""

from __future__ import annotations

import sys

import click

from git_wf.cli.common import dry_run_option, json_option, list_option, open_here, words_argument
from git_wf.cli.group import verb
from git_wf.cli.output import short, write, write_error, write_json
from git_wf.cli.targets import tell_section, write_targets


@verb("fork")
@words_argument
@list_option
@dry_run_option
@click.option("--id", "new_run_id", metavar="ULID", help="The id of the new run.")
@json_option
def command(
    words: tuple[str, ...],
    list_targets: bool,
    dry_run: bool,
    new_run_id: str | None,
    as_json: bool,
) -> None:
    """Start a new run from a checkpoint. The source stays as it is.

    TARGET is as for rewind; without it, the newest checkpoint. The id of the new run is printed;
    `git wf resume` goes on with it.

    \b
    git wf fork plan@2
    git wf fork 01JK @4
    """
    from git_wf.ops.fork import fork

    if len(words) > 2:
        raise click.UsageError("fork takes a run and a target")
    with open_here() as project:
        if list_targets:
            write_targets(project, words, as_json)
            return
        done = fork(project, words, new_run_id=new_run_id, dry_run=dry_run)
        tell_section(words, done.entry)
        for notice in done.notices:
            write_error(f"notice: {notice}")
        if as_json:
            write_json(done.change.to_json())
        elif done.script is not None:
            sys.stdout.write(done.script)
        else:
            write(done.new_run_id)
            write_error(
                f"forked from run {done.run_id} at {done.entry.name} ({short(done.entry.commit)}),"
                f" branch {done.branch}"
            )
            write_error(f"hint: git wf resume {done.new_run_id}")
