from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.children import Child, ChildStep
from git_wf.core.dot import parse
from git_wf.core.outcome import Outcome
from git_wf.core.sections import Merged
from git_wf.engine.process import Cancel
from git_wf.engine.state import Conclusion, Visit
from git_wf.errors import Conflict
from tests.engine.conftest import MemoryRecorder

BODY = "m [shape=house{}] start -> m -> exit"
ENDED = "ended by its manager loop: "


@dataclass
class MergingRecorder(MemoryRecorder):
    merges: list[tuple[str, str]] = field(default_factory=list)
    merged: Merged = field(default_factory=Merged)

    @property
    def branches(self) -> MergingRecorder:
        return self

    def merge_child(self, step: ChildStep, run_id: str, head: str) -> Merged:
        self.merges.append((step.name, head))
        return self.merged


@dataclass
class StandIn:
    """A child that records one context after the other, then ends, or goes on until it is told."""

    contexts: list[dict[str, Any]] = field(default_factory=list)
    conclusion: Conclusion = field(default_factory=lambda: Conclusion("success"))
    endless: bool = False
    ended: Conclusion | None = None
    last: Checkpoint | None = None
    finished: list[Conclusion | None] = field(default_factory=list)
    run_id: str = "01CHILD0000000000000000000"
    head: str = "c9"

    def walk(self, cancel: Cancel, saved: Callable[[], None]) -> Conclusion:
        for values in self.contexts:
            self.last = Checkpoint(self.run_id, current_node="n", context_values=values)
            self.last.node_outcomes["n"] = Outcome("success")
            saved()
            if cancel.is_set():
                return Conclusion("interrupted")
        waiting = threading.Event()
        while self.endless and not cancel.is_set():
            waiting.wait(0.01)
        return Conclusion("interrupted") if self.endless else self.conclusion

    def finish(self, conclusion: Conclusion | None) -> None:
        self.finished.append(conclusion)


@dataclass
class Nursery:
    child: StandIn
    opened: list[str] = field(default_factory=list)
    error: Exception | None = None

    def open_child(self, step: ChildStep, child: Child, visit: Visit) -> StandIn:
        self.opened.append(step.name)
        if self.error:
            raise self.error
        return self.child


@pytest.fixture
def recorder(tmp_path):
    return MergingRecorder(tmp_path / "run")


@pytest.fixture
def manage(play):
    """Walks a manager loop over a stand-in."""

    def walk(child: StandIn, attributes: str = "", **options: Any):
        graph = parse("digraph C { start [shape=Mdiamond] exit [shape=Msquare] start -> exit }", "")
        given = {"children": {"m": Child(graph, "child.dot")}, **options.pop("given", {})}
        options = {"children": Nursery(child), **options}
        return play(BODY.format(attributes), given=given, **options)

    return walk


def test_the_outcome_is_the_childs(manage, recorder):
    child = StandIn([{"secret": 1}], Conclusion("success", usage={"input_tokens": 3}))
    walked = manage(child)
    assert walked.conclusion.status == "success"
    assert walked.conclusion.usage == {"input_tokens": 3}
    assert recorder.merges == [("m@1", "c9")]
    assert walked.context["stack.child.status"] == "completed"
    assert walked.last.node_outcomes["m"].extra == {"child_run": child.run_id}
    assert "secret" not in walked.context
    assert child.finished == [child.conclusion]


def test_a_failure_merges_nothing(manage, recorder):
    walked = manage(StandIn(conclusion=Conclusion("fail", "no luck")))
    assert walked.conclusion.failure_reason == "child workflow: no luck"
    assert walked.context["stack.child.failure_reason"] == "no luck"
    assert recorder.merges == []


def test_each_attempt_opens_its_own(manage):
    nursery = Nursery(StandIn(conclusion=Conclusion("fail", "no luck")))
    manage(nursery.child, ", max_retries=1", children=nursery, first_delay=0)
    assert nursery.opened == ["m@1", "m@1, attempt 2"]


@pytest.mark.parametrize(
    "condition",
    [
        "stack.child.context.k = 2",
        "context.stack.child.context.k = 2",
        "stack.child.status = running && stack.child.node = n && stack.child.outcome = fail",
        "stack.child.context.k = 2 && graph.goal = g",
    ],
)
def test_the_stop_condition_is_looked_at_after_every_checkpoint(manage, recorder, condition):
    child = StandIn([{"k": 1}, {"k": 2, "outcome": "fail"}, {"k": 3}])
    stop = f', manager.stop_condition="{condition}"'
    walked = manage(child, f"{stop}] graph [goal=g")
    assert walked.conclusion.status == "success"
    assert child.last is not None and child.last.context_values["k"] == 2
    assert walked.context["stack.child.status"] == "stopped"
    reason = f"{ENDED}manager.stop_condition holds: {condition}"
    assert walked.context["stack.child.failure_reason"] == reason
    assert [one.status for one in child.finished if one] == ["success"]
    assert len(recorder.merges) == 1


def test_a_child_that_had_reached_it_goes_no_further(manage):
    last = Checkpoint("r", current_node="n", context_values={"k": 2})
    child = StandIn(endless=True, last=last)
    walked = manage(child, ', manager.stop_condition="stack.child.context.k = 2"')
    assert walked.context["stack.child.status"] == "stopped"


@pytest.mark.parametrize(
    ("attributes", "reason", "kind"),
    [
        (
            "manager.poll_interval=20ms, manager.max_cycles=2",
            "not over after 2 cycles of 0.02 s (manager.max_cycles)", "deterministic",
        ),
        (
            "manager.poll_interval=0, manager.max_cycles=0",
            "not over after 1 cycles of 0.01 s (manager.max_cycles)", "deterministic",
        ),
        ("timeout=30ms", "timeout after 0.03 s", "timeout"),
    ],
)  # fmt: skip
def test_limits(manage, attributes, reason, kind):
    child = StandIn(endless=True)
    walked = manage(child, f", {attributes}")
    assert walked.conclusion.failure_reason == f"child workflow: {ENDED}{reason}"
    failure = walked.last.node_outcomes["m"].failure
    assert failure is not None and failure.kind == kind
    assert [one.status for one in child.finished if one] == ["fail"]


def test_a_stall_ends_the_child_too(manage):
    child = StandIn(endless=True)
    walked = manage(child, "] graph [stall_timeout=50ms")
    assert walked.conclusion.failure_reason.startswith("stalled: ")
    assert [one.failure_reason for one in child.finished if one] == [f"{ENDED}stalled"]


def test_a_cancellation_reaches_the_child(manage):
    cancel = threading.Event()

    def press(event):
        if event["event"] == "stage_started":
            threading.Timer(0.05, cancel.set).start()

    child = StandIn(endless=True)
    walked = manage(child, cancel=cancel, listen=press)
    assert walked.conclusion.status == "interrupted"
    assert [one.status for one in child.finished if one] == ["interrupted"]
    assert walked.recorder.checkpoints == []


def test_what_the_child_waits_for_is_waited_for(manage, recorder):
    since = datetime(2026, 1, 2, tzinfo=timezone.utc).isoformat()
    asked = {
        "node": "ask", "visit": 2, "question": "Ship?", "since": since, "deadline": None,
        "choices": [{"key": "Y", "label": "[Y] Yes", "to": "y", "freeform": False}],
    }  # fmt: skip
    child = StandIn(conclusion=Conclusion("waiting", waiting=asked))
    assert manage(child).conclusion.status == "waiting"
    (waiting,) = recorder.waits
    assert (waiting["node"], waiting["visit"], waiting["question"]) == ("m", 1, "Ship?")
    assert waiting["child"] == {"run": child.run_id, "node": "ask", "visit": 2}
    assert waiting["choices"] == asked["choices"]


def test_one_that_had_ended_is_not_walked_again(manage, recorder):
    child = StandIn([{"k": 1}], ended=Conclusion("success"))
    assert manage(child).conclusion.status == "success"
    assert (child.last, child.finished) == (None, [])
    assert len(recorder.merges) == 1


def test_a_conflict_is_not_tried_again(manage, recorder):
    recorder.merged = Merged(conflicts=("a", "b"))
    nursery = Nursery(StandIn())
    walked = manage(nursery.child, ", max_retries=3", children=nursery)
    assert walked.conclusion.failure_reason == "merge of the child run conflicts in a, b"
    assert nursery.opened == ["m@1"]


def test_one_that_cannot_be_opened(manage):
    nursery = Nursery(StandIn(), error=Conflict("run X is going on"))
    walked = manage(nursery.child, children=nursery)
    assert walked.conclusion.failure_reason == "open child of 'm': run X is going on"


@pytest.mark.parametrize(
    ("attributes", "options", "reason"),
    [
        ("", {"children": None}, "a child needs a worktree of its own: not in place"),
        ("", {"given": {"children": {}}}, "it names no child workflow"),
        (
            ', stack.child_dotfile="c.dot"', {"given": {"children": {}}},
            "child workflow 'c.dot' was not read",
        ),
        (', manager.stop_condition="= 1"', {}, "manager.stop_condition: "),
    ],
)  # fmt: skip
def test_what_cannot_begin(manage, attributes, options, reason):
    walked = manage(StandIn(), attributes, **options)
    assert walked.conclusion.failure_reason.startswith(reason)


def test_a_dry_run_opens_nothing(manage):
    nursery = Nursery(StandIn())
    walked = manage(nursery.child, children=nursery, given={"dry_run": True})
    assert (walked.conclusion.status, nursery.opened) == ("success", [])
