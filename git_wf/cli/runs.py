"""`git wf runs`."""

from __future__ import annotations

import click

from git_wf.cli.common import json_option, open_here, reading
from git_wf.cli.group import verb
from git_wf.cli.output import age, painted, table, write, write_json
from git_wf.core.checkpoint import FORMAT
from git_wf.core.names import visit_name
from git_wf.core.trailers import one_line
from git_wf.ops.log import RunSummary, list_runs


@verb("runs")
@json_option
def command(as_json: bool) -> None:
    """List the runs in this repository, newest first.

    \b
    git wf runs
    git wf runs --json
    """
    with open_here() as project:
        runs = list_runs(project)
        if as_json:
            write_json({"format": FORMAT, "runs": [run.to_json() for run in runs]})
            return
        with reading(project) as colour:
            now = project.host.clock.now()
            lines = table([_row(run, age(run.updated_at, now)) for run in runs], right=(2,))
            for run, line in zip(runs, lines, strict=True):
                head, status, rest = line.partition(f"  {run.status}")
                write(f"{head}{painted(status, run.status, colour)}{rest}")
        if not runs:
            click.echo("no runs in this repository", err=True)


def _row(run: RunSummary, when: str) -> tuple[str, ...]:
    notes = [f"{key}={value}" for key, value in run.labels.items()]
    if run.forked_from:
        notes.append(f"fork of {run.forked_from.get('run', '')}")
    if run.parent:
        where = visit_name(str(run.parent.get("node")), int(run.parent.get("visit") or 1))
        notes.append(f"child of {run.parent.get('run', '')} {where}")
    if run.waiting is not None:
        notes.append(f"waits for {run.waiting.get('node')}: {run.waiting.get('question')}")
    if run.is_archived:
        notes.append("archived")
    if run.problem:
        notes.append(run.problem)
    count = f"{run.checkpoints} checkpoint{'' if run.checkpoints == 1 else 's'}"
    return (
        run.run_id,
        run.status,
        count,
        run.current_node or "-",
        one_line(run.workflow or "-"),
        when,
        one_line(", ".join(notes)),
    )
