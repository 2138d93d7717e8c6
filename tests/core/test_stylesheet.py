"""Stylesheets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_wf.core.dot import parse as parse_dot
from git_wf.core.graph import Graph, Node
from git_wf.core.stylesheet import Rule, StylesheetError, parse, styled


def test_rules() -> None:
    text = """
      * { model: claude-opus-4-6;}
      /* harder work */ .hard-1 { llm_model: gpt-5.2 ; reasoning_effort : high }
      #review { llm_provider: "a; b" }
      box { }
    """
    assert parse(text) == [
        Rule("*", {"model": "claude-opus-4-6"}),
        Rule(".hard-1", {"model": "gpt-5.2", "reasoning_effort": "high"}),
        Rule("#review", {"provider": "a; b"}),
        Rule("box", {}),
    ]
    assert [rule.weight for rule in parse(text)] == [0, 2, 3, 1]
    assert parse("  ") == []
    assert parse("*{reasoning-effort:low;max_tokens:10}")[0].properties == {
        "reasoning_effort": "low",
        "max_tokens": "10",
    }


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("* { model a; }", "found 'a', expected ':'", 10),
        ("* { model: ; }", "found ';', expected a value", 11),
        ("* { model: m", "found the end of the stylesheet, expected ';' or '}'", 12),
        ("* { model: m m2: n }", None, 0),
        ("* model: m }", "found 'm', expected '{'", 2),
        ("* { : m }", "found ':', expected an attribute or '}'", 4),
        ("{ model: m }", "found '{', expected a selector: *, a shape, .class or #id", 0),
        ("* { model: m; } }", "found '}', expected a selector: *, a shape, .class or #id", 16),
        ('* { model: "m }', "found '\"', expected a value", 11),
        (".a, .b { model: m }", "found ',', expected '{'", 2),
    ],
)
def test_what_cannot_be_read(text: str, message: str | None, offset: int) -> None:
    if message is None:
        assert parse(text)[0].properties == {"model": "m m2: n"}
        return
    with pytest.raises(StylesheetError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.offset) == (message, offset)
    assert str(caught.value) == message


def models(sheet: str, nodes: str) -> dict[str, str]:
    graph = styled(parse_dot(f'digraph {{ model_stylesheet="{sheet}" {nodes} }}', "w.dot"))
    return {node.id: node.text("model") for node in graph.nodes.values()}


@pytest.mark.parametrize(
    ("sheet", "model"),
    [
        ("* { model: m1 }", "m1"),
        ("* { model: m1; } * { model: m2 }", "m2"),
        ("#a { model: id } .k { model: class } tab { model: shape } * { model: all }", "id"),
        (".k { model: class } tab { model: shape } * { model: all }", "class"),
        ("tab { model: shape } * { model: all }", "shape"),
        (".k { model: one } .j { model: two }", "two"),
        ("box { model: shape }", ""),
        (".nope { model: m } #b { model: m }", ""),
        (".loop-a { model: m }", "m"),
        ("", ""),
    ],
)
def test_the_heavier_rule_wins_and_of_equal_ones_the_later(sheet: str, model: str) -> None:
    nodes = 'subgraph { label="Loop A" a [shape=tab, class="j,k"] }'
    assert models(sheet, nodes) == {"a": model}


def test_what_a_node_says_itself_beats_all() -> None:
    found = models("#a { model: m }", "node [llm_model=own] a b [model=else]")
    assert found == {"a": "own", "b": "else"}


def test_a_style_has_the_place_of_the_stylesheet() -> None:
    graph = parse_dot('digraph { model_stylesheet="* { model: m }" a [label=x] }', "w.dot")
    node = styled(graph).nodes["a"]
    assert node.attr_places["model"] == graph.attr_places["model_stylesheet"]
    assert list(node.attrs) == ["model", "label"]


def test_a_graph_that_was_not_read_from_a_file() -> None:
    graph = Graph(nodes={"a": Node("a")}, attrs={"model_stylesheet": "* { model: m }"})
    assert styled(graph).nodes == {"a": Node("a", attrs={"model": "m"})}
    assert Graph() == styled(Graph())


def test_neighbours_stay() -> None:
    graph = parse_dot('digraph { model_stylesheet="* { model: m }" a b a -> b }', "w.dot")
    assert styled(graph).outgoing("a") == graph.edges


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from(list('*.#{}:; ab"/\n')), max_size=40) | st.text())
def test_any_text_is_read_or_has_a_fault_with_a_place(text: str) -> None:
    try:
        parse(text)
    except StylesheetError as err:
        assert 0 <= err.offset <= len(text)
