"""`git wf validate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from git_wf.cli.common import current_host
from git_wf.cli.diagnostics import github_line, text_lines
from git_wf.cli.group import verb
from git_wf.cli.output import write, write_json
from git_wf.core.trailers import one_line
from git_wf.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from git_wf.ops.validate import Checked


@verb("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--format", "form", type=click.Choice(["text", "github"]), default="text",
    help="How diagnostics are printed; github: as workflow commands.", show_default=True,
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Make warnings errors.")
@click.option("--backends", is_flag=True, help="Check that the programs of agent nodes are there.")
def command(files: tuple[str, ...], as_json: bool, form: str, strict: bool, backends: bool) -> int:
    """Check workflow files and run configs without running anything.

    Ends with status 1 where a file has errors.

    \b
    git wf validate workflow.dot
    git wf validate --strict --format github run.toml
    """
    from git_wf.ops.validate import validate, validity_json

    host = current_host()
    checked = validate(
        [Path(file) for file in files], strict=strict, backends=backends, env=host.env
    )
    if as_json:
        write_json(validity_json(checked))
    else:
        for one in checked:
            _write_checked(one, form)
    return EXIT_OK if all(one.is_valid for one in checked) else EXIT_FAILED


def _write_checked(checked: Checked, form: str) -> None:
    if form == "github":
        for one in checked.diagnostics:
            write(github_line(checked.file, one))
        return
    for one in checked.diagnostics:
        write("\n".join(text_lines(one, checked.file, checked.text)))
    told = f"{checked.nodes} nodes, {checked.edges} edges"
    write(f"{one_line(checked.file)}: {'valid, ' + told if checked.is_valid else 'not valid'}")
