"""A run's recorder with parallel sections: branches on refs of their own, and their merge.

A branch has a worktree, `refs/wf/par/<id>/<fan-out>@<visit>/<k>-<first node>/run` and `…/meta`
(nested sections lie below), and records in the form of the run itself. Its metadata chain begins
with `open branch …` on top of the run's metadata commit at which the section began, so that refs
of a section that a rewind gave up are told from those of the section that is open.

| step | in git |
|---|---|
| a branch begins | both refs, at the tip of the run branch and at `open branch` |
| its checkpoints | both refs move in one transaction |
| the fan-out ends | its metadata commit has the branches' `meta` tips as further parents |
| the fan-in merges | the worktree's HEAD goes to a commit that merges the heads |
| its checkpoint | has the parents of that commit; the refs of the merged branches go |

The merge is in no memory of ours: a cycle that a crash cut off is finished from HEAD.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint, Recorded, load_json
from git_wf.core.children import ChildStep
from git_wf.core.clock import Clock, milliseconds
from git_wf.core.context import join_artifacts
from git_wf.core.names import Oid, RefName, operation_id, visit_name
from git_wf.core.sections import (
    SECTION_KEY,
    BranchPath,
    BranchStep,
    KeptBranch,
    Merged,
    branch_name,
)
from git_wf.core.trailers import message, metadata_message, parse_trailers, run_commit_fields
from git_wf.errors import GitFailed, StateUnreadable
from git_wf.store.files import make_directory, remove_tree, write_atomic
from git_wf.store.identity import Identity
from git_wf.store.merge import Radar, merge_trees
from git_wf.store.objects import Commit, encode_commit, encode_tree
from git_wf.store.packs import Pack, quarantine
from git_wf.store.recorder import BranchTips, Cycle, GitRecorder, RunState
from git_wf.store.refs import (
    RefUpdate,
    list_refs,
    move_refs,
    remove_stale_locks,
    worktree_head,
)
from git_wf.store.rescue import Rescue, rescue_worktree
from git_wf.store.runs import RunStore
from git_wf.store.staging import Excludes, restore_tracked
from git_wf.store.worktree import (
    Head,
    Slot,
    detach_at,
    git_dir_of,
    give_back,
    head_state,
    reconcile_head,
    reopen_slot,
    slots_of,
    take_slot,
)

_OPENED = "open branch "
_MERGED = "merge of the branches of "
# What the first state of a branch leaves out of the run's: it has no checkpoint yet.
_NOT_OF_A_BRANCH = (
    b"checkpoint.json", b"artifacts", b"nodes", b"waiting.json", b"conclusion.json",
)  # fmt: skip


@dataclass(frozen=True)
class Grounds:
    """What the recorder of a run and those of all its branches have in common."""

    state_dir: Path  # of the repository: the worktrees are in it
    pool_size: int
    folded: Mapping[str, str]  # node → ref component
    turn: threading.Lock = field(default_factory=threading.Lock)  # for worktrees, and refs to open

    def ref_path(self, path: BranchPath) -> str:
        """`f@1/1-a`, nested `f@1/1-g/g@1/2-x`, as refs have it."""
        return "/".join(
            f"{self.folded[step.fan_out]}@{step.visit}/{step.number}-{self.folded[step.first]}"
            for step in path
        )


class RunRecorder(GitRecorder):
    """Records a run or, with a `path`, one of its branches."""

    def __init__(
        self,
        store: RunStore,
        state: RunState,
        slot: Slot,
        run_dir: Path,
        excludes: Excludes,
        identity: Identity,
        clock: Clock,
        grounds: Grounds,
        *,
        path: BranchPath = (),
        radar: Radar | None = None,
        is_prepared: bool = True,
        durable: bool = False,
        at_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        super().__init__(
            store, state, slot, run_dir, excludes, identity, clock, durable=durable,
            at_step=at_step,
        )  # fmt: skip
        self.is_prepared = is_prepared
        self.kept = KeptBranch(None, state.run_tip)
        self._grounds = grounds
        self._path = path
        self._radar = radar
        self._radars: dict[str, Radar] = {}  # of the sections that this one opened
        self._opener: RunRecorder | None = None
        if path:
            self.branch = branch_name(path)
            self.run_ref, self.meta_ref = self._refs_of(grounds.ref_path(path))

    @property
    def branches(self) -> RunRecorder:
        return self

    @property
    def head(self) -> Oid:
        return self.state.run_tip

    def _refs_of(self, branch: str) -> tuple[RefName, RefName]:
        names, run = self.store.names, self.state.run_id
        return names.branch_ref(run, branch, "run"), names.branch_ref(run, branch, "meta")

    def _ref_path(self, step: BranchStep) -> str:
        return self._grounds.ref_path((*self._path, step))

    # Finding a branch.

    def find_branch(self, step: BranchStep) -> KeptBranch | None:
        """What an earlier process recorded of a branch in the section that is open now."""
        with self._grounds.turn:
            tips = self._tips(step)
            if tips is None:
                return None
            if tips.run != self.state.run_tip:
                self._radar_of(step).note(step.name, tips.run)
            return self._read(tips)

    def _tips(self, step: BranchStep) -> BranchTips | None:
        """The refs of a branch, unless they are of a section that was given up."""
        branch = self._ref_path(step)
        found = self._all_tips(branch)
        if found is None or not self._is_of_this_section(found):
            return None
        return self._joined(found, branch_name((*self._path, step)))

    def _all_tips(self, branch: str) -> BranchTips | None:
        run, meta = self._refs_of(branch)
        tips = list_refs(self.store.repo, run, meta)
        return BranchTips(branch, tips[run], tips[meta]) if run in tips and meta in tips else None

    def _is_of_this_section(self, tips: BranchTips) -> bool:
        anchor = self._anchor()
        listed = self.store.repo.git(
            "log", "--first-parent", "--format=%P%x00%s", "--no-show-signature", tips.meta,
            f"^{anchor}", "--",
        )  # fmt: skip
        lines = listed.decode("utf-8", "replace").splitlines()
        parents, _, subject = (lines[-1] if lines else "").partition("\0")
        return subject.startswith(_OPENED) and parents.split(" ")[0] == anchor

    def _anchor(self) -> Oid:
        """The metadata commit at which the section begins, whatever resumed or waited since."""
        return self._recording(self.state.meta_tip)

    def _recording(self, tip: Oid) -> Oid:
        """The last metadata commit that brought a state of its own."""
        while True:
            commit = self.store.reader.read_commit(tip)
            subject = commit.message.split("\n", 1)[0]
            if not commit.parents or not (subject == "resume" or subject.startswith("wait ")):
                return tip
            tip = commit.parents[0]

    def _joined(self, tips: BranchTips, name: str) -> BranchTips:
        """A crash between two renames can leave the files one ahead of the metadata."""
        reader = self.store.reader
        fields = run_commit_fields(self.store.names, reader.read_commit(tips.run).message)
        if fields is None or fields.branch != name or not fields.metadata_commit:
            return tips
        named = Oid(fields.metadata_commit)
        if reader.find(named) is None or reader.read_commit(named).parents[:1] != (tips.meta,):
            return tips
        _, meta = self._refs_of(tips.branch)
        self._move("resume", [RefUpdate(meta, named, tips.meta)])
        return BranchTips(tips.branch, tips.run, named)

    def _read(self, tips: BranchTips, notices: Sequence[tuple[str, str]] = ()) -> KeptBranch:
        tree = self.store.tree_of(tips.meta)
        data = self.store.read_json(tree, "checkpoint.json", self.state.run_id)
        if data is None:
            return KeptBranch(None, tips.run, notices=tuple(notices))
        checkpoint = Checkpoint.from_json(data, f"{tips.meta}:checkpoint.json")
        stored = self.store.artifacts(tree)

        def read(key: str) -> bytes:
            if key not in stored:
                raise StateUnreadable(f"artifact '{key}' of '{tips.meta}' is missing")
            return stored[key]

        checkpoint.context_values = join_artifacts(checkpoint.context_values, read)
        return KeptBranch(checkpoint, tips.run, self._recording(tips.meta), tuple(notices))

    # Opening one.

    def open_branch(self, step: BranchStep) -> RunRecorder:
        """Begins a branch at our own head, or goes on with one."""
        notices: list[tuple[str, str]] = []
        with self._grounds.turn:
            run_dir = self._section_dir(step) / step_component(self._grounds, step)
            known = _recorded_worktree(run_dir)
            if run_dir.exists():
                self._remove_locks(step, known)
            tips = self._tips(step)
            if tips is None:
                _forget_state(run_dir)
                tips = self._create(step, notices)
            slot = self._reopened(known)
            is_prepared = slot is not None
            slot = slot or self._take(tips.run)
            write_atomic(make_directory(run_dir) / "worktree", os.fsencode(slot.path) + b"\n")
            radar = self._radar_of(step)
        opened = self._recorder_of(step, tips, slot, run_dir, radar, is_prepared)
        opened._opener = self
        try:
            if is_prepared:
                tips = opened._take_up(tips, notices)
            opened.kept = opened._read(tips, notices)
        except BaseException:
            opened.finish(keep=True)
            raise
        return opened

    def _recorder_of(
        self,
        step: BranchStep,
        tips: BranchTips,
        slot: Slot,
        run_dir: Path,
        radar: Radar,
        is_prepared: bool,
    ) -> RunRecorder:
        tree = self.store.tree_of(tips.meta)
        return RunRecorder(
            self.store,
            RunState(self.state.run_id, tips.run, tips.meta, tree),
            slot,
            run_dir,
            self._excludes,
            self._identity,
            self._clock,
            self._grounds,
            path=(*self._path, step),
            radar=radar,
            is_prepared=is_prepared,
            durable=self._durable,
            at_step=lambda name: self._at_step(f"{step.name} {name}"),
        )

    def _section_dir(self, step: BranchStep) -> Path:
        folded = self._grounds.folded[step.fan_out]
        return self.run_dir / "branches" / f"{folded}@{step.visit}"

    def _radar_of(self, step: BranchStep) -> Radar:
        if step.section not in self._radars:
            self._radars[step.section] = Radar(self.store.repo, self.state.run_tip)
        return self._radars[step.section]

    def _remove_locks(self, step: BranchStep, worktree: Path | None) -> None:
        """What a killed git left; we hold the run's lock, so nobody else is at work on these."""
        git_dir = git_dir_of(self.store.repo, worktree) if worktree is not None else None
        paths = [git_dir / name for name in ("index.lock", "HEAD.lock")] if git_dir else []
        remove_stale_locks(self.store.repo, self._refs_of(self._ref_path(step)), paths)

    def _reopened(self, known: Path | None) -> Slot | None:
        if known is None:
            return None
        return reopen_slot(self.store.repo, known, self.state.run_id)

    def _take(self, commit: Oid) -> Slot:
        return take_slot(self.store.repo, self._grounds.state_dir, commit, self.state.run_id)

    def _create(self, step: BranchStep, notices: list[tuple[str, str]]) -> BranchTips:
        """Both refs of a new branch. Those of a section that was given up are kept first."""
        branch = self._ref_path(step)
        run, meta = self._refs_of(branch)
        before = list_refs(self.store.repo, run, meta)
        pack = Pack(self.store.repo)
        tree = {k: entry for k, entry in self.state.tree.items() if k not in _NOT_OF_A_BRANCH}
        name = branch_name((*self._path, step))
        moment = self._clock.now()
        commit = Commit(
            tree=pack.add("tree", encode_tree(tree, self.store.repo.object_format)),
            parents=(self._anchor(),),
            author=self._identity.author_line(moment),
            committer=self._identity.committer_line(moment),
            message=metadata_message(
                self.store.names, self.state.run_id, f"{_OPENED}{name}", Branch=name
            ),
        )
        made = pack.add("commit", encode_commit(commit))
        kept = pack.write(durable=self._durable)
        updates = [
            *self._kept_aside(before, name, notices),
            RefUpdate(run, self.state.run_tip, before.get(run)),
            RefUpdate(meta, made, before.get(meta)),
        ]
        try:
            self._move(f"open branch {name}", updates)
        finally:
            if kept is not None:
                kept.release()
        return BranchTips(branch, self.state.run_tip, made)

    def _kept_aside(
        self, before: Mapping[RefName, Oid], name: str, notices: list[tuple[str, str]]
    ) -> Iterator[RefUpdate]:
        names, run = self.store.names, self.state.run_id
        operation = operation_id(
            milliseconds(self._clock.now()), "open", run, name, *before.values()
        )
        for ref, oid in before.items():
            old = names.old_ref(run, operation, ref.rpartition("/")[2])
            notices.append(("set_aside", f"an earlier '{name}' is kept at {old}"))
            yield RefUpdate(old, oid, None)

    def _move(self, what: str, updates: Sequence[RefUpdate]) -> None:
        reason = f"{self.store.names.namespace}: {what}"
        move_refs(self.store.repo, updates, reason, self._identity.env())

    # Going on in a worktree that a process left.

    def _take_up(self, tips: BranchTips, notices: list[tuple[str, str]]) -> BranchTips:
        """Finishes the cycle that was cut off, else keeps half-done work and resets the rest."""
        pending = self._pending(tips)
        if pending is None:
            self._clean(notices)
            return tips
        outcome = pending.outcome
        failure = outcome.failure.message if outcome and outcome.failure else ""
        notes = (outcome.notes if outcome else "") or failure
        recorded = self.record_in_git(pending, self._disk_artifacts(pending), notes)
        name = visit_name(pending.current_node, pending.visit)
        notices.append(("cycle_finished", f"{name} had ended: its checkpoint is recorded"))
        notices += recorded.notices
        return BranchTips(tips.branch, self.state.run_tip, self.state.meta_tip)

    def _pending(self, tips: BranchTips) -> Checkpoint | None:
        """The checkpoint on disk, where it is the next one and no visit began after it."""
        try:
            data = (self.run_dir / "checkpoint.json").read_bytes()
            started = (self.run_dir / "started").read_text("utf-8")
            disk = Checkpoint.from_json(load_json(data, "checkpoint.json"), "checkpoint.json")
        except (OSError, StateUnreadable):
            return None
        last = self._read(tips)
        ordinal = last.checkpoint.ordinal if last.checkpoint else 0
        named = (disk.previous or {}).get("metadata_commit")
        follows = disk.ordinal == ordinal + 1 and named == last.metadata_commit
        is_last_visit = started == visit_name(disk.current_node, disk.visit)
        return disk if follows and is_last_visit and disk.git_commit_sha is None else None

    def _disk_artifacts(self, checkpoint: Checkpoint) -> dict[str, bytes]:
        found: dict[str, bytes] = {}

        def read(key: str) -> bytes:
            found[key] = (self.run_dir / "artifacts" / f"{key}.json").read_bytes()
            return found[key]

        join_artifacts(checkpoint.context_values, read)
        return found

    def _clean(self, notices: list[tuple[str, str]]) -> None:
        self._rescue(self.slot, notices)
        self._set_aside(reconcile_head(self.slot, self.run_ref, self.state.run_tip), notices)
        detach_at(self.slot, self.state.run_tip)
        for path in restore_tracked(self.slot.repo, self._excludes):
            notices.append(("not_restored", f"'{path}' could not be restored"))

    def _rescue(self, slot: Slot, notices: list[tuple[str, str]]) -> None:
        names, run, moment = self.store.names, self.state.run_id, self._clock.now()
        parent = head_state(slot).commit or self.state.run_tip
        seed = ("rescue", run, str(slot.path), parent)
        ref = names.rescue_ref(run, operation_id(milliseconds(moment), *seed))
        rescue = Rescue(ref, parent, run)
        if rescue_worktree(slot.repo, names, rescue, self._identity, moment) is not None:
            notices.append(("rescued", f"unrecorded changes in '{slot.path}' are kept at {ref}"))

    def _set_aside(self, head: Head, notices: list[tuple[str, str]]) -> None:
        """Keeps what the next commit does not build on: a node runs again from where it began."""
        aside = list(head.set_aside)
        if head.parent != self.state.run_tip:
            aside.append(("HEAD", head.parent))
        updates = []
        for position, (what, oid) in enumerate(aside):
            ref = self._rescue_ref(self._clock.now(), self.branch, what, oid, str(position))
            updates.append(RefUpdate(ref, oid, None))
            notices.append(("set_aside", f"{what} {oid} is kept at {ref}"))
        if updates:
            self._move("rescue", updates)

    # Recording.

    def trace_dir(self, node: str, visit: int) -> Path:
        if self._path:  # what was started last, for whoever finds the branch after a crash
            write_atomic(self.run_dir / "started", visit_name(node, visit).encode())
        return super().trace_dir(node, visit)

    def finish(self, *, keep: bool) -> None:
        """Lets the branch's worktree go; with `keep` it stays as it is."""
        self.close()
        if keep:
            self.slot.lock.release()
            return
        with self._grounds.turn:
            if self._opener is not None:  # who folds them when there are enough
                self._opener._small_packs.add(*self._small_packs.take())
            give_back(self.slot, self._grounds.pool_size)
            (self.run_dir / "worktree").unlink(missing_ok=True)

    def _follow(self, cycle: Cycle) -> None:
        if self._path:
            head = worktree_head(self.slot.git_dir)
            self._transaction.apply([RefUpdate(head, cycle.commit, cycle.parent)])
        else:
            super()._follow(cycle)

    def _recorded(self, cycle: Cycle) -> Recorded:
        section = self._section_of(cycle.checkpoint)
        if section is not None:
            cycle.notices += self._tidy(section)
        recorded = super()._recorded(cycle)
        if self._radar is None:
            return recorded
        try:
            conflicts = self._radar.move(self._path[-1].name, cycle.commit, self.slot.repo)
        except (GitFailed, OSError):
            return recorded  # a warning less: the merge itself will tell
        return Recorded(recorded.commit, recorded.metadata_commit, recorded.notices, conflicts)

    def _section_of(self, checkpoint: Checkpoint) -> str | None:
        """`f@1`, folded, where this is the checkpoint of that fan-out."""
        section = checkpoint.context_values.get(SECTION_KEY)
        if not isinstance(section, Mapping):
            return None
        mine = (checkpoint.current_node, checkpoint.visit)
        if (section.get("fan_out"), section.get("visit")) != mine:
            return None
        folded = self._grounds.folded.get(checkpoint.current_node, checkpoint.current_node)
        return f"{folded}@{checkpoint.visit}"

    def _ended_branches(self, checkpoint: Checkpoint) -> list[BranchTips]:
        section = self._section_of(checkpoint)
        if section is None:
            return []
        here = self._grounds.ref_path(self._path)
        prefix = f"{here}/{section}" if here else section
        root = self.store.names.section_root(self.state.run_id, prefix)
        refs = list_refs(self.store.repo, root)
        own = [
            name
            for ref in refs
            if (name := ref[len(root) + 1 :].removesuffix("/run")) and "/" not in name
        ]
        found = (self._all_tips(f"{prefix}/{name}") for name in sorted(own, key=_number))
        return [tips for tips in found if tips is not None]

    def _tidy(self, section: str) -> list[tuple[str, str]]:
        """The section is closed: its directories go, and worktrees that nobody came back to."""
        with suppress(OSError):
            remove_tree(self.run_dir / "branches" / section)
        return [] if self._path else self._release_left()

    def _release_left(self) -> list[tuple[str, str]]:
        """Lets go of worktrees of the run that a killed process left, and no branch needs."""
        notices: list[tuple[str, str]] = []
        for path in slots_of(self.store.repo, self.state.run_id):
            slot = self._reopened(path) if path != self.slot.path else None
            if slot is not None:
                self._rescue(slot, notices)
                give_back(slot, self._grounds.pool_size)
        return notices

    def close_merged(self) -> None:
        """The refs of merged branches go with the fan-in's checkpoint; a crash can leave some."""
        commit = self.store.reader.read_commit(self.state.run_tip)
        root = f"{self.store.names.par_root}/{self.state.run_id}"
        there = list_refs(self.store.repo, root) if len(commit.parents) > 1 else {}
        tips = {"run": self.state.run_tip, "meta": self.state.meta_tip}
        closed = [
            branch
            for branch in {ref.rpartition("/")[0] for ref in there}
            if all(
                self.store.repo.is_ancestor(oid, tip)
                for side, tip in tips.items()
                if (oid := there.get(RefName(f"{branch}/{side}"))) is not None
            )
        ]
        gone = [RefUpdate(ref, None, oid) for ref, oid in there.items()
                if ref.rpartition("/")[0] in closed]  # fmt: skip
        if gone:
            self._move("resume", gone)

    def finalize(self, conclusion: Mapping[str, Any], events: bytes) -> Oid:
        self._release_left()
        return super().finalize(conclusion, events)

    # Child runs.

    def child_run(self, step: ChildStep) -> str:
        """The id of the run of a child: the same in every process that comes to this visit.

        The metadata commit at which the visit begins is part of it, so that a rewind has another.
        """
        anchor = self._anchor()
        seconds = int(self.store.reader.read_commit(anchor).committer.split()[-2])
        moment = max(0, seconds) * 1000
        return operation_id(moment, "child", self.state.run_id, self.branch, step.name, anchor)

    # The merge.

    def merge(self, section: str, heads: Sequence[tuple[BranchStep, str]]) -> Merged:
        """Brings the worktree, and its HEAD, to a commit that merges `heads` one after the other.

        With a conflict nothing is changed.
        """
        named = [(step.own_name, Oid(head)) for step, head in heads]
        return self._merge(section, named, [self._ref_path(step) for step, _ in heads])

    def merge_child(self, step: ChildStep, run_id: str, head: str) -> Merged:
        """The same for a child run, whose refs are its own."""
        return self._merge(step.name, [(run_id, Oid(head))], [])

    def _merge(self, what: str, heads: Sequence[tuple[str, Oid]], closed: Sequence[str]) -> Merged:
        """`closed` are the branches that go with it, as refs have them."""
        missing = [head for _, head in heads if not self._is_here(head)]
        if missing:
            return Merged(missing=tuple(missing))
        notices: list[tuple[str, str]] = []
        ours = self._ours(notices)
        pack = Pack(self.store.repo)
        moment = self._clock.now()
        with quarantine(self.store.repo) as place:
            merged = _Merging(self, place.env, ours)
            for name, head in heads:
                conflicts = merged.add(head)
                if conflicts:
                    pack.discard()
                    told = tuple(notices)
                    return Merged(conflicts=conflicts, branch=name, notices=told)
            merged.remove_steps(place.path)
            pack.add_quarantine(place.path)
        before = self.store.reader.read_commit(ours).tree
        pack.complete(self.store.reader, merged.tree, before)
        text = _merge_message(self, what, closed)
        made = pack.add("commit", encode_commit(self._commit(moment, merged, text)))
        kept = pack.write(durable=self._durable)
        try:
            self.slot.repo.git(
                "-c", "submodule.recurse=false", "checkout", "--quiet", "--detach", made
            )
        finally:
            if kept is not None:
                kept.release()
        return Merged(heads=tuple(merged.heads), notices=tuple(notices))

    def _is_here(self, head: str) -> bool:
        info = self.store.reader.find(head) if head else None
        return info is not None and info.kind == "commit"

    def _ours(self, notices: list[tuple[str, str]]) -> Oid:
        """What the branches are merged into: as for a run commit, what a hook committed too."""
        head = head_state(self.slot).commit
        tip = self.state.run_tip
        if head is None or head == tip:
            return tip
        if self.store.repo.is_ancestor(tip, head):
            return head
        self._set_aside(reconcile_head(self.slot, self.run_ref, tip), notices)
        return tip

    def _commit(self, moment: datetime, merged: _Merging, text: str) -> Commit:
        return Commit(
            tree=merged.tree,
            parents=(merged.ours, *merged.heads),
            author=self._identity.author_line(moment),
            committer=self._identity.committer_line(moment),
            message=text,
        )

    def _parents(self, parent: Oid) -> tuple[Oid, ...]:
        commit = self.store.reader.read_commit(parent)
        return commit.parents if _is_merge(self, commit) else (parent,)

    def _closed_refs(self, cycle: Cycle) -> list[RefUpdate]:
        commit = self.store.reader.read_commit(cycle.parent)
        if not _is_merge(self, commit):
            return []
        refs = [ref for branch in _merged_branches(self, commit) for ref in self._refs_of(branch)]
        if not refs:
            return []
        there = list_refs(self.store.repo, *refs)
        return [RefUpdate(ref, None, there[ref]) for ref in refs if ref in there]


class _Merging:
    """A merge that grows head by head. Its steps are commits that nothing will refer to."""

    def __init__(self, recorder: RunRecorder, env: Mapping[str, str], ours: Oid) -> None:
        self.ours = ours
        self.heads: list[Oid] = []
        self.tree = recorder.store.reader.read_commit(ours).tree
        self._repo = recorder.slot.repo
        self._identity = recorder._identity.env()
        self._env = dict(env)
        self._at = ours
        self._steps: list[Oid] = []

    def add(self, head: Oid) -> tuple[str, ...]:
        """Merges a head that is not in it yet; the paths that conflict."""
        done = self._repo.run(
            "merge-base", "--is-ancestor", head, self._at, ok=(0, 1), env=self._env
        )
        if done.returncode == 0:
            return ()
        merged = merge_trees(self._repo, self._at, head, self._env)
        if merged.conflicts:
            return merged.conflicts
        self.tree = merged.tree
        told = self._repo.git(
            "commit-tree", merged.tree, "-p", self._at, "-p", head, "-m", "step",
            env={**self._identity, **self._env},
        )  # fmt: skip
        self._at = Oid(told.decode().strip())
        self._steps.append(self._at)
        self.heads.append(head)
        return ()

    def remove_steps(self, quarantined: Path) -> None:
        for oid in self._steps:
            (quarantined / oid[:2] / oid[2:]).unlink(missing_ok=True)


def _merge_message(recorder: RunRecorder, section: str, branches: Sequence[str]) -> str:
    names = recorder.store.names
    trailers = [(names.trailer("Run"), str(recorder.state.run_id))]
    trailers += [(names.trailer("Merges"), branch) for branch in branches]
    return message(f"{_MERGED}{section}", trailers)


def _is_merge(recorder: RunRecorder, commit: Commit) -> bool:
    """Whether it is a merge of ours that no checkpoint took over yet."""
    if not commit.message.startswith(_MERGED):
        return False
    key = recorder.store.names.trailer("Run")
    return parse_trailers(commit.message).get(key) == recorder.state.run_id


def _merged_branches(recorder: RunRecorder, commit: Commit) -> list[str]:
    key = f"{recorder.store.names.trailer('Merges')}: "
    lines = commit.message.splitlines()
    return [line.removeprefix(key) for line in lines if line.startswith(key)]


def step_component(grounds: Grounds, step: BranchStep) -> str:
    return f"{step.number}-{grounds.folded[step.first]}"


def _number(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def _recorded_worktree(run_dir: Path) -> Path | None:
    try:
        return Path(os.fsdecode((run_dir / "worktree").read_bytes().removesuffix(b"\n")))
    except OSError:
        return None


def _forget_state(run_dir: Path) -> None:
    """What is on disk of a branch that git does not have."""
    for name in ("checkpoint.json", "started"):
        (run_dir / name).unlink(missing_ok=True)
