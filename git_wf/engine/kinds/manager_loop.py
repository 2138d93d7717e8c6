"""A manager loop: a child workflow, walked as a run of its own, watched while it goes.

The child begins from what the run recorded last. Its outcome is the node's; where it succeeded,
or was stopped by `manager.stop_condition`, its work is merged. What the child put into its
context stays there: here are `stack.child.run_id`, `.status` (`completed`, `failed`, `stopped`),
`.outcome`, `.head` and `.failure_reason`.

A cycle is one `manager.poll_interval` (45 s) that the child goes on; after `manager.max_cycles`
(1000) of them it is ended, and the node fails. `manager.stop_condition` is looked at after every
checkpoint of the child, where nothing could have changed in between. It reads the context of this
run, and of the child `stack.child.context.KEY`, `stack.child.node`, `.outcome` and `.status`.

Every attempt of a visit has a child of its own, so that a run that is tried again does not find
the child that failed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any

from git_wf.core import conditions
from git_wf.core.children import ChildStep, child_file
from git_wf.core.context import lookup
from git_wf.core.outcome import (
    CONFIGURATION,
    DETERMINISTIC,
    FAIL,
    SUCCESS,
    TIMEOUT,
    TRANSIENT,
    Outcome,
    failed,
    succeeded,
)
from git_wf.engine.people import Question, Waiting
from git_wf.engine.process import TICK, EitherCancel, Interrupted, Stalled
from git_wf.engine.programs import write_trace
from git_wf.engine.state import ChildRun, Conclusion, Visit
from git_wf.errors import Conflict, GitFailed, StateUnreadable

POLL_INTERVAL = 45.0  # seconds
MAX_CYCLES = 1000
PREFIX = "stack.child."
RUNNING, COMPLETED, FAILED, STOPPED = "running", "completed", "failed", "stopped"
_STOP = "ended by its manager loop: "  # how the failure reason of a child begins that was stopped
_TIMEOUT = "timeout"
_SHORTEST = 0.01  # seconds of a cycle


@dataclass
class _Stop:
    """That a child is to end before it came to its own end, and what is said of it then."""

    event: threading.Event = field(default_factory=threading.Event)
    reason: str = ""
    status: str = FAIL
    has_stalled: bool = False

    def __call__(self, reason: str, status: str = FAIL) -> None:
        if not self.event.is_set():
            self.reason, self.status = f"{_STOP}{reason}", status
            self.event.set()


def supervise(visit: Visit) -> Outcome:
    """Raises `Interrupted`, `Stalled` or `Waiting` where the child did, once it has let go."""
    text = visit.node.text("manager.stop_condition").strip()
    try:
        condition = conditions.parse(text) if text else None
    except conditions.ConditionError as err:
        return failed(f"manager.stop_condition: {err.message}", CONFIGURATION)
    fault = _fault(visit)
    if fault is not None:
        return fault
    if visit.run.dry_run:
        return succeeded(
            context_updates={f"{PREFIX}status": COMPLETED, f"{PREFIX}outcome": SUCCESS}
        )
    children = visit.means.children
    assert children is not None, visit.node.id
    step = ChildStep(visit.node.id, visit.number, visit.attempt)
    try:
        child = children.open_child(step, visit.run.children[visit.node.id], visit)
    except (GitFailed, Conflict, OSError, StateUnreadable) as err:
        return failed(f"open child of '{visit.node.id}': {err}", TRANSIENT)
    conclusion = child.ended or _walk(visit, child, condition)
    return _outcome(visit, step, child, conclusion)


def _fault(visit: Visit) -> Outcome | None:
    """Why no child can begin."""
    if visit.node.id not in visit.run.children:
        named = child_file(visit.run.graph, visit.node)
        told = f"child workflow '{named}' was not read" if named else "it names no child workflow"
        return failed(told, CONFIGURATION)
    if visit.run.dry_run:
        return None
    if visit.means.children is None or visit.means.recorder.branches is None:
        return failed("a child needs a worktree of its own: not in place", CONFIGURATION)
    if not visit.is_recorded:
        told = "the checkpoint before could not be recorded: the child would begin without its work"
        return failed(told, TRANSIENT)
    return None


# While the child goes on.


def _walk(visit: Visit, child: ChildRun, condition: conditions.Condition | None) -> Conclusion:
    stop = _Stop()

    def saved() -> None:
        if condition is not None and condition.holds(lambda key: _value(visit, child, key)):
            stop(f"manager.stop_condition holds: {condition.text}", SUCCESS)

    conclusion: Conclusion | None = None
    try:
        if child.last is not None:
            saved()  # an earlier process may have ended just before it looked
        conclusion = _watched(visit, child, stop, saved)
        if stop.event.is_set() and conclusion.status in ("interrupted", "waiting"):
            conclusion = replace(
                conclusion, status=stop.status, failure_reason=stop.reason, waiting=None
            )
    finally:
        child.finish(conclusion)
    if stop.has_stalled:
        raise Stalled
    if conclusion.status == "interrupted":
        raise Interrupted
    if conclusion.waiting is not None:
        is_over = visit.watch.cancel.is_set
        where = (visit.node.id, visit.number, child.run_id)
        raise Waiting(Question.of_child(*where, conclusion.waiting, is_over))
    return conclusion


def _watched(visit: Visit, child: ChildRun, stop: _Stop, saved: Callable[[], None]) -> Conclusion:
    """Walks the child in a thread of its own, and watches it from this one."""
    with ThreadPoolExecutor(1, f"child of {visit.node.id}") as pool:
        walk = pool.submit(child.walk, EitherCancel(visit.watch.cancel, stop.event), saved)
        try:
            _watch(visit, stop, walk)
        except BaseException:
            stop("the watch broke off")
            raise
        return walk.result()


def _watch(visit: Visit, stop: _Stop, walk: Future[Conclusion]) -> None:
    """Counts the cycles, in real time, until the child has ended. A cancellation reaches it too."""
    node = visit.node
    interval = max(_SHORTEST, node.seconds("manager.poll_interval", POLL_INTERVAL))
    cycles = max(1, node.integer("manager.max_cycles", MAX_CYCLES))
    timeout = node.seconds("timeout")
    since = time.monotonic()
    while not wait([walk], min(TICK, interval)).done:
        elapsed = time.monotonic() - since
        if timeout and elapsed >= timeout:
            stop(f"{_TIMEOUT} after {timeout:g} s")
        if elapsed >= interval * cycles:
            stop(f"not over after {cycles} cycles of {interval:g} s (manager.max_cycles)")
        try:
            visit.watch.check()
        except Interrupted:
            continue  # it hears of that itself
        except Stalled:
            stop("stalled")
            stop.has_stalled = True


def _value(visit: Visit, child: ChildRun, key: str) -> Any:
    """What a key of the stop condition stands for."""
    name = key.removeprefix("context.")
    if not name.startswith(PREFIX):
        return lookup(visit.values, key)
    name = name.removeprefix(PREFIX)
    last = child.last
    context = last.context_values if last else {}
    if name.startswith("context."):
        return lookup(context, name)
    return {
        "run_id": child.run_id,
        "status": RUNNING,
        "outcome": context.get("outcome"),
        "node": last.current_node if last else None,
        "head": child.head,
    }.get(name)


# What it came to.


def _outcome(visit: Visit, step: ChildStep, child: ChildRun, conclusion: Conclusion) -> Outcome:
    reason = conclusion.failure_reason
    ended = FAILED if conclusion.status == FAIL else COMPLETED
    told = {
        "run_id": child.run_id,
        "status": STOPPED if reason.startswith(_STOP) else ended,
        "outcome": conclusion.status,
        "head": child.head,
        "failure_reason": reason,
    }
    write_trace(visit, "child.json", told)
    fields: dict[str, Any] = {
        "context_updates": {f"{PREFIX}{key}": value for key, value in told.items()},
        "usage": conclusion.usage,
        "extra": {"child_run": child.run_id},
    }
    if conclusion.status == FAIL:
        return failed(f"child workflow: {reason}", _kind(child, reason), **fields)
    conflicts, fault = _merged(visit, step, child)
    if conflicts:
        visit.is_settled = True  # the heads are what they are
        return failed(f"merge of the child run conflicts in {', '.join(conflicts)}", **fields)
    if fault:
        return failed(f"merge of the child run: {fault}", TRANSIENT, **fields)
    return succeeded(
        notes=f"child run {child.run_id}" + (f": {reason}" if reason else ""), **fields
    )


def _kind(child: ChildRun, reason: str) -> str:
    if reason.startswith(f"{_STOP}{_TIMEOUT}"):
        return TIMEOUT
    outcome = child.last.outcome if child.last else None
    return outcome.failure.kind if outcome and outcome.failure else DETERMINISTIC


def _merged(visit: Visit, step: ChildStep, child: ChildRun) -> tuple[tuple[str, ...], str]:
    """The paths that conflict, and what else stood in the way."""
    branches = visit.means.recorder.branches
    assert branches is not None, visit.node.id
    try:
        merged = branches.merge_child(step, child.run_id, child.head)
    except (GitFailed, Conflict, OSError) as err:
        return (), str(err)
    for code, message in merged.notices:
        visit.announce("notice", code=code, message=message)
    return merged.conflicts, "its head is not here" if merged.missing else ""
