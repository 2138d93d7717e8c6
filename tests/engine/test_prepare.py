from __future__ import annotations

import pytest

from git_wf.engine.recorder import Recorded

ONE = 'a [script="cat made"] start -> a -> exit'


def steps(*tables):
    return {"config": {"run": {"prepare": {"steps": list(tables)}}}}


def test_steps_run_before_the_first_node(play):
    given = steps({"script": "echo 1 >>made"}, {"script": "echo 2 >>made\ntrue"})
    walked = play(ONE, given=given)
    assert walked.context["command.output"] == "1\n2\n"
    assert [event["message"] for event in walked.of("notice")] == [
        "step 1 of 2: echo 1 >>made",
        "step 2 of 2: echo 2 >>made",
    ]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"script": "echo no >&2; exit 3"}, "exit status 3: no"),
        ({"script": "sleep 60", "timeout": "50ms"}, "timed out after 0.05 s"),
        ({"script": "true", "timeout": "soon"}, "'soon' is not a duration"),
    ],
)
def test_a_step_that_fails_ends_the_run(play, step, reason):
    walked = play(ONE, given=steps(step, {"script": "touch never"}))
    assert walked.conclusion.failure_reason == f"prepare step 1: {reason}"
    assert walked.visited == []
    assert not (walked.recorder.work_dir / "never").exists()


def test_a_worktree_that_is_prepared(play, recorder):
    (recorder.work_dir / "made").write_text("old\n")
    walked = play(ONE, given=steps({"script": "echo new >made"}), prepared=True)
    assert walked.context["command.output"] == "old\n"


def test_a_resumed_run_prepares_a_new_worktree(play, recorder):
    body = 'a [script="true"] b [script="cat made"] start -> a -> b -> exit'
    given = steps({"script": "echo x >>made"})
    play(body, given=given)
    walked = play(
        body, given=given, checkpoint=recorder.checkpoints[0], recorded=Recorded("c1", "m1")
    )
    assert walked.context["command.output"] == "x\nx\n"


def test_a_stylesheet_is_applied(play):
    walked = play(
        'graph [model_stylesheet=".k { model: m1 } #b { model: m2 }"] a [prompt="p", class="j,k"]'
        ' b [prompt="p", class="j k"] start -> a -> b -> exit'
    )
    assert '"model": "m1"' in walked.trace("a@1/provider_used.json")
    assert '"model": "m2"' in walked.trace("b@1/provider_used.json")
