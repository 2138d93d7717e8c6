from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_wf.core.dot import parse
from git_wf.core.drawing import Mark, drawing_order, to_graphviz, to_json, to_text
from git_wf.core.graph import Edge, Graph, Node
from tests.core.test_wild_workflows import ACCEPTED_ROWS, FIXTURES

ENDS = "start [shape=Mdiamond] exit [shape=Msquare]"
LOOP = """digraph ship {
start [shape=Mdiamond] exit [shape=Msquare]
test [script="make test", label="Run the tests", timeout=900s]
fix [prompt="mend", human.default_choice=x]
ask [shape=hexagon]
start -> test test -> ask [label="[G] Good"]
test -> fix [condition="outcome=fail && context.x != \\"a\\""]
fix -> test [loop_restart=true]
ask -> exit
}"""
HOSTILE = [
    'a "quote"', "a \\ backslash", "ends with \\", "\\N \\G \\l", "&lt;b&gt; &amp;", "<b>bold</b>",
    '\\"', "tab\there", "\x1b[31mred\x1b[m", "ünï — 漢字", "%s {x|y}", "a -> b", "]; x [y=z",
]  # fmt: skip


def graph_of(body: str) -> Graph:
    return parse(f"digraph G {{ {ENDS} {body} }}", "t.dot")


def drawn(graph: Graph, marks: dict[str, Mark] | None = None) -> list[str]:
    """The texts of the picture that Graphviz makes, without a word of complaint from it."""
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("Graphviz is not installed")
    text = to_graphviz(graph, marks or {})
    done = subprocess.run([dot, "-Tsvg"], input=text.encode(), capture_output=True)
    told = [line for line in done.stderr.decode().splitlines() if "Pango" not in line]
    assert (done.returncode, told) == (0, []), text
    return [element.text or "" for element in ElementTree.fromstring(done.stdout).iter() if
            element.tag.endswith("}text")]  # fmt: skip


def test_the_copy_for_graphviz() -> None:
    marks = {"test": Mark("fail", 2, 3100), "ask": Mark("waiting")}
    lines = to_graphviz(parse(LOOP, "t.dot"), marks).splitlines()
    assert lines[0] == 'digraph "ship" {'
    assert lines[5:] == [
        '  "start" [label="start", shape=Mdiamond]',
        '  "exit" [label="exit", shape=Msquare]',
        '  "test" [label="Run the tests\\n(test)\\nfail ×2 3.1s", shape=parallelogram,'
        ' fillcolor="#ffcdd2"]',
        '  "fix" [label="fix", shape=box]',
        '  "ask" [label="ask\\nwaiting", shape=hexagon, fillcolor="#e1d5f0"]',
        '  "start" -> "test" [label=""]',
        '  "test" -> "ask" [label="[G] Good"]',
        '  "test" -> "fix" [label="outcome=fail &amp;&amp; context.x != \\"a\\""]',
        '  "fix" -> "test" [label="", style=dashed]',
        '  "ask" -> "exit" [label=""]',
        "}",
    ]


def test_the_drawing_in_plain_text() -> None:
    assert to_text(parse(LOOP, "t.dot"), {"test": Mark("success", 2, 61000)}) == (
        "ship\n"
        "● start  start\n"
        "  └→ test\n"
        "● test   command  success ×2 1m01s  Run the tests\n"
        '  ├→ ask  "[G] Good"\n'
        '  └→ fix  if outcome=fail && context.x != "a"\n'
        "● ask    human\n"
        "  └→ exit\n"
        "● fix    agent\n"
        "  └↺ test  (loop_restart)\n"
        "● exit   exit\n"
    )


def test_json() -> None:
    told = to_json(parse(LOOP, "t.dot"), {"fix": Mark("skipped", 1, 5)})
    runs = {node["id"]: node["run"] for node in told["nodes"]}
    assert runs["fix"] == {"status": "skipped", "visits": 1, "duration_ms": 5}
    assert runs["ask"] is None


def test_an_id_that_only_an_edge_mentions() -> None:
    graph = graph_of("start -> lost lost -> exit")
    assert "● lost   not declared\n" in to_text(graph, {})
    assert "lost" in drawn(graph)


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_are_texts(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    graph = graph_of(f'a [script="true", label="{quoted}"] start -> a a -> exit [label="{quoted}"]')
    shown = " ".join(text.replace("\x1b", "").split())
    words = [" ".join(one.replace("\xa0", " ").split()) for one in drawn(graph)]
    assert words.count(shown) == 2
    assert "\x1b" not in to_text(graph, {})


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(max_size=30), min_size=3, max_size=3))
def test_graphviz_reads_whatever_a_label_says(texts: list[str]) -> None:
    nodes = {"a": Node("a", attrs={"label": texts[0]}), "b": Node("b", attrs={"class": texts[1]})}
    edge = Edge("a", "b", attrs={"label": texts[1], "condition": texts[2]})
    graph = Graph(name=texts[2], nodes=nodes, edges=[edge], attrs={"label": texts[1]})
    drawn(graph)
    assert to_text(graph, {}).count("\n") == 4


@pytest.mark.parametrize("row", ACCEPTED_ROWS, ids=lambda row: row["file"])
def test_graphviz_reads_the_copy_of_every_workflow_in_the_wild(row: dict[str, str]) -> None:
    graph = parse((FIXTURES / row["file"]).read_text("utf-8"), row["file"])
    order = drawing_order(graph)
    assert sorted(order) == sorted([*graph.nodes, *graph.undeclared])
    assert drawn(graph)


def test_deep_and_wide_graphs_are_drawn() -> None:
    count = 5000
    nodes = " ".join(f"n{i}" for i in range(count))
    chain = " -> ".join(f"n{i}" for i in range(count))
    graph = graph_of(f"{nodes} start -> {chain} -> exit")
    assert drawing_order(graph) == ["start", *(f"n{i}" for i in range(count)), "exit"]
    wide = graph_of(f"{nodes} " + " ".join(f"start -> n{i} -> exit" for i in range(count)))
    assert drawing_order(wide) == ["start", *(f"n{i}" for i in range(count)), "exit"]


def test_what_comes_first_stands_first() -> None:
    graph = graph_of("c b a start -> a -> b -> c -> exit c -> a a -> c")
    assert drawing_order(graph) == ["start", "a", "b", "c", "exit"]
