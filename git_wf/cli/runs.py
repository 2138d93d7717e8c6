"""`git wf runs`."""

from __future__ import annotations

import click

from git_wf.cli.common import json_option, open_here, reading
from git_wf.cli.group import verb
from git_wf.cli.output import age, painted, table, write, write_error, write_json
from git_wf.core.checkpoint import FORMAT
from git_wf.core.names import visit_name
from git_wf.core.trailers import one_line
from git_wf.ops.log import SORT_KEYS, RunSummary, WantedRuns, list_runs


@verb("runs")
@click.option("--status", "statuses", multiple=True, metavar="STATUS", help="Of that status.")
@click.option("--label", "labels", multiple=True, metavar="KEY[=VALUE]", help="With that label.")
@click.option("--workflow", "workflows", multiple=True, metavar="NAME", help="Of that workflow.")
@click.option(
    "--sort", metavar="[-]KEY", default="-created",
    help=f"Order by {', '.join(SORT_KEYS)}; with - backwards.",
)  # fmt: skip
@json_option
def command(
    statuses: tuple[str, ...],
    labels: tuple[str, ...],
    workflows: tuple[str, ...],
    sort: str,
    as_json: bool,
) -> None:
    """List the runs in this repository, newest first.

    \b
    git wf runs
    git wf runs --status fail --status interrupted --sort -updated
    git wf runs --label ticket=12 --json
    """
    if sort.removeprefix("-") not in SORT_KEYS:
        raise click.UsageError(f"--sort '{sort}' is none of {', '.join(SORT_KEYS)}")
    with open_here() as project:
        wanted = WantedRuns(statuses, labels, workflows, sort)
        runs = wanted.of(list_runs(project))
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
            named = statuses or labels or workflows
            write_error(f"no {'such ' if named else ''}runs in this repository")


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
