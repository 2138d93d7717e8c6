"""`git wf reflog`."""

from __future__ import annotations

import click

from git_wf.cli.common import json_option, open_here, reading, run_argument
from git_wf.cli.group import verb
from git_wf.cli.output import age, painted, short, table, write, write_json
from git_wf.core.trailers import one_line
from git_wf.ops.reflog import Move, read_story


@verb("reflog")
@run_argument
@click.option("-n", "count", type=click.IntRange(min=0), metavar="N", help="The newest N only.")
@json_option
def command(run: str | None, count: int | None, as_json: bool) -> None:
    """Tell the story of a run's refs: checkpoints, rewinds, forks, resumptions, by whom and when.

    Newest first, as by `git reflog`; but it is read from the run's metadata ref, so it goes where
    the run goes, and does not expire. What an operation left behind is named as long as it is kept.

    \b
    git wf reflog
    git wf reflog 01JK -n 5 --json
    """
    with open_here() as project:
        story = read_story(project, run)
        moves = story.moves if count is None else story.moves[:count]
        if as_json:
            write_json({**story.to_json(), "moves": [move.to_json() for move in moves]})
            return
        with reading(project) as colour:
            now = project.host.clock.now()
            lines = table([_row(move, age(move.timestamp, now)) for move in moves])
            for move, line in zip(moves, lines, strict=True):
                width = len(short(move.commit))
                write(painted(line[:width], "commit", colour) + line[width:])


def _row(move: Move, when: str) -> tuple[str, ...]:
    told = []
    if move.before:
        told.append(f"from {short(move.before)}")
    if move.kept:
        told.append(f"kept: {' '.join(move.kept)}")
    if move.where:
        told.append(f"on {move.where}")
    author = one_line(move.author.partition(" <")[0])
    return short(move.commit), one_line(move.title), author, when, ", ".join(told)
