"""`git wf validate`, and how diagnostics are printed everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from git_wf.cli.common import current_host
from git_wf.cli.group import verb
from git_wf.cli.output import write, write_error, write_json
from git_wf.core.trailers import one_line
from git_wf.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from git_wf.core.graph import Diagnostic
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


def write_diagnostics(
    diagnostics: Sequence[Diagnostic], file: str = "", text: str = "", to_stderr: bool = True
) -> None:
    for one in diagnostics:
        for line in text_lines(one, file, text):
            (write_error if to_stderr else write)(line)


def text_lines(diagnostic: Diagnostic, file: str, text: str) -> list[str]:
    """`file:3:7: error: message (rule)`, the line with a caret, and the way to mend it."""
    from git_wf.core.graph import excerpt

    place = [one_line(file)] if file else []
    if diagnostic.line is not None:
        place += [str(diagnostic.line), str(diagnostic.column or 1)]
    head = f"{':'.join(place)}: " if place else ""
    message = one_line(diagnostic.message)
    lines = [f"{head}{diagnostic.severity}: {message} ({diagnostic.rule})"]
    lines += [f"  {line}" for line in excerpt(text, diagnostic).splitlines() if text]
    if diagnostic.fix:
        lines.append(f"  fix: {one_line(diagnostic.fix)}")
    return lines


def github_line(file: str, diagnostic: Diagnostic) -> str:
    """A workflow command, as GitHub Actions reads it."""
    properties = {"file": file, "title": diagnostic.rule}
    if diagnostic.line is not None:
        properties |= {"line": str(diagnostic.line), "col": str(diagnostic.column or 1)}
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    message = diagnostic.message + (f" (fix: {diagnostic.fix})" if diagnostic.fix else "")
    return f"::{diagnostic.severity} {told}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
