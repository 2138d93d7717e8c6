from __future__ import annotations


def test_labels_and_suggestions_pass_through(play):
    walked = play(
        'a [prompt="stub: preferred_label=Fix"] d [shape=diamond] e [shape=diamond]'
        ' x [script="true"] y [script="true"] start -> a -> d -> e'
        ' e -> x [label="Ship"] e -> y [label="Fix"] x -> exit y -> exit'
    )
    assert walked.visited == ["a@1", "d@1", "e@1", "y@1"]
    assert walked.context["outcome"] == "success"


def test_a_failure_passes_two_diamonds_and_may_take_plain_edges(play):
    walked = play(
        'a [script="exit 4"] d [shape=diamond] e [shape=diamond] y [script="true"] start -> a'
        ' a -> d [condition="outcome=fail"] d -> e'
        ' e -> y [condition="outcome=fail && failure_class=deterministic"] e -> exit y -> exit'
    )
    assert walked.visited == ["a@1", "d@1", "e@1", "y@1"]
    assert walked.conclusion.status == "success"
    assert "failure_class" not in walked.context
