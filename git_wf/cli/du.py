"""`git wf du`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from git_wf.cli.common import json_option, open_here
from git_wf.cli.group import verb
from git_wf.cli.output import size_text, table, write, write_json

if TYPE_CHECKING:
    from git_wf.ops.du import DiskUsage, Usage


@verb("du")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@json_option
def command(runs: tuple[str, ...], as_json: bool) -> None:
    """Tell what runs cost on the disk: objects, worktrees, run directories.

    Of a run's objects those count that nothing else reaches, as they are stored; what several
    runs share is in the sum alone.

    \b
    git wf du
    git wf du 01JK 01JM
    """
    from git_wf.ops.du import du

    with open_here() as project:
        found = du(project, runs)
        if as_json:
            write_json(found.to_json())
            return
        for line in table(_rows(found), right=(1, 2, 3, 4)):
            write(line)


def _rows(found: DiskUsage) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("run", "objects", "worktrees", "directory", "total")]
    rows += [_row(run, usage) for run, usage in found.runs.items()]
    if found.archive is not None and found.archive.total:
        rows.append(_row("archived runs", found.archive))
    if found.kept is not None and found.kept.total:
        rows.append(_row("kept of removed runs", found.kept))
    if found.idle:
        rows.append(("idle worktrees", "", size_text(found.idle), "", size_text(found.idle)))
    return [*rows, _row("together", found.together)]


def _row(name: str, usage: Usage) -> tuple[str, ...]:
    sizes = (usage.objects, usage.worktrees, usage.directory, usage.total)
    return (name, *(size_text(size) for size in sizes))
