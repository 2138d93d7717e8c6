"""Which edge is taken, and why."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_wf.core.dot import parse
from git_wf.core.graph import Edge, Graph, Node
from git_wf.core.outcome import (
    FAIL,
    PARTIAL_SUCCESS,
    SKIPPED,
    SUCCESS,
    Outcome,
    failed,
    succeeded,
)
from git_wf.core.routing import (
    Step,
    accelerator,
    failure_rule,
    next_step,
    normal_label,
    retry_step,
)


def graph_of(body: str) -> Graph:
    return parse(f"digraph {{ a b c d {body} }}", "w.dot")


def route(body: str, outcome: Outcome | None = None, draw: float = 0.0, **values: Any) -> Step:
    graph, ended = graph_of(body), outcome or succeeded()
    known = {"outcome": ended.status, **values}
    return next_step(graph, graph.nodes["a"], ended, known.get, lambda: draw)


def taken(body: str, outcome: Outcome | None = None, draw: float = 0.0) -> tuple[str | None, str]:
    step = route(body, outcome, draw)
    return step.target, step.why


def test_a_step_has_its_edge() -> None:
    step = route("a -> b a -> c [weight=1]")
    assert step.edge is not None
    assert (step.target, step.edge.index, step.why, step.reason) == ("c", 1, "weight", "")


@pytest.mark.parametrize(
    ("body", "target", "why"),
    [
        ("a -> b", "b", "weight"),
        ("a -> c a -> b", "b", "weight"),
        ("a -> b [weight=1] a -> c [weight=2]", "c", "weight"),
        ('a -> b [weight="1"] a -> c [weight="2.5"]', "c", "weight"),
        ("a -> b [weight=-1] a -> c", "c", "weight"),
        ('a -> b [condition="outcome=success"] a -> c [weight=100]', "b", "condition"),
        ('a -> c [condition="outcome=success"] a -> b [condition="true"]', "b", "condition"),
        ('a -> c [condition="true", weight=1] a -> b [condition="true"]', "c", "condition"),
        ('a -> b [condition="outcome=fail"] a -> c', "c", "weight"),
        ('a -> b [condition=" "] a -> c [weight=-1]', "b", "weight"),
    ],
)
def test_after_a_success(body: str, target: str, why: str) -> None:
    assert taken(body) == (target, why)


def test_equal_edges_are_decided_by_file_order() -> None:
    step = route("a -> b [label=one] a -> b [label=two]")
    assert step.edge is not None and step.edge.index == 0


def test_a_preferred_label_is_compared_without_case_and_key() -> None:
    body = 'a -> b [label="Approve", weight=9] a -> c [label="[F] Fix"]'
    assert taken(body, succeeded(preferred_label=" FIX")) == ("c", "preferred_label")
    assert taken(body, succeeded(preferred_label="[X] fix")) == ("c", "preferred_label")
    assert taken(body, succeeded(preferred_label="none")) == ("b", "weight")


def test_the_first_suggestion_that_is_a_target() -> None:
    body = "a -> b [weight=9] a -> c a -> d"
    suggestions = succeeded(suggested_next_ids=("nope", "d", "c"))
    assert taken(body, suggestions) == ("d", "suggested")


def test_a_label_comes_before_a_suggestion() -> None:
    body = "a -> b [label=x] a -> c"
    both = succeeded(preferred_label="x", suggested_next_ids=("c",))
    assert taken(body, both) == ("b", "preferred_label")


def test_nothing_rescues_an_edge_whose_condition_is_false() -> None:
    body = 'a -> b [label=x, condition="outcome=fail"] a -> c'
    both = succeeded(preferred_label="x", suggested_next_ids=("b",))
    assert taken(body, both) == ("c", "weight")


def test_where_nothing_matches_the_run_fails() -> None:
    told = Step(None, None, "no_edge", "no edge matches from 'a'")
    assert route('a -> b [condition="outcome=fail"]') == told
    assert route("") == told


@pytest.mark.parametrize("status", [PARTIAL_SUCCESS, SKIPPED])
def test_only_a_fail_is_a_failure(status: str) -> None:
    assert taken("a -> b", Outcome(status)) == ("b", "weight")


# Failures.

BROKEN = failed("it broke")


def test_a_failure_does_not_follow_a_plain_edge() -> None:
    assert route("a -> b", BROKEN) == Step(None, None, "failure", "it broke")
    assert route("a -> b", Outcome(FAIL)) == Step(None, None, "failure", "node 'a' failed")


@pytest.mark.parametrize(
    ("body", "target", "why"),
    [
        ('a [retry_target=d] a -> b [condition="outcome=fail"]', "b", "condition"),
        ('a [retry_target=d, fallback_retry_target=c] a -> b', "d", "retry_target"),
        ("a [retry_target=nope, fallback_retry_target=c]", "c", "fallback_retry_target"),
        ("retry_target=b a [fallback_retry_target=c]", "c", "fallback_retry_target"),
        ("retry_target=b fallback_retry_target=c", "b", "graph_retry_target"),
        ("fallback_retry_target=c", "c", "graph_fallback_retry_target"),
        ("a [retry_target=d, on_failure=route] a -> b", "d", "retry_target"),
        ("a [on_failure=route] a -> b", "b", "weight"),
        ("on_failure=route a -> b [label=x] a -> c", "b", "weight"),
        ("on_failure=route a [on_failure=exit] a -> b", None, "failure"),
        ("a [on_failure=route]", None, "failure"),
        ("a [on_failure=exit] a -> b", None, "failure"),
    ],
)  # fmt: skip
def test_after_a_failure(body: str, target: str | None, why: str) -> None:
    assert taken(body, BROKEN) == (target, why)


def test_a_routed_failure_hears_the_label() -> None:
    body = "a [on_failure=route] a -> b a -> c [label=Fix]"
    assert taken(body, failed("x", preferred_label="fix")) == ("c", "preferred_label")


def test_a_conditional_node_cannot_fail() -> None:
    body = 'a [shape=diamond] a -> b [condition="outcome=success"] a -> c'
    assert taken(body, BROKEN) == ("c", "weight")
    body = 'a [shape=diamond] a -> b [condition="outcome=fail"] a -> c'
    assert taken(body, BROKEN) == ("b", "condition")
    body = 'a [shape=diamond, retry_target=d] a -> b [condition="outcome=success"]'
    assert taken(body, BROKEN) == (None, "no_edge")


def test_the_retry_step_alone() -> None:
    graph = graph_of("a [retry_target=b]")
    assert retry_step(graph, graph.nodes["a"]) == Step("b", None, "retry_target")
    assert retry_step(graph, graph.nodes["b"]) is None


def test_on_failure_can_turn_a_fail_into_a_success() -> None:
    graph = graph_of("on_failure=succeed b [on_failure=exit]")
    a, b = graph.nodes["a"], graph.nodes["b"]
    assert [failure_rule(graph, node) for node in (a, b)] == ["succeed", "exit"]
    assert failure_rule(Graph(), Node("a")) == "exit"


# Draws.


def test_a_draw_follows_the_weights() -> None:
    body = "a [selection=random] a -> b [weight=1] a -> c [weight=3] a -> d [weight=0]"
    drawn = Counter(taken(body, draw=step / 100)[0] for step in range(100))
    assert drawn == {"b": 25, "c": 75}
    assert taken(body)[1] == "random"


def test_edges_without_weight_are_drawn_alike() -> None:
    body = "a [selection=random] a -> b a -> c [weight=2] a -> d [weight=-5]"
    assert [taken(body, draw=at)[0] for at in (0.0, 0.32, 0.34, 0.99)] == ["b", "b", "c", "c"]
    body = "a [selection=random] a -> b [weight=0] a -> c [weight=0]"
    assert [taken(body, draw=at)[0] for at in (0.0, 0.49, 0.5)] == ["b", "b", "c"]


def test_a_draw_at_the_very_end_takes_the_last_that_weighs() -> None:
    body = "a [selection=random] a -> b [weight=1] a -> c [weight=1] a -> d [weight=0]"
    assert taken(body, draw=1.0)[0] == "c"


def test_a_draw_is_within_a_tier() -> None:
    body = "a [selection=random] a -> b [label=x] a -> c [label=x] a -> d [weight=99]"
    assert taken(body, succeeded(preferred_label="x"), 0.9) == ("c", "random")
    assert taken(body, succeeded(suggested_next_ids=("b",)), 0.9) == ("b", "suggested")


# Labels.


@pytest.mark.parametrize(
    ("label", "key", "text"),
    [
        ("[A] Approve", "A", "Approve"),
        ("[A]Approve", "A", "Approve"),
        ("[ok] Fine", "OK", "Fine"),
        ("Y) Yes", "Y", "Yes"),
        ("1) One", "1", "One"),
        ("N - No", "N", "No"),
        ("Approve", "A", "Approve"),
        (" approve ", "A", "approve"),
        ("Re-run", "R", "Re-run"),
        ("Fix - now", "F", "Fix - now"),
        ("[A]", "A", "[A]"),
        ("…", "", "…"),
        ("", "", ""),
    ],
)
def test_keys_of_labels(label: str, key: str, text: str) -> None:
    assert accelerator(label) == (key, text)
    assert normal_label(label) == text.lower()


# Properties.

EDGES = st.lists(
    st.builds(
        lambda target, weight, label, condition: Edge(
            "a", target, attrs={"weight": weight, "label": label, "condition": condition}
        ),
        st.sampled_from("bcd"),
        st.integers(-1, 2),
        st.sampled_from(["", "x", "[X] y"]),
        st.sampled_from(["", "yes", "no", "outcome=fail"]),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(EDGES, st.sampled_from([SUCCESS, FAIL]), st.sampled_from(["", "x", "Y"]), st.booleans())
def test_a_step_is_an_edge_that_holds(
    edges: list[Edge], status: str, label: str, by_chance: bool
) -> None:
    attrs = {"selection": "random"} if by_chance else {}
    nodes = {id_: Node(id_, attrs=dict(attrs)) for id_ in "abcd"}
    graph = Graph(nodes=nodes, edges=edges)
    values = {"yes": True, "outcome": status}
    step = next_step(
        graph, nodes["a"], Outcome(status, preferred_label=label), values.get, lambda: 0.5
    )
    true = [
        edge
        for edge in edges
        if edge.condition == "yes" or (edge.condition == "outcome=fail" and status == FAIL)
    ]
    plain = [edge for edge in edges if not edge.condition]
    if true:
        assert step.edge in true
    elif status == FAIL or not plain:
        assert step.target is None and step.reason
    else:
        assert step.edge in plain
    if step.edge is not None:
        assert step.target == step.edge.target
