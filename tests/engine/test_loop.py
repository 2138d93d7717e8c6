from __future__ import annotations

import json
import threading

import pytest

from git_wf.core.checkpoint import Checkpoint, dump_json
from git_wf.engine.process import is_alive
from git_wf.engine.recorder import Recorded
from git_wf.errors import Conflict, GitFailed, StateUnreadable
from tests.engine.conftest import RUN_ID

TIME = "2026-01-02T03:04:05.000000Z"


def stored(checkpoint: Checkpoint) -> Checkpoint:
    """As it comes back from disk."""
    return Checkpoint.from_json(json.loads(dump_json(checkpoint.to_json())), "test")


TWO = 'a [script="echo 1 >>log"] b [script="echo 2 >>log"] start -> a -> b -> exit'


def test_the_events_of_a_run(play):
    walked = play(
        'a [script="true"] start -> a -> exit [label=go]',
        given={"started": {"base": "c0", "branch": "b", "worktree": "w"}},
    )
    head = {"time": TIME, "run_id": RUN_ID}
    assert [{k: v for k, v in e.items() if k not in head} for e in walked.events] == [
        {"event": "run_started", "workflow": "G", "base": "c0", "branch": "b", "worktree": "w"},
        {"event": "edge_selected", "from": "start", "to": "a", "label": "go", "why": "weight"},
        {"event": "stage_started", "node": "a", "visit": 1, "kind": "command"},
        {
            "event": "stage_completed",
            "node": "a",
            "visit": 1,
            "status": "success",
            "duration_ms": 0,
            "usage": None,
        },
        {"event": "edge_selected", "from": "a", "to": "exit", "label": "go", "why": "weight"},
        {"event": "checkpoint_saved", "ordinal": 1, "commit": "c1", "metadata_commit": "m1"},
        {"event": "run_finished", "status": "success", "failure_reason": None},
    ]
    assert all({k: e[k] for k in head} == head for e in walked.events)


def test_a_failure_is_announced_with_its_reason(play):
    walked = play('a [script="exit 2"] start -> a -> exit')
    failed = walked.of("stage_failed")
    assert [(e["node"], e["status"], e["reason"]) for e in failed] == [
        ("a", "fail", "exit status 2")
    ]
    assert walked.events[-1]["failure_reason"] == "exit status 2"


def test_the_checkpoints_of_a_run(play):
    walked = play(
        'a [script="true"] b [script="true"] start -> a'
        " a -> b [fidelity=full, thread_id=t] b -> exit"
    )
    first, second = walked.recorder.checkpoints
    assert (first.ordinal, first.current_node, first.next_node_id) == (1, "a", "b")
    assert first.previous is None
    assert first.incoming_edge == {"from": "a", "to": "b", "fidelity": "full", "thread_id": "t"}
    assert first.completed_nodes == ["start", "a"]
    assert first.node_visits == {"a": 1}
    assert first.timestamp == TIME
    assert (second.ordinal, second.current_node, second.next_node_id) == (2, "b", "exit")
    assert second.previous == {
        "ordinal": 1,
        "node": "a",
        "visit": 1,
        "status": "success",
        "commit": "c1",
        "metadata_commit": "m1",
    }
    assert second.completed_nodes == ["start", "a", "b"]
    assert sorted(second.context_values) == [
        "command.exit_code", "command.output", "command.stderr", "current_node",
        "internal.node_visit_count", "last_stage", "outcome", "preferred_label", "tool.output",
    ]  # fmt: skip
    assert second.git_tree_sha is None


def test_a_graph_without_work(play):
    walked = play("start -> exit")
    assert walked.conclusion.status == "success"
    assert walked.recorder.checkpoints == []


# Recording is best effort.


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (GitFailed(["git", "write-tree"], 128, "disk full"), "git write-tree: disk full"),
        (Conflict("somebody moved the ref"), "somebody moved the ref"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    ],
)
def test_a_checkpoint_that_cannot_be_recorded(play, recorder, error, reason):
    recorder.failing = {2: error}
    walked = play(
        'a [script="true"] b [script="true"] c [script="true"] start -> a -> b -> c -> exit'
    )
    assert walked.conclusion.status == "success"
    assert walked.conclusion.skipped == 1
    assert [e["reason"] for e in walked.of("checkpoint_skipped")] == [reason]
    assert [(c.ordinal, c.current_node) for c in recorder.checkpoints] == [(1, "a"), (2, "c")]
    assert recorder.checkpoints[1].previous["node"] == "a"
    assert walked.last.completed_nodes == ["start", "a", "b", "c"]


def test_other_faults_are_not_swallowed(play, recorder):
    recorder.failing = {1: StateUnreadable("broken")}
    with pytest.raises(StateUnreadable):
        play('a [script="true"] start -> a -> exit')


def test_notices_of_the_recorder_are_announced(play, recorder):
    recorder.notices = (("nested_repository", "it is there"),)
    walked = play('a [script="true"] start -> a -> exit')
    assert [(e["code"], e["message"]) for e in walked.of("notice")] == [
        ("nested_repository", "it is there")
    ]


# Resumption.


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(play, recorder):
    body = (
        'a [script="test -f x || { touch x; false; }", max_retries=1] b [prompt="y"]'
        ' c [script="echo $GIT_WF_VISIT"] start -> a -> b -> c'
        ' c -> a [condition="context.internal.node_visit_count < 3"] c -> exit'
    )
    whole = play(body, first_delay=0)
    wanted = [stored(checkpoint) for checkpoint in recorder.checkpoints]
    (recorder.work_dir / "x").unlink()
    for at in range(len(wanted)):
        recorder.checkpoints = []
        (recorder.work_dir / "x").touch()
        recorder.calls = at + 1
        resumed = play(
            body, checkpoint=stored(wanted[at]), recorded=Recorded(f"c{at + 1}", f"m{at + 1}")
        )
        assert recorder.checkpoints == wanted[at + 1 :]
        assert resumed.conclusion == whole.conclusion
        assert resumed.events[0]["resumed"] is True


def test_a_run_that_had_failed_is_only_concluded(play, recorder):
    play('a [script="exit 3"] start -> a -> exit')
    walked = play('a [script="exit 3"] start -> a -> exit', checkpoint=recorder.checkpoints[0])
    assert walked.visited == []
    assert walked.conclusion.failure_reason == "exit status 3"


def test_a_checkpoint_of_another_graph(play):
    checkpoint = Checkpoint(RUN_ID, ordinal=1, current_node="a", next_node_id="gone")
    with pytest.raises(StateUnreadable) as caught:
        play(TWO, checkpoint=checkpoint)
    assert caught.value.message == f"the graph of run '{RUN_ID}' has no 'gone'"


def test_a_restart_edge_is_followed_after_a_resumption(play, recorder):
    body = (
        'a [script="true"] b [script="true"] start -> a -> b'
        ' b -> a [loop_restart=true, condition="context.internal.node_visit_count < 2"] b -> exit'
    )
    play(body)
    at_b = stored(recorder.checkpoints[1])
    walked = play(body, checkpoint=at_b)
    assert walked.visited == ["a@2", "b@2"]
    assert walked.last.completed_nodes == ["a", "b"]
    assert walked.context["internal.loop_restart_count"] == 1


def test_a_cancelled_run_starts_no_visit(play):
    cancel = threading.Event()
    cancel.set()
    walked = play(TWO, cancel=cancel)
    assert walked.conclusion.status == "interrupted"
    assert walked.visited == []


def test_a_checkpoint_in_progress_is_finished_first(play):
    cancel = threading.Event()

    def press(event):
        if event["event"] == "edge_selected" and event["from"] == "a":
            cancel.set()

    walked = play(TWO, cancel=cancel, listen=press)
    assert walked.conclusion.status == "interrupted"
    assert [c.current_node for c in walked.recorder.checkpoints] == ["a"]


# Limits.


def test_the_limit_of_the_graph(play):
    walked = play('graph [max_node_visits=2] a [script="true"] start -> a a -> a')
    assert walked.visited == ["a@1", "a@2"]
    assert (
        walked.conclusion.failure_reason
        == "node 'a' was visited 2 times: max_node_visits=2 allows no more"
    )


def test_the_limit_of_a_run_without_one(play):
    walked = play("a [shape=insulator, duration=0s] start -> a a -> a")
    assert len(walked.visited) == 1000
    assert walked.conclusion.failure_reason.endswith("max_node_visits=1000 allows no more")


LOOP = 'a -> b [condition="outcome=fail"] b -> a a -> exit start -> a b [script="true"]'


def test_equal_failures_end_the_run(play):
    walked = play(f'a [script="echo took $(date +%N) ns; false"] {LOOP}')
    assert walked.visited == ["a@1", "b@1", "a@2", "b@2", "a@3"]
    assert walked.conclusion.failure_reason.startswith(
        "the same failure 3 times: exit status 1: took "
    )
    assert walked.last.next_node_id is None
    assert walked.last.loop_failure_signatures == {
        "a|deterministic|exit status <n>: took <time>": 3
    }


def test_the_count_of_equal_failures_survives_a_resumption(play, recorder):
    body = f'a [script="exit 2"] {LOOP}'
    play(body)
    walked = play(body, checkpoint=stored(recorder.checkpoints[2]))
    assert walked.visited == ["b@2", "a@3"]
    assert walked.conclusion.failure_reason == "the same failure 3 times: exit status 2"


@pytest.mark.parametrize(("limit", "visits"), [(1, 1), (2, 2), (5, 5), (0, 7)])
def test_another_limit_of_equal_failures(play, limit, visits):
    walked = play(
        f'graph [loop_restart_signature_limit={limit}] a [script="exit 2", max_visits=7] {LOOP}'
    )
    assert [at for at in walked.visited if at.startswith("a")] == [
        f"a@{n}" for n in range(1, visits + 1)
    ]


def test_failures_of_other_classes_are_not_counted(play):
    walked = play(f'a [script="exit 75", max_visits=4] {LOOP}')
    assert walked.conclusion.failure_reason.endswith("max_visits=4 allows no more")
    assert walked.last.loop_failure_signatures == {}


RESTART = 'a -> a [loop_restart=true, condition="outcome=fail"] a -> exit start -> a'


def test_a_restart_after_a_transient_failure(play):
    walked = play(f'a [script="test -f x || {{ touch x; exit 75; }}"] {RESTART}')
    assert walked.visited == ["a@1", "a@2"]
    assert walked.conclusion.status == "success"
    assert walked.last.restart_failure_signatures == {"a|transient|exit status <n>": 1}


def test_no_restart_after_another_failure(play):
    walked = play(f'a [script="exit 2"] {RESTART}')
    assert walked.visited == ["a@1"]
    assert (
        walked.conclusion.failure_reason
        == "loop_restart from 'a' refused: the failure is deterministic, not transient"
    )


# Goal gates.


def test_a_gate_without_a_target_fails_the_run(play):
    walked = play(
        'a [script="false", goal_gate=true] b [script="true"] start -> a'
        ' a -> b [condition="outcome=fail"] b -> exit'
    )
    assert walked.conclusion.failure_reason == "goal gate 'a' has not succeeded: fail"
    assert walked.last.next_node_id == "exit"


def test_the_first_gate_in_the_order_of_the_graph_decides(play):
    walked = play(
        'graph [retry_target=c] b [script="test -f b", goal_gate=true, retry_target=fix_b]'
        ' a [script="test -f a", goal_gate=true] fix_b [script="touch a b"] c [script="true"]'
        ' start -> a a -> b [condition="outcome=fail"] a -> b b -> exit'
        ' [condition="outcome=fail"] b -> exit fix_b -> a c -> exit'
    )
    assert walked.visited == ["a@1", "b@1", "fix_b@1", "a@2", "b@2"]
    assert walked.conclusion.status == "success"


@pytest.mark.parametrize("target", ["exit", "start"])
def test_a_gate_whose_target_leads_straight_back(play, target):
    walked = play(
        f'a [script="test -f x", goal_gate=true, retry_target={target}] b [script="true"]'
        ' start -> a [condition="last_stage!=b"] start -> exit'
        ' a -> b [condition="outcome=fail"] b -> exit'
    )
    assert walked.conclusion.status == "fail"
    assert walked.conclusion.failure_reason == "goal gate 'a' has not succeeded: fail"


# Stalls, dry runs.


def test_a_stalled_run_is_ended(play):
    walked = play(
        'graph [stall_timeout=100ms] a [script="sleep 60", max_retries=3, goal_gate=true]'
        ' start -> a a -> exit [condition="outcome=fail"]'
    )
    assert walked.conclusion.failure_reason == "stalled: nothing happened for 0.1 s (stall_timeout)"
    assert walked.last.node_outcomes["a"].failure.kind == "cancelled"
    assert walked.last.next_node_id is None


def test_a_dry_run_touches_nothing(play, recorder, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    walked = play(
        'a [script="touch made"] p [prompt="x"] w [shape=insulator, duration=1h]'
        " d [shape=diamond] start -> a -> p -> w -> d -> exit",
        given={"dry_run": True, "config": {}},
    )
    assert walked.visited == ["a@1", "p@1", "w@1", "d@1"]
    assert walked.conclusion.status == "success"
    assert walked.clock.slept == []
    assert recorder.calls == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_of_a_loop_ends(play):
    walked = play('a [script="true"] start -> a a -> a', given={"dry_run": True})
    assert len(walked.visited) == 10


def test_what_a_run_leaves_in_the_background_ends_with_it(play, recorder):
    walked = play(
        'a [script="sleep 60 >/dev/null 2>&1 & echo $! >pid"]'
        ' b [script="kill -0 $(cat pid)"] start -> a -> b -> exit'
    )
    assert walked.conclusion.status == "success"
    pid = int((recorder.work_dir / "pid").read_text())
    assert not is_alive(pid)


def test_random_choices_can_be_seeded(play):
    body = (
        'graph [max_node_visits=30] a [script="true", selection=random] x [script="true"]'
        ' y [script="true"] start -> a a -> x [weight=1] a -> y [weight=3] x -> exit y -> exit'
    )
    assert play(body, draw=lambda: 0.1).visited[1] == "x@1"
    assert play(body, draw=lambda: 0.9).visited[1] == "y@1"


def test_a_trace_that_cannot_be_written(play, recorder):
    (recorder.root / "traces").write_text("in the way")
    walked = play('a [script="echo x", max_retries=3] start -> a -> exit')
    assert walked.conclusion.status == "success"
    assert walked.context["command.output"] == "x\n"
    assert {event["code"] for event in walked.of("notice")} == {"trace_incomplete"}


def test_a_node_without_a_time_limit(play):
    walked = play('a [script="true", timeout=0] start -> a -> exit')
    assert '"timeout_ms": null' in walked.trace("a@1/script_invocation.json")
