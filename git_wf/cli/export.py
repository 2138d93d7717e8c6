"""`git wf export`."""

from __future__ import annotations

from pathlib import Path

import click

from git_wf.cli.common import json_option, open_here, run_argument
from git_wf.cli.group import verb
from git_wf.cli.leaving import no_scan_option, telling_secrets
from git_wf.cli.output import write, write_error, write_json


@verb("export")
@run_argument
@click.option(
    "-o", "--output", "file", required=True, metavar="FILE", type=click.Path(path_type=Path),
    help="The file to write.",
)  # fmt: skip
@click.option("--full", is_flag=True, help="With the commits that the run began from.")
@no_scan_option
@json_option
def command(run: str | None, file: Path, full: bool, no_scan: bool, as_json: bool) -> None:
    """Write a run to one file, a git bundle. `git wf import FILE` takes it, in any clone.

    The commits that it began from are not in it: whoever takes it has the project. It is searched
    for secrets first.

    \b
    git wf export 01JK -o run.bundle
    """
    from git_wf.ops.bundle import export

    with open_here() as project, telling_secrets():
        path = project.host.cwd / file
        done = export(project, run, path, full=full, scan=not no_scan)
    if as_json:
        told = {"run_id": done.run_id, "base": done.base, "size": done.size}
        write_json({"format": 1, **told, "file": str(path)})
        return
    write(f"exported run {done.run_id} to {file}")
    if done.base is not None:
        write_error(f"it begins from commit {done.base[:12]}, which is not in it")
