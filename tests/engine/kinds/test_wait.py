from __future__ import annotations

import threading

import pytest


def test_a_wait_sleeps_its_duration(play):
    walked = play("a [shape=insulator, duration=90s] start -> a -> exit")
    assert walked.conclusion.status == "success"
    assert sum(walked.clock.slept) == pytest.approx(90)
    assert walked.last.node_outcomes["a"].duration_ms == 90_000


@pytest.mark.parametrize(
    ("attributes", "message"),
    [("", "the node has no duration"), (', duration="soon"', "'soon' is not a duration")],
)
def test_a_wait_without_a_duration(play, attributes, message):
    walked = play(f"a [shape=insulator{attributes}] start -> a -> exit")
    assert walked.conclusion.failure_reason == message


def test_a_wait_gives_way_to_a_cancellation(play):
    cancel = threading.Event()

    def press(event):
        if event["event"] == "stage_started":
            cancel.set()

    walked = play("a [shape=insulator, duration=1d] start -> a -> exit", cancel=cancel,
                  listen=press)  # fmt: skip
    assert walked.conclusion.status == "interrupted"
    assert walked.clock.slept == []
    assert walked.recorder.checkpoints == []


def test_a_wait_is_no_stall(play):
    walked = play("graph [stall_timeout=10ms] a [shape=insulator, duration=1h] start -> a -> exit")
    assert walked.conclusion.status == "success"
