"""`git wf resume`: what a run left behind is reconciled, and told; then it goes on."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint, Recorded, check_format, dump_json, load_json
from git_wf.core.children import Child
from git_wf.core.clock import milliseconds
from git_wf.core.context import join_artifacts
from git_wf.core.dot import parse
from git_wf.core.graph import Graph
from git_wf.core.names import Oid, RefName, RunId, operation_id, run_marks, visit_name
from git_wf.core.run_config import read_run_config, to_tables
from git_wf.core.settings import Settings
from git_wf.core.summary import summary_trailers
from git_wf.core.trailers import parse_trailers
from git_wf.engine.loop import Conclusion, walk
from git_wf.engine.people import People
from git_wf.errors import Conflict, GitFailed, StateUnreadable, UserError, WorkflowInvalid
from git_wf.ops.change import held_run, refuse_archived, refuse_users_checkout
from git_wf.ops.child_files import recorded_children
from git_wf.ops.children import OpenRun, RunChildren, in_turn
from git_wf.ops.host import Host
from git_wf.ops.journal import (
    DiskRecorder,
    Journal,
    read_disk_artifacts,
    read_disk_checkpoint,
    read_events,
)
from git_wf.ops.live import (
    Ended,
    Listener,
    LiveRun,
    Prepared,
    conclusion_record,
    engine_view,
    finish,
    make_excludes,
    node_environment,
    open_live,
    refuse_errors,
    refuse_missing_backends,
    settings_at,
    take_directory_lock,
)
from git_wf.ops.people import Answering, check_answer, find_asked, is_unanswered, make_people
from git_wf.ops.project import (
    Project,
    open_project,
    require_state_directory,
    require_writing_git,
)
from git_wf.ops.select import find_run
from git_wf.ops.sharing import Sharing, shared
from git_wf.ops.workflow import Workflow
from git_wf.store.branches import RunRecorder
from git_wf.store.excludes import Excludes
from git_wf.store.files import make_directory, write_atomic
from git_wf.store.packs import release_stale_keeps
from git_wf.store.processes import end_processes, leftover_processes
from git_wf.store.recorder import PENDING_KEY, RunState
from git_wf.store.refs import RefUpdate, move_refs, remove_packed_lock, remove_stale_locks
from git_wf.store.rescue import Rescue, rescue_worktree
from git_wf.store.runs import RunRefs, StoredRun, Timeline
from git_wf.store.staging import restore_tracked
from git_wf.store.worktree import (
    Slot,
    attach,
    find_worktree,
    git_dir_of,
    head_state,
    reconcile_head,
    reopen_slot,
    slots_of,
    take_slot,
)

Notice = tuple[str, str]  # code, message


@dataclass
class _Found:
    """A run as it was left, and what there is to tell of it."""

    run: StoredRun
    timeline: Timeline
    prepared: Prepared
    excludes: Excludes
    last_commit: Oid  # the run commit of the last checkpoint, or the base
    last_metadata: Oid | None  # the metadata commit that recorded it
    notices: list[Notice] = field(default_factory=list)
    is_reopened: bool = False  # its worktree was still there

    def note(self, code: str, message: str) -> None:
        self.notices.append((code, message))


@dataclass(frozen=True)
class ResumeOptions:
    keep_worktree: bool = False
    is_claimed: bool = True  # at the run's remote, where it has one
    answering: Answering = field(default_factory=Answering)


def resume(
    host: Host, word: str | None, options: ResumeOptions, listen: Listener, cancel: threading.Event
) -> Ended:
    """Goes on with the run that `word` names, else the default one.

    A run that waits for a person, where nobody is there to answer now either, is left as it is.

    Raises `UserError` where it has ended, and where an answer does not fit, `Conflict` where
    somebody holds it, `StateUnreadable` where its record cannot be read; then nothing was changed.
    """
    project = open_project(host)
    try:
        refs = find_run(project, word, project.store.refs())
        return _resume_run(project, refs, options, listen, cancel)
    finally:
        project.close()


def _resume_run(
    project: Project,
    refs: RunRefs,
    options: ResumeOptions,
    listen: Listener,
    cancel: threading.Event,
) -> Ended:
    require_writing_git(project.repo)
    listen = in_turn(listen)
    _refuse_child(project, project.store.load(refs))
    # Whatever is wrong is told before the lock is taken.
    _people(project, _read_run(project, refs), options.answering)
    with held_run(project, refs.run_id):
        again = project.store.run_refs(refs.run_id)
        if again is None:
            raise Conflict(f"run {refs.run_id} was removed meanwhile")
        found = _read_run(project, again)
        people = _people(project, found, options.answering)
        if people is None:
            waiting = dict(found.run.waiting or {})
            return _ended(project, found, Conclusion("waiting", waiting=waiting))
        require_state_directory(project.state_dir)
        pushed_to = found.prepared.workflow.config.run.push.remote
        with shared(
            project, refs.run_id, pushed_to, cancel, is_claimed=options.is_claimed
        ) as sharing:
            ended = _go_on(project, found, people, options, listen, cancel, sharing)
    return ended


def _go_on(
    project: Project,
    found: _Found,
    people: People,
    options: ResumeOptions,
    listen: Listener,
    cancel: threading.Event,
    sharing: Sharing,
) -> Ended:
    opened = _open(project, found, people, listen)
    live = opened.live
    try:
        conclusion = walk(
            live.engine_run, opened.checkpoint, live.recorder,
            sharing.hear(live.journal, live.notice), project.clock,
            recorded=opened.recorded, cancel=cancel, secrets=found.prepared.secrets,
            first_delay=project.settings.retry_delay, people=people,
            prepared=opened.is_prepared,
            children=_children(project, found, options.answering, listen),
        )  # fmt: skip
        worktree = finish(project, live, conclusion, options.keep_worktree)
    finally:
        live.close()
    return replace(_ended(project, found, conclusion, worktree), unshared=sharing.end())


def take_up(project: Project, refs: RunRefs, answering: Answering, listen: Listener) -> OpenRun:
    """Goes on with a child run. Whoever calls this holds its lock."""
    found = _read_run(project, refs)
    asked = find_asked(found.prepared.workflow.graph, found.run.checkpoint, found.run.waiting)
    people = make_people(answering, found.prepared.workflow, found.run.waiting, asked)
    return _open(project, found, people, listen)


def _open(project: Project, found: _Found, people: People, listen: Listener) -> OpenRun:
    live, checkpoint = _reconcile(project, found, listen)
    for code, message in found.notices:
        live.notice(code, message)
    return OpenRun(
        live,
        found.prepared,
        people,
        checkpoint,
        Recorded(found.last_commit, found.last_metadata),
        checkpoint is not None and _was_prepared(found, live.recorder),
    )


def _children(
    project: Project, found: _Found, answering: Answering, listen: Listener
) -> RunChildren:
    waiting = found.run.waiting or {}
    answered = (waiting.get("child") or {}).get("run")
    return RunChildren(project, found.prepared, answering, listen, take_up, answered)


def _refuse_child(project: Project, run: StoredRun) -> None:
    """A child goes on under its manager, which merges it; alone only where that is gone."""
    parent = (run.record.get("parent") or {}).get("run")
    refs = project.store.run_refs(RunId(str(parent))) if parent else None
    if refs is None or run.conclusion is not None:
        return
    if refs.meta_tip is not None and project.store.load(refs).conclusion is None:
        raise UserError(
            f"run {run.run_id} is the child of run {parent}, which goes on with it",
            hint=f"git wf resume {parent}",
        )


def _ended(
    project: Project, found: _Found, conclusion: Conclusion, worktree: Path | None = None
) -> Ended:
    run = found.run
    return Ended(
        run_id=run.run_id,
        conclusion=conclusion,
        branch=project.settings.names.short_branch(run.run_id),
        base=run.base,
        base_branch=None if "uncommitted_on" in run.record else run.record.get("base_branch"),
        worktree=worktree,
        run_dir=project.run_dir(run.run_id),
    )


def _people(project: Project, found: _Found, answering: Answering) -> People | None:
    """Who answers; None where the run waits, and would come to wait at once again."""
    workflow, run, now = found.prepared.workflow, found.run, project.clock.now()
    asked = find_asked(workflow.graph, run.checkpoint, run.waiting)
    check_answer(answering, asked, run.run_id, now)
    people = make_people(answering, workflow, run.waiting, asked)
    if run.waiting is None or asked is None or not is_unanswered(answering, workflow, asked, now):
        return people
    # Somebody may have answered in a process that was killed before it was recorded.
    has_moved = _pending_checkpoint(project, found, project.run_dir(run.run_id)) is not None
    return people if has_moved else None


# Reading: nothing is changed.


def _read_run(project: Project, refs: RunRefs) -> _Found:
    refuse_archived(refs)
    run = project.store.load(refs)
    if run.conclusion is not None:
        raise UserError(
            f"run {run.run_id} has ended: {run.conclusion.get('status')}",
            hint=f"git wf rewind {run.run_id} && git wf resume {run.run_id}",
        )
    text = project.store.read_bytes(run.tree, "graph.dot")
    if text is None:
        raise StateUnreadable(f"run {run.run_id} has no graph.dot in its metadata")
    origin = f"{project.settings.names.meta_ref(run.run_id)}:graph.dot"
    children = recorded_children(project.store, run.tree)
    prepared = _prepared(run.record, text, origin, children, project.host.env, project.settings)
    excludes = make_excludes(prepared.workflow.config, project.settings)
    refuse_users_checkout(project, run.run_id)
    timeline = project.store.timeline(run)
    last_commit, last_metadata = _last_recorded(project, run, timeline)
    return _Found(run, timeline, prepared, excludes, last_commit, last_metadata)


def _last_recorded(project: Project, run: StoredRun, timeline: Timeline) -> tuple[Oid, Oid | None]:
    """The run commit and the metadata commit of the checkpoint that a resumption builds on.

    Where the run branch is ahead of the metadata, both are of its last checkpoint. Where it is
    gone, or somebody moved it back, the commit is found by what the metadata says of it.
    """
    entry = timeline.entries[-1] if timeline.entries else None
    metadata = project.store.last_metadata(run)
    named = entry.metadata_commit if entry else None
    if entry and entry.commit and named and (named == metadata or _is_ahead(project, run, named)):
        return entry.commit, named
    if metadata is None:
        return run.base, None
    found = next((one.commit for one in timeline.entries if one.metadata_commit == metadata), None)
    found = found or project.store.rebuilt_commit(run, metadata)
    if found is None:
        raise StateUnreadable(
            f"run {run.run_id} has no run branch"
            if run.refs.run_tip is None
            else f"the branch of run {run.run_id} lacks its last checkpoint, whose commit is gone",
            hint=f"fetch it: {project.store.fetch_command(run.refs)}",
        )
    return found, metadata


def _is_ahead(project: Project, run: StoredRun, metadata: Oid) -> bool:
    """Whether the run branch names a metadata commit that the metadata ref has not reached."""
    assert run.refs.meta_tip is not None
    return not project.repo.is_ancestor(metadata, run.refs.meta_tip)


def _prepared(
    record: Mapping[str, Any],
    text: bytes,
    origin: str,
    children: Mapping[str, Child],
    env: Mapping[str, str],
    settings: Settings,
) -> Prepared:
    """The workflow as the run carries it: a changed file does not matter."""
    graph = _graph(text, origin)
    config = read_run_config(record.get("config") or {}, "run.json: config")
    decoded = text.decode("utf-8", "surrogateescape")
    workflow = Workflow(Path(origin), decoded, graph, config, to_tables(config), None, (), children)
    refuse_errors(workflow)
    node_env, secrets = node_environment(config, env, settings)
    refuse_missing_backends(workflow, node_env)
    goal = record.get("goal")
    return Prepared(
        workflow,
        str(goal) if goal is not None else graph.text("goal"),
        record.get("inputs") or {},
        node_env,
        secrets,
    )


def _graph(text: bytes, origin: str) -> Graph:
    try:
        return parse(text.decode("utf-8", "surrogateescape"), origin)
    except WorkflowInvalid as err:
        err.file, err.text = origin, text.decode("utf-8", "replace")
        raise


# Reconciling.


def _reconcile(
    project: Project,
    found: _Found,
    listen: Listener,
    *,
    at_step: Callable[[str], None] = lambda step: None,
) -> tuple[LiveRun, Checkpoint | None]:
    """Brings refs, worktree and record together; what was found is noted.

    `at_step` hears of each step that is done: locks, joined, worktree, noted, finished.
    """
    moment = project.clock.now()
    run_dir = make_directory(project.run_dir(found.run.run_id))
    _end_leftovers(project, found)
    release_stale_keeps(project.repo)
    known = _recorded_worktree(project, found, run_dir)
    _remove_locks(project, found, known)
    at_step("locks")
    _join_refs(project, found, moment)
    _finish_rewind(project, found, moment)
    at_step("joined")
    slot = _reopened(project, found, known)
    found.is_reopened = slot is not None
    checkpoint = found.run.checkpoint
    pending = _pending_checkpoint(project, found, run_dir)
    started = _started_visit(run_dir)
    can_finish = pending is not None and started in (None, _visit_of(pending))
    if slot is None or not can_finish:
        can_finish = False
        if pending is not None:
            _name_repeated(found, run_dir)
        half_done = _is_half_done(started, checkpoint)
        slot = _clean_slot(project, found, slot, moment, half_done)
    try:
        write_atomic(run_dir / "worktree", os.fsencode(slot.path) + b"\n")
        live = _live(project, found, slot, listen)
        at_step("worktree")
    except BaseException:
        slot.lock.release()
        raise
    try:
        live.recorder.close_merged()
        live.recorder.note("resume", Where=socket.gethostname())
        at_step("noted")
        if can_finish and pending is not None:
            checkpoint = _finish_cycle(live, found, pending, run_dir)
            at_step("finished")
        return live, _joined(project, found, checkpoint, run_dir if can_finish else None)
    except BaseException:
        live.close()
        raise


def _live(project: Project, found: _Found, slot: Slot, listen: Listener) -> LiveRun:
    run = found.run
    assert run.refs.meta_tip is not None
    state = RunState(
        run.run_id, found.last_commit, run.refs.meta_tip, dict(run.tree),
        summary_trailers(run.record),
    )  # fmt: skip
    return open_live(project, found.prepared, state, slot, found.excludes, listen)


def _end_leftovers(project: Project, found: _Found) -> None:
    """A node's processes can outlive a killed engine: they must not write any more."""
    marks = run_marks(found.run.run_id, project.repo.key)
    left, alive = end_processes(partial(leftover_processes, marks), project.host.clock)
    if not left:
        return
    found.note("leftover_processes", f"ended {len(left) - len(alive)} processes of the run")
    for process in alive:
        found.note("leftover_processes", f"process {process.pid} cannot be ended")


def _recorded_worktree(project: Project, found: _Found, run_dir: Path) -> Path | None:
    """The worktree that the run was left in, by its run directory; without one, as git knows it."""
    try:
        return Path(os.fsdecode((run_dir / "worktree").read_bytes().removesuffix(b"\n")))
    except OSError:
        run = found.run.run_id
        branch = project.settings.names.run_branch(run)
        ours = [one.path for one in find_worktree(project.repo, branch, project.state_dir)]
        return next(iter([*ours, *slots_of(project.repo, run)]), None)


def _remove_locks(project: Project, found: _Found, worktree: Path | None) -> None:
    names, run = project.settings.names, found.run.run_id
    paths = []
    git_dir = git_dir_of(project.repo, worktree) if worktree is not None else None
    if git_dir is not None:
        paths = [git_dir / "index.lock", git_dir / "HEAD.lock"]
    removed = remove_stale_locks(project.repo, names.roots_of(run), paths)
    for path in (*removed, *remove_packed_lock(project.repo)):
        found.note("stale_lock", f"removed '{path}', which a killed git left behind")


def _join_refs(project: Project, found: _Found, moment: datetime) -> None:
    """A crash between two renames can leave the run branch one ahead of the metadata ref."""
    run, entries = found.run, found.timeline.entries
    assert run.refs.meta_tip is not None
    ahead = entries[-1].metadata_commit if entries else None
    if ahead is None or ahead == run.refs.meta_tip:
        return
    if project.repo.is_ancestor(ahead, run.refs.meta_tip):
        return
    if not project.repo.is_ancestor(run.refs.meta_tip, ahead):
        raise StateUnreadable(
            f"run {run.run_id}: the run branch names metadata commit {ahead}, which does not "
            "descend from the metadata ref",
            hint=f"git wf rewind {run.run_id} goes back to a checkpoint that both know",
        )
    ref = project.settings.names.meta_ref(run.run_id)
    reason = f"{project.settings.names.namespace}: resume"
    move_refs(
        project.repo,
        [RefUpdate(ref, ahead, run.refs.meta_tip)],
        reason,
        project.identity.env(moment),
    )
    refs = RunRefs(run.run_id, run.refs.run_tip, ahead)
    found.run = project.store.load(refs)
    found.note("metadata_joined", f"the metadata ref was one behind: moved to {ahead}")


def _finish_rewind(project: Project, found: _Found, moment: datetime) -> None:
    """A crash between two renames can leave a rewind with the run branch where it was."""
    run, names = found.run, project.settings.names
    assert run.refs.meta_tip is not None
    message = project.store.reader.read_commit(run.refs.meta_tip).message
    rewound_from = parse_trailers(message).get(names.trailer("Rewound-From"))
    if not message.startswith("rewind ") or run.refs.run_tip != rewound_from:
        return
    if run.refs.run_tip == found.last_commit:
        return
    move_refs(
        project.repo,
        [RefUpdate(names.run_branch(run.run_id), found.last_commit, run.refs.run_tip)],
        f"{names.namespace}: resume",
        project.identity.env(moment),
    )
    found.run = project.store.load(RunRefs(run.run_id, found.last_commit, run.refs.meta_tip))
    told = f"the rewind was cut off: the run branch is at {found.last_commit} now"
    found.note("rewind_finished", told)


def _reopened(project: Project, found: _Found, known: Path | None) -> Slot | None:
    """The worktree that the run was left in; None where it is gone."""
    if known is None:
        return None
    slot = reopen_slot(project.repo, known, found.run.run_id)
    if slot is None:
        found.note("worktree_gone", f"worktree '{known}' is gone: a new one is made")
    return slot


def _visit_of(checkpoint: Checkpoint) -> tuple[str, int]:
    return checkpoint.current_node, checkpoint.visit


def _started_visit(run_dir: Path) -> tuple[str, int] | None:
    """The visit that was started last, those of parallel branches aside."""
    last = None
    for event in read_events(run_dir):
        if event.get("event") == "stage_started" and not event.get("parallel_branch"):
            last = (str(event.get("node")), int(event.get("visit") or 0))
    return last


def _was_prepared(found: _Found, recorder: RunRecorder) -> bool:
    return found.is_reopened and _prepared_in(recorder.run_dir) == str(recorder.work_dir)


def _prepared_in(run_dir: Path) -> str:
    """The worktree in which the prepare steps were made, and what they left is recorded.

    What was not recorded yet can have been cleared away since: then they run again.
    """
    begun = prepared = ""
    for event in read_events(run_dir):
        if event.get("event") == "run_started":
            begun = str(event.get("worktree"))
        elif event.get("event") == "checkpoint_saved" and not event.get("parallel_branch"):
            prepared = begun
    return prepared


def _is_half_done(started: tuple[str, int] | None, checkpoint: Checkpoint | None) -> bool:
    """Whether a visit was started after the last checkpoint that git has."""
    if started is None:
        return False
    return checkpoint is None or started != _visit_of(checkpoint)


def _name_repeated(found: _Found, run_dir: Path) -> None:
    """Says which visits had ended since the last checkpoint that git has: they run again."""
    checkpoint = found.run.checkpoint
    ended: list[tuple[str, int]] = []
    for event in read_events(run_dir):
        kind = event.get("event")
        if event.get("parallel_branch"):
            continue
        if kind in ("stage_completed", "stage_failed"):
            ended.append((str(event.get("node")), int(event.get("visit") or 0)))
        elif kind in ("checkpoint_saved", "run_started"):
            ended.clear()
    names = [
        visit_name(*visit) for visit in ended if not checkpoint or visit != _visit_of(checkpoint)
    ]
    if names:
        had, they, run = ("was", "it", "runs") if len(names) == 1 else ("were", "they", "run")
        found.note(
            "visit_repeated",
            f"{', '.join(names)} had ended but {had} not recorded: {they} {run} again",
        )


def _pending_checkpoint(project: Project, found: _Found, run_dir: Path) -> Checkpoint | None:
    """A checkpoint that is on disk and, by its own word, builds on what git has."""
    try:
        disk = read_disk_checkpoint(run_dir / "checkpoint.json")
    except StateUnreadable as err:
        found.note("disk_checkpoint", f"passed over: {err.message}")
        return None
    if disk is None or disk.run_id != found.run.run_id or disk.git_commit_sha is not None:
        return None
    before = found.run.checkpoint
    builds_on = disk.extra.pop(PENDING_KEY, None)
    if disk.ordinal != (before.ordinal if before else 0) + 1:
        return None
    return disk if _is_unchanged_since(project, found, builds_on) else None


def _is_unchanged_since(project: Project, found: _Found, metadata: str | None) -> bool:
    """Whether the metadata ref is at a commit, or only resumptions came after it."""
    reader, tip = project.store.reader, found.run.refs.meta_tip
    while tip is not None and tip != metadata:
        commit = reader.read_commit(tip)
        subject = commit.message.split("\n", 1)[0]
        if subject != "resume" and not subject.startswith("wait "):
            return False
        tip = commit.parents[0] if commit.parents else None
    return tip is not None


def _clean_slot(
    project: Project, found: _Found, slot: Slot | None, moment: datetime, half_done: bool
) -> Slot:
    """A worktree that is as it was recorded last; what was not recorded is kept by rescue refs."""
    names, run, last = project.settings.names, found.run, found.last_commit
    branch, tip = names.run_branch(run.run_id), run.refs.run_tip
    parent = tip or last
    aside: list[tuple[str, Oid]] = []
    if slot is not None:
        parent, tip, aside = _rescue_slot(project, found, slot, moment)
    elif not project.repo.is_ancestor(last, parent):
        parent, aside = last, [("the run branch", parent)]
    if half_done:  # a node that runs again starts from where it started
        aside += [("HEAD", parent), ("the run branch", tip or last)]
        parent = last
    _set_aside(project, found, aside, moment)
    if tip != parent:
        reason = f"{names.namespace}: resume"
        env = project.identity.env(moment)
        move_refs(project.repo, [RefUpdate(branch, parent, tip)], reason, env)
        found.run = project.store.load(RunRefs(run.run_id, parent, run.refs.meta_tip))
    if slot is None:
        slot = take_slot(project.repo, project.state_dir, parent, run.run_id)
        attach(slot, branch)
        return slot
    attach(slot, branch)
    for path in restore_tracked(slot.repo, found.excludes):
        found.note("not_restored", f"'{path}' could not be restored")
    return slot


def _rescue_slot(
    project: Project, found: _Found, slot: Slot, moment: datetime
) -> tuple[Oid, Oid | None, list[tuple[str, Oid]]]:
    """Keeps what a worktree holds, and brings its HEAD back.

    Returns what the next run commit builds on, where the run branch is, and what would be lost.
    """
    names, run, last = project.settings.names, found.run, found.last_commit
    branch = names.run_branch(run.run_id)
    try:
        parent = head_state(slot).commit or last
    except GitFailed:  # a node broke the git directory: mended before anything is read from it
        parent = reconcile_head(slot, branch, last).parent
    rescue = operation_id(milliseconds(moment), "rescue", run.run_id, last)
    ref = names.rescue_ref(run.run_id, rescue)
    kept = rescue_worktree(
        slot.repo, names, Rescue(ref, parent, run.run_id), project.identity, moment
    )
    if kept is not None:
        found.note("rescued", f"unrecorded changes in the worktree are kept at {ref}")
    head = reconcile_head(slot, branch, last)
    return head.parent, head.branch_tip, list(head.set_aside)


def _set_aside(
    project: Project, found: _Found, aside: list[tuple[str, Oid]], moment: datetime
) -> None:
    """Keeps commits by rescue refs, each once, unless the last recorded one has them anyway."""
    names, run = project.settings.names, found.run.run_id
    updates: list[RefUpdate] = []
    for what, oid in aside:
        if oid in [one.new for one in updates] or project.repo.is_ancestor(oid, found.last_commit):
            continue
        rescue = operation_id(milliseconds(moment), "set aside", run, oid)
        ref = RefName(names.rescue_ref(run, rescue))
        updates.append(RefUpdate(ref, oid, None))
        found.note("set_aside", f"{what} {oid} is kept at {ref}")
    if updates:
        reason = f"{names.namespace}: rescue"
        move_refs(project.repo, updates, reason, project.identity.env(moment))


def _finish_cycle(live: LiveRun, found: _Found, pending: Checkpoint, run_dir: Path) -> Checkpoint:
    """The visit had ended and the disk knows it: the rest of its cycle is done now."""
    artifacts = read_disk_artifacts(run_dir, pending)
    outcome = pending.outcome
    failure = outcome.failure.message if outcome and outcome.failure else ""
    notes = (outcome.notes if outcome else "") or failure
    recorded = live.recorder.record_in_git(pending, artifacts, notes)
    pending.git_commit_sha = recorded.commit
    found.last_commit = live.recorder.state.run_tip
    found.last_metadata = live.recorder.state.meta_tip
    found.notices += recorded.notices
    found.note(
        "cycle_finished",
        f"{visit_name(pending.current_node, pending.visit)} had ended: its checkpoint is recorded",
    )
    return pending


def _joined(
    project: Project, found: _Found, checkpoint: Checkpoint | None, run_dir: Path | None
) -> Checkpoint | None:
    """The checkpoint with its artifacts in place, those in `run_dir` too."""
    if checkpoint is None:
        return None
    stored = project.store.artifacts(found.run.tree)
    if run_dir is not None:
        stored |= read_disk_artifacts(run_dir, checkpoint)
    checkpoint.context_values = join_artifacts(
        checkpoint.context_values, lambda key: _artifact(stored, key)
    )
    return checkpoint


def _artifact(stored: Mapping[str, bytes], key: str) -> bytes:
    if key not in stored:
        raise StateUnreadable(f"artifact '{key}' is missing")
    return stored[key]


# By the older names.


def resume_from_file(
    host: Host, path: Path, options: ResumeOptions, listen: Listener, cancel: threading.Event
) -> Ended:
    """`git wf run --resume PATH/checkpoint.json`: the run that the file is of.

    An in-place run goes on from the file; one in git from its refs, where the file must be what
    they have.
    """
    if path.is_dir():
        path = path / "checkpoint.json"
    checkpoint = read_disk_checkpoint(path)
    if _is_in_place(path.parent):
        return _resume_in_place(host, path.parent, options.answering, listen, cancel)
    if checkpoint is None:
        raise UserError(f"no file '{path}'", hint="git wf resume RUN needs no file")
    project = open_project(host)
    try:
        refs = find_run(project, checkpoint.run_id, project.store.refs())
        stored = project.store.load(refs).checkpoint
        now = stored.ordinal if stored else 0
        if checkpoint.ordinal < now:
            raise UserError(
                f"'{path}' is checkpoint @{checkpoint.ordinal}, the run is at @{now}",
                hint=f"git wf rewind {refs.run_id} @{checkpoint.ordinal} && "
                f"git wf resume {refs.run_id}",
            )
        return _resume_run(project, refs, options, listen, cancel)
    finally:
        project.close()


def _is_in_place(run_dir: Path) -> bool:
    record = _in_place_record(run_dir)
    return bool(record and record.get("in_place"))


def _in_place_record(run_dir: Path) -> dict[str, Any] | None:
    path = run_dir / "run.json"
    try:
        data = load_json(path.read_bytes(), str(path))
    except OSError:
        return None
    check_format(data, str(path))
    checked: dict[str, Any] = data
    return checked


def _resume_in_place(
    host: Host,
    run_dir: Path,
    answering: Answering,
    listen: Listener,
    cancel: threading.Event,
) -> Ended:
    record = _in_place_record(run_dir) or {}
    lock = take_directory_lock(run_dir, str(record.get("run_id")))
    try:
        return _walk_in_place(host, run_dir, record, answering, listen, cancel)
    finally:
        lock.release()


def _walk_in_place(
    host: Host,
    run_dir: Path,
    record: Mapping[str, Any],
    answering: Answering,
    listen: Listener,
    cancel: threading.Event,
) -> Ended:
    run_id = str(record.get("run_id"))
    checkpoint = read_disk_checkpoint(run_dir / "checkpoint.json")
    conclusion_path = run_dir / "conclusion.json"
    if conclusion_path.exists():
        ended = load_json(conclusion_path.read_bytes(), str(conclusion_path))
        if ended.get("status") not in ("interrupted", "waiting"):
            raise UserError(
                f"run {run_id} has ended: {ended.get('status')}",
                hint="git wf run --in-place WORKFLOW starts another",
            )
    try:
        text = (run_dir / "graph.dot").read_bytes()
    except OSError as err:
        raise StateUnreadable(f"read '{run_dir / 'graph.dot'}': {err.strerror}") from err
    top = Path(str(record.get("working_directory") or host.cwd))
    settings = settings_at(top if top.is_dir() else host.cwd, host.env)
    prepared = _prepared(record, text, str(run_dir / "graph.dot"), {}, host.env, settings)
    if not top.is_dir():
        raise UserError(
            f"the folder of the run is gone: '{top}'", hint="bring it back, or start another run"
        )
    waiting = _in_place_waiting(run_dir)
    asked = find_asked(prepared.workflow.graph, checkpoint, waiting)
    check_answer(answering, asked, run_id, host.clock.now())
    people = make_people(answering, prepared.workflow, waiting, asked)
    now = host.clock.now()
    if waiting and asked and is_unanswered(answering, prepared.workflow, asked, now):
        return Ended(run_id, Conclusion("waiting", waiting=waiting), run_dir=run_dir)
    if checkpoint is not None:
        artifacts = read_disk_artifacts(run_dir, checkpoint)
        checkpoint.context_values = join_artifacts(
            checkpoint.context_values, lambda key: _artifact(artifacts, key)
        )
    journal = Journal(run_dir, listen)
    try:
        repository = str(record.get("repository") or "")
        engine_run = engine_view(prepared, run_id, {"worktree": str(top)}, repository)
        end_processes(partial(leftover_processes, engine_run.marks), host.clock)
        conclusion = walk(
            engine_run, checkpoint, DiskRecorder(run_dir, top), journal, host.clock,
            recorded=Recorded(None, None), cancel=cancel, secrets=prepared.secrets,
            first_delay=settings.retry_delay, people=people,
            prepared=checkpoint is not None and _prepared_in(run_dir) == str(top),
        )  # fmt: skip
        write_atomic(conclusion_path, dump_json(conclusion_record(conclusion)))
    finally:
        journal.close()
    return Ended(run_id, conclusion, run_dir=run_dir)


def _in_place_waiting(run_dir: Path) -> dict[str, Any] | None:
    path = run_dir / "waiting.json"
    try:
        data = load_json(path.read_bytes(), str(path))
    except OSError:
        return None
    check_format(data, str(path))
    waiting: dict[str, Any] = data
    return waiting
