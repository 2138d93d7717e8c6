"""Small graphs with the right outcome, area by area: what the language promises."""

from __future__ import annotations

import pytest

START_A = 'a [script="true"] start -> a'
Y = 'y [script="true"] y -> exit'


@pytest.mark.parametrize(
    ("body", "visited"),
    [
        (f'{START_A} a -> y [condition="outcome=success"] a -> exit {Y}', "a@1 y@1"),
        (
            'a [script="false"] n [script="true"] start -> a a -> n [condition="outcome!=success"]'
            f" a -> exit n -> y {Y}",
            "a@1 n@1 y@1",
        ),
        (f'{START_A} a -> y [condition="outcome=success && context.nope=x"] a -> exit {Y}', "a@1"),
        (f'{START_A} a -> y [condition="outcome=Success"] a -> exit {Y}', "a@1"),
        (f'{START_A} a -> y [condition="!outcome=fail"] a -> exit {Y}', "a@1 y@1"),
        (f'{START_A} a -> y [condition="(outcome=success)"] a -> exit {Y}', "a@1 y@1"),
        (f'{START_A} a -> y [condition="context.n > 5"] a -> exit {Y}', "a@1"),
        (
            f'{START_A} a -> y [condition="context.log contains \\"two words\\""] a -> exit {Y}',
            "a@1",
        ),
        (f'{START_A} a -> y [condition="last_stage=a"] a -> exit {Y}', "a@1 y@1"),
    ],
)
def test_conditions(play, body, visited):
    walked = play(body)
    assert " ".join(walked.visited) == visited
    assert walked.conclusion.status == "success"


@pytest.mark.parametrize(
    ("body", "visited"),
    [
        (
            f'{START_A} c [script="true"] w [script="true"] a -> c [condition="outcome=success"]'
            " a -> w [weight=100] c -> exit w -> exit",
            "a@1 c@1",
        ),
        (
            f'{START_A} b [script="true"] c [script="true"] a -> b [weight=1] a -> c [weight=2]'
            " b -> exit c -> exit",
            "a@1 c@1",
        ),
        (
            'a [prompt="stub: preferred_label=Fix"] x [script="true"] start -> a'
            f' a -> x [label="Approve"] a -> y [label="[F] Fix"] x -> exit {Y}',
            "a@1 y@1",
        ),
        (
            "a [prompt=\"stub: suggested_next_ids=['nope','y']\"] x [script=\"true\"] start -> a"
            f" a -> x [weight=9] a -> y x -> exit {Y}",
            "a@1 y@1",
        ),
    ],
)
def test_edge_selection(play, body, visited):
    walked = play(body)
    assert " ".join(walked.visited) == visited
    assert walked.conclusion.status == "success"


def test_nothing_matches_after_a_success(play):
    walked = play(f'{START_A} b [script="true"] a -> b [condition="outcome=fail"] b -> exit')
    assert walked.conclusion.status == "fail"
    assert walked.conclusion.failure_reason == "no edge matches from 'a'"
    assert walked.visited == ["a@1"]
    assert walked.last.next_node_id is None


# Failure and retry.


def test_a_failure_ends_the_run_with_its_reason(play):
    walked = play('a [script="echo why >&2; false"] start -> a -> exit')
    assert walked.conclusion.status == "fail"
    assert walked.conclusion.failure_reason == "exit status 1: why"
    assert walked.last.next_node_id is None


def test_a_failure_takes_a_true_condition(play):
    walked = play(
        'a [script="false"] f [script="true"] start -> a a -> f [condition="outcome=fail"]'
        " a -> exit f -> exit"
    )
    assert walked.visited == ["a@1", "f@1"]
    assert walked.conclusion.status == "success"


def test_max_retries_retries_a_failure(play):
    walked = play(
        'a [script="n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) >n; test $n -ge 2",'
        " max_retries=2] start -> a -> exit"
    )
    assert (walked.recorder.work_dir / "n").read_text() == "3\n"
    assert walked.conclusion.status == "success"
    assert walked.conclusion.total_retries == 2
    assert walked.last.node_retries == {"a": 2}
    assert walked.context["internal.retry_count.a"] == 2


def attempts(walked) -> int:
    return len((walked.recorder.work_dir / "prompts").read_text().splitlines())


def test_an_agent_that_asks_for_a_retry_gets_its_retries(play):
    walked = play('a [prompt="stub: outcome=retry"  , max_retries=2] start -> a -> exit')
    assert attempts(walked) == 3
    assert walked.conclusion.failure_reason == "max retries exceeded"


@pytest.mark.parametrize("name", ["default_max_retries", "default_max_retry"])
def test_retries_of_the_graph(play, name):
    walked = play(
        f'graph [{name}=1] a [prompt="stub: outcome=retry"] b [prompt="stub: outcome=retry",'
        " max_retries=0] start -> a -> b -> exit"
    )
    assert attempts(walked) == 2
    assert walked.conclusion.status == "fail"


def test_auto_status(play):
    walked = play('a [script="exit 7", auto_status=true] start -> a -> exit')
    assert walked.conclusion.status == "success"
    assert walked.last.status == "success"
    assert walked.recorder.notes == ["auto_status: exit status 7"]


# Goal gates.


def test_a_gate_that_succeeded(play):
    walked = play('a [script="true", goal_gate=true] start -> a -> exit')
    assert walked.conclusion.status == "success"


def test_a_gate_that_failed_sends_the_run_back(play):
    walked = play(
        'a [script="test -f ok || { touch ok; false; }", goal_gate=true, retry_target="a"]'
        ' start -> a a -> exit [condition="outcome=fail"] a -> exit'
    )
    assert walked.conclusion.status == "success"
    assert walked.last.completed_nodes == ["start", "a", "a"]


def test_partial_success_is_enough_for_a_gate(play):
    walked = play('a [prompt="stub: outcome=partial_success", goal_gate=true] start -> a -> exit')
    assert walked.conclusion.status == "success"
    assert walked.last.status == "partial_success"


# Loops.


def test_n_visits_are_n(play):
    walked = play(
        'a [script="true", max_visits=3] start -> a a -> a a -> exit [condition="outcome=fail"]'
    )
    assert walked.visited == ["a@1", "a@2", "a@3"]
    assert walked.conclusion.status == "fail"
    assert (
        walked.conclusion.failure_reason
        == "node 'a' was visited 3 times: max_visits=3 allows no more"
    )


def test_loop_restart(play):
    walked = play(
        'graph [goal="g"] a [script="true"] b [script="true"] start -> a'
        ' a -> b [loop_restart=true, condition="context.internal.node_visit_count < 2"]'
        " a -> exit b -> a"
    )
    assert walked.visited == ["a@1", "b@1", "a@2"]
    first, second, _ = walked.recorder.checkpoints
    assert first.completed_nodes == ["start", "a"]
    assert second.completed_nodes == ["b"]
    assert second.node_visits == {"a": 1, "b": 1}
    assert second.context_values["graph.goal"] == "g"
    assert second.context_values["internal.loop_restart_count"] == 1
    assert "command.exit_code" in second.context_values
    assert walked.conclusion.status == "success"


def test_a_diamond_routes_by_the_node_before(play):
    walked = play(
        'd [shape=diamond] a [script="false"] f [script="true"] start -> a'
        ' a -> d [condition="outcome=fail"] a -> exit d -> f [condition="outcome=fail"]'
        " d -> exit f -> exit"
    )
    assert walked.visited == ["a@1", "d@1", "f@1"]
    assert [c.status for c in walked.recorder.checkpoints] == ["fail", "success", "success"]


# Context and templates.


@pytest.mark.parametrize("prompt", ["Do: $goal", "Do: {{ goal }}"])
def test_the_goal_in_a_prompt(play, prompt):
    walked = play(f'graph [goal="Build it"] a [prompt="{prompt}"] start -> a -> exit')
    assert walked.trace("a@1/prompt.md") == "Do: Build it"


def test_an_empty_prompt_falls_back_to_the_label(play):
    walked = play('a [prompt="", label="Plan it"] start -> a -> exit')
    assert walked.trace("a@1/prompt.md") == "Plan it"


def test_an_unknown_type_runs_as_an_agent(play):
    walked = play('a [type="frobnicate"] start -> a -> exit')
    assert walked.trace("a@1/prompt.md") == "a"
