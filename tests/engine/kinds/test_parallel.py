from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from git_wf.core.sections import BranchStep, KeptBranch, Merged
from git_wf.engine.people import People
from tests.engine.conftest import MemoryRecorder

F = "f [shape=component] j [shape=tripleoctagon]"
EDGES = "start -> f f -> a f -> b a -> j b -> j j -> exit"


@dataclass
class BranchingRecorder(MemoryRecorder):
    """Branches are directories; `merged` is what a merge comes to."""

    opened: dict[str, BranchingRecorder] = field(default_factory=dict)
    merges: list[list[str]] = field(default_factory=list)
    merged: Merged = field(default_factory=Merged)
    finished: list[bool] = field(default_factory=list)
    is_prepared: bool = False

    @property
    def branches(self) -> BranchingRecorder:
        return self

    @property
    def kept(self) -> KeptBranch:
        if not self.checkpoints:
            return KeptBranch(None, self.head)
        return KeptBranch(self.checkpoints[-1], self.head, f"m{self.calls}")

    @property
    def head(self) -> str:
        return f"{self.root.name}:{self.calls}"

    def finish(self, *, keep: bool) -> None:
        self.finished.append(keep)

    def find_branch(self, step: BranchStep) -> KeptBranch | None:
        found = self.opened.get(step.name)
        return found.kept if found else None

    def open_branch(self, step: BranchStep) -> BranchingRecorder:
        place = self.root / "branches" / step.own_name
        return self.opened.setdefault(step.name, BranchingRecorder(place))

    def merge(self, section: str, heads: Sequence[tuple[BranchStep, str]]) -> Merged:
        self.merges.append([head for _, head in heads])
        return self.merged


@pytest.fixture
def recorder(tmp_path: Path) -> BranchingRecorder:
    return BranchingRecorder(tmp_path / "run")


def test_x06_updates_are_in_the_results_only(play):
    walked = play(f'{F} a [prompt="stub: context_updates={{k:1}}"] b [script="true"] {EDGES}')
    assert walked.conclusion.status == "success"
    assert "k" not in walked.context
    first, second = walked.context["parallel.results"]
    assert (first["id"], first["status"], first["context_updates"]["k"]) == ("a", "success", 1)
    assert "k" not in second["context_updates"]


def test_what_a_branch_finds_in_its_context(play):
    walked = play(
        'p [script="echo before"] f [shape=component] j [shape=tripleoctagon]'
        ' a [script="true"] ok [script="true"]'
        " start -> p -> f f -> c c [shape=diamond]"
        ' c -> ok [condition="context.command.output contains before"] c -> a ok -> j a -> j'
        " f -> a j -> exit"
    )
    assert "ok@1" in walked.visited


def test_the_events_of_a_section(play):
    walked = play(f'{F} a [script="true"] b [script="false"] {EDGES}')
    (started,) = walked.of("parallel_started")
    assert (started["branches"], started["join"], started["max_parallel"]) == (
        ["f@1/1-a", "f@1/2-b"], "j", 4,
    )  # fmt: skip
    (completed,) = walked.of("parallel_completed")
    assert completed["branches"] == {"f@1/1-a": "success", "f@1/2-b": "fail"}
    in_branches = {
        (one["node"], one["parallel_branch"])
        for one in walked.of("stage_started")
        if "parallel_branch" in one
    }
    assert in_branches == {("a", "f@1/1-a"), ("b", "f@1/2-b")}
    assert [one.get("to") for one in walked.of("edge_selected") if one["from"] == "f"] == ["j"]


def test_retries_and_counts_of_branches_are_added(play):
    walked = play(
        f'{F} a [prompt="stub: outcome=retry", max_retries=2] b [script="false", max_retries=1]'
        f" {EDGES}",
        first_delay=0.0,
    )
    assert walked.conclusion.total_retries == 3
    assert walked.conclusion.status == "fail"
    assert walked.recorder.checkpoints[-1].node_visits == {"a": 1, "b": 1, "f": 1}
    assert walked.recorder.checkpoints[-1].node_retries == {"a": 2, "b": 1}


def test_a_fan_out_is_not_tried_again(play):
    walked = play(
        f"graph [default_max_retries=3] {F}"
        f' a [script="false", max_retries=0] b [script="false", max_retries=0] {EDGES}'
    )
    assert walked.of("stage_retrying") == []
    assert walked.conclusion.status == "fail"


def test_after_a_failure_the_retry_target_or_the_join(play):
    body = f'{F} a [script="false"] b [script="false"] e [script="true"] e -> exit {EDGES}'
    assert "e@1" in play(f"{body} f [retry_target=e]").visited
    walked = play(body.replace("component]", "component, on_failure=route]"))
    assert walked.visited[-1] == "j@1"
    reason = "no branch succeeded: there is nothing to merge"
    assert walked.conclusion.failure_reason == reason


def test_a_limit_of_visits_holds_in_a_branch(play):
    walked = play(
        f'{F} a [script="true", max_visits=2] a2 [script="true"] b [script="true"]'
        " start -> f f -> a f -> b a -> a2 a2 -> a a -> j [condition=x] b -> j j -> exit"
    )
    (first, _) = walked.context["parallel.results"]
    assert first["failure_reason"] == ("node 'a' was visited 2 times: max_visits=2 allows no more")


def test_a_stall_ends_all_branches(play):
    walked = play(
        f'graph [stall_timeout="500ms"] {F} a [script="sleep 60"] b [script="sleep 60"] {EDGES}'
    )
    assert walked.conclusion.status == "fail"
    assert walked.conclusion.failure_reason.startswith("stalled: nothing happened for 0.5 s")


def test_a_cancelled_run_keeps_its_branches_for_a_resumption(play, recorder):
    cancel = threading.Event()

    def listen(event):
        if event["event"] == "stage_started" and event["node"] == "b":
            cancel.set()

    walked = play(
        f'{F.replace("component", "component, max_parallel=1")} a [script="true"]'
        f' b [script="sleep 60"] {EDGES}',
        cancel=cancel,
        listen=listen,
    )
    assert walked.conclusion.status == "interrupted"
    assert recorder.checkpoints == []
    assert recorder.opened["f@1/1-a"].finished == [False]
    assert recorder.opened["f@1/2-b"].finished == [True]


def test_only_what_had_not_ended_runs_again(play, recorder):
    body = f'{F} a [script="true"] b [script="true"] {EDGES}'
    assert play(body).visited.count("a@1") == 1
    del recorder.opened["f@1/2-b"]
    assert play(body).visited == ["f@1", "b@1", "j@1"]


def test_a_person_in_a_branch_is_waited_for_when_the_others_have_ended(play, recorder):
    body = (
        f'{F} a [shape=hexagon] b [script="true"] start -> f f -> a f -> b'
        ' a -> j [label="[Y] Yes"] b -> j j -> exit'
    )
    walked = play(body)
    assert walked.conclusion.status == "waiting"
    assert walked.conclusion.waiting["node"] == "a"
    assert recorder.opened["f@1/2-b"].finished == [False]
    people = People(ask=lambda question, complaint: "y", waiting=walked.conclusion.waiting)
    again = play(body, people=people)
    assert again.conclusion.status == "success"
    assert "b@1" not in again.visited


def test_hooks_of_a_branch_know_it(play, recorder, make_run):
    hooks = [
        {"event": event, "script": f"cat >>{recorder.root}/told", "blocking": True}
        for event in ("parallel_start", "stage_start", "parallel_complete")
    ]
    walked = play(
        f'{F} a [script="true"] b [script="true"] {EDGES}',
        given={"config": {"run": {"hooks": hooks}}},
    )
    assert walked.conclusion.status == "success"
    told = (recorder.root / "told").read_text()
    assert told.count('"parallel_branch": "f@1/1-a"') == 1
    assert told.count('"event": "parallel_start"') == 1


def test_bad_settings(play):
    walked = play(f"{F.replace('component', 'component, join_policy=some')} a b {EDGES}")
    reason = "join_policy 'some' is none of wait_all, first_success"
    assert walked.conclusion.failure_reason == reason


# The fan-in.


def test_the_best_by_score(play, recorder):
    walked = play(
        f"{F.replace('tripleoctagon', 'tripleoctagon, merge=best')}"
        ' a [prompt="stub: context_updates={score:2}"]'
        ' b [prompt="stub: context_updates={score:10}"]'
        f" {EDGES}"
    )
    assert walked.context["parallel.fan_in.best_id"] == "b"
    assert recorder.merges == [["2-b:1"]]


@pytest.mark.parametrize("answer", ["preferred_label=2-b", "preferred_label=b", "raw=I take b"])
def test_a_model_picks(play, recorder, answer):
    walked = play(
        'f [shape=component] a [script="true"] b [script="true"]'
        f' j [shape=tripleoctagon, merge=best, prompt="stub: {answer}"] {EDGES}'
    )
    assert walked.conclusion.status == "success"
    assert walked.context["parallel.fan_in.best_id"] == "b"
    assert '"id": "1-a"' in walked.trace("j@1/prompt.md")


def test_a_model_that_picks_none_fails_the_node(play):
    walked = play(
        'f [shape=component] a [script="true"] b [script="true"]'
        f' j [shape=tripleoctagon, merge=best, prompt="stub: raw=neither"] {EDGES}'
    )
    assert walked.conclusion.failure_reason == "the backend named none of the branches"


def test_a_conflict_is_not_tried_again(play, recorder):
    recorder.merged = Merged(conflicts=("x", "y"), branch="2-b")
    walked = play(f'graph [default_max_retries=2] {F} a [script="true"] b [script="true"] {EDGES}')
    assert walked.conclusion.failure_reason == "merge of branch '2-b' conflicts in x, y"
    assert len(recorder.merges) == 1


def test_missing_heads_send_the_run_back(play, recorder):
    recorder.merged = Merged(missing=("c1",))
    walked = play(f'{F} a [script="true"] b [script="true"] {EDGES} f [max_visits=2]')
    assert [visit for visit in walked.visited if visit[0] in "fj"] == ["f@1", "j@1", "f@2", "j@2"]
    assert walked.conclusion.failure_reason.startswith("node 'f' was visited 2 times")


def test_a_fan_in_without_branches(play):
    walked = play("j [shape=tripleoctagon] start -> j -> exit")
    assert walked.conclusion.status == "success"
    assert walked.recorder.notes == ["there are no branches to join"]


def test_an_unknown_merge(play):
    walked = play(f'{F.replace("tripleoctagon", "tripleoctagon, merge=some")}'
                  f' a [script="true"] b [script="true"] {EDGES}')  # fmt: skip
    assert walked.conclusion.failure_reason == "merge 'some' is none of all, best, none"
