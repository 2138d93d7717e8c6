"""One parallel branch: a walk from an edge of the fan-out to the join, with a state of its own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from git_wf.core.context import last_bytes
from git_wf.core.graph import Edge
from git_wf.core.outcome import DETERMINISTIC, FAIL, SUCCESS, TRANSIENT, Outcome
from git_wf.core.sections import BranchStep, branch_name
from git_wf.engine.hooks import open_hooks
from git_wf.engine.people import People, Question
from git_wf.engine.process import END_GRACE, Cancel, end_processes
from git_wf.engine.recorder import BranchRecorder, KeptBranch, Recorder
from git_wf.engine.state import (
    BranchWalk,
    Conclusion,
    Ends,
    Means,
    State,
    Visit,
    branch_marks,
    edge_record,
)
from git_wf.errors import Conflict, GitFailed

OUTPUT_LIMIT = 4096  # bytes of a branch's output in `parallel.results`; all is in its updates
# What a walk itself keeps in the context: it says nothing of what a branch found out.
_OWN_KEYS = frozenset(
    {"current_node", "last_stage", "outcome", "preferred_label"}
    | {"failure_class", "failure_signature"}
)


@dataclass(frozen=True)
class BranchEnd:
    """How a branch ended. `status` is empty where it was stopped, interrupted or waits."""

    step: BranchStep
    status: str
    reason: str = ""
    kind: str = DETERMINISTIC  # of the failure
    head: str | None = None
    state: State | None = None
    question: Question | None = None
    has_stalled: bool = False

    @property
    def is_success(self) -> bool:
        return self.status not in ("", FAIL)


@dataclass(frozen=True)
class Branch:
    """A branch that is to be walked."""

    visit: Visit  # of the fan-out
    edge: Edge
    step: BranchStep
    ends: Ends
    people: People
    stop: Cancel

    @property
    def name(self) -> str:
        return branch_name((*self.visit.means.branch, self.step))

    def is_over(self, kept: KeptBranch | None) -> bool:
        """Whether an earlier process walked it to its end."""
        checkpoint = kept.checkpoint if kept else None
        return checkpoint is not None and (
            checkpoint.next_node_id is None or checkpoint.next_node_id in self.ends.good
        )


def walk_branch(branch: Branch) -> BranchEnd:
    """Walks a branch to its end, on from where an earlier process left it."""
    means = branch.visit.means
    if branch.visit.run.dry_run:
        walk = _begin(branch, replace(means, branch=(*means.branch, branch.step)), None)
        return _ended(branch, walk, walk.walk_prepared(branch.edge.target, True), None)
    branches = means.recorder.branches
    assert branches is not None, branch.name
    try:
        kept = branches.find_branch(branch.step)
        if kept is not None and branch.is_over(kept):
            return _over(branch, kept)
        recorder = branches.open_branch(branch.step)
    except (GitFailed, Conflict, OSError) as err:
        return BranchEnd(branch.step, FAIL, f"open branch '{branch.name}': {err}", TRANSIENT)
    keep = True
    try:
        end, keep = _walk(branch, recorder)
        return end
    finally:
        recorder.finish(keep=keep)


def _walk(branch: Branch, recorder: BranchRecorder) -> tuple[BranchEnd, bool]:
    """The end, and whether the worktree has to stay as it is for a resumption."""
    kept, visit = recorder.kept, branch.visit
    means = _own_means(branch, recorder)
    for code, message in kept.notices:
        means.announce("notice", code=code, message=message)
    if branch.is_over(kept):
        return _over(branch, kept), False
    begin = str(kept.checkpoint.next_node_id) if kept.checkpoint else branch.edge.target
    walk = _begin(branch, means, kept)
    with tempfile.TemporaryDirectory(prefix="git-wf-") as scratch:
        walk.use_scratch(Path(scratch))
        try:
            conclusion = walk.walk_prepared(begin, recorder.is_prepared)
        finally:
            means.hooks.close()
            marks = branch_marks(visit.run, means.branch)
            end_processes(marks, END_GRACE, left=means.watch.left)
    stopped = conclusion.status == "interrupted" and visit.watch.cancel.is_set()
    return _ended(branch, walk, conclusion, recorder.head), stopped


def _own_means(branch: Branch, recorder: Recorder) -> Means:
    """A branch has its worktree, its events and hooks, and can be stopped by itself."""
    visit = branch.visit
    path = (*visit.means.branch, branch.step)
    watch = visit.watch.for_branch(branch.stop)
    announce = visit.announce.for_branch(branch.name)
    hooks = open_hooks(visit.run, recorder, watch, visit.redaction, announce, branch.name)
    return replace(
        visit.means,
        recorder=recorder,
        watch=watch,
        announce=announce,
        hooks=hooks,
        people=branch.people,
        branch=path,
    )


def _begin(branch: Branch, means: Means, kept: KeptBranch | None) -> BranchWalk:
    assert means.begin_walk is not None, branch.name
    return means.begin_walk(branch.visit.run, _state(branch, kept), means, branch.ends)


def _state(branch: Branch, kept: KeptBranch | None) -> State:
    if kept is None or kept.checkpoint is None:
        return branch.visit.state.fork(edge_record(branch.edge))
    return State.restored(kept.checkpoint, kept.head, kept.metadata_commit)


def _over(branch: Branch, kept: KeptBranch) -> BranchEnd:
    assert kept.checkpoint is not None, branch.name
    state = _state(branch, kept)
    if kept.checkpoint.next_node_id is not None:
        return _end(branch, state, SUCCESS, "", kept.head)
    outcome = kept.checkpoint.outcome
    reason = outcome.failure.message if outcome and outcome.failure else "no edge matched"
    return _end(branch, state, FAIL, reason, kept.head)


def _ended(branch: Branch, walk: BranchWalk, conclusion: Conclusion, head: str | None) -> BranchEnd:
    if conclusion.status in ("interrupted", "waiting"):
        return BranchEnd(branch.step, "", head=head, state=walk.state, question=walk.question)
    if not walk.is_recorded:
        reason = "its last checkpoint could not be recorded"
        return _end(branch, walk.state, FAIL, conclusion.failure_reason or reason, head)
    end = _end(branch, walk.state, conclusion.status, conclusion.failure_reason, head)
    return replace(end, has_stalled=walk.has_stalled)


def _end(branch: Branch, state: State, status: str, reason: str, head: str | None) -> BranchEnd:
    """A branch that came to its join is what its last node was."""
    last = _last_outcome(branch, state)
    if status == SUCCESS and last is not None:
        status = last.status if last.status != "skipped" else SUCCESS
        reason = last.failure.message if last.failure else ""
    kind = last.failure.kind if last is not None and last.failure else DETERMINISTIC
    return BranchEnd(branch.step, status, reason, kind, head, state)


def _own_visits(branch: Branch, state: State) -> list[str]:
    """The nodes that the branch completed, in order."""
    before = branch.visit.state.completed
    if state.completed[: len(before)] == before:
        return state.completed[len(before) :]
    return state.completed  # a `loop_restart` cleared what was before


def _last_outcome(branch: Branch, state: State) -> Outcome | None:
    """Of the last node that has one of its own; None where the branch visited none."""
    nodes = branch.visit.run.graph.nodes
    for id_ in reversed(_own_visits(branch, state)):
        if nodes[id_].kind != "conditional":
            return state.outcomes.get(id_)
    return None


def branch_result(branch: Branch, end: BranchEnd) -> dict[str, Any]:
    """What `parallel.results` says of a branch."""
    before = branch.visit.state.context
    context = end.state.context if end.state else {}
    visits = _own_visits(branch, end.state) if end.state else []
    updates = {
        key: value
        for key, value in context.items()
        if key not in _OWN_KEYS
        and not key.startswith(("internal.", "graph."))
        and (key not in before or before[key] != value)
    }
    return {
        "id": end.step.first,
        "branch": end.step.name,
        "status": end.status or "skipped",
        "head": end.head,
        "output": _output(branch, visits, context),
        "context_updates": updates,
        "failure_reason": end.reason or None,
    }


def _output(branch: Branch, visits: list[str], context: dict[str, Any]) -> str:
    """What the last node that says something said."""
    for id_ in reversed(visits):
        command = branch.visit.run.graph.nodes[id_].kind == "command"
        key = "command.output" if command else f"response.{id_}"
        if key in context:
            data = str(context[key]).encode("utf-8", "replace")
            return last_bytes(data, OUTPUT_LIMIT).decode("utf-8", "replace")
    return ""
