"""`git wf pull`."""

from __future__ import annotations

import click

from git_wf.cli.brought import tell_fetched
from git_wf.cli.common import json_option, open_here
from git_wf.cli.group import verb


@verb("pull")
@click.argument("words", nargs=-1, metavar="[REMOTE] [RUN...]")
@json_option
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Bring the run that you are in, else the newest, or those that are named.

    As `git wf fetch`; and a run that was rewound there goes back here too. What its branch leaves
    behind is kept: `git wf undo` takes it forward again.

    \b
    git wf pull
    git wf pull origin 01JK
    """
    from git_wf.ops.fetch import pull

    with open_here() as project:
        tell_fetched(pull(project, words), as_json)
