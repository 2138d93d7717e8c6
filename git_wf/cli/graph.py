"""`git wf graph`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from git_wf.cli.common import current_host, json_option
from git_wf.cli.group import verb
from git_wf.cli.output import write, write_json
from git_wf.errors import UserError

SUFFIXES = {".svg": "svg", ".png": "png", ".txt": "text"}


@verb("graph")
@click.argument("subject", required=False, metavar="[FILE|RUN]")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
    help="Write to this file; its ending (.svg, .png, .txt) says which form.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(["svg", "png", "text"]), help="The form.")
@json_option
def command(subject: str | None, output: Path | None, form: str | None, as_json: bool) -> None:
    """Draw a workflow, or what a run has made of it so far.

    Of a run, nodes are coloured by status, with the number of visits and the time they took. An
    SVG or PNG is made through Graphviz; on a terminal, and where Graphviz is not installed, the
    drawing is plain text.

    \b
    git wf graph workflow.dot -o workflow.svg
    git wf graph 01JK --format png >run.png
    """
    from git_wf.ops.graph import draw, find_graphviz, find_subject

    host = current_host()
    if output is not None and form is None and output.suffix.lower() not in SUFFIXES:
        raise click.UsageError(f"'{output}' says no form: name it .svg, .png or .txt, or --format")
    found = find_subject(host, subject)
    if as_json:
        write_json(found.to_json())
        return
    if form is None and output is not None:
        form = SUFFIXES[output.suffix.lower()]
    to_terminal = output is None and sys.stdout.isatty()
    if form is None:
        form = "svg" if find_graphviz(host.env) and not to_terminal else "text"
    if form == "png" and to_terminal:
        raise UserError("a PNG is not for a terminal", hint="git wf graph -o FILE.png")
    data = draw(found, form, host.env)
    if output is not None:
        _write_file(output, data)
    elif form == "text":
        write(data.decode("utf-8").removesuffix("\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _write_file(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as err:
        told = f"cannot write '{path}': {err.strerror}"
        raise UserError(
            told, hint="-o FILE names another file; without it stdout is written"
        ) from err
