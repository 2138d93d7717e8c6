"""The runs in a repository: which there are, what each recorded, and its timeline.

Reading starts few processes, whatever the number of runs or checkpoints: one `for-each-ref` for
all runs, two `git log` for a timeline, one live `cat-file` for records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint, check_format, load_json
from git_wf.core.clock import rfc3339
from git_wf.core.names import Names, Oid, RefName, RunId, is_run_id, visit_name
from git_wf.core.outcome import normal_status
from git_wf.core.timeline import Entry
from git_wf.core.trailers import (
    RunCommitFields,
    parse_trailers,
    run_commit_fields,
    run_commit_message,
)
from git_wf.errors import StateUnreadable
from git_wf.store.archive import Archive, ArchivedRun
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
    their tips are in the archive."""

    run_id: RunId
    run_tip: Oid | None
    meta_tip: Oid | None
    is_archived: bool = False


class RunIndex(Mapping[RunId, RunRefs]):
    """All runs, oldest first (a ULID begins with its time). Of the archived ones only the ids are
    read before one is asked for."""

    def __init__(self, store: RunStore, tips: Mapping[RefName, Oid]) -> None:
        names = store.names
        ids = {run for ref in tips if (run := names.run_of_ref(ref)) is not None}
        self._store = store
        self._tips = tips
        self.open = [run for run in sorted(ids) if is_run_id(run)]
        self.archive = store.read_archive(tips.get(names.archive_ref))
        self.kept = {ref: kept for ref in tips if (kept := names.kept_tip(ref)) is not None}
        self._ids = self.open
        if self.archive.tip is not None:
            self._ids = sorted({*self.open, *self.archive.runs})

    def __getitem__(self, run: RunId) -> RunRefs:
        found = self._store.pair(self._tips, run)
        if found.run_tip or found.meta_tip:
            return found
        if run not in self.archive:
            raise KeyError(run)
        return self._store.archived_refs(self.archive.entry(self._store.reader, run))

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

    @property
    def run_id(self) -> RunId:
        return self.refs.run_id

    @property
    def base(self) -> Oid:
        return Oid(str(self.record["base_sha"]))

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

    def entry_of(self, commit: Oid) -> Entry | None:
        """The checkpoint whose run commit, metadata commit or range `commit` is."""
        if commit in self.ranges:
            position = self.ranges[commit]
            return self.entries[position] if position < len(self.entries) else None
        for entry in (self.start, *self.entries):
            if commit in (entry.commit, entry.metadata_commit):
                return entry
        return None


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


_LogLine = tuple[Oid, list[Oid], int, str]  # commit, parents, seconds since 1970, message


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
        """All runs. A branch of the user's own beside ours, such as `wf/run/attempt`, is none."""
        names = self.names
        branches = f"refs/heads/{names.run_namespace}"
        return RunIndex(
            self,
            list_refs(self.repo, branches, names.meta_root, names.old_root, names.archive_ref),
        )

    def run_refs(self, run: RunId) -> RunRefs | None:
        names = self.names
        tips = list_refs(self.repo, names.run_branch(run), names.meta_ref(run), names.archive_ref)
        found = self.pair(tips, run)
        if found.run_tip or found.meta_tip:
            return found
        archive = self.read_archive(tips.get(names.archive_ref))
        return self.archived_refs(archive.entry(self.reader, run)) if run in archive else None

    def pair(self, tips: Mapping[RefName, Oid], run: RunId) -> RunRefs:
        return RunRefs(
            run, tips.get(self.names.run_branch(run)), tips.get(self.names.meta_ref(run))
        )

    def read_archive(self, tip: Oid | None) -> Archive:
        return Archive.read(self.reader, self.names, tip)

    def archived_refs(self, archived: ArchivedRun) -> RunRefs:
        return replace(self.pair(archived.refs, archived.run_id), is_archived=True)

    def lock_path(self, run: str) -> Path:
        return self.repo.common_dir / "git-wf" / f"{run}.lock"

    def is_live(self, run: str) -> bool:
        return is_locked(self.lock_path(run))

    # What one recorded.

    def load(self, refs: RunRefs) -> StoredRun:
        """Raises `StateUnreadable` that names what is missing or corrupt."""
        if refs.meta_tip is None:
            ref, root = self.names.meta_ref(refs.run_id), self.names.meta_root
            hints = [f"fetch it: git fetch REMOTE '+{root}/*:{root}/*'"]
            named = self._named_metadata(refs)
            if named is not None:
                hints.insert(0, f"git update-ref {ref} {named} makes it again")
            raise StateUnreadable(f"run {refs.run_id} has no metadata ref '{ref}'", hint=hints)
        tree = self.tree_of(refs.meta_tip)
        record = self.read_json(tree, "run.json", refs.run_id)
        if record is None:
            raise StateUnreadable(f"run {refs.run_id} has no run.json in its metadata")
        check_record(record, f"{self.names.meta_ref(refs.run_id)}:run.json")
        checkpoint = self.read_json(tree, "checkpoint.json", refs.run_id)
        name = f"{self.names.meta_ref(refs.run_id)}:checkpoint.json"
        return StoredRun(
            refs=refs,
            record=record,
            tree=tree,
            checkpoint=None if checkpoint is None else Checkpoint.from_json(checkpoint, name),
            conclusion=self.read_json(tree, "conclusion.json", refs.run_id),
            waiting=self.read_json(tree, "waiting.json", refs.run_id),
        )

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

    def timeline(self, run: StoredRun) -> Timeline:
        """Joined from the run branch's first parents and the metadata chain.

        A commit of the run branch is a checkpoint where its subject and trailers name the run (or
        one that it was forked from) and its `WF-Checkpoint` names a metadata commit that says the
        same node and visit. Anything else in between belongs to the next checkpoint's range.
        """
        metadata = self._metadata_chain(run)
        entries: list[Entry] = []
        ranges: dict[Oid, int] = {}
        for commit, parents, seconds, message in self._run_commits(run):
            ranges[commit] = len(entries)
            fields = run_commit_fields(self.names, message)
            if fields is None or fields.run not in run.lineage:
                continue
            entry = self._entry(commit, parents, fields, metadata, entries)
            if entry is not None:
                moment = datetime.fromtimestamp(seconds, timezone.utc)
                entries.append(replace(entry, timestamp=rfc3339(moment)))
        return Timeline(tuple(entries), self._start(run, metadata), ranges)

    def _run_commits(self, run: StoredRun) -> Iterator[_LogLine]:
        """First-parent commits of the run branch after its base, oldest first."""
        if run.refs.run_tip is None or run.refs.run_tip == run.base:
            return
        yield from self._log("--first-parent", "--reverse", run.refs.run_tip, f"^{run.base}", "--")

    def _metadata_chain(self, run: StoredRun) -> dict[Oid, _MetadataLine]:
        """Metadata commit → what its message says, newest first."""
        if run.refs.meta_tip is None:
            return {}
        tips = [run.refs.meta_tip, *self._unjoined_tip(run)]
        return {
            commit: _MetadataLine.parse(self.names, message)
            for commit, _, _, message in self._log("--first-parent", *tips, "--")
        }

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

    def _log(self, *args: str) -> Iterator[_LogLine]:
        told = self.repo.git(
            "log", "--format=%H%x00%P%x00%ct%x00%B%x00", "--no-show-signature", "--no-notes",
            "--no-mailmap", "--encoding=UTF-8", "--no-color", *args,
        )  # fmt: skip
        parts = told.decode("utf-8", "surrogateescape").split("\0")
        for position in range(0, len(parts) - 1, 4):
            commit, parents, seconds, message = parts[position : position + 4]
            own_parents = [Oid(one) for one in parents.split()]
            yield Oid(commit.lstrip("\n")), own_parents, int(seconds), message

    def _entry(
        self,
        commit: Oid,
        parents: list[Oid],
        fields: RunCommitFields,
        metadata: Mapping[Oid, _MetadataLine],
        before: list[Entry],
    ) -> Entry | None:
        named = Oid(fields.metadata_commit or "")
        line = metadata.get(named)
        if line is not None and line.name != visit_name(fields.node, fields.visit):
            return None  # a commit of a node that only looks like one of ours
        if any(entry.metadata_commit == named for entry in before):
            return None
        previous = before[-1].ordinal if before else 0
        return Entry(
            ordinal=line.ordinal if line and line.ordinal else previous + 1,
            node=fields.node,
            visit=fields.visit,
            status=normal_status(fields.status) or fields.status,
            recorded_status=fields.status,
            commit=commit,
            metadata_commit=named if line else None,
            run=fields.run,
            next_node_id=line.next_node if line else None,
            duration_ms=line.duration_ms if line else None,
            merged=tuple(parents[1:]),
            notes=() if line else ("no metadata",),
        )

    def operations(self) -> Iterator[tuple[Oid, list[Oid], str]]:
        """The metadata commits that tell of an operation, with parents and message.

        Of every run that has a metadata ref or whose tip is kept; each after those that came
        after it.
        """
        names = self.names
        found = self._log(
            "--first-parent", "--topo-order", f"--grep=^{names.trailer('Op')}: ",
            f"--glob={names.meta_root}/*", f"--glob={names.old_root}/*/*/meta", "--",
        )  # fmt: skip
        return ((commit, parents, message) for commit, parents, _, message in found)

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
        told = self.repo.git(
            "log", "--stdin", "--format=%H%x00%T%x00%P%x00%B%x00", "--no-show-signature",
            "--no-notes", "--no-mailmap", "--encoding=UTF-8", "--no-color", *args,
            stdin="".join(f"{tip}\n" for tip in tips).encode(),
        )  # fmt: skip
        parts = told.decode("utf-8", "surrogateescape").split("\0")
        for position in range(0, len(parts) - 1, 4):
            commit, tree, parents, message = parts[position : position + 4]
            own_parents = tuple(Oid(one) for one in parents.split())
            yield Oid(commit.lstrip("\n")), Commit(Oid(tree), own_parents, "", "", message)

    def change_counts(self, timeline: Timeline) -> dict[Oid, ChangeCounts]:
        """Run commit → what changed since the checkpoint before, foreign commits included."""
        pairs = []
        before = timeline.start.commit
        for entry in timeline.entries:
            if entry.commit and before:
                pairs.append(f"{entry.commit} {before}\n")
            before = entry.commit or before
        if not pairs:
            return {}
        told = self.repo.git(
            "diff-tree", "--stdin", "-r", "--root", "--shortstat", "--find-renames",
            "--no-ext-diff", "--no-textconv", "--ignore-submodules=none",
            stdin="".join(pairs).encode(),
        )  # fmt: skip
        return ChangeCounts.parse(told.decode())

    def last_metadata(self, run: StoredRun) -> Oid | None:
        """The metadata commit that recorded the checkpoint which the metadata tip has.

        A rewind, fork or resume has the state of an older one; None where there is no checkpoint.
        """
        tip, state = run.refs.meta_tip, run.tree.get(b"checkpoint.json")
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


@dataclass(frozen=True)
class _MetadataLine:
    """What the message of a metadata commit says."""

    run: str
    name: str = ""  # `plan@2`, of a checkpoint
    is_init: bool = False
    ordinal: int = 0
    duration_ms: int | None = None
    next_node: str | None = None

    @classmethod
    def parse(cls, names: Names, message: str) -> _MetadataLine:
        subject = message.split("\n", 1)[0]
        trailers = parse_trailers(message)
        line = cls(run=trailers.get(names.trailer("Run"), ""), is_init=subject == "init run")
        if not subject.startswith("checkpoint "):
            return line
        ordinal = trailers.get(names.trailer("Ordinal"), "")
        duration = trailers.get(names.trailer("Duration-Ms"), "")
        return replace(
            line,
            name=subject.removeprefix("checkpoint "),
            ordinal=int(ordinal) if ordinal.isdecimal() else 0,
            duration_ms=int(duration) if duration.isdecimal() else None,
            next_node=trailers.get(names.trailer("Next")) or None,
        )
