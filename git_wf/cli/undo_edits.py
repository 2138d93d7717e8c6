"""`git wf undo-edits`."""

from __future__ import annotations

from pathlib import Path

import click

from git_wf.cli.common import json_option
from git_wf.cli.group import verb
from git_wf.cli.snapshot import go_back, workspace_option


@verb("undo-edits")
@click.argument("count", type=click.IntRange(min=1), default=1, metavar="[N]")
@workspace_option
@json_option
def command(count: int, workspace: Path | None, as_json: bool) -> None:
    """Take back what was edited since the last snapshot; with N, go back so many steps.

    The same as `git wf snapshot rewind`. What there is now is saved first.
    """
    go_back(count, workspace, as_json)
