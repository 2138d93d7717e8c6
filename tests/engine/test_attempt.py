from __future__ import annotations

import pytest


def test_pauses_are_announced_and_slept(play):
    walked = play('a [script="echo no; exit 1", max_retries=2] start -> a -> exit')
    assert [
        (e["node"], e["visit"], e["attempt"], e["delay_s"], e["reason"])
        for e in walked.of("stage_retrying")
    ] == [("a", 1, 2, 5.0, "exit status 1: no"), ("a", 1, 3, 10.0, "exit status 1: no")]
    assert sum(walked.clock.slept) == pytest.approx(15)
    assert walked.last.node_outcomes["a"].duration_ms == 15_000
    assert walked.conclusion.total_retries == 2


def test_jitter_and_another_first_delay(play):
    walked = play(
        'a [script="false", retry_policy=linear] start -> a -> exit',
        draw=lambda: 0.0,
        first_delay=0.2,
    )
    assert [e["delay_s"] for e in walked.of("stage_retrying")] == [0.1, 0.1]


def test_a_timeout_is_retried(play):
    walked = play('a [script="sleep 9", timeout=50ms, max_retries=1] start -> a -> exit')
    assert walked.conclusion.total_retries == 1
    assert walked.conclusion.failure_reason == "timed out after 0.05 s"


@pytest.mark.parametrize(
    ("attributes", "status"),
    [
        ("", "fail"),
        ("allow_partial=true", "partial_success"),
        ("allow_partial=true, max_retries=1", "partial_success"),
        ("on_failure=succeed", "success"),
        ("on_failure=exit", "fail"),
        ("auto_status=true, allow_partial=true", "success"),
    ],
)
def test_what_a_failure_becomes(play, attributes, status):
    walked = play(f'a [script="false", {attributes}] start -> a -> exit')
    assert walked.last.status == status


def test_on_failure_of_the_graph(play):
    walked = play('graph [on_failure=succeed] a [script="false"] start -> a -> exit')
    assert walked.last.status == "success"
    assert walked.recorder.notes == ["on_failure: exit status 1"]


def test_auto_status_leaves_skipped_alone(play):
    walked = play('a [prompt="stub: outcome=skipped", auto_status=true] start -> a -> exit')
    assert walked.last.status == "skipped"


def test_a_retry_that_succeeds_leaves_no_failure(play):
    walked = play('a [script="test -f x || { touch x; false; }", max_retries=1] start -> a -> exit')
    assert walked.last.status == "success"
    assert walked.last.node_outcomes["a"].failure is None
    assert walked.last.loop_failure_signatures == {}
