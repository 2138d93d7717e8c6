"""`git wf diff`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from git_wf.cli.common import TailCommand, json_option, open_here, reading
from git_wf.cli.group import CONTEXT, VERBS
from git_wf.cli.output import painted, table, write, write_json
from git_wf.core.state_diff import StateChange
from git_wf.core.trailers import one_line, plain_text
from git_wf.errors import EXIT_FAILED, EXIT_OK
from git_wf.ops.diff import Compared, compare


@click.command(
    "diff",
    cls=TailCommand,
    context_settings={**CONTEXT, "ignore_unknown_options": True},
    short_help=VERBS["diff"],
)
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="[RUN] [A] [B] [GIT-OPTION...] [-- PATH...]"
)
@click.option("--state", is_flag=True, help="Compare context and outcomes, not files.")
@click.option("-p", "--patch", is_flag=True, help="What changed, line by line (the default).")
@click.option("--stat", is_flag=True, help="How much changed.")
@click.option("--exit-code", is_flag=True, help="Status 1 where there is a difference.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    words: tuple[str, ...],
    state: bool,
    patch: bool,
    stat: bool,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Compare two checkpoints of a run: their files, or with --state what was recorded of them.

    A and B are targets as for show, also as A..B. B is the newest checkpoint where it is left out,
    A the one before B. Options that are not listed here go to git diff, as `--name-only`; after --
    come paths.

    \b
    git wf diff plan@1 plan@2 --stat
    git wf diff 01JK @0..@4 -- src
    git wf diff @3 @4 --state
    """
    options = [word for word in words if word.startswith("-")]
    targets = [word for word in words if not word.startswith("-")]
    paths = context.meta.get("tail") or ()
    if len(targets) > 3:
        raise click.UsageError("diff takes a run and two targets")
    if state and (options or paths):
        raise click.UsageError(f"--state compares no files: '{[*options, *paths][0]}' is for them")
    options += [f"--{name}" for name, given in (("patch", patch), ("stat", stat)) if given]
    with open_here() as project:
        found = compare(project, targets)
        if as_json:
            is_different = _write_json(found, state, paths)
        else:
            with reading(project) as colour:
                if state:
                    is_different = _write_state(found.state(), stat and not patch, colour)
                else:
                    is_different = _write_files(found, options, paths, colour)
    return EXIT_FAILED if exit_code and is_different else EXIT_OK


def _write_json(found: Compared, state: bool, paths: Sequence[str]) -> bool:
    if state:
        changes = [change.to_json() for change in found.state()]
        write_json({**found.head_json(), "changes": changes})
        return bool(changes)
    files = found.files_json(paths)
    write_json({**found.head_json(), "files": files})
    return bool(files)


def _write_files(
    found: Compared, options: Sequence[str], paths: Sequence[str], colour: bool
) -> bool:
    shade = "--color=always" if colour else "--color=never"
    told, is_different = found.files((shade, "--exit-code", *options), paths)
    sys.stdout.flush()
    sys.stdout.buffer.write(told)
    sys.stdout.buffer.flush()
    return is_different


def _write_state(changes: Sequence[StateChange], only_counts: bool, colour: bool) -> bool:
    if only_counts:
        rows = [_counts_row(change) for change in changes]
        for line in table(rows, right=(2, 3)):
            write(line)
    else:
        for change in changes:
            for line in _state_lines(change, colour):
                write(line)
    return bool(changes)


def _counts_row(change: StateChange) -> tuple[str, ...]:
    added, removed = change.counts()
    return change.part, one_line(change.key), f"+{added}", f"-{removed}"


def _state_lines(change: StateChange, colour: bool) -> Iterator[str]:
    word = " (new)" if change.is_new else " (gone)" if change.is_gone else ""
    yield painted(f"{change.part} {one_line(change.key)}{word}", "commit", colour)
    shades = {"+": "success", "-": "fail", "@": "faint"}
    for line in change.lines():
        yield painted(plain_text(line), shades.get(line[0], ""), colour)
