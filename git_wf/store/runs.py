"""The runs in a repository: which there are, what each recorded, and its timeline.

Reading starts few processes, whatever the number of runs or checkpoints: one `for-each-ref` for
all runs, two `git log` for a timeline, one live `cat-file` for records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from git_wf.core.checkpoint import Checkpoint, check_format, load_json
from git_wf.core.clock import rfc3339_seconds
from git_wf.core.dialects import (
    OURS,
    checkpoint_record,
    foreign_origin,
    is_ours,
    own_checkpoint,
)
from git_wf.core.names import (
    FOREIGN_NAMESPACES,
    Names,
    Oid,
    RefName,
    RunId,
    is_run_id,
    visit_name,
)
from git_wf.core.outcome import normal_status
from git_wf.core.places import Place, other_places, other_roots
from git_wf.core.summary import Summary, read_summary
from git_wf.core.timeline import Entry
from git_wf.core.trailers import (
    RunCommitFields,
    checkpoint_fields,
    own_fields,
    run_commit_fields,
    run_commit_message,
)
from git_wf.errors import StateUnreadable
from git_wf.store.archive import Archive, ArchivedRun
from git_wf.store.commit_log import CommitLog, LogLine
from git_wf.store.dialects import ForeignReader, ForeignRun, Tips
from git_wf.store.files import is_locked
from git_wf.store.objects import (
    Commit,
    ObjectReader,
    Tree,
    decode_commit,
    decode_tree,
    encode_commit,
    hash_object,
)
from git_wf.store.objects import Entry as TreeEntry
from git_wf.store.refs import list_refs
from git_wf.store.repo import Repo


@dataclass(frozen=True)
class RunRefs:
    """The two refs of a run; one may be missing. Those of an archived run are not there any more:
    their tips are in the archive. `place` is where they are, where that is not our namespace."""

    run_id: RunId
    run_tip: Oid | None
    meta_tip: Oid | None
    is_archived: bool = False
    place: Place | None = None


def _pairs(names: Names, tips: Mapping[RefName, Oid]) -> dict[RunId, RunRefs]:
    """The runs whose refs are in our namespace; a branch beside them that is named otherwise is
    none. For many: no name is put together again."""
    branches, states = f"refs/heads/{names.run_namespace}/", f"{names.meta_root}/"
    heads = {ref[len(branches) :]: tip for ref, tip in tips.items() if ref.startswith(branches)}
    metadata = {ref[len(states) :]: tip for ref, tip in tips.items() if ref.startswith(states)}
    return {
        RunId(run): RunRefs(RunId(run), heads.get(run), metadata.get(run))
        for run in {**heads, **metadata}
        if is_run_id(run)
    }


class TipSummary(NamedTuple):
    """What the newest metadata commit of a run tells of it."""

    summary: Summary
    seconds: int  # of the commit, since 1970


_SLACK = 32  # commits that are no checkpoints, among the newest ones
_COMMITTED = re.compile(rb"^committer .* ([0-9]+) [-+][0-9]{4}$", re.MULTILINE)


class RunIndex(Mapping[RunId, RunRefs]):
    """Runs, oldest first (a ULID begins with its time). Of the archived ones only the ids are
    read before one is asked for. `others` are those in other places than our namespace."""

    def __init__(
        self,
        store: RunStore,
        tips: Mapping[RefName, Oid],
        others: Mapping[RunId, Place] | None = None,
    ) -> None:
        names = store.names
        self._store = store
        self._tips = tips
        self.archive = store.read_archive(tips.get(names.archive_ref))
        old = [ref for ref in tips if ref.startswith(names.old_root)]
        self.kept = {ref: kept for ref in old if (kept := names.kept_tip(ref)) is not None}
        pairs = _pairs(names, tips)
        there = {run: refs for run, refs in pairs.items() if not self._is_leaving(refs)}
        self._own = store.own_runs(there)
        archived = self.archive.runs
        known = {*self._own, *archived, *(pairs.keys() - there.keys())}
        self.others = {run: place for run, place in (others or {}).items() if run not in known}
        self.open = sorted({*self._own, *self.others})
        self._ids = sorted({*self.open, *archived}) if archived else self.open

    def __getitem__(self, run: RunId) -> RunRefs:
        own = self._own.get(run)
        if own is not None:
            return own
        place = self.others.get(run)
        if place is not None:
            run_tip, meta_tip = (
                self._tips[ref] if ref else None for ref in (place.run_ref, place.meta_ref)
            )
            return RunRefs(run, run_tip, meta_tip, place=place)
        if run not in self.archive:
            raise KeyError(run)
        return self._store.archived_refs(self.archive.entry(self._store.reader, run))

    def _is_leaving(self, pair: RunRefs) -> bool:
        """Whether a crash left the branch of a run that is gone: its metadata goes first."""
        if pair.meta_tip is not None:
            return False
        run = pair.run_id
        sides = {(kept.operation, kept.side): self._tips[ref]
                 for ref, kept in self.kept.items() if kept.run == run}  # fmt: skip
        return run in self.archive or any(
            side == "run" and tip == pair.run_tip and (operation, "meta") in sides
            for (operation, side), tip in sides.items()
        )

    def __iter__(self) -> Iterator[RunId]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def tip(self, ref: str) -> Oid | None:
        """Where a ref of ours is."""
        return self._tips.get(RefName(ref))

    @property
    def last_operation(self) -> str:
        """The newest operation whose tips are kept; empty where there is none."""
        return max((kept.operation for kept in self.kept.values()), default="")

    @property
    def newest(self) -> RunId | None:
        """The newest run; an archived one where there are no others."""
        return max(self.open or self._ids, default=None)


@dataclass(frozen=True)
class StoredRun:
    """What a metadata tip says of its run."""

    refs: RunRefs
    record: Mapping[str, Any]  # run.json
    tree: Tree  # of the metadata tip
    checkpoint: Checkpoint | None
    conclusion: Mapping[str, Any] | None
    waiting: Mapping[str, Any] | None
    foreign: ForeignRun | None = None  # of Fabro's or Arc's: all that was read of it

    @property
    def run_id(self) -> RunId:
        return self.refs.run_id

    @property
    def base(self) -> Oid:
        """Empty where it is not known, of a run of Fabro's or Arc's."""
        return Oid(str(self.record["base_sha"]))

    @property
    def dialect(self) -> str:
        """Who recorded it: `wf`, `fabro`, `arc`."""
        if self.foreign is None:
            return OURS
        return self.foreign.dialect or (self.refs.place.namespace if self.refs.place else "")

    @property
    def lineage(self) -> tuple[str, ...]:
        """The runs that this one was forked from, oldest first, then itself."""
        past = self.record.get("lineage") or []
        return (*(str(one.get("run")) for one in past), self.run_id)


@dataclass(frozen=True)
class Timeline:
    """The checkpoints of a run, oldest first, and the state before the first one."""

    entries: tuple[Entry, ...]
    start: Entry
    # Any first-parent commit of the run → the position in `entries` of the checkpoint whose
    # range it is in.
    ranges: Mapping[Oid, int] = field(repr=False)
    notices: tuple[str, ...] = ()

    def entry_of(self, commit: Oid) -> Entry | None:
        """The checkpoint whose run commit, metadata commit or range `commit` is."""
        if commit in self.ranges:
            position = self.ranges[commit]
            return self.entries[position] if position < len(self.entries) else None
        for entry in (self.start, *self.entries):
            if commit in (entry.commit, entry.metadata_commit):
                return entry
        return None


def _stored(refs: RunRefs, found: ForeignRun) -> StoredRun:
    last = next((one for one in found.entries[::-1] if one.metadata_commit), None)
    before = found.entries[last.ordinal - 2] if last and last.ordinal > 1 else None
    checkpoint = None
    if last is not None and found.raw is not None:
        checkpoint = own_checkpoint(refs.run_id, found.raw, last.ordinal, before)
    return StoredRun(refs, found.record, found.tree, checkpoint, found.conclusion, None, found)


_TABLE = (dict, type(None))
_RECORD_TYPES: Mapping[str, tuple[type, ...]] = {
    "base_sha": (str,),
    "lineage": (list, type(None)),
    "forked_from": _TABLE,
    "parent": _TABLE,
    "labels": _TABLE,
    "config": _TABLE,
    "inputs": _TABLE,
}


def check_record(record: Mapping[str, Any], origin: str) -> None:
    """What is read of a run record without asking again."""
    for key, types in _RECORD_TYPES.items():
        if not isinstance(record.get(key), types):
            raise StateUnreadable(f"read '{origin}': '{key}' is missing or has the wrong type")
    if not all(isinstance(one, dict) for one in record.get("lineage") or []):
        raise StateUnreadable(f"read '{origin}': 'lineage' is missing or has the wrong type")


class RunStore:
    """The runs of one repository in one namespace."""

    def __init__(self, repo: Repo, names: Names) -> None:
        self.repo = repo
        self.names = names
        self._reader: ObjectReader | None = None

    @property
    def reader(self) -> ObjectReader:
        if self._reader is None:
            self._reader = ObjectReader(self.repo)
        return self._reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # Which runs there are.

    def refs(self) -> RunIndex:
        """Our runs in our namespace: those that can be changed. A branch of the user's own beside
        them, such as `wf/run/attempt`, is none."""
        return RunIndex(self, list_refs(self.repo, *self._roots()))

    def every(self) -> RunIndex:
        """All runs that can be read: ours in other namespaces, Fabro's and Arc's among them."""
        roots = dict.fromkeys((*self._roots(), *other_roots(self.names)))
        tips = list_refs(self.repo, *roots)
        ours = tuple(f"{root}/" for root in self._roots())
        others = tips if self.names.is_shared else [one for one in tips if not one.startswith(ours)]
        return RunIndex(self, tips, other_places(self.names, others))

    def _roots(self) -> tuple[str, ...]:
        names = self.names
        branches = f"refs/heads/{names.run_namespace}"
        return branches, names.meta_root, names.old_root, names.archive_ref

    def own_runs(self, pairs: Mapping[RunId, RunRefs]) -> Mapping[RunId, RunRefs]:
        """Those that are ours, where Fabro's or Arc's can have refs of the same names."""
        if not self.names.is_shared:
            return pairs
        return {run: refs for run, refs in pairs.items() if self._is_ours(refs)}

    def _is_ours(self, refs: RunRefs) -> bool:
        if refs.meta_tip is not None:
            return not self.names.has_shared_metadata or self._is_our_state(refs.meta_tip)
        if refs.run_tip is None or self.names.namespace not in FOREIGN_NAMESPACES:
            return True
        message = self.reader.read_commit(refs.run_tip).message
        return run_commit_fields(self.names, message) is not None

    def _is_our_state(self, metadata: Oid) -> bool:
        try:
            return is_ours(
                load_json(self.read_bytes(self.tree_of(metadata), "run.json") or b"", "")
            )
        except StateUnreadable:
            return False

    def run_refs(self, run: RunId) -> RunRefs | None:
        names = self.names
        tips = list_refs(self.repo, names.run_branch(run), names.meta_ref(run), names.archive_ref)
        found = self.pair(tips, run)
        if found.run_tip or found.meta_tip:
            return found
        archive = self.read_archive(tips.get(names.archive_ref))
        return self.archived_refs(archive.entry(self.reader, run)) if run in archive else None

    def newest_id(self) -> str:
        """The newest run of ours that is not archived; empty where there is none."""
        words = ("--sort=-refname", "--count=1", "--format=%(refname)")
        run = self.names.run_of_ref(self.repo.line("for-each-ref", *words, self.names.meta_root))
        return run if run is not None and is_run_id(run) else ""

    def pair(self, tips: Mapping[RefName, Oid], run: RunId) -> RunRefs:
        return RunRefs(
            run, tips.get(self.names.run_branch(run)), tips.get(self.names.meta_ref(run))
        )

    def read_archive(self, tip: Oid | None) -> Archive:
        return Archive.read(self.reader, self.names, tip)

    def archived_refs(self, archived: ArchivedRun) -> RunRefs:
        return replace(self.pair(archived.refs, archived.run_id), is_archived=True)

    def lock_path(self, run: str) -> Path:
        return self.repo.run_lock(run)

    def is_live(self, run: str) -> bool:
        return is_locked(self.lock_path(run))

    def live_runs(self) -> set[str]:
        """All that somebody goes on with."""
        try:
            names = os.listdir(self.repo.common_dir / "git-wf")
        except OSError:
            return set()
        runs = (name.removesuffix(".lock") for name in names if name.endswith(".lock"))
        return {run for run in runs if self.is_live(run)}

    # What one recorded.

    def summaries(self, known: RunIndex) -> dict[RunId, TipSummary]:
        """What the newest metadata commit tells of each of our runs, by one process; the runs
        whose record has to be read are left out."""
        tips = {run: known[run].meta_tip for run in known.open if run not in known.others}
        commits = self.reader.read_many(tip for tip in tips.values() if tip)
        found = {}
        for run, tip in tips.items():
            kind, data = commits.get(tip or Oid(""), ("", b""))
            head, _, message = data.partition(b"\n\n")
            told = read_summary(self.names, message.decode("utf-8", "replace"))
            if kind == "commit" and told is not None:
                found[run] = TipSummary(told, int(_COMMITTED.findall(head)[-1]))
        return found

    def load(self, refs: RunRefs) -> StoredRun:
        """Raises `StateUnreadable` that names what is missing or corrupt.

        Of a run of Fabro's or Arc's what is missing is told by notices.
        """
        if refs.meta_tip is None:
            if refs.place is None or self._is_ours_elsewhere(refs):
                raise self._no_metadata(refs)
            return self._load_foreign(refs)
        try:
            tree = self.tree_of(refs.meta_tip)
            record = self.read_json(tree, "run.json", refs.run_id)
        except StateUnreadable:
            if refs.place is None:
                raise
            return self._load_foreign(refs)
        if refs.place is not None and not is_ours(record):
            return self._load_foreign(refs)
        if record is None:
            raise StateUnreadable(f"run {refs.run_id} has no run.json in its metadata")
        origin = self.meta_ref(refs)
        check_record(record, f"{origin}:run.json")
        checkpoint = self.read_json(tree, "checkpoint.json", refs.run_id)
        name = f"{origin}:checkpoint.json"
        return StoredRun(
            refs=refs,
            record=record,
            tree=tree,
            checkpoint=None if checkpoint is None else Checkpoint.from_json(checkpoint, name),
            conclusion=self.read_json(tree, "conclusion.json", refs.run_id),
            waiting=self.read_json(tree, "waiting.json", refs.run_id),
        )

    def _no_metadata(self, refs: RunRefs) -> StateUnreadable:
        ref = self.meta_ref(refs)
        hints = [f"fetch it: {self.fetch_command(refs)}"]
        named = self._named_metadata(refs)
        if named is not None:
            hints.insert(0, f"git update-ref {ref} {named} makes it again")
        return StateUnreadable(f"run {refs.run_id} has no metadata ref '{ref}'", hint=hints)

    def names_of(self, refs: RunRefs) -> Names:
        """The names in the namespace that a run is in."""
        return self.names if refs.place is None else Names(refs.place.namespace)

    def run_ref(self, refs: RunRefs) -> RefName:
        """The run branch of a run, whether it is there or not."""
        there = refs.place.run_ref if refs.place else None
        return there or self.names_of(refs).run_branch(refs.run_id)

    def meta_ref(self, refs: RunRefs) -> RefName:
        """The metadata ref of a run, whether it is there or not."""
        there = refs.place.meta_ref if refs.place else None
        return there or self.names_of(refs).meta_ref(refs.run_id)

    def fetch_command(self, refs: RunRefs) -> str:
        """What brings both refs of a run from a remote, to where they are looked for."""
        named = (self.run_ref(refs), self.meta_ref(refs))
        return "git fetch REMOTE " + " ".join(f"'{ref}:{ref}'" for ref in named)

    # Runs of Fabro's and Arc's.

    def _is_ours_elsewhere(self, refs: RunRefs) -> bool:
        """Whether a run without metadata in another namespace is ours, by its last commit."""
        found = self.reader.find(refs.run_tip) if refs.run_tip else None
        if found is None or found.kind != "commit":
            return False
        return run_commit_fields(self.names, self.reader.read_commit(found.oid).message) is not None

    def _load_foreign(self, refs: RunRefs) -> StoredRun:
        return self.load_foreign([refs])[refs.run_id]

    def load_elsewhere(self, known: RunIndex) -> dict[RunId, StoredRun]:
        """All of Fabro's and Arc's among `known`, at once."""
        theirs = [refs for run in known.others if not self._is_elsewhere_ours(refs := known[run])]
        return self.load_foreign(theirs) if theirs else {}

    def _is_elsewhere_ours(self, refs: RunRefs) -> bool:
        if refs.meta_tip is None:
            return self._is_ours_elsewhere(refs)
        try:
            return self._is_our_state(refs.meta_tip)
        except StateUnreadable:
            return False

    def load_foreign(self, several: Sequence[RunRefs]) -> dict[RunId, StoredRun]:
        """Runs of Fabro's and Arc's, by three processes for all of them."""
        reader = ForeignReader(self.repo, self.reader)
        tips = [Tips(refs.run_id, refs.run_tip, refs.meta_tip) for refs in several]
        found = reader.read(tips)
        return {refs.run_id: _stored(refs, found[refs.run_id]) for refs in several}

    def tree_of(self, commit: Oid) -> Tree:
        kind, data = self.reader.read(commit)
        if kind != "commit":
            raise StateUnreadable(f"'{commit}' is a {kind}, not a commit")
        _, listed = self.reader.read(decode_commit(data).tree)
        return decode_tree(listed, self.repo.object_format)

    def read_bytes(self, tree: Tree, name: str) -> bytes | None:
        """A file at the top of a metadata tree."""
        found = tree.get(name.encode())
        return None if found is None else self.reader.read(found.oid)[1]

    def read_json(self, tree: Tree, name: str, run: str) -> dict[str, Any] | None:
        data = self.read_bytes(tree, name)
        if data is None:
            return None
        origin = f"{self.names.meta_ref(run)}:{name}"
        loaded = load_json(data, origin)
        check_format(loaded, origin)
        checked: dict[str, Any] = loaded
        return checked

    def read_checkpoint(self, metadata: Oid) -> dict[str, Any] | None:
        """A checkpoint as it was recorded, in whatever layout; None where there is none."""
        tree = self.tree_of(metadata)
        files: dict[str, dict[str, Any]] = {}
        for name in ("checkpoint.json", "run.json"):
            data = self.read_bytes(tree, name)
            if data is not None and (name == "checkpoint.json" or not files):
                files[name] = load_json(data, f"{metadata}:{name}")
                check_format(files[name], f"{metadata}:{name}")
        found = checkpoint_record(files)
        return None if found is None else dict(found)

    def read_directory(self, tree: Tree, name: str) -> Iterator[tuple[str, TreeEntry]]:
        """The entries of a directory at the top of a metadata tree; none where it is missing."""
        found = tree.get(name.encode())
        if found is None:
            return
        _, listed = self.reader.read(found.oid)
        for entry, value in decode_tree(listed, self.repo.object_format).items():
            yield entry.decode("utf-8", "surrogateescape"), value

    def artifacts(self, tree: Tree) -> dict[str, bytes]:
        """Key → JSON text of the context values that are stored apart."""
        return {
            name.removesuffix(".json"): self.reader.read(entry.oid)[1]
            for name, entry in self.read_directory(tree, "artifacts")
        }

    # Its timeline.

    def timeline(self, run: StoredRun, newest: int | None = None) -> Timeline:
        """The checkpoints of a run, whoever recorded it.

        With `newest`, those before the newest so many may be left out, but for one: then the time
        that it takes does not grow with the run.
        """
        if run.foreign is not None:
            found = run.foreign
            return Timeline(found.entries, found.start, found.ranges, found.notices)
        some = self._newest(run, newest) if newest is not None else None
        return some or self._own_timeline(run)

    def _own_timeline(self, run: StoredRun) -> Timeline:
        """Joined from the run branch's first parents and the metadata chain.

        A commit of the run branch is a checkpoint where its subject and trailers name the run (or
        one that it was forked from) and its `WF-Checkpoint` names a metadata commit that says the
        same node and visit. Anything else in between belongs to the next checkpoint's range.
        """
        branch = self._start_branch_log(run)
        metadata = self._metadata_chain(run)
        lines = branch.lines()[::-1] if branch else []
        past = self._foreign_past(run, [line.commit for line in lines])
        entries: list[Entry] = list(past.entries) if past else []
        ranges: dict[Oid, int] = {}
        if past:
            theirs = past.ranges
            ranges = {
                line.commit: min(theirs[line.commit], len(entries))
                for line in lines
                if line.commit in theirs
            }
        self._join(
            run, [one for one in lines if one.commit not in ranges], metadata, entries, ranges
        )
        start = past.start if past else self._start(run, metadata)
        return Timeline(tuple(entries), start, ranges)

    def _join(
        self,
        run: StoredRun,
        lines: Iterable[LogLine],
        metadata: Mapping[Oid, _MetadataLine],
        entries: list[Entry],
        ranges: dict[Oid, int],
    ) -> None:
        """Adds the checkpoints of run commits, oldest first, to `entries`, and to `ranges` where
        each commit is."""
        lineage, seen = frozenset(run.lineage), set[str | None]()
        for line in lines:
            ranges[line.commit] = len(entries)
            fields = run_commit_fields(self.names, line.message)
            if fields is None or fields.run not in lineage:
                continue
            entry = self._entry(line, fields, metadata, entries)
            if entry is not None and entry.metadata_commit not in seen:
                entries.append(entry)
                seen |= {entry.metadata_commit} - {None}

    def _newest(self, run: StoredRun, count: int) -> Timeline | None:
        """The last checkpoints, and the one before them. None where they are all that there are,
        or where only the whole chain tells their ordinals."""
        tip, wanted = run.refs.run_tip, count + 1
        if tip is None or foreign_origin(run.record) is not None:
            return None
        limit = wanted + _SLACK
        branch = CommitLog(self.repo, "--first-parent", f"--max-count={limit}", tips=[tip])
        metadata = self._metadata_chain(run, f"--max-count={limit + _SLACK}")
        lines = branch.lines()
        if len(lines) < limit or any(line.commit == run.base for line in lines):
            return None
        entries: list[Entry] = []
        ranges: dict[Oid, int] = {}
        self._join(run, lines[::-1], metadata, entries, ranges)
        left_out = len(entries) - wanted
        kept = entries[left_out:]
        if left_out < 0 or any(one.metadata_commit is None for one in kept):
            return None
        places = {commit: at - left_out for commit, at in ranges.items() if at >= left_out}
        return Timeline(tuple(kept), self._start(run, metadata), places)

    def _start_branch_log(self, run: StoredRun) -> CommitLog | None:
        """First-parent commits of the run branch after its base, newest first: begun to be read."""
        tip = run.refs.run_tip
        if tip is None or tip == run.base:
            return None
        return CommitLog(self.repo, "--first-parent", tips=[tip, f"^{run.base}"])

    def _foreign_past(self, run: StoredRun, branch: Sequence[Oid]) -> Timeline | None:
        """Of a fork from a run of Fabro's or Arc's: the checkpoints that are theirs, as far as
        `branch`, the commits of the run branch, still has them."""
        origin = foreign_origin(run.record)
        if origin is None:
            return None
        commit, metadata = (Oid(str(origin[key])) for key in ("commit", "metadata_commit"))
        refs = RunRefs(RunId(str(origin["run"])), commit, metadata, place=Place())
        past = self.timeline(self.load_foreign([refs])[refs.run_id])
        there = set(branch)
        kept = [one.ordinal for one in past.entries if one.commit in there]
        end = min(max(kept, default=0), int(origin.get("ordinal") or 0))
        start = past.start._replace(commit=run.base)
        return replace(past, entries=past.entries[:end], start=start)

    def _metadata_chain(self, run: StoredRun, *limits: str) -> dict[Oid, _MetadataLine]:
        """Metadata commit → what its message says, newest first."""
        if run.refs.meta_tip is None:
            return {}
        log = CommitLog(
            self.repo, "--first-parent", *limits,
            tips=[run.refs.meta_tip, *self._unjoined_tip(run)],
        )  # fmt: skip
        return {line.commit: _MetadataLine.parse(self.names, line.message) for line in log.lines()}

    def _unjoined_tip(self, run: StoredRun) -> list[Oid]:
        """The metadata commit that the run tip names: a crash can leave the branch one ahead."""
        named = self._named_metadata(run.refs, of_fork=True)
        return [] if named is None else [named]

    def _named_metadata(self, refs: RunRefs, *, of_fork: bool = False) -> Oid | None:
        """The metadata commit that the run tip names; the tip of a fork can be another run's."""
        if refs.run_tip is None:
            return None
        _, data = self.reader.read(refs.run_tip)
        fields = run_commit_fields(self.names, decode_commit(data).message)
        if fields is None or not (of_fork or fields.run == refs.run_id):
            return None
        named = fields.metadata_commit
        return Oid(named) if named and self.reader.find(named) is not None else None

    def _entry(
        self,
        made: LogLine,
        fields: RunCommitFields,
        metadata: Mapping[Oid, _MetadataLine],
        before: list[Entry],
    ) -> Entry | None:
        named = Oid(fields.metadata_commit or "")
        line = metadata.get(named)
        if line is not None and line.name != visit_name(fields.node, fields.visit):
            return None  # a commit of a node that only looks like one of ours
        previous = before[-1].ordinal if before else 0
        return Entry(
            ordinal=line.ordinal if line and line.ordinal else previous + 1,
            node=fields.node,
            visit=fields.visit,
            status=normal_status(fields.status) or fields.status,
            recorded_status=fields.status,
            commit=made.commit,
            metadata_commit=named if line else None,
            run=fields.run,
            timestamp=rfc3339_seconds(made.seconds),
            next_node_id=line.next_node if line else None,
            duration_ms=line.duration_ms if line else None,
            merged=made.parents[1:],
            notes=() if line else ("no metadata",),
        )

    def operations(self) -> Iterator[tuple[Oid, list[Oid], str]]:
        """The metadata commits that tell of an operation, with parents and message.

        Of every run that has a metadata ref or whose tip is kept; each after those that came
        after it.
        """
        names = self.names
        log = CommitLog(
            self.repo, "--first-parent", "--topo-order", f"--grep=^{names.trailer('Op')}: ",
            f"--glob={names.meta_root}/*", f"--glob={names.old_root}/*/*/meta",
        )  # fmt: skip
        return ((line.commit, list(line.parents), line.message) for line in log.lines())

    def subjects_since(self, tip: Oid, commit: Oid) -> list[str] | None:
        """First lines of the metadata commits from `commit` (not itself) to `tip`, newest first.

        None where `tip` does not descend from it by first parents.
        """
        found = []
        here: Oid | None = tip
        while here is not None and here != commit:
            read = self.reader.read_commit(here)
            found.append(read.message.split("\n", 1)[0])
            here = read.parents[0] if read.parents else None
        return None if here is None else found

    def history(self, *args: str, tips: Iterable[Oid] = ()) -> Iterator[tuple[Oid, Commit]]:
        """The commits that `git log` tells of, without their people."""
        for line in CommitLog(self.repo, *args, tips=tips).lines():
            yield line.commit, Commit(line.tree, line.parents, "", "", line.message)

    def change_counts(self, timeline: Timeline, wanted: Iterable[Entry]) -> dict[Oid, ChangeCounts]:
        """Run commit → what changed since the checkpoint before, foreign commits included.

        A checkpoint whose objects are missing is left out.
        """
        ordinals = {entry.ordinal for entry in wanted}
        pairs: dict[Oid, Oid] = {}
        before = timeline.start.commit
        for entry in timeline.entries:
            if entry.commit and before and entry.ordinal in ordinals:
                pairs[entry.commit] = before
            before = entry.commit or before
        return self._compare(pairs)

    def _compare(self, pairs: Mapping[Oid, Oid]) -> dict[Oid, ChangeCounts]:
        """Counts for pairs of commits. Where git cannot, each half is tried: one that is missing
        an object says nothing about the others."""
        if not pairs:
            return {}
        done = self.repo.run(
            "diff-tree", "--stdin", "-r", "--root", "--shortstat", "--find-renames",
            "--no-ext-diff", "--no-textconv", "--ignore-submodules=none",
            stdin="".join(f"{commit} {before}\n" for commit, before in pairs.items()).encode(),
            ok=(0, 128),
        )  # fmt: skip
        if done.returncode == 0:  # of a pair without a difference nothing is printed
            unchanged = dict.fromkeys(pairs, ChangeCounts())
            return {**unchanged, **ChangeCounts.parse(done.stdout.decode())}
        if len(pairs) == 1:
            return {}
        half, listed = len(pairs) // 2, list(pairs.items())
        return {**self._compare(dict(listed[:half])), **self._compare(dict(listed[half:]))}

    def last_metadata(self, run: StoredRun) -> Oid | None:
        """The metadata commit that recorded the checkpoint which the metadata tip has.

        A rewind, fork or resume has the state of an older one; None where there is no checkpoint.
        """
        tip, state = run.refs.meta_tip, run.tree.get(b"checkpoint.json")
        theirs = run.checkpoint.extra.get("recorded_as") if run.checkpoint else None
        if isinstance(theirs, dict):  # taken over as it was by a fork
            return Oid(str(theirs.get("metadata_commit")))
        while tip is not None and state is not None:
            commit = self.reader.read_commit(tip)
            is_checkpoint = commit.message.startswith("checkpoint ")
            if is_checkpoint and self.tree_of(tip).get(b"checkpoint.json") == state:
                return tip
            tip = commit.parents[0] if commit.parents else None
        return None

    def rebuilt_commit(self, run: StoredRun, metadata: Oid) -> Oid | None:
        """The run commit of the run's checkpoint, wherever the run branch is; None: it is gone.

        Its id follows from what `metadata`, which recorded the checkpoint, has.
        """
        checkpoint = run.checkpoint
        assert checkpoint is not None, metadata
        outcome = checkpoint.outcome
        failure = outcome.failure.message if outcome and outcome.failure else ""
        fields = RunCommitFields(
            run=checkpoint.run_id,
            node=checkpoint.current_node,
            visit=checkpoint.visit,
            status=checkpoint.status,
            completed=len(checkpoint.completed_nodes),
            metadata_commit=metadata,
        )
        notes = (outcome.notes if outcome else "") or failure
        twin = self.reader.read_commit(metadata)  # with the same author and committer
        commit = Commit(
            tree=Oid(checkpoint.git_tree_sha or ""),
            parents=(Oid(checkpoint.git_parent_sha or ""),),
            author=twin.author,
            committer=twin.committer,
            message=run_commit_message(self.names, fields, notes),
        )
        oid = hash_object("commit", encode_commit(commit), self.repo.object_format)
        return oid if self.reader.find(oid) is not None else None

    def _start(self, run: StoredRun, metadata: Mapping[Oid, _MetadataLine]) -> Entry:
        inits = [commit for commit, line in metadata.items() if line.is_init]
        first = inits[-1] if inits else None
        owner = metadata[first].run if first else run.run_id
        return Entry(0, "", 0, "", run.base, first, run=owner)


@dataclass(frozen=True)
class ChangeCounts:
    files: int = 0
    insertions: int = 0
    deletions: int = 0

    @classmethod
    def parse(cls, shortstat: str) -> dict[Oid, ChangeCounts]:
        """From `diff-tree --stdin --shortstat`: a commit id, then a line where it changed."""
        counts: dict[Oid, ChangeCounts] = {}
        commit = Oid("")
        for line in shortstat.splitlines():
            if not line.startswith(" "):
                commit = Oid(line.strip())
                counts[commit] = cls()
                continue
            numbers = {
                word.strip().split(" ")[1][:3]: int(word.split()[0]) for word in line.split(",")
            }
            counts[commit] = cls(
                numbers.get("fil", 0), numbers.get("ins", 0), numbers.get("del", 0)
            )
        return counts


class _MetadataLine(NamedTuple):
    """What the message of a metadata commit says."""

    run: str
    name: str = ""  # `plan@2`, of a checkpoint
    is_init: bool = False
    ordinal: int = 0
    duration_ms: int | None = None
    next_node: str | None = None

    @classmethod
    def parse(cls, names: Names, message: str) -> _MetadataLine:
        found = checkpoint_fields(names, message)
        if found is not None:
            run, name, ordinal, following, duration = found
            return cls(run, name, False, int(ordinal), int(duration), following)
        subject = message.split("\n", 1)[0]
        fields = own_fields(names, message)
        if not subject.startswith("checkpoint "):
            return cls(run=fields.get("Run", ""), is_init=subject == "init run")
        ordinal, duration = fields.get("Ordinal", ""), fields.get("Duration-Ms", "")
        return cls(
            run=fields.get("Run", ""),
            name=subject.removeprefix("checkpoint "),
            ordinal=int(ordinal) if ordinal.isdecimal() else 0,
            duration_ms=int(duration) if duration.isdecimal() else None,
            next_node=fields.get("Next") or None,
        )
