"""The checkpoint cycle of a live run (design.md, section 4), step by step.

disk → stage → metadata → commit → publish → seal. A crash after any of them leaves a run that
resumes: nothing is visible before `publish`, which moves both refs in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint, Recorded, dump_json, load_json
from git_wf.core.clock import Clock, milliseconds
from git_wf.core.names import Oid, RefName, RunId, operation_id, trace_name
from git_wf.core.names import visit_name as name_of_visit
from git_wf.core.summary import Pairs, ending_trailers, summary_trailers
from git_wf.core.trailers import RunCommitFields, metadata_message, run_commit_message
from git_wf.errors import Conflict, GitFailed
from git_wf.store.files import remove_tree, write_atomic
from git_wf.store.identity import Identity
from git_wf.store.objects import Commit, Entry, Tree, encode_commit, encode_tree
from git_wf.store.packs import KeptPack, Pack, SmallPacks, release_stale_keeps
from git_wf.store.refs import (
    RefUpdate,
    Transaction,
    read_ref,
    remove_packed_lock,
    remove_stale_locks,
)
from git_wf.store.runs import RunStore
from git_wf.store.staging import Excludes, Stager, Staging
from git_wf.store.worktree import Slot, attach, reconcile_head

MAX_TRACE_FILE = 512 * 1024
FILE, DIRECTORY = "100644", "40000"
# In the disk copy of an unrecorded checkpoint: the metadata tip that it builds on.
PENDING_KEY = "pending_on"
_NOTHING = Oid("")  # not made yet


@dataclass
class RunState:
    """Where a run stands in git: what the next cycle builds on."""

    run_id: RunId
    run_tip: Oid  # the last recorded run commit, or the base
    meta_tip: Oid
    tree: Tree  # of `meta_tip`
    summary: Pairs = ()  # the trailers that tell a list of runs of this one


@dataclass
class Cycle:
    """What one cycle gathers between its steps."""

    moment: datetime
    checkpoint: Checkpoint
    pack: Pack
    parent: Oid = _NOTHING
    parents: tuple[Oid, ...] = ()  # of the run commit
    branch_old: Oid | None = None
    staged: Staging | None = None
    root: Tree = field(default_factory=dict)
    metadata: Oid = _NOTHING
    commit: Oid = _NOTHING
    rescues: list[RefUpdate] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class BranchTips:
    """The refs of an open parallel branch. `branch` is folded, as its refs have it: `f@1/1-a`."""

    branch: str
    run: Oid
    meta: Oid


class GitRecorder:
    """Records a live run. Whoever makes one holds the run's lock and the slot's."""

    branch = ""  # the name of the parallel branch that is recorded; empty for the run itself

    def __init__(
        self,
        store: RunStore,
        state: RunState,
        slot: Slot,
        run_dir: Path,
        excludes: Excludes,
        identity: Identity,
        clock: Clock,
        *,
        durable: bool = False,
        at_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self.store = store
        self.state = state
        self.slot = slot
        self.run_dir = run_dir
        self.work_dir = slot.path
        self.run_ref = store.names.run_branch(state.run_id)
        self.meta_ref = store.names.meta_ref(state.run_id)
        self._excludes = excludes
        self._stager = Stager(slot.repo, excludes, store.reader)
        self._identity = identity
        self._clock = clock
        self._durable = durable
        self._at_step = at_step
        self.last: Checkpoint | None = None  # that was recorded
        self._told: set[str] = set()
        self._small_packs = SmallPacks(store.repo)
        self._last_pack: Path | None = None
        self._pack = Pack(store.repo, lasting=True)
        self._transaction = Transaction(
            store.repo, f"{store.names.namespace}: checkpoint", identity.env()
        )

    def close(self) -> None:
        self._transaction.close()
        self._pack.close()

    def trace_dir(self, node: str, visit: int) -> Path:
        """An empty directory for this visit's trace."""
        path = self.run_dir / "nodes" / trace_name(node, visit)
        remove_tree(path)
        path.mkdir(parents=True, mode=0o700)
        return path

    def record(
        self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes], notes: str
    ) -> Recorded:
        """One cycle. Raises `GitFailed`, `Conflict` or `OSError` once the disk step is done."""
        self.write_disk(checkpoint, artifacts)
        self._at_step("disk")
        return self.record_in_git(checkpoint, artifacts, notes)

    def record_in_git(
        self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes], notes: str
    ) -> Recorded:
        """The steps after the first; `resume` finishes an interrupted cycle by them.

        A gc beside us can take objects that the index names and nothing refers to yet: then all of
        it is staged and written once more. Nor may a lock that a node's git left behind end the
        recording of a run.
        """
        try:
            return self._run_cycle(checkpoint, artifacts, notes)
        except GitFailed:
            locks = [self.slot.git_dir / name for name in ("index.lock", "HEAD.lock")]
            remove_stale_locks(self.store.repo, (self.run_ref, self.meta_ref), locks)
            return self._run_cycle(checkpoint, artifacts, notes)

    def _run_cycle(
        self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes], notes: str
    ) -> Recorded:
        cycle = Cycle(self._clock.now(), checkpoint, self._pack)
        try:
            self._stage(cycle)
            self._at_step("stage")
            self._write_metadata(cycle, artifacts)
            self._at_step("metadata")
            self._write_commit(cycle, notes)
            kept = cycle.pack.write(durable=self._durable)
            self._at_step("commit")
            self._publish(cycle, kept)
            self._at_step("publish")
        except BaseException:
            cycle.pack.discard()
            raise
        self._seal(cycle)
        self._at_step("seal")
        return self._recorded(cycle)

    # What parallel sections add.

    def _parents(self, parent: Oid) -> tuple[Oid, ...]:
        """The parents of a run commit that builds on `parent`."""
        return (parent,)

    def _ended_branches(self, checkpoint: Checkpoint) -> list[BranchTips]:
        """The branches of the fan-out whose checkpoint this is."""
        return []

    def _closed_refs(self, cycle: Cycle) -> list[RefUpdate]:
        """The refs that go when the cycle's move."""
        return []

    def _follow(self, cycle: Cycle) -> None:
        """Brings the worktree's HEAD to the commit that was just published."""
        attach(self.slot, self.run_ref)

    def _recorded(self, cycle: Cycle) -> Recorded:
        return Recorded(cycle.commit, cycle.metadata, tuple(cycle.notices))

    # disk

    def write_disk(self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes]) -> None:
        for key, data in artifacts.items():
            path = self.run_dir / "artifacts" / f"{key}.json"
            if not path.exists() or path.read_bytes() != data:
                write_atomic(path, data, durable=self._durable)
        unrecorded = replace(
            checkpoint,
            git_commit_sha=None,
            git_tree_sha=None,
            git_parent_sha=None,
            extra={**checkpoint.extra, PENDING_KEY: self.state.meta_tip},
        )
        self._write_checkpoint(unrecorded)

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        data = dump_json(checkpoint.to_json())
        write_atomic(self.run_dir / "checkpoint.json", data, durable=self._durable)

    # stage

    def _stage(self, cycle: Cycle) -> None:
        if not self.slot.path.is_dir():
            raise OSError(f"the worktree of the run is gone: '{self.slot.path}'")
        reader = self.store.reader
        head = reconcile_head(self.slot, self.run_ref, self.state.run_tip, reader)
        cycle.parent = head.parent
        cycle.parents = self._parents(head.parent)
        cycle.branch_old = head.branch_tip
        for position, (what, oid) in enumerate(head.set_aside):
            ref = self._rescue_ref(cycle.moment, what, oid, str(position))
            cycle.rescues.append(RefUpdate(ref, oid, None))
            cycle.notices.append(("set_aside", f"{what} {oid} is kept at {ref}"))
        cycle.staged = self._stager.stage(cycle.pack, self.state.run_tip)
        if not cycle.staged.is_complete or cycle.staged.head != cycle.parent:
            before = reader.read_commit(cycle.parent).tree
            cycle.pack.complete(reader, cycle.staged.tree, before)
        cycle.notices += self._staging_notices(cycle.staged)

    def _rescue_ref(self, moment: datetime, *seed: str) -> RefName:
        rescue = operation_id(milliseconds(moment), self.state.run_id, *seed)
        return self.store.names.rescue_ref(self.state.run_id, rescue)

    def _staging_notices(self, staged: Staging) -> list[tuple[str, str]]:
        told = [
            ("held_back", staged.held_back, "changes of tracked files held back by exclude_globs"),
            ("nested_repository", staged.nested, "nested repositories stored as plain files"),
            ("unreadable", staged.unreadable, "files that cannot be read are left out"),
            ("builtin_exclude", staged.left_out_builtin, "left out by the built-in excludes"),
        ]
        notices = []
        for code, paths, text in told:
            fresh = [path for path in paths if f"{code}:{path}" not in self._told]
            self._told.update(f"{code}:{path}" for path in fresh)
            if fresh:
                notices.append((code, f"{text}: {_listed(fresh)}"))
        return notices

    # metadata

    def _write_metadata(self, cycle: Cycle, artifacts: Mapping[str, bytes]) -> None:
        assert cycle.staged is not None
        names, checkpoint = self.store.names, cycle.checkpoint
        cycle.checkpoint = replace(
            checkpoint,
            git_commit_sha=None,
            git_tree_sha=cycle.staged.tree,
            git_parent_sha=cycle.parents[0],
        )
        root = {
            name: entry
            for name, entry in self.state.tree.items()
            if name not in (b"nodes", b"artifacts", b"waiting.json", b"conclusion.json")
        }
        data = dump_json(cycle.checkpoint.to_json())
        root[b"checkpoint.json"] = Entry(FILE, cycle.pack.add("blob", data))
        if artifacts:
            files = {f"{key}.json": data for key, data in artifacts.items()}
            root[b"artifacts"] = self._directory(cycle.pack, files)
        trace = self._trace(checkpoint)
        if trace:
            visit = trace_name(checkpoint.current_node, checkpoint.visit)
            nodes = {visit.encode(): self._directory(cycle.pack, trace)}
            root[b"nodes"] = Entry(DIRECTORY, self._add_tree(cycle.pack, nodes))
        cycle.root = root
        outcome = checkpoint.outcome
        ended = self._ended_branches(checkpoint)
        cycle.metadata = self._add_commit(
            cycle,
            self._add_tree(cycle.pack, root),
            [self.state.meta_tip, *(tips.meta for tips in ended)],
            metadata_message(
                names,
                self.state.run_id,
                f"checkpoint {name_of_visit(checkpoint.current_node, checkpoint.visit)}",
                [
                    *(("Head", f"{tips.branch} {tips.run}") for tips in ended),
                    *self.state.summary,
                ],
                Ordinal=str(checkpoint.ordinal),
                Next=checkpoint.next_node_id or "",
                Duration_Ms=str(outcome.duration_ms if outcome else 0),
                Branch=self.branch,
            ),
        )

    def _trace(self, checkpoint: Checkpoint) -> dict[str, bytes]:
        path = self.run_dir / "nodes" / trace_name(checkpoint.current_node, checkpoint.visit)
        try:
            names = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
        except FileNotFoundError:
            return {}
        return {name: read_cut(path / name) for name in names}

    def _directory(self, pack: Pack, files: Mapping[str, bytes]) -> Entry:
        tree = {
            name.encode("utf-8", "surrogateescape"): Entry(FILE, pack.add("blob", data))
            for name, data in files.items()
        }
        return Entry(DIRECTORY, self._add_tree(pack, tree))

    def _add_tree(self, pack: Pack, tree: Tree) -> Oid:
        return pack.add("tree", encode_tree(tree, self.store.repo.object_format))

    def _add_commit(self, cycle: Cycle, tree: Oid, parents: Sequence[Oid], message: str) -> Oid:
        commit = Commit(
            tree=tree,
            parents=tuple(parents),
            author=self._identity.author_line(cycle.moment),
            committer=self._identity.committer_line(cycle.moment),
            message=message,
        )
        return cycle.pack.add("commit", encode_commit(commit))

    # commit

    def _write_commit(self, cycle: Cycle, notes: str) -> None:
        assert cycle.staged is not None
        checkpoint = cycle.checkpoint
        fields = RunCommitFields(
            run=self.state.run_id,
            node=checkpoint.current_node,
            visit=checkpoint.visit,
            status=checkpoint.status,
            completed=len(checkpoint.completed_nodes),
            metadata_commit=cycle.metadata,
            branch=self.branch,
        )
        message = run_commit_message(self.store.names, fields, notes)
        cycle.commit = self._add_commit(cycle, cycle.staged.tree, cycle.parents, message)

    # publish

    def _publish(self, cycle: Cycle, kept: KeptPack | None) -> None:
        try:
            was_gone = self._move_refs(
                [
                    *cycle.rescues,
                    RefUpdate(self.run_ref, cycle.commit, cycle.branch_old),
                    RefUpdate(self.meta_ref, cycle.metadata, self.state.meta_tip),
                    *self._closed_refs(cycle),
                ]
            )
        finally:
            if kept is not None:
                kept.release()
        if was_gone:
            cycle.notices.append(("ref_restored", f"ref '{self.meta_ref}' was gone: made again"))
        self.state.run_tip, self.state.meta_tip = cycle.commit, cycle.metadata
        self.state.tree = cycle.root
        self._try_to_follow(cycle)
        self._last_pack = kept.path if kept is not None else None

    def _try_to_follow(self, cycle: Cycle) -> None:
        """What was published stays published: a HEAD that stays behind is seen to by the next."""
        try:
            self._follow(cycle)
        except (GitFailed, Conflict):
            with suppress(GitFailed, Conflict):
                remove_stale_locks(self.store.repo, (), [self.slot.git_dir / "HEAD.lock"])
                self._follow(cycle)

    def _move_refs(self, updates: Sequence[RefUpdate]) -> bool:
        """One transaction; whether the metadata ref was gone and had to be made again.

        A node can remove it, say by a `git fetch --prune` of all refs; nobody else writes it.
        """
        try:
            self._transaction.apply(updates)
        except Conflict:
            is_there = read_ref(self.store.repo, self.meta_ref) is not None
            if is_there or self.store.reader.find(self.state.meta_tip) is None:
                raise
            made = [replace(one, old=None) if one.ref == self.meta_ref else one for one in updates]
            self._transaction.apply(made)
            return True
        return False

    # seal

    def _seal(self, cycle: Cycle) -> None:
        self.last = cycle.checkpoint
        self._write_checkpoint(replace(cycle.checkpoint, git_commit_sha=cycle.commit))
        if self._last_pack is not None:
            self._small_packs.add(self._last_pack)

    # the end of a run

    def finalize(self, conclusion: Mapping[str, Any], events: bytes) -> Oid:
        """Adds `conclusion.json` and `events.jsonl` to the metadata; returns the new tip."""
        files = {
            b"conclusion.json": dump_json(
                {**conclusion, "format": 1, "final_git_commit_sha": self.state.run_tip}
            ),
            b"events.jsonl": events,
        }
        told: Pairs = ()
        if self.state.summary and (self.last or b"checkpoint.json" not in self.state.tree):
            ended = ending_trailers(str(conclusion.get("status")), self.last)
            told = (*self.state.summary, *ended)
        tip = self._extend_metadata("finalize run", files, told)
        self._small_packs.finish()
        return tip

    def wait(self, waiting: Mapping[str, Any]) -> Recorded:
        """Adds `waiting.json` to the last checkpoint's state."""
        data = dump_json({**waiting, "format": 1})
        where = name_of_visit(str(waiting.get("node")), int(waiting.get("visit") or 1))
        tip = self._extend_metadata(f"wait {where}", {b"waiting.json": data})
        self._small_packs.finish()
        return Recorded(self.state.run_tip, tip)

    def note(self, first_line: str, **trailers: str) -> Oid:
        """A metadata commit with an unchanged tree: `resume`."""
        return self._extend_metadata(first_line, {}, **trailers)

    def _extend_metadata(
        self,
        first_line: str,
        files: Mapping[bytes, bytes],
        told: Pairs = (),
        /,
        **trailers: str,
    ) -> Oid:
        moment = self._clock.now()
        cycle = Cycle(moment, Checkpoint(self.state.run_id), self._pack)
        root = dict(self.state.tree)
        for name, data in files.items():
            root[name] = Entry(FILE, cycle.pack.add("blob", data))
        message = metadata_message(
            self.store.names, self.state.run_id, first_line, told, Branch=self.branch, **trailers
        )
        tree = self._add_tree(cycle.pack, root)
        commit = self._add_commit(cycle, tree, [self.state.meta_tip], message)
        kept = cycle.pack.write(durable=self._durable)
        try:
            self._move_refs([RefUpdate(self.meta_ref, commit, self.state.meta_tip)])
        finally:
            if kept is not None:
                kept.release()
        if kept is not None:
            self._small_packs.add(kept.path)
        self.state.meta_tip, self.state.tree = commit, root
        return commit


def start_run(
    store: RunStore,
    run_id: RunId,
    base: Oid,
    files: Mapping[str, bytes],
    identity: Identity,
    moment: datetime,
) -> RunState:
    """Makes both refs of a new run: the run branch at its base, the metadata's `init run`."""
    release_stale_keeps(store.repo)
    remove_packed_lock(store.repo)
    pack = Pack(store.repo)
    summary = summary_trailers(load_json(files["run.json"], "run.json"))
    tree = _file_tree(pack, files, store.repo.object_format)
    commit = Commit(
        tree=pack.add("tree", encode_tree(tree, store.repo.object_format)),
        parents=(),
        author=identity.author_line(moment),
        committer=identity.committer_line(moment),
        message=metadata_message(store.names, run_id, "init run", summary),
    )
    metadata = pack.add("commit", encode_commit(commit))
    kept = pack.write()
    transaction = Transaction(
        store.repo, f"{store.names.namespace}: run {run_id}", identity.env(moment)
    )
    try:
        transaction.apply(
            [  # the one that a run can be found and resumed by comes first
                RefUpdate(store.names.meta_ref(run_id), metadata, None),
                RefUpdate(store.names.run_branch(run_id), base, None),
            ]
        )
    finally:
        transaction.close()
        if kept is not None:
            kept.release()
    return RunState(run_id, base, metadata, tree, summary)


def _file_tree(pack: Pack, files: Mapping[str, bytes], object_format: str) -> Tree:
    """The tree of files by their paths from it."""
    tree: Tree = {}
    below: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        name, _, rest = path.partition("/")
        if rest:
            below.setdefault(name, {})[rest] = data
        else:
            tree[name.encode()] = Entry(FILE, pack.add("blob", data))
    for name, inside in below.items():
        encoded = encode_tree(_file_tree(pack, inside, object_format), object_format)
        tree[name.encode()] = Entry(DIRECTORY, pack.add("tree", encoded))
    return tree


def read_cut(path: Path, limit: int = MAX_TRACE_FILE) -> bytes:
    """A file; over `limit` bytes it is cut in the middle, with a line that says so."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        if size <= limit:
            return stream.read()
        half = limit // 2
        head = stream.read(half)
        stream.seek(size - half)
        tail = stream.read()
    cut = size - len(head) - len(tail)
    return head + f"\n[... {cut} bytes cut ...]\n".encode() + tail


def _listed(paths: Sequence[str], limit: int = 10) -> str:
    shown = ", ".join(paths[:limit])
    return shown if len(paths) <= limit else f"{shown} and {len(paths) - limit} more"
