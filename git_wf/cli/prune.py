"""`git wf prune`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from git_wf.cli.common import dry_run_option, json_option, open_here, preview_option
from git_wf.cli.group import verb
from git_wf.cli.output import table, tell_kept, until_text, write, write_error, write_json
from git_wf.core.values import read_duration

if TYPE_CHECKING:
    from git_wf.ops.prune import Pruned


@verb("prune")
@click.option(
    "--older-than", metavar="AGE", help="Runs to which nothing happened for so long: 30d."
)
@click.option(
    "--merged", is_flag=False, flag_value="", default=None, metavar="[BRANCH]",
    help="Runs whose change is in BRANCH; without one, in the default branch.",
)  # fmt: skip
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="All but the newest N.")
@click.option("--unfinished", is_flag=True, help="Interrupted and waiting runs as well.")
@preview_option
@dry_run_option
@json_option
def command(
    older_than: str | None,
    merged: str | None,
    keep: int | None,
    unfinished: bool,
    only_list: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove the runs that meet all that is given, in one operation; `git wf undo` takes it back.

    A run that is going on is never removed, nor one whose branch you have checked out. What
    earlier operations left behind goes too, once it is older than wf.undoExpire (90 days).

    \b
    git wf prune --merged
    git wf prune --older-than 30d --keep 20 --dry-run
    """
    from git_wf.ops.prune import Criteria, prune

    age = read_duration(older_than) if older_than is not None else None
    if older_than is not None and age is None:
        raise click.UsageError(f"--older-than: '{older_than}' is not a duration, such as 30d")
    criteria = Criteria(
        older_than=age.seconds if age else None,
        age_text=older_than or "",
        merged=merged is not None,
        branch=merged or None,
        keep=keep,
        unfinished=unfinished,
    )
    with open_here() as project:
        done = prune(project, criteria, dry_run=dry_run or only_list)
        if as_json:
            write_json(done.to_json())
        elif only_list:
            for line in table([(one.run, one.reason) for one in done.removed]):
                write(line)
        else:
            _tell(done)


def _tell(done: Pruned) -> None:
    for one in done.skipped:
        write_error(f"notice: run {one.run} stays: {one.reason}")
    if done.script is not None:
        for one in done.removed:
            write_error(f"would remove run {one.run} ({one.reason})")
        sys.stdout.write(done.script)
        return
    for one in done.removed:
        write(f"removed run {one.run} ({one.reason})")
    for run in done.finished:
        write(f"run {run} went before: what was left of it is gone now")
    for ref in done.expired:
        write(f"expired: {ref}")
    tell_kept((), done.change.rescued, None)
    if not done.change.plan.updates and not done.change.plan.directories:
        write_error("nothing to prune")
    elif done.removed:
        until = f", {until_text(done.kept_until)}" if done.kept_until else ""
        write_error(f"hint: git wf undo brings back what was removed{until}")
