"""`git wf inspect`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from git_wf.cli.common import json_option, open_here, reading, words_argument
from git_wf.cli.group import verb
from git_wf.cli.output import painted, write, write_json
from git_wf.cli.targets import tell_section
from git_wf.core.trailers import one_line, plain_text
from git_wf.ops.inspect import Inspected, find_field, inspect

_WIDTH = 76  # characters of a list or table that stays on one line


@verb("inspect")
@words_argument
@click.option(
    "-f", "--field", "path", metavar="PATH",
    help="Print one field, such as context_values.outcome; a text as it is, all else as JSON.",
)  # fmt: skip
@json_option
def command(words: tuple[str, ...], path: str | None, as_json: bool) -> None:
    """Show what was recorded of a checkpoint: context, outcomes, what comes next.

    TARGET is as for show; without it, the newest checkpoint. Keys in a PATH are joined by dots,
    whether they have dots of their own or not; places in a list are numbers from 0. A value that
    is stored apart because it is large is read for --field.

    \b
    git wf inspect plan@2
    git wf inspect 01JK @4 --field node_outcomes.plan.status
    """
    if len(words) > 2:
        raise click.UsageError("inspect takes a run and a target")
    with open_here() as project:
        found = inspect(project, words)
        tell_section(words, found.entry)
        if path is not None:
            value = find_field(project, found, path)
            if as_json:
                write_json(found.field_json(path, value))
            else:
                write(_field_text(value))
        elif as_json:
            write_json(found.to_json())
        else:
            with reading(project) as colour:
                for line in _lines(found, colour):
                    write(line)


def _field_text(value: Any) -> str:
    return plain_text(value if isinstance(value, str) else _json(value, indent=2))


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)


def _lines(found: Inspected, colour: bool) -> Iterator[str]:
    entry = found.entry
    run = f"run {found.shown.run.run_id}"
    yield f"{painted(entry.name, 'commit', colour)}  @{entry.ordinal}  {run}"
    for line in _table(found.record):
        key, colon, rest = line.partition(":")
        yield f"{painted(key, 'faint', colour)}{colon}{rest}" if colon else line


def _table(table: Any, indent: str = "") -> Iterator[str]:
    """A table by its keys, what is empty left out; what is long stands below its key."""
    for key, value in sorted(table.items()):
        if value in (None, "", [], {}):
            continue
        name = f"{indent}{one_line(str(key))}:"
        short = one_line(value) if isinstance(value, str) else one_line(_json(value))
        is_text = isinstance(value, str)
        if is_text and "\n" not in value.rstrip("\n"):
            yield f"{name} {short}"
        elif is_text:
            yield name
            lines = plain_text(value).rstrip("\n").split("\n")
            yield from (f"{indent}    {line}".rstrip() for line in lines)
        elif isinstance(value, dict) and len(short) > _WIDTH - len(name):
            yield name
            yield from _table(value, f"{indent}    ")
        else:
            yield f"{name} {short}"
