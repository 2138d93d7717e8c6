"""`git wf show`."""

from __future__ import annotations

import click

from git_wf.cli.common import json_option, open_here, reading, words_argument
from git_wf.cli.group import verb
from git_wf.cli.output import duration, painted, write, write_json
from git_wf.cli.targets import tell_section
from git_wf.core.trailers import one_line, plain_text
from git_wf.ops.show import Shown, show


@verb("show")
@words_argument
@json_option
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Show one checkpoint: what the node did, what it changed, what comes next.

    TARGET is a node (its latest visit), `plan@2`, `@4` (the fourth checkpoint), a number (that
    many checkpoints back) or a commit of the run. Without it, the newest checkpoint.

    \b
    git wf show plan@2
    git wf show 01JK @4 --json
    """
    if len(words) > 2:
        raise click.UsageError("show takes a run and a target")
    with open_here() as project:
        shown = show(project, words)
        tell_section(words, shown.entry)
        if as_json:
            write_json(shown.to_json())
            return
        with reading(project) as colour:
            for line in _lines(shown, colour):
                write(line)


def _lines(shown: Shown, colour: bool) -> list[str]:
    entry, checkpoint = shown.entry, shown.checkpoint
    lines = [f"{painted(entry.name, 'commit', colour)}  run {shown.run.run_id}"]
    if entry.ordinal:
        lines.append(f"checkpoint  @{entry.ordinal}  {entry.timestamp}")
        status = painted(entry.status, entry.status, colour)
        lines.append(f"status      {status}  {duration(entry.duration_ms)}".rstrip())
    else:
        lines.append("the state before the first node")
    lines.append(f"commit      {entry.commit}")
    if entry.metadata_commit:
        lines.append(f"metadata    {entry.metadata_commit}")
    outcome = checkpoint.outcome if checkpoint else None
    if outcome and outcome.failure:
        lines.append(f"failure     {one_line(outcome.failure.message)} ({outcome.failure.kind})")
    if entry.ordinal:
        lines.append(f"next        {entry.next_node_id or 'none'}")
    lines += [f"note        {note}" for note in entry.notes]
    if outcome and outcome.notes:
        lines.append("")
        lines += [f"    {line}" for line in plain_text(outcome.notes).split("\n")]
    if shown.stat:
        lines += ["", *plain_text(shown.stat).rstrip("\n").split("\n")]
    if shown.trace:
        lines += ["", "trace, by git show:"]
        lines += [f"  {entry.metadata_commit}:{one_line(name)}" for name in shown.trace]
    return lines
