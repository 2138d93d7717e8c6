"""Reading workflow files, writing them, and bringing in the files that they name."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_wf.core.dot import class_of_label, is_file_ref, parse, render, resolve_files
from git_wf.core.graph import Diagnostic, Duration, Edge, Graph, Node, Place, Value
from git_wf.errors import WorkflowInvalid


def read(body: str) -> Graph:
    return parse(f"digraph g {{ {body} }}", "w.dot")


def attrs(body: str) -> dict[str, Value]:
    """The attributes of node `a`."""
    return read(body).nodes["a"].attrs


def names(graph: Graph) -> list[str]:
    return [edge.name for edge in graph.edges]


# Headers, statements, comments.


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("digraph {}", ""),
        ('digraph "my flow" {}', "my flow"),
        ("digraph my_flow {}", "my_flow"),
        ("digraph my-flow {}", "my-flow"),
        ("DiGraph G{}", "G"),
        ("\ufeffdigraph G {}", "G"),
        ("# first line\n  # second\ndigraph G {}\n# last", "G"),
        ("  # first line\ndigraph G {}", "G"),
        ("/* a\n b */ // c\ndigraph /**/ G // d\n{ /***/ }", "G"),
        ("digraph\r\nG\r\n{\r\n}\r\n", "G"),
        ("digraph G {;;}", "G"),
    ],
)
def test_headers(text: str, name: str) -> None:
    graph = parse(text, "w.dot")
    assert (graph.name, graph.nodes, graph.edges, graph.dot) == (name, {}, [], text)


def test_statements_need_no_separators() -> None:
    graph = read("a b; c -> d e -> a")
    assert (list(graph.nodes), names(graph)) == (["a", "b"], ["c->d", "e->a"])


def test_chains_share_their_attributes() -> None:
    graph = read("a -> b -> c [label=n] [weight=2]")
    assert names(graph) == ["a->b", "b->c"]
    assert [edge.attrs for edge in graph.edges] == [{"label": "n", "weight": 2}] * 2
    assert [edge.index for edge in graph.edges] == [0, 1]


def test_several_edges_between_two_nodes_stay() -> None:
    graph = read("a -> b [label=x] a -> b [label=y] a -> b")
    assert [edge.label for edge in graph.outgoing("a")] == ["x", "y", ""]


@pytest.mark.parametrize(
    "lists",
    [
        "[x=1, y=2]", "[x=1; y=2]", "[x=1 y=2]", "[x=1,y=2,]", "[x=1 y=2;]", "[x=1][y=2]",
        "[] [x=1] [] [y=2]", "[x=3, x=1][y=2]", "[\n x = 1,\n y = 2\n]", "[x/**/=/**/1//c\n y=2]",
    ],
)  # fmt: skip
def test_lists_of_attributes(lists: str) -> None:
    assert attrs(f"a {lists}") == {"x": 1, "y": 2}


def test_comments_are_none_within_texts() -> None:
    body = 'a [x="// no", y="/* no */",\n# comment\n  # too\n z="\n# no"]'
    assert attrs(body) == {"x": "// no", "y": "/* no */", "z": "\n# no"}


def test_keys() -> None:
    found = attrs('a [human.default_choice=x, "a b"=y, "k.l"=z, prompt-ref=w, node=n, label=l]')
    assert list(found) == ["human.default_choice", "a b", "k.l", "prompt-ref", "node", "label"]


def test_older_names_become_the_canonical_ones() -> None:
    body = 'default_max_retry=3 a [tool_command=t, llm_model=m, "llm_provider"=p]'
    assert attrs(f"{body} a [stack.child_dotfile=f]") == {
        "script": "t",
        "model": "m",
        "provider": "p",
        "stack.child_workflow": "f",
    }
    assert read(body).attrs == {"default_max_retries": 3}


def test_values() -> None:
    body = """a [i=2, f=1.5, t=true, d=900s, m=gpt-5.2, s=summary:high, p=a/b,
               w="900s", n="2", j="a" + "x"]"""
    assert attrs(body) == {
        "i": 2,
        "f": 1.5,
        "t": True,
        "d": Duration(900, "900s"),
        "m": "gpt-5.2",
        "s": "summary:high",
        "p": "a/b",
        "w": "900s",
        "n": "2",
        "j": "ax",
    }


def test_a_bare_word_ends_before_an_arrow_and_a_comment() -> None:
    assert read("z=w//comment\n v=u/*comment*/").attrs == {"z": "w", "v": "u"}
    assert attrs("a [x=y/z//c\n]") == {"x": "y/z"}
    with pytest.raises(WorkflowInvalid) as caught:
        read("x=y-->b")
    assert caught.value.diagnostics[0].column == 17


def test_texts() -> None:
    assert attrs(r'a [p="l1\nl2\t\"q\" \\ end \d"]') == {"p": 'l1\nl2\t"q" \\ end \\d'}
    assert attrs('a [p="one \\\ntwo"]') == {"p": "one two"}
    assert attrs('a [p="one\r\ntwo\nthree"]') == {"p": "one\ntwo\nthree"}
    assert attrs('a [p="a" + "b"\n + // c\n "c"]') == {"p": "abc"}


# Defaults and subgraphs.


def test_attributes_of_the_graph() -> None:
    graph = read('graph [goal="G", x=1] x=2; "y.z"=3 graph [] [w=4]')
    assert graph.attrs == {"goal": "G", "x": 2, "y.z": 3, "w": 4}


def test_defaults_hold_for_what_follows_in_their_subgraph() -> None:
    graph = read(
        """a node [t=1, u=1] b
        subgraph s { node [t=2] edge [w=2] c c -> d { node [u=3] d } e }
        edge [w=1] f b -> f"""
    )
    found = {id_: node.attrs for id_, node in graph.nodes.items()}
    assert found == {
        "a": {},
        "b": {"t": 1, "u": 1},
        "c": {"t": 2, "u": 1},
        "d": {"t": 2, "u": 3},
        "e": {"t": 2, "u": 1},
        "f": {"t": 1, "u": 1},
    }
    assert [edge.attrs for edge in graph.edges] == [{"w": 2}, {"w": 1}]


def test_what_is_written_beats_defaults() -> None:
    assert attrs("node [t=1 u=1] a [t=2]") == {"t": 2, "u": 1}
    assert read("edge [t=1] a -> b [t=2]").edges[0].attrs == {"t": 2}


def test_a_node_declared_twice_is_one() -> None:
    graph = read("a [x=1 y=1] b subgraph { label=S node [d=5] a [y=2] } a")
    assert list(graph.nodes) == ["a", "b"]
    assert graph.nodes["a"].attrs == {"x": 1, "y": 2}
    assert graph.nodes["a"].classes == ("s",)
    assert graph.nodes["a"].place == Place(1, 13)


def test_the_label_of_a_subgraph_is_a_class_of_its_nodes() -> None:
    graph = read(
        """subgraph cluster_l { a [class=own] label="Loop A" { graph [label="In ner", x=1] b } }
        subgraph "quoted" { label="" color=red c } d"""
    )
    assert {id_: node.classes for id_, node in graph.nodes.items()} == {
        "a": ("own", "loop-a"),
        "b": ("loop-a", "in-ner"),
        "c": (),
        "d": (),
    }
    assert graph.attrs == {}


@pytest.mark.parametrize(
    ("label", "word"),
    [("Loop A", "loop-a"), (" A & B! ", "a-b"), ("snake_case", "snake_case"), ("…", ""), ("", "")],
)
def test_classes_of_labels(label: str, word: str) -> None:
    assert class_of_label(label) == word
    assert class_of_label(word) == word


def test_words_of_the_language_as_ids() -> None:
    graph = read('"node" [x=1] Edge [y=2] start -> node -> Edge graph -> edge "a" -> "b"')
    assert list(graph.nodes) == ["node", "Edge"]
    assert names(graph) == ["start->node", "node->Edge", "graph->edge", "a->b"]


# Places.


def test_places() -> None:
    graph = parse('\ufeffdigraph {\n\ta [x=1,\n  y = "z"]\r\n é=1 a -> b\n}', "w.dot")
    assert graph.nodes["a"].place == Place(2, 2)
    assert graph.nodes["a"].attr_places == {"x": Place(2, 7), "y": Place(3, 7)}
    assert graph.attr_places == {"é": Place(4, 4)}
    assert (graph.edges[0].place, graph.edges[0].target_place) == (Place(4, 6), Place(4, 11))


# What cannot be read.

QUOTE_FIX = r"write \" for a quote inside a text"
TEXT_FIX = 'write it as a quoted text: "…"'
ID_RULE = "an id has letters, digits and underscores, and begins with no digit"
GROUPS = "node groups as edge ends are not supported"
GROUPS_FIX = "write one edge for each node"


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "fix"),
    [
        ("", 1, 1, "found the end of the file, expected 'digraph'", None),
        ("-- Test\n", 1, 1, "found '--', expected 'digraph'", None),
        ("digraphs {}", 1, 1, "found 'digraphs', expected 'digraph'", None),
        ("\n strict digraph {}", 2, 2, "'strict' is not supported", "remove 'strict'"),
        (
            "graph G {}", 1, 1, "'graph' is not supported: edges have a direction",
            "write 'digraph'",
        ),
        ("digraph G }", 1, 11, "found '}', expected '{'", None),
        ("digraph G H {", 1, 11, "found 'H', expected '{'", None),
        (
            "digraph {} digraph {}", 1, 12,
            "found 'digraph' after the end of the graph: a file has one graph", None,
        ),
        (
            "digraph {}\nDOT", 2, 1, "found 'DOT' after the end of the graph: nothing may follow",
            None,
        ),
        (
            "digraph { a -- b }", 1, 13, "'--' is not supported: edges have a direction",
            "write '->'",
        ),
        (
            "digraph { a--b }", 1, 12, "'--' is not supported: edges have a direction",
            "write '->'",
        ),
        ("digraph { a [x=<b>] }", 1, 16, "HTML labels are not supported",
         'write a quoted text: "…"'),
        ("digraph { x=\n<b> }", 2, 1, "HTML labels are not supported",
         'write a quoted text: "…"'),
        ("digraph { a -> {b c} }", 1, 16, GROUPS, GROUPS_FIX),
        ("digraph { {b c} -> a }", 1, 17, GROUPS, GROUPS_FIX),
        ("digraph { a -> subgraph {b} }", 1, 16, GROUPS, GROUPS_FIX),
        ("digraph { subgraph s {b} -> a }", 1, 26, GROUPS, GROUPS_FIX),
        ("digraph { a:n -> b }", 1, 12, "ports are not supported: 'a:'", "write a"),
        ("digraph { a -> b:n:ne }", 1, 17, "ports are not supported: 'b:'", "write b"),
        ('digraph { "a":n }', 1, 14, "ports are not supported: '\"a\":'", 'write "a"'),
        ("digraph { a-b [x=1] }", 1, 11, f"not a node id: 'a-b': {ID_RULE}", "write a_b"),
        ("digraph { a -> b.c }", 1, 16, f"not a node id: 'b.c': {ID_RULE}", "write b_c"),
        ('digraph { "a b" }', 1, 11, f"not a node id: 'a b': {ID_RULE}", "write a_b"),
        ("digraph { 1a }", 1, 11, f"not a node id: '1a': {ID_RULE}", "write _1a"),
        ("digraph { é }", 1, 11, f"not a node id: 'é': {ID_RULE}", "write _"),
        ('digraph { "" }', 1, 11, f"not a node id: '': {ID_RULE}", "write _"),
        (
            'digraph { a [label="A", ask] }', 1, 28,
            "attribute 'ask' has no value: found ']', expected '='", QUOTE_FIX,
        ),
        (
            'digraph { a [s="say "hi" x"] }', 1, 24,
            "attribute 'hi' has no value: found '\" x\"', expected '='", QUOTE_FIX,
        ),
        (
            "digraph { a [ask", 1, 17,
            "attribute 'ask' has no value: found the end of the file, expected '='", QUOTE_FIX,
        ),
        ('digraph { ""=1 }', 1, 11, "an attribute has no name", None),
        ("digraph { a [x=] }", 1, 16, "found ']', expected a value", None),
        ("digraph { a [x=@f.md] }", 1, 16, "found '@', expected a value", TEXT_FIX),
        ("digraph { x = ", 1, 15, "found the end of the file, expected a value", None),
        ("digraph { a [x=1,,y=2] }", 1, 18, "found ',', expected an attribute or ']'", None),
        ("digraph { a [x=1", 1, 17, "found the end of the file, expected an attribute or ']'",
         None),
        ('digraph { a [x="a" + b] }', 1, 22, "found 'b', expected a quoted text", None),
        ("digraph { node }", 1, 16, "found '}', expected '['", None),
        ("digraph { edge ", 1, 16, "found the end of the file, expected '['", None),
        ("digraph { a -> ; }", 1, 16, "found ';', expected a node id", None),
        ("digraph { a -> ", 1, 16, "found the end of the file, expected a node id", None),
        (
            "digraph {\n a\n", 3, 1,
            "found the end of the file, expected a node, an edge, an attribute or '}'", None,
        ),
        ("digraph { ] }", 1, 11, "found ']', expected a node, an edge, an attribute or '}'",
         None),
        ('digraph { a [x="b] }', 1, 16, "a quoted text is not closed", QUOTE_FIX),
        ('digraph { "b', 1, 11, "a quoted text is not closed", QUOTE_FIX),
        ("digraph { /* b", 1, 11, "a comment is not closed", "close it with */"),
        (
            "digraph { a # b\n}", 1, 13, "'#' begins a comment only at the start of a line",
            "write //",
        ),
        ("digraph { \x00", 1, 11, "a NUL byte: this is no text", None),
        ('digraph {\n  a [script="x\x00y"]\n}', 2, 15, "a NUL byte: this is no text", None),
        ("digraph { \u2028", 1, 11,
         "found 'U+2028', expected a node, an edge, an attribute or '}'", None),
        ("\ufeffstrict", 1, 1, "'strict' is not supported", "remove 'strict'"),
        (
            f"digraph {{ subgraph {'x' * 60} {'y' * 60}", 1, 81,
            f"found '{'y' * 39}…', expected '{{'", None,
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read(
    text: str, line: int, column: int, message: str, fix: str | None
) -> None:
    with pytest.raises(WorkflowInvalid) as caught:
        parse(text, "w.dot")
    assert caught.value.diagnostics == (
        Diagnostic("syntax", "error", message, line, column, fix=fix),
    )
    assert caught.value.message == f"w.dot:{line}:{column}: {message}"
    assert caught.value.hints == ((fix,) if fix else ())


TERMINALS = ("SQB", "BRACE", "NAME", "QUOTED", "BARE", "EQUAL", "DIGRAPH", "ANON", "END")
PIECES = st.sampled_from([
    "digraph", "{", "}", "[", "]", "->", "=", ";", ",", "+", '"', "\\", "\n", " ", "#", "//",
    "/*", "*/", "a", "b-c", "node", "edge", "graph", "subgraph", "strict", "5s", ":", "<", "label",
    "\ufeff", "\r\n", "--", '"x"', "é", "\x00",
])  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join) | st.lists(PIECES).map(" ".join) | st.text())
def test_any_text_is_read_or_has_a_fault_with_a_place(piece: str) -> None:
    for text in (piece, f"digraph {{ {piece} }}"):
        try:
            assert parse(text, "w.dot").dot == text
        except WorkflowInvalid as err:
            (found,) = err.diagnostics
            lines = text.removeprefix("\ufeff").split("\n")
            assert found.line is not None and found.column is not None
            assert 1 <= found.line <= len(lines)
            assert 1 <= found.column <= len(lines[found.line - 1]) + 1
            assert not [word for word in TERMINALS if word in found.message and word not in text]


# Time and depth.


def wide(size: int) -> str:
    nodes = "".join(f'n{n} [label="node {n}", max_visits=3, timeout=30s]\n' for n in range(size))
    edges = "".join(f'n{n} -> n{n + 1} [condition="x=y"]\n' for n in range(size))
    return f"digraph {{ {nodes} {edges} }}"


TEXTS: dict[str, Callable[[int], str]] = {
    "wide": lambda size: wide(size // 4),
    "deep": lambda size: "digraph {" + "subgraph { node [x=1] " * size + "a" + "}" * size + "}",
    "deep and not closed": lambda size: "digraph " + "{" * size,
    "deep and wrong": lambda size: "digraph " + "{" * size + "a ->{",
    "a chain": lambda size: "digraph { a" + "-> a" * size + "}",
    "lists": lambda size: "digraph { a" + "[x=1]" * size + "}",
    "joined": lambda size: 'digraph { x="' + '" + "' * size + '"}',
    "one text": lambda size: 'digraph { x="' + '\\"' * 20 * size + '"}',
    "not closed": lambda size: 'digraph { x="' + '\\"' * 20 * size,
    "no end": lambda size: "digraph {" + "/*" * 20 * size,
    "lines": lambda size: "digraph {" + "\n # x" * 10 * size + "}",
    "names": lambda size: "digraph {" + "a-" * 20 * size + "}",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_time_is_linear_and_the_depth_no_matter(name: str) -> None:
    def cost(size: int) -> float:
        text, best = TEXTS[name](size), []
        for _ in range(2):
            began = time.process_time()
            try:
                parse(text, "w.dot")
            except WorkflowInvalid as err:
                assert err.diagnostics[0].line
            best.append(time.process_time() - began)
        return min(best)

    assert cost(3000) <= 3 * cost(1500) + 0.1


def test_a_graph_of_ten_thousand_nodes_and_a_file_of_a_megabyte() -> None:
    text = wide(10_000).replace("timeout", 'prompt="do what is to be done", timeout')
    graph = parse(text, "w.dot")
    assert len(text) > 2**20
    assert (len(graph.nodes), len(graph.edges), graph.node_count) == (10_000, 10_000, 10_001)


def test_what_is_deeply_nested_and_labelled() -> None:
    depth = 2000
    graph = parse("digraph {" + "{ label=x " * depth + "a" + "}" * depth + "}", "w.dot")
    assert graph.nodes["a"].classes == ("x",)


# And back.

WRITTEN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
KEYS = st.sampled_from(["label", "x", "a.b", "node", "class", "type"]) | WRITTEN.filter(bool)
VALUES = (
    WRITTEN
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(
        lambda number, unit: Duration(number * {"ms": 0.001, "s": 1, "d": 86400}[unit],
                                      f"{number}{unit}"),
        st.integers(0, 1000),
        st.sampled_from(["ms", "s", "d"]),
    )
)  # fmt: skip
ATTRS = st.dictionaries(
    KEYS.filter(lambda key: key not in ("tool_command", "llm_model", "llm_provider")),
    VALUES,
    max_size=3,
)
IDS = st.sampled_from(["a", "b", "node", "edge", "graph", "subgraph", "strict", "Digraph", "_9"])
GROUPS_OF_NODES = st.lists(st.sampled_from(["loop-a", "b", "c_d"]), max_size=3, unique=True)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    ids = draw(st.lists(IDS, unique=True, max_size=5))
    nodes = {id_: Node(id_, groups=tuple(draw(GROUPS_OF_NODES)), attrs=draw(ATTRS)) for id_ in ids}
    ends = draw(st.lists(st.tuples(IDS, IDS), max_size=5))
    edges = [Edge(*pair, n, attrs=draw(ATTRS)) for n, pair in enumerate(ends)]
    return Graph(draw(WRITTEN), nodes, edges, attrs=draw(ATTRS))


@settings(deadline=None)
@given(graphs())
def test_what_is_rendered_reads_the_same(graph: Graph) -> None:
    again = parse(render(graph), "w.dot")
    assert again == graph
    assert list(again.nodes) == list(graph.nodes)


def test_rendered() -> None:
    graph = read(
        'goal="a\nb" "k l"=2s subgraph { label="Loop A" a [x=1.5, y=true] } "node" a -> node [w=1]'
    )
    assert render(graph) == (
        'digraph "g" {\n'
        '  graph [goal="a\nb", "k l"=2s]\n'
        '  subgraph { label="loop-a" a [x=1.5, y=true] }\n'
        '  "node"\n'
        '  a -> "node" [w=1]\n'
        "}\n"
    )
    assert render(Graph()) == "digraph {\n}\n"


# Files.

FILES = {"goal.md": "Build it\n", "p/plan.md": 'Say "hi"\r\n\\d\n\n', "empty.md": ""}


def test_files_take_the_place_of_their_references() -> None:
    text = (
        '\ufeffdigraph { goal="@goal.md" // @goal.md\n'
        'node [prompt = "@p/" /* + */ + "plan.md"]; a b c [prompt="@ empty.md", x=1] '
        'd [prompt="mail me@example.com"] e [prompt="@"] f [prompt="@one\ntwo"] g [script="@x"]}'
    )
    graph, diagnostics = resolve_files(parse(text, "w.dot"), FILES.get)
    assert diagnostics == []
    assert graph.attrs == {"goal": "Build it"}
    assert {id_: node.text("prompt") for id_, node in graph.nodes.items()} == {
        "a": 'Say "hi"\r\n\\d',
        "b": 'Say "hi"\r\n\\d',
        "c": "",
        "d": "mail me@example.com",
        "e": "@",
        "f": "@one\ntwo",
        "g": 'Say "hi"\r\n\\d',
    }
    assert graph.dot == (
        '\ufeffdigraph { goal="Build it" // @goal.md\n'
        'node [prompt = "Say \\"hi\\"\r\\n\\\\d"]; a b c [prompt="", x=1] '
        'd [prompt="mail me@example.com"] e [prompt="@"] f [prompt="@one\ntwo"] g [script="@x"]}'
    )
    assert graph.written == text
    assert graph.loaded == {
        Place(1, 16): "goal.md",
        Place(2, 16): "p/plan.md",
        Place(2, 58): "empty.md",
    }
    assert parse(graph.dot, "w.dot") == graph


def test_what_came_from_a_file_is_no_reference() -> None:
    texts = {"a.md": "@b.md", "b.md": "no"}
    graph, _ = resolve_files(read('a [prompt="@a.md"]'), texts.get)
    again, diagnostics = resolve_files(graph, texts.get)
    assert (again.nodes["a"].text("prompt"), diagnostics) == ("@b.md", [])
    assert again.dot == graph.dot


def test_files_that_are_missing() -> None:
    graph = parse('digraph {\n a [prompt="@no.md"] goal="@none.md" }', "w.dot")
    same, diagnostics = resolve_files(graph, FILES.get)
    rule, fix = "unresolved_file_ref", "make the file '{}', relative to the workflow"
    assert diagnostics == [
        Diagnostic(
            rule, "error", "file reference does not exist: '@none.md'", 2, 27,
            fix=fix.format("none.md"),
        ),
        Diagnostic(
            rule, "error", "file reference does not exist: '@no.md'", 2, 12, "a",
            fix=fix.format("no.md"),
        ),
    ]  # fmt: skip
    assert (same, same.dot) == (graph, graph.dot)


def test_a_graph_that_was_not_read_from_a_file() -> None:
    graph = Graph(nodes={"a": Node("a", attrs={"prompt": "@goal.md"})}, attrs={"goal": "@no.md"})
    found, diagnostics = resolve_files(graph, FILES.get)
    assert found.nodes["a"].text("prompt") == "Build it"
    assert [(one.line, one.column) for one in diagnostics] == [(None, None)]


def test_references() -> None:
    assert [is_file_ref(text) for text in ("@a", "@ a b", "@", "@ ", "a@b", "@a\nb")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


def test_readers_of_graphs_do_not_load_the_parser() -> None:
    modules = "graph, routing, conditions, templates, stylesheet, validate"
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; from git_wf.core import {modules}; "
         "print('lark' in sys.modules)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    assert told.stdout == "False\n"


def test_a_referenced_file_with_a_nul_byte():
    graph = parse('digraph {\n  a [prompt="@p.md"]\n}', "w.dot")
    found, (told,) = resolve_files(graph, lambda path: "x\0y")
    assert (told.rule, told.severity, told.line, told.column) == (
        "unresolved_file_ref", "error", 2, 13,
    )  # fmt: skip
    assert (told.message, told.fix) == ("file has a NUL byte: '@p.md'", "name a text file")
    assert found.dot == graph.dot
