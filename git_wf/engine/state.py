"""What a walk knows: the run, its state so far, and the visit that a handler is given."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.children import Child, ChildStep
from git_wf.core.clock import Clock
from git_wf.core.context import Redaction, graph_values, recorded_updates
from git_wf.core.fidelity import FULL, HIGH, resolve_fidelity, resolve_thread
from git_wf.core.graph import Edge, Graph, Node
from git_wf.core.names import run_marks
from git_wf.core.outcome import DETERMINISTIC, SUCCESS, Outcome
from git_wf.core.sections import BranchPath, branch_name
from git_wf.engine.events import Announcer
from git_wf.engine.hooks import Decision, Hooks
from git_wf.engine.people import People, Question
from git_wf.engine.process import Cancel, Watch
from git_wf.engine.recorder import Recorder

SESSIONS_KEY = "internal.sessions"


@dataclass
class Run:
    run_id: str
    graph: Graph
    goal: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)  # run.toml, decoded
    env: Mapping[str, str] = field(default_factory=dict)  # of node processes, already scrubbed
    children: Mapping[str, Child] = field(default_factory=dict)  # by the node that runs them
    dry_run: bool = False
    started: Mapping[str, Any] = field(default_factory=dict)  # more fields of `run_started`
    repository: str = ""  # its key: the same run can be in two clones

    @property
    def marks(self) -> dict[str, str]:
        """The environment entries that all processes of the run are found by."""
        return run_marks(self.run_id, self.repository)


@dataclass(frozen=True)
class Conclusion:
    """How a walk ended. `interrupted` and `waiting` are no conclusions of the run: it resumes."""

    status: str  # success, fail, interrupted, waiting
    failure_reason: str = ""
    duration_ms: int = 0  # of the whole run, over all its resumptions
    total_retries: int = 0
    usage: dict[str, Any] | None = None  # `input_tokens`, `output_tokens`, `cost_usd`
    skipped: int = 0  # checkpoints that could not be recorded
    waiting: dict[str, Any] | None = None  # what for, where the status is `waiting`


@dataclass
class State:
    """What a checkpoint records, as it is between two visits."""

    context: dict[str, Any]
    completed: list[str] = field(default_factory=list)
    visits: dict[str, int] = field(default_factory=dict)
    retries: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failure_signatures: dict[str, int] = field(default_factory=dict)
    restart_signatures: dict[str, int] = field(default_factory=dict)
    incoming: dict[str, Any] | None = None  # the edge that leads to the next visit
    ordinal: int = 0  # of the last checkpoint that was recorded
    previous: dict[str, Any] | None = None  # what the next checkpoint says of it
    retries_in_all: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    duration_ms: int = 0  # before this walk
    resumed: bool = False  # until the first visit after a resumption

    @classmethod
    def fresh(cls, run: Run) -> State:
        return cls(graph_values(run.graph, run.goal))

    @classmethod
    def restored(
        cls, checkpoint: Checkpoint, commit: str | None, metadata_commit: str | None
    ) -> State:
        totals = dict(checkpoint.totals)
        duration = int(totals.pop("duration_ms", 0) or 0)
        retries = int(totals.pop("retries", 0) or 0)
        return cls(
            context=dict(checkpoint.context_values),
            completed=list(checkpoint.completed_nodes),
            visits=dict(checkpoint.node_visits),
            retries=dict(checkpoint.node_retries),
            outcomes=dict(checkpoint.node_outcomes),
            failure_signatures=dict(checkpoint.loop_failure_signatures),
            restart_signatures=dict(checkpoint.restart_failure_signatures),
            incoming=checkpoint.incoming_edge,
            ordinal=checkpoint.ordinal,
            previous=checkpoint.as_previous(commit, metadata_commit),
            retries_in_all=retries,
            usage=totals,
            duration_ms=duration,
            resumed=True,
        )

    @property
    def sessions(self) -> dict[str, str]:
        """`backend:thread` → the id of the session that a `full` fidelity goes on with."""
        return dict(self.context.get(SESSIONS_KEY) or {})

    @property
    def last_outcome(self) -> Outcome:
        """Of the node that was completed last: what a conditional routes by."""
        if self.completed and self.completed[-1] in self.outcomes:
            return self.outcomes[self.completed[-1]]
        return Outcome(SUCCESS)

    def restart(self, run: Run) -> None:
        """A `loop_restart` edge was taken: a fresh context; visits and outcomes are kept."""
        count = int(self.context.get("internal.loop_restart_count") or 0) + 1
        self.context = graph_values(run.graph, run.goal)
        self.context["internal.loop_restart_count"] = count
        self.completed.clear()

    def admit(self, node: Node, outcome: Outcome, retries: int) -> Outcome:
        """Takes a visit's outcome in; what comes out is the outcome as it is recorded."""
        self._count_retries(node, retries)
        self.usage = added_usage(self.usage, outcome.usage) or {}
        self.context.update(outcome.context_updates)
        self.context["last_stage"] = node.id
        if node.kind != "conditional":  # there, `outcome` is that of the node before
            self.context["outcome"] = outcome.extra.get("outcome") or outcome.status
            self.context["preferred_label"] = outcome.preferred_label
            self._note_failure(outcome)
        recorded = replace(outcome, context_updates=recorded_updates(outcome.context_updates))
        self.completed.append(node.id)
        self.outcomes[node.id] = recorded
        self.resumed = False
        return recorded

    def fork(self, incoming: dict[str, Any] | None) -> State:
        """The state that a parallel branch begins with: its own from here on, nothing spent."""
        return replace(
            self,
            context=dict(self.context),
            completed=list(self.completed),
            visits=dict(self.visits),
            retries=dict(self.retries),
            outcomes=dict(self.outcomes),
            failure_signatures=dict(self.failure_signatures),
            restart_signatures=dict(self.restart_signatures),
            incoming=incoming,
            ordinal=0,
            previous=None,
            retries_in_all=0,
            usage={},
            duration_ms=0,
        )

    def join(self, branches: Sequence[State]) -> None:
        """Takes in what branches counted, in the order of their edges, and their last outcomes.

        Their usage is that of the fan-out's outcome; their context stays their own.
        """
        before = self.fork(None)
        for branch in branches:
            for name in ("visits", "failure_signatures", "restart_signatures"):
                counts: dict[str, int] = getattr(self, name)
                start: dict[str, int] = getattr(before, name)
                for key, count in getattr(branch, name).items():
                    counts[key] = counts.get(key, 0) + count - start.get(key, 0)
            for node, outcome in branch.outcomes.items():
                if outcome != before.outcomes.get(node):
                    self.outcomes[node] = outcome
                    self._keep_retries(node, branch.retries.get(node, 0))
            self.retries_in_all += branch.retries_in_all

    def _keep_retries(self, node: str, retries: int) -> None:
        if retries:
            self.retries[node] = retries
        else:
            self.retries.pop(node, None)

    def _count_retries(self, node: Node, retries: int) -> None:
        key = f"internal.retry_count.{node.id}"
        self.retries_in_all += retries
        self._keep_retries(node.id, retries)
        if retries:
            self.context[key] = retries
        else:
            self.context.pop(key, None)

    def _note_failure(self, outcome: Outcome) -> None:
        failure = outcome.failure
        if failure is None:
            self.context.pop("failure_class", None)
            self.context.pop("failure_signature", None)
            return
        self.context["failure_class"] = failure.kind
        self.context["failure_signature"] = failure.signature
        if failure.kind == DETERMINISTIC:
            counts = self.failure_signatures
            counts[failure.signature] = counts.get(failure.signature, 0) + 1


def added_usage(
    one: Mapping[str, Any] | None, other: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The sums of tokens and cost; None where nothing was reported."""
    keys = {*(one or {}), *(other or {})}
    if not keys:
        return None
    return {key: (one or {}).get(key, 0) + (other or {}).get(key, 0) for key in sorted(keys)}


def edge_record(edge: Edge | None) -> dict[str, Any] | None:
    """`incoming_edge` of a checkpoint; a jump to a retry target has no edge."""
    if edge is None:
        return None
    record: dict[str, Any] = {
        "from": edge.source,
        "to": edge.target,
        "fidelity": edge.text("fidelity") or None,
        "thread_id": edge.text("thread_id") or None,
    }
    if edge.flag("loop_restart"):
        record["loop_restart"] = True
    return record


@dataclass(frozen=True)
class Ends:
    """Where a branch ends: at its join or the exit, or where it has no business to be."""

    good: frozenset[str] = frozenset()
    bad: Mapping[str, str] = field(default_factory=dict)  # node → what is wrong with it


class BranchWalk(Protocol):
    """A walker of `loop.py`, as whoever runs branches needs it."""

    state: State
    question: Question | None  # that nobody answered
    has_stalled: bool
    is_recorded: bool  # the last visit was

    def use_scratch(self, path: Path) -> None: ...

    def walk_prepared(self, node_id: str, prepared: bool) -> Conclusion: ...


class ChildRun(Protocol):
    """The run of a child workflow, open in this process."""

    @property
    def run_id(self) -> str: ...

    @property
    def head(self) -> str:
        """The last recorded commit."""

    @property
    def last(self) -> Checkpoint | None:
        """The last recorded checkpoint."""

    @property
    def ended(self) -> Conclusion | None:
        """As an earlier process brought it to its end."""

    def walk(self, cancel: Cancel, saved: Callable[[], None]) -> Conclusion:
        """Walks it on from where it is. `saved` is called whenever `last` is another one."""

    def finish(self, conclusion: Conclusion | None) -> None:
        """Records how it ended, where that is known, and lets go of it."""


class Children(Protocol):
    """Opens the runs of child workflows."""

    def open_child(self, step: ChildStep, child: Child, visit: Visit) -> ChildRun:
        """Begins a run from what the visit's recorder recorded last, or goes on with one.

        Raises `GitFailed`, `Conflict`, `OSError`, `StateUnreadable`, `UserError`.
        """


class BeginWalk(Protocol):
    def __call__(self, run: Run, state: State, means: Means, ends: Ends) -> BranchWalk: ...


@dataclass(frozen=True)
class Means:
    """What a walk is handed: where it records, whom it tells, what it waits and draws by."""

    recorder: Recorder
    clock: Clock
    watch: Watch
    redaction: Redaction
    announce: Announcer
    hooks: Hooks
    people: People = field(default_factory=People)
    draw: Callable[[], float] = random.random
    first_delay: float | None = None  # seconds
    branch: BranchPath = ()  # which one is walked; empty for the run itself
    begin_walk: BeginWalk | None = None  # how a branch is walked
    children: Children | None = None  # None where there is one worktree only


@dataclass
class Visit:
    """What a handler is given."""

    run: Run
    node: Node
    number: int
    values: dict[str, Any]  # the context, with the identity keys laid over
    before: Outcome  # of the node that was completed before this one
    incoming: Mapping[str, Any] | None  # the edge that led here, as in a checkpoint
    work_dir: Path
    trace: Path  # directory for the trace of this visit
    scratch: Path  # directory for files that the node's programs exchange with us
    means: Means
    state: State  # as it was before the visit; handlers only read it
    sessions: dict[str, str] = field(default_factory=dict)  # `backend:thread` → session id
    facts: dict[str, Any] = field(default_factory=dict)  # `internal.…` keys that it sets
    chosen: Edge | None = None  # the edge that a person chose
    attempt: int = 1
    jump: str | None = None  # a node that comes next whatever the edges say
    is_settled: bool = False  # no further attempt could change what came out
    ends: Ends = field(default_factory=Ends)  # of the branch that the visit is in
    is_recorded: bool = True  # the visit before this one was
    branches: list[State] = field(default_factory=list)  # as those that it opened have ended

    @property
    def clock(self) -> Clock:
        return self.means.clock

    @property
    def watch(self) -> Watch:
        return self.means.watch

    @property
    def redaction(self) -> Redaction:
        return self.means.redaction

    @property
    def announce(self) -> Announcer:
        return self.means.announce

    @property
    def people(self) -> People:
        return self.means.people

    def note(self, key: str, value: Any) -> None:
        """An `internal.…` key of this visit: for its programs now, and in its checkpoint."""
        self.facts[key] = value
        self.values[key] = value

    def note_talk(self) -> tuple[str, str]:
        """Notes how a visit goes on from what models were told before: fidelity and thread."""
        graph = self.run.graph
        fidelity = resolve_fidelity(self.incoming, self.node, graph)
        if fidelity == FULL and self.state.resumed:
            fidelity = HIGH  # the session may be on another machine, or half done
        previous = self.state.completed[-1] if self.state.completed else ""
        thread = resolve_thread(self.incoming, self.node, graph, previous)
        self.note("internal.fidelity", fidelity)
        self.note("internal.thread_id", thread)
        return fidelity, thread

    def fire(self, event: str, **fields: Any) -> Decision:
        """Tells the hooks of an event of this visit."""
        named = {"node": self.node.id, "visit": self.number, "kind": self.node.kind}
        return self.means.hooks.fire(event, self.values, **named, **fields)

    @property
    def marks(self) -> dict[str, str]:
        """The environment entries that the programs of this visit are found by."""
        return {
            **branch_marks(self.run, self.means.branch),
            "GIT_WF_NODE": self.node.id,
            "GIT_WF_VISIT": str(self.number),
        }

    def template_values(self) -> dict[str, Any]:
        """What `{{ … }}` can name."""
        return {
            "goal": self.run.goal,
            "inputs": self.run.inputs,
            "run": {"id": self.run.run_id, "work_dir": str(self.work_dir)},
            "env": self.run.env,
            "graph": self.run.graph.attributes,
            "context": self.values,
        }


def branch_marks(run: Run, branch: BranchPath) -> dict[str, str]:
    """The environment entries that all programs of a run, or of one of its branches, have."""
    marks = run.marks
    if branch:
        marks["GIT_WF_BRANCH"] = branch_name(branch)
    return marks


Handler = Callable[[Visit], Outcome]
