"""`git wf log`."""

from __future__ import annotations

from git_wf.cli.common import json_option, open_here, reading, run_argument
from git_wf.cli.group import verb
from git_wf.cli.output import age, duration, painted, short, table, write, write_error, write_json
from git_wf.cli.waiting import answer_option, waiting_lines
from git_wf.core.names import visit_name
from git_wf.core.timeline import Entry
from git_wf.core.trailers import one_line
from git_wf.ops.log import RunLog, read_log


@verb("log")
@run_argument
@json_option
def command(run: str | None, as_json: bool) -> None:
    """Show the timeline of a run: every checkpoint, oldest first.

    RUN is a run id, the beginning of one, or a run branch. Without it, the run whose branch you
    are on, else the newest.

    \b
    git wf log
    git wf log 01JK --json
    """
    with open_here() as project:
        log = read_log(project, run)
        if as_json:
            write_json(log.to_json())
            return
        with reading(project) as colour:
            _write_head(log, colour)
            now = project.host.clock.now()
            entries = log.timeline.entries
            rows = [_row(log, entry, age(entry.timestamp, now)) for entry in entries]
            lines = table(rows, right=(0, 3))
            for entry, line in zip(entries, lines, strict=True):
                write(_painted_row(entry, line, colour))
        for notice in log.notices:
            write_error(f"notice: {notice}")


def _write_head(log: RunLog, colour: bool) -> None:
    record = log.run.record
    workflow = one_line(str(record.get("workflow_slug") or "workflow"))
    status = painted(log.status, log.status, colour)
    write(f"run {log.run.run_id}  {workflow}  {status}")
    origin = record.get("forked_from")
    if origin:
        write(f"forked from run {origin.get('run')} @{origin.get('ordinal')}")
    parent = record.get("parent")
    if parent:
        where = visit_name(str(parent.get("node")), int(parent.get("visit") or 1))
        write(f"child of run {parent.get('run')} {where}")
    reason = (log.run.conclusion or {}).get("failure_reason")
    if reason:
        write(f"reason: {one_line(str(reason))}")
    if log.status == "waiting" and log.run.waiting is not None:
        for line in waiting_lines(log.run.waiting):
            write(line)
        write(f"go on: git wf resume {log.run.run_id} {answer_option(log.run.waiting)}")
    write(f"branch {log.branch}, from {short(log.run.base)}")
    if not log.timeline.entries:
        write("no checkpoint yet")


def _row(log: RunLog, entry: Entry, when: str) -> tuple[str, ...]:
    counts = log.counts_of(entry)
    changed = "no change"
    if counts.files:
        changed = f"{counts.files} file{'' if counts.files == 1 else 's'}"
        changed += f" +{counts.insertions} -{counts.deletions}"
    return (
        f"@{entry.ordinal}",
        entry.name,
        entry.recorded_status or entry.status,
        duration(entry.duration_ms),
        changed,
        short(entry.commit),
        when,
        ", ".join(entry.notes),
    )


def _painted_row(entry: Entry, line: str, colour: bool) -> str:
    if not colour:
        return line
    status = entry.recorded_status or entry.status
    head, found, rest = line.partition(f"  {status}")
    line = f"{head}{painted(found, entry.status, True)}{rest}"
    return line.replace(short(entry.commit), painted(short(entry.commit), "commit", True), 1)
