"""The runs of child workflows: each is a run like any other, inside the process of its parent.

Its id follows from the run, the visit and the state in which the visit begins, so that whoever
resumes the parent, wherever, comes to the same child.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint, Recorded
from git_wf.core.children import Child, ChildStep
from git_wf.core.clock import rfc3339
from git_wf.core.names import RunId
from git_wf.core.templates import GOAL_HINT, TemplateError, render
from git_wf.engine.loop import Conclusion, walk
from git_wf.engine.people import People
from git_wf.engine.process import Cancel
from git_wf.engine.state import ChildRun, Visit
from git_wf.errors import UserError
from git_wf.ops.change import take_run_lock
from git_wf.ops.dirty import Base
from git_wf.ops.journal import Event
from git_wf.ops.live import Listener, LiveRun, Prepared, finish, make_excludes, start_live
from git_wf.ops.people import Answering, child_answers, make_people
from git_wf.ops.project import Project
from git_wf.ops.workflow import Workflow
from git_wf.store.branches import RunRecorder
from git_wf.store.files import Lock, remove_tree
from git_wf.store.runs import RunRefs, StoredRun


@dataclass(frozen=True)
class OpenRun:
    """A run that is about to be walked."""

    live: LiveRun
    prepared: Prepared
    people: People
    checkpoint: Checkpoint | None = None
    recorded: Recorded | None = None
    is_prepared: bool = False  # its worktree has seen the prepare steps


TakeUp = Callable[[Project, RunRefs, Answering, Listener], OpenRun]


def in_turn(listen: Listener) -> Listener:
    """A run and its children tell of one event at a time."""
    turn = threading.Lock()

    def hear(event: Event) -> None:
        with turn:
            listen(event)

    return hear


@dataclass(frozen=True)
class RunChildren:
    """Opens the children of a run, and theirs.

    `take_up` goes on with a run that an earlier process began. `answered` is the run that the
    answer of `answering` is for; None where it is for no child.
    """

    project: Project
    prepared: Prepared
    answering: Answering
    listen: Listener
    take_up: TakeUp
    answered: str | None = None

    def open_child(self, step: ChildStep, child: Child, visit: Visit) -> ChildRun:
        recorder = visit.means.recorder
        assert isinstance(recorder, RunRecorder), step.name
        run_id = RunId(recorder.child_run(step))
        lock = take_run_lock(self.project, run_id)
        try:
            refs = self.project.store.run_refs(run_id)
            stored = self.project.store.load(refs) if refs else None
            if stored is not None and stored.conclusion is not None:
                lock.release()
                return EndedChild(stored)
            answering = self._answering(stored, step, child, visit)
            if stored is None:
                opened = self._begin(run_id, step, child, visit, answering)
            else:
                opened = self.take_up(self.project, stored.refs, answering, self._listener(visit))
        except BaseException:
            lock.release()
            raise
        return LiveChild(opened, lock, replace(self, answering=answering))

    def _listener(self, visit: Visit) -> Listener:
        parent, listen, touch = visit.run.run_id, self.listen, visit.watch.touch

        def hear(event: Event) -> None:
            touch()
            listen({**event, "parent_run": event.get("parent_run") or parent})

        return hear

    def _answering(
        self, stored: StoredRun | None, step: ChildStep, child: Child, visit: Visit
    ) -> Answering:
        """What a child, and its own, are answered; the one answer is for the run that asked."""
        asking = None
        if stored is not None and stored.waiting is not None:
            asking = (stored.waiting.get("child") or {}).get("run") or stored.run_id
        answer = self.answering.answer if asking and asking == self.answered else None
        answers = child_answers(self.answering.answers or {}, visit.run.graph, step.node, child)
        return replace(self.answering, answers=answers, answer=answer)

    def _begin(
        self, run_id: RunId, step: ChildStep, child: Child, visit: Visit, answering: Answering
    ) -> OpenRun:
        recorder, project = visit.means.recorder, self.project
        assert isinstance(recorder, RunRecorder), step.name
        prepared = self._prepared(child, visit)
        branch = None if recorder.branch else project.settings.names.short_branch(visit.run.run_id)
        parent = {
            "run": visit.run.run_id,
            "node": step.node,
            "visit": step.visit,
            "attempt": step.attempt,
            "branch": recorder.branch or None,
        }
        excludes = make_excludes(prepared.workflow.config, project.settings)
        remove_tree(project.run_dir(run_id))  # of a clone that has forgotten it
        live = start_live(
            project, prepared, {}, run_id, Base(recorder.state.run_tip, branch), excludes,
            self._listener(visit), parent,
        )  # fmt: skip
        return OpenRun(live, prepared, make_people(answering, prepared.workflow))

    def _prepared(self, child: Child, visit: Visit) -> Prepared:
        """Everything but the graph and its goal is the parent's."""
        graph, parent = child.graph, self.prepared.workflow
        values = {"inputs": visit.run.inputs, "env": visit.run.env, "graph": graph.attributes}
        try:
            goal = render(graph.text("goal"), values, prompt=False)
        except TemplateError as err:
            raise UserError(f"goal of '{child.origin}': {err}", hint=GOAL_HINT) from err
        workflow = Workflow(
            Path(child.origin), graph.dot, graph, parent.config, parent.tables, None, (),
            child.children,
        )  # fmt: skip
        goal = visit.redaction.text(goal) or visit.run.goal
        return replace(self.prepared, workflow=workflow, goal=goal)


class LiveChild:
    """A child that goes on in this process."""

    def __init__(self, opened: OpenRun, lock: Lock, children: RunChildren) -> None:
        self._opened = opened
        self._live = opened.live
        self._lock = lock
        self._children = children
        self._walked: Conclusion | None = None
        opened.live.recorder.last = opened.checkpoint

    @property
    def run_id(self) -> str:
        return self._live.engine_run.run_id

    @property
    def head(self) -> str:
        return self._live.recorder.state.run_tip

    @property
    def last(self) -> Checkpoint | None:
        return self._live.recorder.last

    @property
    def ended(self) -> Conclusion | None:
        return None

    def walk(self, cancel: Cancel, saved: Callable[[], None]) -> Conclusion:
        live, opened, project = self._live, self._opened, self._children.project

        def hear(event: Event) -> None:
            live.journal(event)
            if event["event"] == "checkpoint_saved" and not event.get("parallel_branch"):
                saved()

        self._walked = walk(
            live.engine_run, opened.checkpoint, live.recorder, hear, project.clock,
            recorded=opened.recorded, cancel=cancel, secrets=opened.prepared.secrets,
            first_delay=project.settings.retry_delay, people=opened.people,
            prepared=opened.is_prepared, children=self._children,
        )  # fmt: skip
        return self._walked

    def finish(self, conclusion: Conclusion | None) -> None:
        live, project = self._live, self._children.project
        try:
            if conclusion is None:
                return
            is_cut = self._walked is not None and self._walked.status != conclusion.status
            if is_cut:
                live.journal(_finished(project, self.run_id, conclusion))
            finish(project, live, conclusion, False, is_cut=is_cut)
        finally:
            live.close()
            self._lock.release()


def _finished(project: Project, run_id: str, conclusion: Conclusion) -> Event:
    """How the run ended as its manager sees it: the walk itself was interrupted."""
    return {
        "event": "run_finished",
        "time": rfc3339(project.clock.now()),
        "run_id": run_id,
        "status": conclusion.status,
        "failure_reason": conclusion.failure_reason or None,
    }


@dataclass(frozen=True)
class EndedChild:
    """A child that an earlier process brought to its end."""

    run: StoredRun

    @property
    def run_id(self) -> str:
        return self.run.run_id

    @property
    def _conclusion(self) -> Mapping[str, Any]:
        return self.run.conclusion or {}

    @property
    def head(self) -> str:
        return str(self._conclusion.get("final_git_commit_sha") or self.run.refs.run_tip or "")

    @property
    def last(self) -> Checkpoint | None:
        return self.run.checkpoint

    @property
    def ended(self) -> Conclusion | None:
        return Conclusion(
            str(self._conclusion.get("status")),
            str(self._conclusion.get("failure_reason") or ""),
            usage=self._conclusion.get("usage"),
        )

    def walk(self, cancel: Cancel, saved: Callable[[], None]) -> Conclusion:
        raise AssertionError(f"run {self.run_id} has ended")

    def finish(self, conclusion: Conclusion | None) -> None:
        """There is nothing to let go of."""
