"""Reading the refs of Fabro and Arc as they are (formats.md, section 5).

Nothing of theirs is ever written. What is missing, a ref, an object, a file, is an ordinary
state: what is there is shown, and a notice says what is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from git_wf.core.dialects import (
    RECORDS,
    ForeignCheckpoint,
    ForeignCommit,
    checkpoint_record,
    conclusion_record,
    first_line,
    foreign_graph,
    is_start,
    join,
    run_record,
    run_status,
    spec_record,
)
from git_wf.core.names import Oid, RunId, is_run_id, ulid_milliseconds
from git_wf.core.timeline import Entry
from git_wf.core.trailers import ForeignCommitFields, foreign_commit_fields
from git_wf.errors import GitFailed, StateUnreadable
from git_wf.store.commit_log import CommitLog, LogLine, first_parents
from git_wf.store.objects import ObjectReader, Tree, decode_tree
from git_wf.store.repo import Repo

_DAY = 86400  # seconds that a clock may have been behind when a run began

Files = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Tips:
    """Where the refs of a run are; either may be missing."""

    run: RunId
    branch: Oid | None
    metadata: Oid | None


@dataclass(frozen=True)
class ForeignRun:
    """Everything that is known of a run of Fabro's or Arc's."""

    dialect: str
    record: dict[str, Any]  # by the names of our run.json; `base_sha` is empty where unknown
    spec: Mapping[str, Any]  # what their run.json says the run is made of
    tree: Tree  # of the metadata tip
    raw: Mapping[str, Any] | None  # the checkpoint at the metadata tip, as recorded
    conclusion: Mapping[str, Any] | None  # where the metadata has come to its end
    entries: tuple[Entry, ...]
    start: Entry
    ranges: Mapping[Oid, int] = field(repr=False)
    told: tuple[Told, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.told)


class Told(NamedTuple):
    """What is to be said of a run as a whole, and whether something of it is missing."""

    text: str
    is_missing: bool = True


@dataclass(frozen=True)
class _Metadata:
    """One metadata commit: what it is, and the files of its tree."""

    line: LogLine
    files: Files

    @property
    def title(self) -> str:
        return first_line(self.line.message)


class ForeignReader:
    """Reads several runs at once: two `git log` and one `cat-file` for all of them."""

    def __init__(self, repo: Repo, reader: ObjectReader) -> None:
        self.repo = repo
        self.reader = reader

    def read(self, runs: Sequence[Tips]) -> dict[RunId, ForeignRun]:
        heads = [one.branch for one in runs if one.branch]
        metadata = [one.metadata for one in runs if one.metadata]
        commits = self._commits(heads, _since([one.run for one in runs]))
        states = self._commits(metadata, None)
        trees = self._trees(line.tree for line in states.values())
        blobs = self._blobs(trees.values())
        found = {}
        for one in runs:
            chain = list(first_parents(one.metadata, states)) if one.metadata else []
            known = [_Metadata(line, _files(trees.get(line.tree), blobs)) for line in chain]
            branch = list(first_parents(one.branch, commits)) if one.branch else []
            tree = trees.get(chain[0].tree, {}) if chain else {}
            found[one.run] = _assemble(one, known[::-1], branch[::-1], tree)
        return found

    def _commits(self, tips: Sequence[Oid], since: int | None) -> dict[Oid, LogLine]:
        """The first-parent chains of tips. A missing commit ends its own chain only."""
        if not tips:
            return {}
        limits = [] if since is None else [f"--since={since}"]
        try:
            lines = CommitLog(self.repo, "--first-parent", *limits, tips=tips).lines()
        except GitFailed:  # it says nothing of the child of a missing commit either
            lines = [line for tip in tips for line in self._chain(tip, since)]
        return {line.commit: line for line in lines}

    def _chain(self, tip: Oid, since: int | None) -> Iterator[LogLine]:
        """One chain, commit by commit, as far as it is there."""
        here: Oid | None = tip
        while here is not None and self.reader.find(here) is not None:
            commit = self.reader.read_commit(here)
            seconds = int(commit.committer.split(" ")[-2])
            if since is not None and seconds < since:
                return
            yield LogLine(here, commit.tree, commit.parents, seconds, commit.message)
            here = commit.parents[0] if commit.parents else None

    def _trees(self, oids: Iterable[Oid]) -> dict[Oid, Tree]:
        found = {}
        for oid, (_, data) in self.reader.read_many(oids).items():
            try:
                found[oid] = decode_tree(data, self.repo.object_format)
            except StateUnreadable:
                continue
        return found

    def _blobs(self, trees: Iterable[Tree]) -> dict[Oid, dict[str, Any]]:
        """The records of all trees, decoded; what is no JSON object is as if it were absent."""
        wanted = [
            tree[name.encode()].oid for tree in trees for name in RECORDS if name.encode() in tree
        ]
        found = {}
        for oid, (_, data) in self.reader.read_many(wanted).items():
            try:
                loaded = json.loads(data)
            except (ValueError, RecursionError):
                continue
            if isinstance(loaded, dict):
                found[oid] = loaded
        return found


def _since(runs: Sequence[RunId]) -> int | None:
    """Seconds since 1970 before which no commit of these runs was made; None: not known.

    Without it a reader would walk the whole past of the repository.
    """
    if not runs or not all(is_run_id(run) for run in runs):
        return None
    return ulid_milliseconds(min(runs)) // 1000 - _DAY


def _files(tree: Tree | None, blobs: Mapping[Oid, dict[str, Any]]) -> Files:
    found = {name: (tree or {}).get(name.encode()) for name in RECORDS}
    return {name: blobs[one.oid] for name, one in found.items() if one and one.oid in blobs}


def _assemble(
    tips: Tips,
    metadata: Sequence[_Metadata],
    branch: Sequence[LogLine],
    tree: Tree,
) -> ForeignRun:
    """`metadata` and `branch` are oldest first."""
    commits = list(_own_commits(tips.run, branch))
    recorded = list(_recorded(metadata))
    entries = join(tips.run, recorded, commits)
    base = commits[0].parents[0] if commits and commits[0].parents else None
    files = metadata[-1].files if metadata else {}
    is_finalized = bool(metadata) and metadata[-1].title == "finalize run"
    conclusion = None
    if is_finalized:
        told = conclusion_record(files)
        status = run_status(told, True, entries[-1] if entries else None)
        conclusion = {**(told or {}), "status": status}
    record = run_record(tips.run, files)
    record["base_sha"] = base or ""
    inits = [one.line.commit for one in metadata if one.title == "init run"]
    return ForeignRun(
        dialect=_dialect(commits),
        record=record,
        spec=spec_record(files),
        tree=tree,
        raw=checkpoint_record(files),
        conclusion=conclusion,
        entries=entries,
        start=Entry(0, "", 0, "", base, inits[0] if inits else None, run=tips.run),
        ranges=_ranges(branch, base, entries) if commits else {},
        told=tuple(_told(tips, metadata, commits, branch, recorded)),
    )


def _own_commits(run: str, branch: Iterable[LogLine]) -> Iterator[ForeignCommit]:
    """Those whose subject carries the run's id; parallel bases and branches among them."""
    for line in branch:
        fields = foreign_commit_fields(line.message)
        if fields is not None and fields.run == run:
            yield ForeignCommit(line.commit, line.parents, line.seconds, fields)


def _recorded(metadata: Iterable[_Metadata]) -> Iterator[ForeignCheckpoint]:
    """The checkpoints of a metadata chain. A state that is committed once more is none."""
    before: ForeignCheckpoint | None = None
    for one in metadata:
        record = checkpoint_record(one.files)
        if one.title == "init run":
            before = None
        if record is None or one.title.split(" ", 1)[0] != "checkpoint":
            continue
        outer = one.files.get("run.json") or {}
        spec = outer.get("spec")
        if is_start(record, foreign_graph(spec if isinstance(spec, dict) else outer)):
            continue
        found = ForeignCheckpoint.read(one.line.commit, record)
        if before is None or not found.is_repeated(before):
            yield found
        before = found


def _dialect(commits: Sequence[ForeignCommit]) -> str:
    return commits[-1].fields.dialect if commits else ""


def _ranges(
    branch: Iterable[LogLine], base: Oid | None, entries: Sequence[Entry]
) -> dict[Oid, int]:
    """Commit of the run branch → the position of the checkpoint in whose range it is."""
    places = {entry.commit: at for at, entry in enumerate(entries) if entry.commit}
    waiting: list[Oid] = []
    found: dict[Oid, int] = {}
    is_past = base is None or all(line.commit != base for line in branch)
    for line in branch:
        if is_past:
            waiting.append(line.commit)
        is_past = is_past or line.commit == base
        if line.commit in places:
            found.update(dict.fromkeys(waiting, places[line.commit]))
            waiting = []
    found.update(dict.fromkeys(waiting, len(entries)))
    return found


def _told(
    tips: Tips,
    metadata: Sequence[_Metadata],
    commits: Sequence[ForeignCommit],
    branch: Sequence[LogLine],
    recorded: Sequence[ForeignCheckpoint],
) -> Iterator[Told]:
    if tips.branch is None:
        yield Told("no run branch: what the metadata has is shown")
    elif not branch:
        yield Told(f"commit {tips.branch} of the run branch is not in this repository")
    elif not commits:
        yield Told("no commit of the run on its branch: what the metadata has is shown")
    elif branch[-1].commit != commits[-1].commit:
        count = [line.commit for line in branch[::-1]].index(commits[-1].commit)
        after = "a commit" if count == 1 else f"{count} commits"
        yield Told(f"{after} of somebody else on top of the run's last one", False)
    if tips.metadata is None:
        yield Told("no metadata ref: what the run branch has is shown")
    elif not metadata:
        yield Told(f"commit {tips.metadata} of the metadata ref is not in this repository")
    yield from _gaps(metadata, commits, recorded)


def _gaps(
    metadata: Sequence[_Metadata],
    commits: Sequence[ForeignCommit],
    recorded: Sequence[ForeignCheckpoint],
) -> Iterator[Told]:
    runs = sum(one.title == "init run" for one in metadata)
    if runs > 1:
        told = f"the metadata ref holds {runs} runs, one after the other: all of them are shown"
        yield Told(told, False)
    broken = sum(
        one.title.split(" ", 1)[0] == "checkpoint" and checkpoint_record(one.files) is None
        for one in metadata
    )
    if broken:
        several = f"{broken} checkpoint{'s' if broken > 1 else ''}"
        yield Told(f"{several} of the metadata cannot be read")
    there = {one.line.commit for one in metadata}
    lost = [one.fields for one in commits if _names_nothing(one.fields, there)]
    if lost:
        several = f"{len(lost)} commits name" if len(lost) > 1 else "1 commit names"
        yield Told(f"{several} metadata that is not there")
    if metadata and metadata[-1].title != "finalize run":
        yield Told("not finalized: the run was interrupted, or goes on somewhere else", False)


def _names_nothing(fields: ForeignCommitFields, there: set[Oid]) -> bool:
    return fields.metadata_commit is not None and fields.metadata_commit not in there
