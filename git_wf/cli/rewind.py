"""`git wf rewind`."""

from __future__ import annotations

import sys

import click

from git_wf.cli.common import dry_run_option, json_option, list_option, open_here, words_argument
from git_wf.cli.group import verb
from git_wf.cli.output import short, write, write_error, write_json
from git_wf.cli.targets import tell_section, write_targets


@verb("rewind")
@words_argument
@list_option
@dry_run_option
@json_option
def command(words: tuple[str, ...], list_targets: bool, dry_run: bool, as_json: bool) -> None:
    """Take a run back to a checkpoint. Nothing is lost: the old tip is kept.

    TARGET is a node (its latest visit), `plan@2`, `@4` (the fourth checkpoint), `@0` (before the
    first node), a number (that many checkpoints back) or a commit of the run. Without it, one
    checkpoint back. Afterwards `git wf resume` goes on from there.

    \b
    git wf rewind plan@2
    git wf rewind 3 --dry-run
    """
    from git_wf.ops.rewind import rewind

    if len(words) > 2:
        raise click.UsageError("rewind takes a run and a target")
    with open_here() as project:
        if list_targets:
            write_targets(project, words, as_json)
            return
        done = rewind(project, words, dry_run=dry_run)
        tell_section(words, done.entry)
        if as_json:
            write_json(done.change.to_json())
        elif done.script is not None:
            sys.stdout.write(done.script)
        else:
            write(f"run {done.run_id} is at {done.entry.name} ({short(done.entry.commit)})")
            for ref in done.change.plan.kept:
                write(f"kept: {ref}")
            for ref in done.change.rescued:
                write_error(f"notice: unrecorded changes in the worktree are kept at {ref}")
            if done.next_node:
                write_error(f"next: {done.next_node}")
            write_error(f"hint: git wf resume {done.run_id}")
