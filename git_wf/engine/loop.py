"""The walk through a graph: visit, choose the edge, record, go on.

Order of a visit: `stage_started` is announced, the attempts are made, the next edge is chosen,
the checkpoint is built and recorded, `checkpoint_saved` is announced. A visit that was not
recorded does not count: a resumption makes it again.
"""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.clock import Clock, rfc3339
from git_wf.core.context import (
    Redaction,
    lookup,
    split_artifacts,
)
from git_wf.core.graph import Node
from git_wf.core.outcome import (
    CANCELLED,
    DETERMINISTIC,
    FAIL,
    SIGNAL,
    SUCCESS,
    TIMEOUT,
    TRANSIENT,
    Outcome,
    failed,
    succeeded,
)
from git_wf.core.retry import SIGNATURE_LIMIT
from git_wf.core.routing import Step, failure_rule, next_step, retry_step
from git_wf.core.sections import PARALLEL, find_join
from git_wf.core.stylesheet import styled
from git_wf.engine.attempt import Attempted, attempt_visit, signed
from git_wf.engine.backends import ANSWERED_KINDS
from git_wf.engine.events import Announcer, Listener
from git_wf.engine.hooks import open_hooks
from git_wf.engine.people import People, Question, Waiting
from git_wf.engine.prepare import prepare
from git_wf.engine.process import (
    END_GRACE,
    Cancel,
    Interrupted,
    Stalled,
    Watch,
    end_processes,
)
from git_wf.engine.programs import write_trace
from git_wf.engine.recorder import Recorded, Recorder
from git_wf.engine.state import (
    SESSIONS_KEY,
    Children,
    Conclusion,
    Ends,
    Means,
    Run,
    State,
    Visit,
    edge_record,
)
from git_wf.errors import Conflict, GitFailed, StateUnreadable

__all__ = ["Conclusion", "Run", "walk"]

DEFAULT_STALL = 1800.0  # seconds
DEFAULT_VISITS = 1000  # of one node, in a run without a limit of its own
DRY_VISITS = 10  # the same in a dry run, where nothing changes from one visit to the next
_RESTARTABLE = (TIMEOUT, SIGNAL, TRANSIENT)


def walk(
    run: Run,
    checkpoint: Checkpoint | None,
    recorder: Recorder,
    listen: Listener,
    clock: Clock,
    *,
    recorded: Recorded | None = None,
    cancel: Cancel | None = None,
    secrets: Collection[str] = (),
    draw: Callable[[], float] = random.random,
    first_delay: float | None = None,
    people: People | None = None,
    prepared: bool = False,
    children: Children | None = None,
) -> Conclusion:
    """Walks a valid graph from its start, or on from a checkpoint, to the run's conclusion.

    `checkpoint.context_values` are joined with their artifacts; `recorded` are the commits that
    hold it (of a run that goes on before its first checkpoint, those that it began with).
    `secrets` are values to replace wherever they turn up. `draw` gives random numbers from 0 to 1,
    for `selection="random"` and the jitter of pauses; `first_delay` (seconds) replaces the first
    pause of every retry policy. `people` says who answers human nodes; where nobody does, the
    conclusion is `waiting`. `prepared`: the worktree is not new, its prepare steps were made.
    `children` opens the runs of child workflows. A dry run touches neither `recorder` nor any file.
    """
    run = replace(run, graph=styled(run.graph))
    watch = Watch(cancel or threading.Event(), run.graph.seconds("stall_timeout", DEFAULT_STALL))
    redaction = Redaction(secrets)
    announce = Announcer(run.run_id, listen, clock, redaction, watch.touch)
    hooks = open_hooks(run, recorder, watch, redaction, announce)
    means = Means(
        recorder, clock, watch, redaction, announce, hooks, people or People(), draw, first_delay,
        begin_walk=Walker, children=children,
    )  # fmt: skip
    if checkpoint is None:
        state = State.fresh(run)
        state.resumed = recorded is not None
    else:
        at = recorded or Recorded(checkpoint.git_commit_sha, None)
        state = State.restored(checkpoint, at.commit, at.metadata_commit)
    walker = Walker(run, state, means)
    resumed = {"resumed": True} if state.resumed else {}
    announce("run_started", workflow=run.graph.name, **run.started, **resumed)
    conclusion = _walk_in_scratch(walker, checkpoint, prepared)
    announce(
        "run_finished", status=conclusion.status, failure_reason=conclusion.failure_reason or None
    )
    return conclusion


def _walk_in_scratch(walker: Walker, checkpoint: Checkpoint | None, prepared: bool) -> Conclusion:
    if checkpoint is not None and checkpoint.next_node_id is None:
        failure = checkpoint.outcome.failure if checkpoint.outcome else None
        return walker.conclude(FAIL, failure.message if failure else "the run had ended")
    begin = walker.run.graph.start.id if checkpoint is None else str(checkpoint.next_node_id)
    if walker.run.dry_run:
        return walker.walk_from(begin)
    with tempfile.TemporaryDirectory(prefix="git-wf-") as scratch:
        walker.use_scratch(Path(scratch))
        try:
            return _walk_with_hooks(walker, begin, prepared)
        finally:
            walker.means.hooks.close()
            end_processes(walker.run.marks, END_GRACE, left=walker.means.watch.left)


def _walk_with_hooks(walker: Walker, begin: str, prepared: bool) -> Conclusion:
    hooks, values = walker.means.hooks, walker.values()
    try:
        decision = hooks.fire("run_start", values)
        if decision.word == "block":
            conclusion = walker.conclude(FAIL, decision.reason)
        else:
            conclusion = walker.walk_prepared(begin, prepared)
        told = {"status": conclusion.status, "reason": conclusion.failure_reason}
        if conclusion.status == FAIL:
            hooks.fire("run_failed", walker.values(), **told)
        elif conclusion.status == SUCCESS:
            hooks.fire("run_complete", walker.values(), **told)
    except Interrupted:
        return walker.conclude("interrupted")
    return conclusion


class Walker:
    """One walk, of a run or of a parallel branch: its state, and everything that it was handed."""

    def __init__(self, run: Run, state: State, means: Means, ends: Ends | None = None) -> None:
        self.run = run
        self.state = state
        self.means = means
        self.question: Question | None = None
        self.has_stalled = False
        self.is_recorded = True
        self._ends = ends or Ends()
        self._announce = means.announce
        self._scratch = Path()
        self._since = means.clock.monotonic()
        self._skipped = 0
        self._moved = True  # a visit was made since the exit was seen last
        self._identity = {"internal.run_id": run.run_id}
        if not run.dry_run:
            self._identity["internal.work_dir"] = str(means.recorder.work_dir)

    def use_scratch(self, path: Path) -> None:
        """A directory for files that programs exchange with the engine; it goes with the walk."""
        self._scratch = path / "visit"
        self._scratch.mkdir()
        self.means.hooks.scratch = path

    def values(self) -> dict[str, Any]:
        """The context, with the identity keys laid over."""
        return {**self.state.context, **self._identity}

    def walk_prepared(self, node_id: str, prepared: bool) -> Conclusion:
        """Runs the prepare steps, unless the worktree has seen them, and walks on."""
        try:
            reason = "" if prepared else prepare(self.run, self.means, self._scratch)
        except Interrupted:
            return self.conclude("interrupted")
        except Stalled:
            return self._conclude_stalled()
        return self.conclude(FAIL, reason) if reason else self.walk_from(node_id)

    def walk_from(self, node_id: str) -> Conclusion:
        nodes = self.run.graph.nodes
        while node_id not in self._ends.good:
            if node_id in self._ends.bad:
                return self.conclude(FAIL, self._ends.bad[node_id])
            if node_id not in nodes:
                raise StateUnreadable(f"the graph of run '{self.run.run_id}' has no '{node_id}'")
            try:
                self.means.watch.check_cancelled()
                step = self._step(nodes[node_id])
            except Interrupted:
                return self.conclude("interrupted")
            except Stalled:
                return self._conclude_stalled()
            except Waiting as err:
                return self._wait(err.question)
            if step.target is None:
                return self.conclude(FAIL if step.reason else SUCCESS, step.reason)
            node_id = step.target
        return self.conclude(SUCCESS)

    def _conclude_stalled(self) -> Conclusion:
        self.has_stalled = True
        return self.conclude(FAIL, self._stalled())

    def _wait(self, question: Question) -> Conclusion:
        self.question = question
        waiting = self.means.redaction.value(question.to_json())
        try:
            self._tell_notices(self.means.recorder.wait(waiting))
        except (GitFailed, Conflict, OSError) as err:
            self._skipped += 1
            self._announce("checkpoint_skipped", reason=str(err))
        return replace(self.conclude("waiting"), waiting=waiting)

    def conclude(self, status: str, reason: str = "") -> Conclusion:
        return Conclusion(
            status,
            self.means.redaction.text(reason),
            self._duration_ms(),
            self.state.retries_in_all,
            dict(self.state.usage) or None,
            self._skipped,
        )

    def _step(self, node: Node) -> Step:
        """One node, and what comes next. A step without target and reason is the good end."""
        if node.kind == "start":
            return self._start(node)
        if node.kind == "exit":
            return self._leave(node)
        limit = self._exceeded_limit(node)
        if limit:
            return Step(None, None, "limit", limit)
        return self._visit(node)

    # Start and exit: no checkpoint is made for them.

    def _start(self, node: Node) -> Step:
        self.state.completed.append(node.id)
        return self._take(node, self._next_step(node, succeeded()))

    def _leave(self, node: Node) -> Step:
        graph, outcomes = self.run.graph, self.state.outcomes
        gate = next(
            (
                gate
                for gate in graph.nodes.values()
                if gate.flag("goal_gate")
                and gate.id in outcomes
                and not outcomes[gate.id].is_success
            ),
            None,
        )
        if gate is None:
            return Step(None, None, "exit", "")
        step = retry_step(graph, gate)
        told = f"goal gate '{gate.id}' has not succeeded: {outcomes[gate.id].status}"
        if step is None or step.target == node.id or not self._moved:
            return Step(None, None, "goal_gate", told)
        self._moved = False
        self._restart_if_due()
        return self._take(node, step)

    # A visit.

    def _exceeded_limit(self, node: Node) -> str:
        """What there is to say if the node has had all its visits, else nothing."""
        made = self.state.visits.get(node.id, 0)
        own = node.integer("max_visits", 0)
        all_ = self.run.graph.integer("max_node_visits", 0)
        default = DRY_VISITS if self.run.dry_run else DEFAULT_VISITS
        limits = {"max_visits": own, "max_node_visits": all_}
        if own <= 0 and all_ <= 0:
            limits["max_node_visits"] = default
        for name, limit in limits.items():
            if 0 < limit <= made:
                return f"node '{node.id}' was visited {made} times: {name}={limit} allows no more"
        return ""

    def _visit(self, node: Node) -> Step:
        visit = self._begin(node)
        stalled = ""
        try:
            attempted = attempt_visit(visit)
        except Stalled:
            self.has_stalled = True
            stalled = self._stalled()
            outcome = signed(visit, failed(stalled, CANCELLED))
            attempted = Attempted(outcome, visit.attempt - 1)
        self.state.join(visit.branches)
        outcome = self.state.admit(node, attempted.outcome, attempted.retries)
        own = {**visit.facts, **({SESSIONS_KEY: visit.sessions} if visit.sessions else {})}
        self.state.context.update(visit.redaction.value(own))
        self._announce_end(visit, outcome)
        step = Step(None, None, "stalled", stalled) if stalled else self._choose(visit, outcome)
        step = self._take(node, step)
        self._record(visit, outcome, step)
        return step

    def _stalled(self) -> str:
        seconds = self.means.watch.stall_timeout or 0
        return f"stalled: nothing happened for {seconds:g} s (stall_timeout)"

    def _begin(self, node: Node) -> Visit:
        state = self.state
        self._restart_if_due()
        number = state.visits.get(node.id, 0) + 1
        state.visits[node.id] = number
        state.context["current_node"] = node.id
        state.context["internal.node_visit_count"] = number
        self._announce("stage_started", node=node.id, visit=number, kind=node.kind)
        self._moved = True
        dry = self.run.dry_run
        visit = Visit(
            run=self.run,
            node=node,
            number=number,
            values=self.values(),
            before=state.last_outcome,
            incoming=state.incoming,
            work_dir=Path() if dry else self.means.recorder.work_dir,
            trace=Path() if dry else self._trace_dir(node, number),
            scratch=self._scratch,
            means=self.means,
            state=state,
            sessions=state.sessions,
            ends=self._ends,
            is_recorded=self.is_recorded,
        )
        if node.kind in ANSWERED_KINDS:
            visit.note_talk()
        return visit

    def _restart_if_due(self) -> None:
        """A `loop_restart` edge was taken: its restart is made before anything follows."""
        if self.state.incoming and self.state.incoming.get("loop_restart"):
            self.state.restart(self.run)

    def _trace_dir(self, node: Node, number: int) -> Path:
        try:
            return self.means.recorder.trace_dir(node.id, number)
        except OSError as err:
            told = f"trace of node '{node.id}': {err.strerror or err}"
            self._announce("notice", code="trace_incomplete", message=told)
            return self._scratch

    def _announce_end(self, visit: Visit, outcome: Outcome) -> None:
        fields: dict[str, Any] = {
            "node": visit.node.id,
            "visit": visit.number,
            "status": outcome.status,
            "duration_ms": outcome.duration_ms,
            "usage": outcome.usage,
        }
        if outcome.status == FAIL:
            reason = outcome.failure.message if outcome.failure else ""
            self._announce("stage_failed", **fields, reason=reason)
        else:
            self._announce("stage_completed", **fields)

    # The edge.

    def _choose(self, visit: Visit, outcome: Outcome) -> Step:
        node = visit.node
        repeated = self._repeated_failure(outcome)
        if repeated:
            return Step(None, None, "signature_limit", repeated)
        if visit.jump is not None:
            step = Step(visit.jump, None, "again")
        elif node.kind == PARALLEL:
            step = self._join_step(node, outcome)
        elif visit.chosen is not None and outcome.is_success:
            step = Step(visit.chosen.target, visit.chosen, "preferred_label")
        else:
            step = self._next_step(node, outcome)
        if step.edge is None or not step.edge.flag("loop_restart"):
            return step
        return self._checked_restart(node, step)

    def _next_step(self, node: Node, outcome: Outcome) -> Step:
        return next_step(self.run.graph, node, outcome, self._value, self.means.draw)

    def _join_step(self, node: Node, outcome: Outcome) -> Step:
        """After a fan-out comes its join: its edges were taken by the branches."""
        graph = self.run.graph
        if outcome.status == FAIL and failure_rule(graph, node) != "route":
            told = outcome.failure.message if outcome.failure else ""
            failure = Step(None, None, "failure", told or f"node '{node.id}' failed")
            return retry_step(graph, node) or failure
        join = find_join(graph, node.id)
        return Step(join, None, "join", "" if join else f"no edge matches from '{node.id}'")

    def _repeated_failure(self, outcome: Outcome) -> str:
        if outcome.failure is None or outcome.failure.kind != DETERMINISTIC:
            return ""
        limit = self.run.graph.integer("loop_restart_signature_limit", SIGNATURE_LIMIT)
        count = self.state.failure_signatures.get(outcome.failure.signature, 0)
        if limit <= 0 or count < limit:
            return ""
        return f"the same failure {count} times: {outcome.failure.message}"

    def _checked_restart(self, node: Node, step: Step) -> Step:
        """After a failure only one that may be gone the next time may take a `loop_restart`."""
        context = self.state.context
        if context.get("outcome") != FAIL:
            return step
        kind = str(context.get("failure_class", ""))
        if kind not in _RESTARTABLE:
            told = f"loop_restart from '{node.id}' refused: the failure is {kind}, not transient"
            return Step(None, None, "loop_restart", told)
        signature = str(context.get("failure_signature", ""))
        counts = self.state.restart_signatures
        counts[signature] = counts.get(signature, 0) + 1
        return step

    def _take(self, node: Node, step: Step) -> Step:
        """The step that is taken: hooks may have another one taken, or none."""
        if step.target is not None:
            step = self._hooked(node, step)
        self.state.incoming = edge_record(step.edge)
        if step.target is not None:
            self._announce(
                "edge_selected",
                from_=node.id,
                to=step.target,
                label=step.edge.label if step.edge else "",
                why=step.why,
            )
        return step

    def _hooked(self, node: Node, step: Step) -> Step:
        told = {
            "node": node.id,
            "edge": f"{node.id}->{step.target}",
            "from": node.id,
            "to": step.target,
            "label": step.edge.label if step.edge else "",
        }
        decision = self.means.hooks.fire("edge_selected", self.values(), **told)
        if decision.word == "block":
            return Step(None, None, "hook", decision.reason)
        if decision.word != "override":
            return step
        target = str(decision.data.get("target") or "")
        if target not in self.run.graph.nodes:
            return Step(None, None, "hook", f"a hook sent the run to '{target}': no such node")
        return Step(target, None, "hook")

    # The checkpoint.

    def _record(self, visit: Visit, outcome: Outcome, step: Step) -> None:
        if self.run.dry_run:
            return
        state = self.state
        values, artifacts = split_artifacts(state.context)
        checkpoint = self._checkpoint(visit.node, values, step)
        notes = outcome.notes or (outcome.failure.message if outcome.failure else "")
        write_trace(visit, "status.json", outcome.to_json())
        try:
            recorded = self.means.recorder.record(checkpoint, artifacts, notes)
        except (GitFailed, Conflict, OSError) as err:
            self._skipped += 1
            self.is_recorded = False
            self._announce("checkpoint_skipped", reason=str(err))
            return
        self.is_recorded = True
        state.ordinal = checkpoint.ordinal
        state.previous = checkpoint.as_previous(recorded.commit, recorded.metadata_commit)
        self._tell_notices(recorded)
        self._announce(
            "checkpoint_saved",
            ordinal=checkpoint.ordinal,
            commit=recorded.commit,
            metadata_commit=recorded.metadata_commit,
        )
        for conflict in recorded.conflicts:
            self._announce(
                "branch_conflict", branches=list(conflict.branches), files=list(conflict.files)
            )
        visit.fire(
            "checkpoint_saved",
            ordinal=checkpoint.ordinal,
            commit=recorded.commit,
            metadata_commit=recorded.metadata_commit,
        )

    def _tell_notices(self, recorded: Recorded) -> None:
        for code, message in recorded.notices:
            self._announce("notice", code=code, message=message)

    def _checkpoint(self, node: Node, values: dict[str, Any], step: Step) -> Checkpoint:
        state = self.state
        return Checkpoint(
            run_id=self.run.run_id,
            ordinal=state.ordinal + 1,
            previous=state.previous,
            timestamp=rfc3339(self.means.clock.now()),
            current_node=node.id,
            next_node_id=step.target,
            incoming_edge=state.incoming,
            completed_nodes=list(state.completed),
            node_visits=dict(state.visits),
            node_retries=dict(state.retries),
            node_outcomes=dict(state.outcomes),
            context_values=values,
            totals={
                "duration_ms": self._duration_ms(),
                "retries": state.retries_in_all,
                **state.usage,
            },
            loop_failure_signatures=dict(state.failure_signatures),
            restart_failure_signatures=dict(state.restart_signatures),
        )

    def _duration_ms(self) -> int:
        elapsed = self.means.clock.monotonic() - self._since
        return self.state.duration_ms + max(0, round(elapsed * 1000))

    def _value(self, key: str) -> Any:
        own = self._identity.get(key.removeprefix("context."))
        return lookup(self.state.context, key) if own is None else own
