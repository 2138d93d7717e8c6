"""`git wf bisect`."""

from __future__ import annotations

import shlex

import click

from git_wf.cli.common import TailCommand, json_option, open_here
from git_wf.cli.group import CONTEXT, VERBS
from git_wf.cli.output import painted, short, table, use_colour, write, write_error, write_json
from git_wf.core.trailers import one_line, plain_text
from git_wf.errors import EXIT_FAILED, EXIT_OK
from git_wf.ops.bisect import Bisected, Probe, bisect


@click.command("bisect", cls=TailCommand, context_settings=CONTEXT, short_help=VERBS["bisect"])
@click.argument("words", nargs=-1, metavar="[RUN] [GOOD..BAD] -- COMMAND...")
@json_option
@click.pass_context
def command(context: click.Context, words: tuple[str, ...], as_json: bool) -> int:
    """Find the node that broke it: binary search over the checkpoints of a run.

    COMMAND runs in a worktree that is thrown away, at one checkpoint after the other: status 0 is
    good, 125 cannot tell, any other up to 127 is bad, as for `git bisect run`. GOOD and BAD are
    targets as for show; without them @0 and the newest checkpoint. Nothing of the run, of your
    checkout or of `git bisect` is touched. Its output goes to stderr; the first bad checkpoint is
    printed.

    Status 1: checkpoints that cannot tell are in the way of the first bad one; those that it is
    among are listed.

    \b
    git wf bisect -- make test
    git wf bisect 01JK plan@1..@9 -- sh -c '! grep -q debug src/main.c'
    """
    argv = context.meta.get("tail")
    if not argv:
        raise click.UsageError("a command is needed: git wf bisect [RUN] [GOOD..BAD] -- COMMAND")
    with open_here() as project:
        done = bisect(project, words, argv, _tell)
        if as_json:
            write_json(done.to_json())
        else:
            colour = use_colour(project.repo.config_values(), project.host.env)
            for line in _lines(done, argv, colour):
                write(line)
    return EXIT_OK if done.found else EXIT_FAILED


def _tell(probe: Probe, left: int) -> None:
    entry = probe.entry
    name = entry.name if not entry.ordinal else f"@{entry.ordinal} {entry.name}"
    write_error(f"{name}: {probe.verdict} ({probe.exit_status}), {left} left")


def _lines(done: Bisected, argv: list[str], colour: bool) -> list[str]:
    if done.found is None:
        rows = [
            (f"@{entry.ordinal}", entry.name, entry.status, short(entry.commit))
            for entry in done.candidates
        ]
        return ["the first bad checkpoint is one of these; the command cannot tell:", *table(rows)]
    entry = done.found.entry
    lines = [
        f"{painted(entry.name, 'commit', colour)} is the first bad checkpoint of {done.run_id}",
        f"checkpoint  @{entry.ordinal}  {entry.timestamp}",
        f"status      {painted(entry.status, entry.status, colour)}",
        f"commit      {entry.commit}",
        f"command     {one_line(shlex.join(argv))}",
    ]
    if done.found.stat:
        lines += ["", *plain_text(done.found.stat).rstrip("\n").split("\n")]
    return lines
