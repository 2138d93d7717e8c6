"""Small workflows and what is right for them: reading, validation, styles, conditions, edges.

The ids are those of the list of behaviours that the language was specified with. What needs a
running engine is tested with the engine.
"""

from typing import Any

import pytest

from git_wf.core.dot import parse, resolve_files
from git_wf.core.graph import Diagnostic, Duration, Graph
from git_wf.core.outcome import FAIL, Outcome, failed, succeeded
from git_wf.core.routing import Step, next_step
from git_wf.core.stylesheet import styled
from git_wf.core.validate import check
from git_wf.errors import WorkflowInvalid


def read(body: str) -> Graph:
    whole = body.removeprefix("\ufeff").startswith(("digraph", "strict"))
    text = body if whole else f"digraph G {{ start [shape=Mdiamond] exit [shape=Msquare] {body} }}"
    return parse(text, "w.dot")


def shape_of(graph: Graph) -> tuple[list[str], list[str]]:
    return list(graph.nodes), [edge.name for edge in graph.edges]


ALONE = (["start", "exit", "a"], ["start->a", "a->exit"])


# Reading.


@pytest.mark.parametrize(
    ("id_", "body", "attrs"),
    [
        ("P01", 'a [script="true"] start -> a -> exit', {"script": "true"}),
        (
            "P02", 'a [script="true",\n  label="A",\n  max_retries=2]\nstart -> a -> exit',
            {"script": "true", "label": "A", "max_retries": 2},
        ),
        (
            "P03", 'a [script="true" label="A"] start -> a -> exit',
            {"script": "true", "label": "A"},
        ),
        ("P05", "a [] start -> a -> exit", {}),
        (
            "P06", 'a [label="B", label="A"][script="true"] start -> a -> exit',
            {"label": "A", "script": "true"},
        ),
        (
            "P07", 'a [shape=hexagon, human.default_choice="exit"] start -> a -> exit',
            {"shape": "hexagon", "human.default_choice": "exit"},
        ),
        (
            "P08", 'a [shape=hexagon, "human.default_choice"="exit"] start -> a -> exit',
            {"shape": "hexagon", "human.default_choice": "exit"},
        ),
        (
            "P09",
            'a [timeout=900s, model=gpt-5.2, fidelity=summary:high, script="true"] '
            "start -> a -> exit",
            {
                "timeout": Duration(900, "900s"), "model": "gpt-5.2", "fidelity": "summary:high",
                "script": "true",
            },
        ),
        (
            "P10", r'a [prompt="l1\nl2\t\"q\" \\ end"] start -> a -> exit',
            {"prompt": 'l1\nl2\t"q" \\ end'},
        ),
        ("P12", 'a [prompt="one \\\ntwo"] start -> a -> exit', {"prompt": "one two"}),
        (
            "P14",
            '// c {\n/* x */ a [script="echo // h /* y */"] \n# no\n start -> a -> exit',
            {"script": "echo // h /* y */"},
        ),
    ],
)  # fmt: skip
def test_attributes(id_: str, body: str, attrs: dict[str, Any]) -> None:
    graph = read(body)
    assert (shape_of(graph), graph.nodes["a"].attrs) == (ALONE, attrs), id_
    returned = read(body.replace("\n", "\r\n"))
    assert (shape_of(returned), returned.nodes["a"].attrs) == (ALONE, attrs), id_


def test_p15_defaults_and_the_label_of_a_subgraph() -> None:
    graph = read(
        'subgraph cluster_l { label="Loop A" node [timeout="9s"] p [script="true"] }\n'
        'q [script="true"] start -> p -> q -> exit'
    )
    p, q = graph.nodes["p"], graph.nodes["q"]
    assert (p.text("timeout"), p.classes, q.text("timeout"), q.classes) == (
        "9s", ("loop-a",), "", (),
    )  # fmt: skip
    assert graph.attrs == {}


def test_p17_edge_defaults() -> None:
    graph = read('edge [weight=5] a [script="true"] start -> a\na -> exit [weight=1]')
    assert [edge.weight for edge in graph.edges] == [5, 1]


def test_p18_a_label_on_every_edge_of_a_chain() -> None:
    graph = read('a [script="true"] b [script="true"] start -> a -> b -> exit [label="n"]')
    assert [edge.label for edge in graph.edges] == ["n", "n", "n"]


@pytest.mark.parametrize(("id_", "name", "read_name"), [("P21", "", ""), ("P22", '"my flow" ',
                                                                         "my flow")])  # fmt: skip
def test_names_of_graphs(id_: str, name: str, read_name: str) -> None:
    text = f"digraph {name}{{ start [shape=Mdiamond] exit [shape=Msquare] start -> exit }}"
    for begin in ("", "\ufeff"):
        graph = read(begin + text)
        assert (graph.name, shape_of(graph)) == (
            read_name, (["start", "exit"], ["start->exit"]),
        ), id_  # fmt: skip


@pytest.mark.parametrize(
    ("id_", "body", "column", "message"),
    [
        (
            "P23", 'start -> {a b} a [script="true"] b [script="true"] a -> exit b -> exit', 66,
            "node groups as edge ends are not supported",
        ),
        (
            "P24", "strict digraph G { start [shape=Mdiamond] exit [shape=Msquare] start -> exit }",
            1, "'strict' is not supported",
        ),
        (
            "P25", "digraph G { start [shape=Mdiamond] exit [shape=Msquare] start -- exit }", 63,
            "'--' is not supported: edges have a direction",
        ),
        (
            "P27", 'a [label=<<b>x</b>>, script="true"] start -> a -> exit', 66,
            "HTML labels are not supported",
        ),
        (
            "P28", 'a-b [script="true"] start -> a-b -> exit', 57,
            "not a node id: 'a-b': an id has letters, digits and underscores, and begins with no "
            "digit",
        ),
        (
            "P30", 'a [label="A", ask] start -> a -> exit', 74,
            "attribute 'ask' has no value: found ']', expected '='",
        ),
    ],
)  # fmt: skip
def test_what_is_rejected(id_: str, body: str, column: int, message: str) -> None:
    with pytest.raises(WorkflowInvalid) as caught:
        read(body)
    (found,) = caught.value.diagnostics
    assert (found.rule, found.severity, found.line, found.column, found.message) == (
        "syntax", "error", 1, column, message,
    ), id_  # fmt: skip
    if id_ == "P28":
        assert found.fix == "write a_b"


# Validation.


def told(body: str) -> list[str]:
    return [f"{one.severity} {one.rule}: {one.message}" for one in check(read(body))]


@pytest.mark.parametrize(
    ("id_", "body", "expected"),
    [
        (
            "V01", 'digraph G { a [script="true"] exit [shape=Msquare] a -> exit }',
            ["error start_node: no start node: 0 found, a workflow has exactly one"],
        ),
        (
            "V02",
            "digraph G { s [shape=Mdiamond] t [shape=Mdiamond] exit [shape=Msquare] "
            "s -> exit t -> exit }",
            [
                "error start_node: more than one start node: 2 found ('s', 't'), "
                "a workflow has exactly one"
            ],
        ),
        (
            "V03", 'digraph G { start [shape=Mdiamond] a [script="true"] start -> a }',
            [
                "error terminal_node: no exit node: 0 found, a workflow has exactly one",
                "warning dead_end: no edge leads on from 'a'",
            ],
        ),
        (
            "V06", 'a [script="true"] start -> a -> exit a -> start',
            ["error start_no_incoming: edge into the start node: 'a' -> 'start'"],
        ),
        (
            "V07", 'a [script="true"] start -> a -> exit exit -> a',
            ["error exit_no_outgoing: edge out of the exit node: 'exit' -> 'a'"],
        ),
        (
            "V08", 'a [script="true"] lost [script="true"] start -> a -> exit',
            ["warning reachability: no way leads from the start to 'lost'"],
        ),
        (
            "V09", 'a [script="true"] start -> a -> exti a -> exit',
            ["error edge_target_exists: node is not declared: 'exti', the nearest id is 'exit'"],
        ),
        (
            "V11",
            'a [script="true"] b [script="true"] start -> a a -> b [condition="outcome=success"] '
            'a -> exit [condition="outcome=fail"] b -> exit',
            [
                "warning all_conditional_edges: every edge from 'a' has a condition: if none "
                "holds, the run fails"
            ],
        ),
        (
            "V12", 'a [script="true", goal_gate=true] start -> a -> exit',
            [
                "warning goal_gate_has_retry: goal gate 'a' has no retry target: if it is "
                "missed, the run fails"
            ],
        ),
        (
            "V13", 'a [script="true", retry_target="nope"] start -> a -> exit',
            ["warning retry_target_exists: 'retry_target' names no node: 'nope'"],
        ),
        (
            "V14", 'a [type="frobnicate", prompt="p"] start -> a -> exit',
            ["warning type_known: unknown type: 'frobnicate', the node runs as an agent"],
        ),
        (
            "V15", "a start -> a -> exit",
            ["warning prompt_on_llm_nodes: node 'a' has neither a prompt nor a label"],
        ),
        (
            "V17", 'graph [model_stylesheet="* { model a; }"] start -> exit',
            ["error stylesheet_syntax: bad stylesheet: found 'a', expected ':'"],
        ),
    ],
)  # fmt: skip
def test_rules(id_: str, body: str, expected: list[str]) -> None:
    assert told(body) == expected, id_


def test_v18_a_reference_to_a_file_that_is_not_there() -> None:
    graph = read('a [prompt="@missing.md"] start -> a -> exit')
    _, diagnostics = resolve_files(graph, lambda _: None)
    assert diagnostics == [
        Diagnostic(
            "unresolved_file_ref", "error", "file reference does not exist: '@missing.md'", 1, 67,
            "a", fix="make the file 'missing.md', relative to the workflow",
        )
    ]  # fmt: skip


# Styles.


@pytest.mark.parametrize(
    ("id_", "sheet", "nodes", "models"),
    [
        ("S02", "* { model: m1; } * { model: m2 }", 'a [prompt="p"]', ["m2"]),
        (
            "S03", "* { llm_model: m1; llm_provider: p1; }", 'a [prompt="p"]', ["m1"],
        ),
        (
            "S05", ".k { model: m1; }",
            'a [prompt="p", class="j,k"] b [prompt="p", class="j k"]', ["m1", "m1"],
        ),
    ],
)  # fmt: skip
def test_styles(id_: str, sheet: str, nodes: str, models: list[str]) -> None:
    graph = styled(read(f'graph [model_stylesheet="{sheet}"] {nodes} start -> a -> exit'))
    found = [node.text("model") for node in graph.nodes.values() if node.kind == "agent"]
    assert found == models, id_
    if id_ == "S03":
        assert graph.nodes["a"].text("provider") == "p1"


# Conditions and the choice of edges.


def after_a(body: str, outcome: Outcome | None = None, **context: Any) -> Step:
    graph, ended = read(body), outcome or succeeded()
    values = {"outcome": ended.status, "last_stage": "a", **context}

    def value(key: str) -> Any:
        return values.get(key.removeprefix("context."))

    return next_step(graph, graph.nodes["a"], ended, value, lambda: 0.0)


CONDITION = (
    'a [script="true"] y [script="true"] start -> a a -> y [condition="{}"] a -> exit y -> exit'
)


@pytest.mark.parametrize(
    ("id_", "condition", "target"),
    [
        ("C01", "outcome=success", "y"),
        ("C04", "outcome=success && context.nope=x", "exit"),
        ("C06", "outcome=Success", "exit"),
        ("C08", "!outcome=fail", "y"),
        ("C09", "(outcome=success)", "y"),
        ("C10", "context.n > 5", "exit"),
        ("C11", r"context.log contains \"two words\"", "exit"),
        ("C14", "last_stage=a", "y"),
    ],
)
def test_conditions(id_: str, condition: str, target: str) -> None:
    assert after_a(CONDITION.format(condition)).target == target, id_


def test_c02_a_failure_and_a_condition() -> None:
    body = (
        'a [script="false"] n [script="true"] start -> a a -> n [condition="outcome!=success"] '
        'a -> exit y [script="true"] y -> exit n -> y'
    )
    assert after_a(body, failed("exit status 1")).target == "n"


def test_c10_and_c11_with_values() -> None:
    assert after_a(CONDITION.format("context.n > 5"), n=6).target == "y"
    assert after_a(CONDITION.format("context.n > 5"), n="six").target == "exit"
    contains = CONDITION.format(r"context.log contains \"two words\"")
    assert after_a(contains, log="of two words one").target == "y"
    assert after_a(contains, log=["two words"]).target == "y"
    assert after_a(contains, log=["of two words one"]).target == "exit"


EDGES = 'a [prompt="p"] x [script="true"] y [script="true"] start -> a {} x -> exit y -> exit'


@pytest.mark.parametrize(
    ("id_", "edges", "outcome", "target", "why"),
    [
        ("E01", 'a -> x [condition="outcome=success"] a -> y [weight=100]', succeeded(), "x",
         "condition"),
        ("E02", "a -> x [weight=1] a -> y [weight=2]", succeeded(), "y", "weight"),
        ("E05", 'a -> x [label="Approve"] a -> y [label="[F] Fix"]',
         succeeded(preferred_label="Fix"), "y", "preferred_label"),
        ("E07", "a -> x [weight=9] a -> y", succeeded(suggested_next_ids=("nope", "y")), "y",
         "suggested"),
        ("F01", "a -> x", failed("exit status 1"), None, "failure"),
        ("F02", 'a -> y [condition="outcome=fail"] a -> exit', Outcome(FAIL), "y", "condition"),
    ],
)  # fmt: skip
def test_edges(id_: str, edges: str, outcome: Outcome, target: str | None, why: str) -> None:
    step = after_a(EDGES.format(edges), outcome)
    assert (step.target, step.why) == (target, why), id_


def test_e08_and_f01_reasons() -> None:
    step = after_a(EDGES.format('a -> x [condition="outcome=fail"]'))
    assert (step.target, step.reason) == (None, "no edge matches from 'a'")
    step = after_a(EDGES.format("a -> x"), failed("exit status 1"))
    assert (step.target, step.reason) == (None, "exit status 1")


def test_l05_a_diamond_hears_the_outcome_before() -> None:
    body = (
        'a [shape=diamond] f [script="true"] start -> a a -> f [condition="outcome=fail"] '
        "a -> exit f -> exit"
    )
    assert after_a(body, failed("exit status 1")).target == "f"
    assert after_a(body).target == "exit"


def test_h05_two_edges_to_one_target_stay_two() -> None:
    graph = read(
        'h [shape=hexagon] start -> h h -> exit [label="Y) Yes"] h -> exit [label="N - No"]'
    )
    assert [edge.label for edge in graph.outgoing("h")] == ["Y) Yes", "N - No"]
    assert check(graph) == []


def test_x07_files_are_read_before_validation() -> None:
    graph = read('graph [goal="@goal.md"] a [prompt="@p.md"] start -> a -> exit')
    found, diagnostics = resolve_files(graph, {"goal.md": "G\n", "p.md": "Do: $goal"}.get)
    assert (found.text("goal"), found.nodes["a"].text("prompt")) == ("G", "Do: $goal")
    assert diagnostics == check(found) == []
