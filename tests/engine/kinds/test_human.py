from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from git_wf.engine.people import People, Silence, ask_from

SHIP = (
    'h [shape=hexagon, label="Ship?"{}] y [script="true"] n [script="true"] start -> h'
    ' h -> y [label="[A] Approve"] h -> n [label="[R] Revise"] y -> exit n -> exit'
)


def answering(*answers):
    return People(ask_from({"h": answers}))


def gate(walked):
    context = walked.recorder.checkpoints[0].context_values
    return [context[f"human.gate.{name}"] for name in ("selected", "label", "text")]


@pytest.mark.parametrize(
    ("answer", "visited"),
    [
        ("A", "y@1"),
        ("r", "n@1"),
        (" revise ", "n@1"),
        ("[R] Revise", "n@1"),
        ("n", "n@1"),
        ("1", "y@1"),
        ("2", "n@1"),
    ],
)
def test_answers(play, answer, visited):
    walked = play(SHIP.format(""), people=answering(answer))
    assert walked.visited == ["h@1", visited]
    assert walked.conclusion.status == "success"


def test_what_is_recorded_of_an_answer(play):
    walked = play(SHIP.format(""), people=answering("R"))
    assert gate(walked) == ["R", "[R] Revise", ""]
    assert walked.recorder.notes[0] == "R: Revise"
    assert [(c["key"], c["label"], c["to"]) for c in walked.of("waiting")[0]["choices"]] == [
        ("A", "[A] Approve", "y"),
        ("R", "[R] Revise", "n"),
    ]


def test_an_answer_that_fits_nothing_is_asked_again(play):
    complaints = []

    def ask(question, complaint):
        complaints.append(complaint)
        return "what" if len(complaints) < 3 else "A"

    walked = play(SHIP.format(""), people=People(ask))
    assert complaints == ["", "'what' is none of A, R", "'what' is none of A, R"]
    assert len(walked.of("notice")) == 2


def test_auto_approve_takes_the_first(play):
    walked = play(SHIP.format(""), people=People(auto_approve=True))
    assert walked.visited == ["h@1", "y@1"]
    assert walked.of("waiting") == []


def test_edges_to_one_target_stay_distinct(play):
    body = 'h [shape=hexagon] start -> h h -> exit [label="Y) Yes"] h -> exit [label="N - No"]'
    walked = play(body, people=answering("n"))
    assert gate(walked) == ["N", "N - No", ""]
    assert walked.of("edge_selected")[1]["label"] == "N - No"


def test_edges_with_one_label_stay_distinct(play):
    body = (
        'h [shape=hexagon] x [script="true"] start -> h'
        ' h -> exit [label="[Y] Go"] h -> x [label="[N] Go"] x -> exit'
    )
    assert play(body, people=answering("N")).visited == ["h@1", "x@1"]


def test_free_text(play):
    body = (
        'h [shape=hexagon] x [script="true"] start -> h'
        ' h -> exit [label="[O] OK"] h -> x [label="Say more", freeform=true] x -> exit'
    )
    walked = play(body, people=answering("make it blue"))
    assert walked.visited == ["h@1", "x@1"]
    assert gate(walked) == ["S", "Say more", "make it blue"]
    assert play(body, people=answering("o")).visited == ["h@1"]


def test_without_choices(play):
    walked = play("h [shape=hexagon] start -> h start -> exit [weight=-1]", people=answering("x"))
    told = "no edge leads on: there is nothing to choose"
    assert walked.conclusion.failure_reason == told


# Nobody there.


def test_a_run_waits_where_nobody_is_there(play, recorder):
    walked = play('a [script="true"] start -> a -> h ' + SHIP.format("").replace("start -> h", ""))
    assert walked.conclusion.status == "waiting"
    assert (
        walked.conclusion.waiting
        == recorder.waits[0]
        == {
            "node": "h",
            "visit": 1,
            "question": "Ship?",
            "choices": [
                {"key": "A", "label": "[A] Approve", "to": "y", "freeform": False},
                {"key": "R", "label": "[R] Revise", "to": "n", "freeform": False},
            ],
            "since": "2026-01-02T03:04:05.000000Z",
            "deadline": None,
        }
    )
    assert [c.current_node for c in recorder.checkpoints] == ["a"]
    assert walked.events[-1]["status"] == "waiting"


def test_a_waiting_run_goes_on_with_an_answer(play, recorder):
    body = 'a [script="touch ran; test ! -f again"] start -> a -> h ' + SHIP.format("").replace(
        "start -> h", ""
    )
    play(body)
    (recorder.work_dir / "again").touch()
    people = People(ask_from({"h": ["A"]}), waiting=recorder.waits[0])
    walked = play(body, checkpoint=recorder.checkpoints[0], people=people)
    assert walked.visited == ["h@1", "y@1"]
    assert walked.conclusion.status == "success"


# Time-outs.

TIMED = ', timeout="1h", human.default_choice="R"'


def test_the_default_is_taken_when_the_time_is_over(play):
    walked = play(SHIP.format(TIMED), people=People(lambda *_: Silence.TIMED_OUT))
    assert walked.visited == ["h@1", "n@1"]


def test_without_a_default_the_node_fails(play):
    body = SHIP.format(", timeout=1h")
    walked = play(body, people=People(lambda *_: Silence.TIMED_OUT))
    assert walked.conclusion.failure_reason == "nobody answered within 1h"
    assert walked.last.node_outcomes["h"].failure.kind == "timeout"


def test_the_deadline_holds_over_a_resumption(play, recorder):
    body = SHIP.format(TIMED)
    waited = play(body)
    assert recorder.waits[0]["deadline"] == "2026-01-02T04:04:05.000000Z"
    seen = []

    def ask(question, complaint):
        seen.append(question.deadline - question.since)
        return Silence.NOBODY

    waited.clock.seconds = 3599
    again = play(body, clock=waited.clock, people=People(ask, waiting=recorder.waits[0]))
    assert again.conclusion.status == "waiting"
    assert seen == [timedelta(hours=1)]
    waited.clock.seconds = 3600
    late = play(body, clock=waited.clock, people=People(ask, waiting=recorder.waits[0]))
    assert late.visited == ["h@1", "n@1"]


def test_a_cancelled_question_is_interrupted(play):
    cancel = threading.Event()

    def ask(question, complaint):
        cancel.set()
        assert question.is_over()
        return Silence.NOBODY

    walked = play(SHIP.format(""), cancel=cancel, people=People(ask))
    assert walked.conclusion.status == "interrupted"
    assert walked.recorder.waits == []


def test_a_dry_run_takes_the_first(play):
    walked = play(SHIP.format(""), given={"dry_run": True})
    assert walked.visited == ["h@1", "y@1"]
