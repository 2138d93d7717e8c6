"""`git wf fetch`."""

from __future__ import annotations

import click

from git_wf.cli.brought import tell_fetched
from git_wf.cli.common import json_option, open_here
from git_wf.cli.group import verb


@verb("fetch")
@click.argument("words", nargs=-1, metavar="[REMOTE] [RUN...]")
@json_option
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Bring runs from a remote: those that are named, else all that it has.

    A run that is not here is made, one that went on there goes on here. Nothing that is here is
    left behind. `git wf resume RUN` goes on with it.

    \b
    git wf fetch
    git wf fetch origin 01JK
    """
    from git_wf.ops.fetch import fetch

    with open_here() as project:
        tell_fetched(fetch(project, words), as_json)
