"""`git wf log`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from git_wf.cli.common import TailCommand, json_option, open_here, reading
from git_wf.cli.group import CONTEXT, VERBS
from git_wf.cli.output import (
    age,
    duration,
    json_text,
    painted,
    short,
    table,
    usage_text,
    write,
    write_error,
    write_json,
)
from git_wf.cli.waiting import answer_option, waiting_lines
from git_wf.core.checkpoint import FORMAT
from git_wf.core.names import visit_name
from git_wf.core.timeline import Entry
from git_wf.core.trailers import one_line, plain_text
from git_wf.ops.log import RunLog, read_log, read_logs
from git_wf.ops.log_lines import GitLog, Wanted, wanted_entries
from git_wf.ops.project import Project

COUNTED = 1000  # checkpoints of a table: to count what changed at more of them takes seconds
ONELINE = "%C(auto)%h%C(reset) %(title)"
_COUNT = re.compile(r"-([0-9]+)")  # as git has it: `-3`


@click.command(
    "log",
    cls=TailCommand,
    context_settings={**CONTEXT, "ignore_unknown_options": True},
    short_help=VERBS["log"],
)
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="[RUN] [A..B] [GIT-OPTION...] [-- PATH...]"
)
@click.option("--all", "of_all", is_flag=True, help="All runs.")
@click.option("-n", "count", type=click.IntRange(min=0), metavar="N", help="The newest N only.")
@click.option("--since", metavar="DATE", default="", help="Not those before a date.")
@click.option("--node", "nodes", multiple=True, metavar="NODE", help="Of a node, or one visit.")
@click.option("--status", "statuses", multiple=True, metavar="STATUS", help="Of that status.")
@click.option("--reverse", "is_reversed", is_flag=True, help="Newest first.")
@click.option("--oneline", is_flag=True, help="A line each, without a table.")
@click.option("--graph", is_flag=True, help="With the branches, as git log --graph draws them.")
@click.option("--stat", is_flag=True, help="With the files that changed.")
@click.option("-p", "--patch", is_flag=True, help="With what changed in them.")
@click.option("--format", "--pretty", "text", metavar="FMT", help="git's formats, and our names.")
@json_option
@click.option("--jsonl", "as_lines", is_flag=True, help="Print a JSON object a checkpoint.")
@click.option("-z", "nul", is_flag=True, help="End each with NUL instead of a newline.")
@click.pass_context
def command(
    context: click.Context,
    /,
    words: tuple[str, ...],
    of_all: bool,
    as_json: bool,
    as_lines: bool,
    nul: bool,
    **options: Any,
) -> None:
    """Show the timeline of a run: every checkpoint, oldest first.

    RUN is a run id, the beginning of one, or a run branch. Without it, the run whose branch you
    are on, else the newest. A..B are the checkpoints after A up to B, each as for show.

    A format is git's own (`oneline`, `%h %an`), with %(node) %(visit) %(status) %(ordinal)
    %(duration) %(cost) %(run) %(commit) %(meta) %(title) put in. Options that are not listed here
    go to git log, as `--author=NAME`; after -- come paths.

    \b
    git wf log
    git wf log 01JK plan@1..plan@2 --stat
    git wf log --format='%h %<(12)%(node) %(status) %ar' -n 20
    """
    asked = _asked(words, context.meta.get("tail") or (), options)
    end = "\0" if nul else "\n"
    with open_here() as project:
        newest = None if asked.graph else asked.wanted.newest
        logs = read_logs(project) if of_all else [read_log(project, asked.run, newest)]
        shown = [(log, wanted_entries(project, log, asked.wanted)) for log in logs]
        if as_json:
            told = [log.to_json(entries) for log, entries in shown]
            write_json({"format": FORMAT, "runs": told} if of_all else told[0])
        elif as_lines:
            for log, entries in shown:
                log.count_changes(entries)
                for entry in entries:
                    line = {"run_id": log.run.run_id, **log.checkpoint_json(entry)}
                    sys.stdout.write(json_text(line) + end)
        else:
            with reading(project) as colour:
                for number, (log, entries) in enumerate(shown):
                    if asked.text is None:
                        _write_table(project, log, entries, colour, end, with_gap=number > 0)
                    else:
                        _write_git(project, log, entries, asked, colour, nul)
        for log in logs:
            which = f"run {log.run.run_id}: " if of_all else ""
            for notice in log.notices:
                write_error(f"notice: {which}{notice}")


@dataclass(frozen=True)
class _Asked:
    run: str | None
    wanted: Wanted
    text: str | None  # a format for git; None: the table
    git_options: tuple[str, ...]
    graph: bool


def _asked(words: Sequence[str], paths: Sequence[str], options: dict[str, Any]) -> _Asked:
    """Sorts the words: a run, a range, options for git."""
    plain = [word for word in words if not word.startswith("-")]
    given = [word for word in words if word.startswith("-")]
    ranges = [word for word in plain if ".." in word]
    runs = [word for word in plain if ".." not in word]
    if len(ranges) > 1 or len(runs) > 1:
        raise click.UsageError("log takes a run and a range A..B")
    count = options["count"]
    if counts := [matched[1] for word in given if (matched := _COUNT.fullmatch(word))]:
        count = int(counts[-1])
        given = [word for word in given if not _COUNT.fullmatch(word)]
    given += [f"--{name}" for name in ("stat", "patch") if options[name]]
    wanted = Wanted(
        range="".join(ranges),
        count=count,
        since=options["since"],
        nodes=options["nodes"],
        statuses=options["statuses"],
        is_reversed=options["is_reversed"],
        paths=tuple(paths),
    )
    graph = options["graph"]
    if graph and (wanted.nodes or wanted.statuses or wanted.is_reversed):
        raise click.UsageError(
            "--graph draws all nodes, newest first: no --node, --status, --reverse"
        )
    text = options["text"]
    if text is None and (graph or options["oneline"] or given):
        text = ONELINE
    run = runs[0] if runs else None
    return _Asked(run, wanted, text, tuple(given), graph)


def _write_table(
    project: Project,
    log: RunLog,
    entries: Sequence[Entry],
    colour: bool,
    end: str,
    *,
    with_gap: bool,
) -> None:
    if with_gap:
        write("")
    _write_head(log, colour)
    if len(entries) <= COUNTED:
        log.count_changes(entries)
    now = project.host.clock.now()
    rows = [_row(log, entry, age(entry.timestamp, now)) for entry in entries]
    for entry, line in zip(entries, table(rows, right=(0, 3)), strict=True):
        sys.stdout.write(_painted_row(entry, line, colour) + end)


def _write_git(
    project: Project,
    log: RunLog,
    entries: Sequence[Entry],
    asked: _Asked,
    colour: bool,
    nul: bool,
) -> None:
    assert asked.text is not None, asked
    options = (*asked.git_options, "-z") if nul else asked.git_options
    git = GitLog(project, log, asked.text, options, asked.wanted.paths, colour)
    told = (
        git.graph(asked.wanted)
        if asked.graph
        else git.of(entries, is_reversed=asked.wanted.is_reversed)
    )
    sys.stdout.write(told if nul or colour else plain_text(told))


def _write_head(log: RunLog, colour: bool) -> None:
    record = log.run.record
    workflow = one_line(str(record.get("workflow_slug") or "workflow"))
    status = painted(log.status, log.status, colour)
    write(f"run {log.run.run_id}  {workflow}  {status}")
    if log.run.foreign is not None:
        write(f"recorded by {log.run.dialect.capitalize()}")
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
    place = "archived" if log.run.refs.is_archived else f"branch {log.branch}"
    if log.run.foreign is not None and log.run.refs.run_tip is None:
        place = "no run branch"
    write(f"{place}, from {short(log.run.base)}" if log.run.base else place)
    used = usage_text(log.run.checkpoint.totals if log.run.checkpoint else {})
    if used:
        write(f"used: {used}")
    if not log.timeline.entries:
        write("no checkpoint yet")


def _row(log: RunLog, entry: Entry, when: str) -> tuple[str, ...]:
    counts = log.counts_of(entry)
    changed = "no change"
    if counts is None:
        changed = "not known" if entry.commit and log.counts else ""
    elif counts.files:
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
    if entry.commit is None:
        return line
    return line.replace(short(entry.commit), painted(short(entry.commit), "commit", True), 1)
