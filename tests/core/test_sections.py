from __future__ import annotations

import time

import pytest

from git_wf.core.dot import parse
from git_wf.core.sections import (
    BranchStep,
    branch_name,
    do_branches_meet,
    enclosing_fan_outs,
    find_join,
    inside,
)

ENDS = "start [shape=Mdiamond] exit [shape=Msquare]"
F, J = "f [shape=component]", "j [shape=tripleoctagon]"
TWO = f"{F} {J} start -> f f -> a f -> b j -> exit"


def graph(body: str):
    return parse(f"digraph G {{ {ENDS} {body} }}", "test.dot")


@pytest.mark.parametrize(
    ("body", "join"),
    [
        (f"{TWO} a b a -> j b -> j", "j"),
        (f"{TWO} a b a -> a2 -> j a2 b -> j", "j"),
        # the nearer of two fan-ins
        (f"{TWO} a b k [shape=tripleoctagon] a -> k b -> k k -> j", "k"),
        # a way around the fan-in does not make it less of one
        (f"{TWO} a b a -> j b -> j a -> exit [condition=x]", "j"),
        # a fan-in that only one branch reaches is none of this section
        (f"{TWO} a b k [shape=tripleoctagon] a -> k k -> j b -> j", "j"),
        # an edge from the fan-out right to the fan-in
        (f"{F} {J} a start -> f f -> a f -> j a -> j j -> exit", "j"),
        # back to the fan-out from behind the join
        (f"{TWO} a b a -> j b -> j j -> f", "j"),
        # no fan-in: where no branch gets past
        (
            f"{F} start -> f f -> a f -> b a b c d e"
            " a -> c a -> d b -> c b -> d c -> e d -> e e -> exit",
            "e",
        ),
        (f"{F} start -> f f -> a f -> b a b a -> exit b -> exit", "exit"),
        (f"{F} start -> f f -> a a -> c a c c -> exit", "a"),
        (f"{F} start -> f f -> a f -> b a b start -> exit", None),
        (f"{F} start -> f start -> exit", None),
    ],
)  # fmt: skip
def test_where_branches_are_joined(body, join):
    assert find_join(graph(body), "f") == join


NESTED = (
    f"{F} {J} g [shape=component] gj [shape=tripleoctagon] x y b start -> f f -> g f -> b"
    " g -> x -> gj g -> y -> gj gj -> j b -> j j -> exit"
)


def test_sections_nest():
    nested = graph(NESTED)
    assert find_join(nested, "f") == "j"
    assert find_join(nested, "g") == "gj"
    assert inside(nested, "f") == {"g", "x", "y", "gj", "b"}
    assert inside(nested, "g") == {"x", "y"}
    assert enclosing_fan_outs(nested) == dict.fromkeys(("g", "x", "y", "gj", "b"), "f")


def test_sections_one_after_the_other():
    row = graph(
        f"{TWO.removesuffix('j -> exit')} a b a -> j b -> j h [shape=component]"
        " k [shape=tripleoctagon] c d j -> h h -> c h -> d c -> k d -> k k -> exit"
    )
    assert enclosing_fan_outs(row) == {"a": "f", "b": "f", "c": "h", "d": "h"}


def test_a_long_graph_without_a_fan_in():
    chain = " ".join(f"n{number} -> n{number + 1}" for number in range(3000))
    nodes = " ".join(f"n{number}" for number in range(3001))
    long = graph(f"{F} {nodes} start -> f f -> n0 f -> n1 {chain} n3000 -> exit")
    assert find_join(long, "f") == "n1"


def test_the_name_of_a_branch():
    outer, inner = BranchStep("f", 1, 1, "g"), BranchStep("g", 2, 3, "x")
    assert branch_name((outer, inner)) == "f@1/1-g/g@2/3-x"
    assert (inner.section, inner.own_name) == ("g@2", "3-x")


@pytest.mark.parametrize("is_lost", [False, True])
def test_branches_that_meet_in_a_large_graph(is_lost):
    """One of many goes astray: that is seen, and soon."""
    names = [f"b{number}" for number in range(3000)]
    edges = " ".join(f"f -> {name} -> x" for name in names)
    nodes = " ".join(f"{name} [script=true]" for name in names)
    lost = "lost [script=true] f -> lost" if is_lost else ""
    large = graph(f"{F} x [script=true] {nodes} {edges} x -> exit {lost}")
    began = time.process_time()
    assert do_branches_meet(large, "f") is not is_lost
    assert time.process_time() - began < 2
