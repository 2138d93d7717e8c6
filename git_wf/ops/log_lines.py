"""Which checkpoints `git wf log` shows, and what plain `git log` prints of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from git_wf.core.clock import duration_text
from git_wf.core.log_format import LogFormat, parse_format
from git_wf.core.names import Oid, visit_name
from git_wf.core.outcome import normal_status
from git_wf.core.timeline import Entry
from git_wf.core.trailers import one_line, run_commit_fields
from git_wf.errors import GitFailed, UserError
from git_wf.ops.log import RunLog
from git_wf.ops.project import Project
from git_wf.ops.select import Selected
from git_wf.ops.show import read_checkpoint


@dataclass(frozen=True)
class Wanted:
    """What of a timeline is asked for. Empty: all of it."""

    range: str = ""  # `A..B`: what came after A, up to B
    count: int | None = None  # the newest so many, of what is left
    since: str = ""  # a date as git understands it
    nodes: tuple[str, ...] = ()  # `plan`, or `plan@2`
    statuses: tuple[str, ...] = ()
    is_reversed: bool = False
    paths: tuple[str, ...] = ()  # that a checkpoint changed

    @property
    def newest(self) -> int | None:
        """How many of the newest checkpoints are enough to tell; None where any can be wanted."""
        picks = self.range or self.since or self.nodes or self.statuses or self.paths
        return None if picks else self.count


def wanted_entries(project: Project, log: RunLog, wanted: Wanted) -> list[Entry]:
    """Oldest first; newest first where it is reversed. Raises `UserError`."""
    entries = _in_range(project, log, wanted.range)
    if wanted.since:
        moment = _seconds(project, wanted.since)
        entries = [one for one in entries if _seconds_of(one) >= moment]
    if wanted.nodes:
        entries = [one for one in entries if one.node in wanted.nodes or one.name in wanted.nodes]
    if wanted.statuses:
        words = {normal_status(word) or word for word in wanted.statuses}
        entries = [one for one in entries if words & {one.status, one.recorded_status}]
    if wanted.paths:
        touched = _touching(project, log, wanted.paths)
        entries = [one for one in entries if one.ordinal in touched]
    if wanted.count is not None:
        entries = entries[len(entries) - min(wanted.count, len(entries)) :]
    return entries[::-1] if wanted.is_reversed else entries


def _in_range(project: Project, log: RunLog, text: str) -> list[Entry]:
    first, _, last = text.partition("..")
    after = _end(project, log, first) if first else None
    until = _end(project, log, last) if last else None
    return [
        one
        for one in log.timeline.entries
        if (after is None or after.ordinal < one.ordinal)
        and (until is None or one.ordinal <= until.ordinal)
    ]


def _end(project: Project, log: RunLog, word: str) -> Entry:
    """The checkpoint that an end of a range names."""
    return Selected(log.run, log.timeline, word).entry(project, "0")


def _seconds(project: Project, date: str) -> int:
    """Seconds since 1970 of a date, as git reads it."""
    told = project.repo.line("rev-parse", f"--since={date}")
    return int(told.removeprefix("--max-age="))


def _seconds_of(entry: Entry) -> float:
    return datetime.fromisoformat(entry.timestamp.replace("Z", "+00:00")).timestamp()


def _touching(project: Project, log: RunLog, paths: Sequence[str]) -> set[int]:
    """Ordinals of the checkpoints in whose range one of the paths changed."""
    tip = log.run.refs.run_tip
    if tip is None:
        return set()
    listed = project.repo.git(
        "rev-list", "--first-parent", tip, f"^{log.run.base}", "--", *paths, cwd=project.host.cwd
    ).decode()
    entries = log.timeline.entries
    places = [log.timeline.ranges.get(Oid(line)) for line in listed.split()]
    return {entries[at].ordinal for at in places if at is not None and at < len(entries)}


@dataclass(frozen=True)
class GitLog:
    """A call of plain `git log`: a format of git's with our names in it, and options for git.

    A merge is shown as what it brought to the run branch.
    """

    project: Project
    log: RunLog
    text: str
    options: Sequence[str] = ()
    paths: Sequence[str] = ()
    colour: bool = False

    def of(self, entries: Sequence[Entry], *, is_reversed: bool) -> str:
        """What git prints of the commits of those checkpoints, in their order.

        Commits that a node made itself are among them, each before its checkpoint's.
        """
        commits = _commits(self.log, entries, is_reversed)
        if not commits:
            return ""
        listed = "".join(f"{commit}\n" for commit in commits)
        return self._printed("--no-walk=unsorted", "--stdin", "--first-parent", stdin=listed)

    def graph(self, wanted: Wanted) -> str:
        """What git draws of the run branch and the heads of its open branches."""
        log, names = self.log, self.project.settings.names
        if log.run.refs.run_tip is None:
            return ""
        first, _, last = wanted.range.partition("..")
        after = _end(self.project, log, first).commit if first else log.run.base
        until = _end(self.project, log, last).commit if last else log.run.refs.run_tip
        limits = [f"--max-count={wanted.count}"] if wanted.count is not None else []
        limits += [f"--since={wanted.since}"] if wanted.since else []
        if {"--stat", "--patch"} & set(self.options):
            limits.append("--diff-merges=first-parent")
        heads = [] if last else [f"--glob={names.par_root}/{log.run.run_id}/*/run"]
        return self._printed(
            "--graph", "--topo-order", *limits, str(until), *heads, f"^{after}",
        )  # fmt: skip

    def _printed(self, *args: str, stdin: str = "") -> str:
        form = parse_format(self.text, os.urandom(8).hex())
        shade = "--color=always" if self.colour else "--color=never"
        command = (
            "log", shade, "--no-show-signature", "--no-notes", "--no-mailmap", "--encoding=UTF-8",
            f"--format={form.git}", *self.options, *args, "--",
            *self.paths,
        )  # fmt: skip
        try:
            told = self.project.repo.git(*command, stdin=stdin.encode(), cwd=self.project.host.cwd)
        except GitFailed as err:  # the options of the user are among them
            said = [line for line in err.stderr.splitlines() if line.startswith("fatal: ")]
            if not said:
                raise
            raise UserError(said[0].removeprefix("fatal: "), hint="git wf log -h") from err
        return form.fill(told.decode("utf-8", "surrogateescape"), self._values(form))

    def _values(self, form: LogFormat) -> Callable[[str], Mapping[str, str]]:
        by_commit = {one.commit: one for one in self.log.timeline.entries if one.commit}

        def values(commit: str) -> Mapping[str, str]:
            entry = by_commit.get(Oid(commit))
            if entry is None:
                return _values_of_commit(self.project, Oid(commit))
            return _values_of_entry(self.project, entry, wants_cost="cost" in form.names)

        return values


def _commits(log: RunLog, entries: Sequence[Entry], is_reversed: bool) -> list[Oid]:
    """The commits in the ranges of checkpoints, each range oldest first unless it is reversed."""
    ranges: dict[int, list[Oid]] = {}
    for commit, at in log.timeline.ranges.items():
        ranges.setdefault(at, []).append(commit)
    places = {one.ordinal: at for at, one in enumerate(log.timeline.entries)}
    found: list[Oid] = []
    for entry in entries:
        own = ranges.get(places[entry.ordinal], [])
        found += own[::-1] if is_reversed else own
    return found


def _values_of_entry(project: Project, entry: Entry, *, wants_cost: bool) -> Mapping[str, str]:
    cost = ""
    if wants_cost:
        checkpoint = read_checkpoint(project, entry)
        usage = (checkpoint.outcome.usage if checkpoint and checkpoint.outcome else None) or {}
        cost = str(usage.get("cost_usd", ""))
    status = entry.recorded_status or entry.status
    return {
        "node": entry.node,
        "visit": str(entry.visit),
        "status": status,
        "ordinal": str(entry.ordinal),
        "duration": "" if entry.duration_ms is None else duration_text(entry.duration_ms),
        "cost": cost,
        "run": entry.run,
        "commit": entry.commit or "",
        "meta": entry.metadata_commit or "",
        "title": f"@{entry.ordinal} {entry.name} ({status})",
    }


def _values_of_commit(project: Project, commit: Oid) -> Mapping[str, str]:
    """Of a commit that is no checkpoint of the timeline: in a parallel branch, or a node's own."""
    message = project.store.reader.read_commit(commit).message
    fields = run_commit_fields(project.settings.names, message)
    if fields is None or not fields.branch:
        return {"commit": commit, "title": one_line(message.split("\n", 1)[0])}
    return {
        "node": fields.node,
        "visit": str(fields.visit),
        "status": fields.status,
        "run": fields.run,
        "commit": commit,
        "meta": fields.metadata_commit or "",
        "title": f"{visit_name(fields.node, fields.visit)} ({fields.status}) in {fields.branch}",
    }
