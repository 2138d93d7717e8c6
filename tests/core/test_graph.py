"""The graph as data."""

import pytest

from git_wf.core.dot import parse
from git_wf.core.graph import Diagnostic, Duration, Edge, Graph, Node, Place, excerpt


def node(**attrs: object) -> Node:
    return Node("a", attrs=attrs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("id_", "attrs", "kind"),
    [
        ("a", {}, "agent"),
        ("a", {"shape": "box"}, "agent"),
        ("a", {"shape": "ellipse"}, "agent"),
        ("a", {"shape": "Mdiamond"}, "start"),
        ("start", {}, "start"),
        ("start", {"shape": "box"}, "start"),
        ("start", {"shape": "diamond"}, "conditional"),
        ("Start", {}, "agent"),
        ("exit", {}, "exit"),
        ("end", {}, "exit"),
        ("a", {"shape": "Msquare"}, "exit"),
        ("end", {"script": "true"}, "command"),
        ("a", {"shape": "Msquare", "script": "true"}, "exit"),
        ("a", {"shape": "tab"}, "prompt"),
        ("a", {"shape": "parallelogram"}, "command"),
        ("a", {"script": "true"}, "command"),
        ("a", {"shape": "diamond", "script": "true"}, "command"),
        ("a", {"shape": "diamond"}, "conditional"),
        ("a", {"shape": "hexagon"}, "human"),
        ("a", {"shape": "insulator"}, "wait"),
        ("a", {"shape": "component"}, "parallel"),
        ("a", {"shape": "tripleoctagon"}, "fan_in"),
        ("a", {"shape": "house"}, "manager_loop"),
        ("a", {"shape": "house", "type": "codergen"}, "agent"),
        ("a", {"type": "tool"}, "command"),
        ("a", {"type": "wait.human"}, "human"),
        ("a", {"type": "parallel.fan_in"}, "fan_in"),
        ("a", {"type": "stack.manager_loop"}, "manager_loop"),
        ("start", {"type": "wait"}, "wait"),
        ("a", {"type": "frobnicate", "script": "true"}, "frobnicate"),
    ],
)
def test_kinds(id_: str, attrs: dict[str, str], kind: str) -> None:
    assert Node(id_, attrs=dict(attrs)).kind == kind


def test_attributes_as_text() -> None:
    one = node(text="x", number=2, flag=True, time=Duration(30, "30s"))
    assert [one.text(key) for key in ("text", "number", "flag", "time", "none")] == [
        "x", "2", "true", "30s", "",
    ]  # fmt: skip
    assert one.text("none", "else") == "else"


@pytest.mark.parametrize(
    ("value", "integer"),
    [(2, 2), (2.0, 2), (2.5, 7), ("3", 3), (" 3 ", 3), ("x", 7), (True, 7), ("", 7)],
)
def test_attributes_as_integers(value: object, integer: int) -> None:
    assert node(n=value).integer("n", 7) == integer


def test_an_absent_integer_has_a_default_or_is_none() -> None:
    assert node().integer("n") is None
    assert node(n=Duration(30, "30s")).integer("n") is None


@pytest.mark.parametrize(
    ("value", "flag"),
    [(True, True), (False, False), ("true", True), ("False", False), ("yes", None), (1, None)],
)
def test_attributes_as_flags(value: object, flag: bool | None) -> None:
    assert node(f=value).flag("f") is bool(flag)
    assert node(f=value).flag("f", True) is (flag is not False)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (Duration(900, "15m"), 900),
        ("15m", 900),
        ("90", 90),
        (90, 90),
        (1.5, 1.5),
        (0, 0),
        (-1, None),
        (1e12, None),
        ("soon", None),
        (True, None),
    ],
)
def test_attributes_as_seconds(value: object, seconds: float | None) -> None:
    assert node(t=value).seconds("t") == seconds
    assert node(t=value).seconds("t", 7.0) == (7.0 if seconds is None else seconds)


def test_labels_shapes_classes() -> None:
    assert (node().label, node(label="A").label) == ("a", "A")
    assert (node().shape, node(shape="tab").shape) == ("box", "tab")
    one = Node("a", attrs={"class": "j, k  l"}, groups=("k", "loop-a"))
    assert one.classes == ("j", "k", "l", "loop-a")
    assert node().classes == ()


def test_edges() -> None:
    edge = Edge("a", "b", attrs={"label": "L", "condition": " x ", "weight": "2.5"})
    assert (edge.label, edge.condition, edge.weight, edge.name) == ("L", "x", 2.5, "a->b")
    bare = Edge("a", "b")
    assert (bare.label, bare.condition, bare.weight) == ("", "", 0)


SMALL = """\ufeffdigraph g {
  start [shape=Mdiamond] a [label="x y", timeout=30s, class=k]
  exit [shape=Msquare]
  start -> a [weight=2] a -> exit a -> exit a -> lost
}"""


def small() -> Graph:
    return parse(SMALL, "w.dot")


def test_neighbours_in_file_order() -> None:
    graph = small()
    assert [edge.index for edge in graph.outgoing("a")] == [1, 2, 3]
    assert [edge.index for edge in graph.incoming("exit")] == [1, 2]
    assert [edge.index for edge in graph.incoming("lost")] == [3]
    assert graph.outgoing("nowhere") == graph.incoming("nowhere") == []
    assert (graph.start.id, graph.exit.id) == ("start", "exit")


def test_ids_that_only_edges_mention() -> None:
    graph = small()
    assert graph.undeclared == {"lost": Place(4, 50)}
    assert (list(graph.nodes), graph.node_count) == (["start", "a", "exit"], 4)


def test_places_take_no_part_in_comparisons() -> None:
    assert small() == parse(SMALL.replace("\n", "\n\n"), "w.dot")


def test_places_within_values() -> None:
    graph = small()
    label = graph.nodes["a"].attr_places["label"]
    assert label == Place(2, 35)
    assert graph.place_in(label, 2) == Place(2, 38)
    assert graph.key_place(label) == Place(2, 29)
    assert graph.place_in(None, 2) is None
    assert graph.key_place(None) is None
    assert Graph().place_in(label, 2) == Graph().key_place(label) == label
    assert graph.key_place(Place(1, 1)) == Place(1, 1)


def test_a_place_within_a_value_of_several_lines() -> None:
    graph = parse('digraph { goal = "one\ntwo" }', "w.dot")
    place = graph.attr_places["goal"]
    assert graph.place_in(place, 5) == Place(2, 2)
    assert graph.key_place(place) == Place(1, 11)


def test_as_json() -> None:
    assert small().to_json() == {
        "name": "g",
        "attributes": {},
        "nodes": [
            {"id": "start", "kind": "start", "classes": [], "attributes": {"shape": "Mdiamond"}},
            {
                "id": "a",
                "kind": "agent",
                "classes": ["k"],
                "attributes": {"label": "x y", "timeout": "30s", "class": "k"},
            },
            {"id": "exit", "kind": "exit", "classes": [], "attributes": {"shape": "Msquare"}},
        ],
        "edges": [
            {"from": "start", "to": "a", "attributes": {"weight": 2}},
            {"from": "a", "to": "exit", "attributes": {}},
            {"from": "a", "to": "exit", "attributes": {}},
            {"from": "a", "to": "lost", "attributes": {}},
        ],
    }


def test_a_diagnostic_as_json() -> None:
    assert Diagnostic("syntax", "error", "told", 1, 2).to_json() == {
        "rule": "syntax",
        "severity": "error",
        "message": "told",
        "line": 1,
        "column": 2,
        "node": None,
        "edge": None,
        "fix": None,
    }


@pytest.mark.parametrize(
    ("text", "line", "column", "shown"),
    [
        ("one\ntwo\n", 2, 2, "2 | two\n  |  ^"),
        ("\ufeffone", 1, 1, "1 | one\n  | ^"),
        ("a\tb\r\n", 1, 3, "1 | a    b\n  |      ^"),
        ("日本x", 1, 3, "1 | 日本x\n  |     ^"),
        ("e\u0301x", 1, 3, "1 | e\u0301x\n  |  ^"),
        ("a\x1b[31m\u202ex", 1, 2, "1 | a\ufffd[31m\ufffdx\n  |  ^"),
        ("one", 1, 4, "1 | one\n  |    ^"),
        ("one\n", 7, 1, "7 | \n  | ^"),
        ("\n" * 11 + "x", 12, None, "12 | x\n   | ^"),
        ("x" * 500 + "y" * 500, 1, 501, "1 | " + "x" * 70 + "y" * 30 + "\n  | " + " " * 70 + "^"),
    ],
)
def test_excerpts(text: str, line: int, column: int | None, shown: str) -> None:
    assert excerpt(text, Diagnostic("syntax", "error", "told", line, column)) == shown


def test_no_excerpt_without_a_place() -> None:
    assert excerpt("text", Diagnostic("start_node", "error", "told")) == ""
