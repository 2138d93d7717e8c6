"""`git wf import`."""

from __future__ import annotations

from pathlib import Path

import click

from git_wf.cli.brought import tell_fetched
from git_wf.cli.common import json_option, open_here
from git_wf.cli.group import verb


@verb("import")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@json_option
def command(file: Path, as_json: bool) -> None:
    """Take the runs from a file that `git wf export` has written, and verify them.

    As `git wf fetch` from a remote: nothing that is here is left behind.

    \b
    git wf import run.bundle
    """
    from git_wf.ops.bundle import import_file

    with open_here() as project:
        tell_fetched(import_file(project, project.host.cwd / file), as_json)
