"""A workflow as a picture: a copy that Graphviz reads, and a drawing in plain text.

What a workflow file may say is not what Graphviz reads (dotted keys, durations, bare words), and
what Graphviz obeys (images, fonts, links) is no business of a workflow. So the copy is written
anew, of nothing but ids, kinds, labels and conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from git_wf.core.clock import duration_text
from git_wf.core.graph import SHAPE_KINDS, Edge, Graph, Node
from git_wf.core.trailers import one_line

_SHAPES = {kind: shape for shape, kind in SHAPE_KINDS.items()}
_COLOURS = {
    "success": "#c8e6c9",
    "partial_success": "#fff0b3",
    "fail": "#ffcdd2",
    "skipped": "#e0e0e0",
    "waiting": "#e1d5f0",
    "running": "#bbdefb",
    "interrupted": "#ffe0b2",
}
_WIDTH = 40  # characters of a line in a picture
_LINES = 4  # of a label in a picture


@dataclass(frozen=True)
class Mark:
    """What a run has made of a node. `duration_ms` is that of all its visits."""

    status: str  # of the last visit; or `running`, `waiting`, `interrupted`: it comes next
    visits: int = 0
    duration_ms: int | None = None

    @property
    def text(self) -> str:
        """`fail ×2 3.1s`"""
        count = f" ×{self.visits}" if self.visits else ""
        took = f" {duration_text(self.duration_ms)}" if self.duration_ms is not None else ""
        return f"{self.status}{count}{took}"

    def to_json(self) -> dict[str, Any]:
        return {"status": self.status, "visits": self.visits, "duration_ms": self.duration_ms}


Marks = Mapping[str, Mark]  # by node


def to_graphviz(graph: Graph, marks: Marks) -> str:
    """The workflow in the language of Graphviz."""
    return "".join(f"{line}\n" for line in _graphviz_lines(graph, marks))


def _graphviz_lines(graph: Graph, marks: Marks) -> Iterator[str]:
    title = graph.text("label") or graph.name
    direction = graph.text("rankdir").upper()
    yield f"digraph {_quoted(graph.name)} {{"
    yield (
        f"  graph [label={_quoted(title)}, labelloc=t,"
        f" rankdir={direction if direction in ('TB', 'LR', 'BT', 'RL') else 'TB'}]"
    )
    yield '  graph [fontname="sans-serif"]'
    yield '  node [fontname="sans-serif", fontsize=11, style=filled, fillcolor=white]'
    yield '  edge [fontname="sans-serif", fontsize=9]'
    for node in graph.nodes.values():
        yield _graphviz_node(node, marks.get(node.id))
    for id_ in graph.undeclared:
        yield f"  {_quoted(id_)} [style=dashed]"
    for edge in graph.edges:
        yield _graphviz_edge(edge)
    yield "}"


def _graphviz_node(node: Node, mark: Mark | None) -> str:
    lines = _wrapped(node.label)
    if node.label != node.id and one_line(node.label).lower() != node.id.lower():
        lines.append(f"({node.id})")
    shape = _SHAPES.get(node.kind, "box")
    more = ""
    if mark is not None:
        lines.append(mark.text)
        more = f', fillcolor="{_COLOURS.get(mark.status, "white")}"'
    label = _quoted("\n".join(lines))
    return f"  {_quoted(node.id)} [label={label}, shape={shape}{more}]"


def _graphviz_edge(edge: Edge) -> str:
    lines = [*_wrapped(edge.label), *_wrapped(edge.condition)]
    style = ", style=dashed" if edge.flag("loop_restart") else ""
    label = _quoted("\n".join(lines))
    return f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={label}{style}]"


def _quoted(text: str) -> str:
    """As Graphviz reads it: no escape, no character reference and no line end of the text's own."""
    lines = [one_line(line) for line in text.split("\n")]
    safe = "\n".join(lines).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + safe.replace("\n", "\\n") + '"'


def _wrapped(text: str) -> list[str]:
    """Lines of words, none of them long, and not many."""
    lines: list[str] = []
    for word in one_line(text).split():
        if lines and len(lines[-1]) + len(word) < _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(word if len(word) <= 2 * _WIDTH else f"{word[: 2 * _WIDTH]}…")
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"{lines[_LINES - 1]} …"]


def to_text(graph: Graph, marks: Marks) -> str:
    """A drawing for a terminal: each node with its edges, along the way from the start.

    `↺` is an edge to a node that stands above.
    """
    return "".join(f"{line}\n" for line in _text_lines(graph, marks))


def _text_lines(graph: Graph, marks: Marks) -> Iterator[str]:
    order = drawing_order(graph)
    place = {id_: number for number, id_ in enumerate(order)}
    width = max((len(id_) for id_ in order), default=0)
    kinds = max((len(_kind(graph, id_)) for id_ in order), default=0)
    yield one_line(graph.text("label") or graph.name or "workflow")
    for id_ in order:
        mark = marks.get(id_)
        told = [f"● {id_:<{width}}", f"{_kind(graph, id_):<{kinds}}", mark.text if mark else ""]
        label = one_line(graph.nodes[id_].label) if id_ in graph.nodes else ""
        if label and label != id_:
            told.append(label)
        yield "  ".join(told).rstrip()
        edges = graph.outgoing(id_)
        for number, edge in enumerate(edges, start=1):
            corner = "└" if number == len(edges) else "├"
            arrow = "↺" if place[edge.target] <= place[id_] else "→"
            yield f"  {corner}{arrow} {_edge_text(edge)}"


def _kind(graph: Graph, id_: str) -> str:
    return graph.nodes[id_].kind if id_ in graph.nodes else "not declared"


def _edge_text(edge: Edge) -> str:
    label = f'"{one_line(edge.label)}"' if edge.label else ""
    condition = f"if {one_line(edge.condition)}" if edge.condition else ""
    restart = "(loop_restart)" if edge.flag("loop_restart") else ""
    return "  ".join(word for word in (edge.target, label, condition, restart) if word)


def drawing_order(graph: Graph) -> list[str]:
    """All ids: from the start a node before those that it leads to, where no loop forbids it.

    The exit comes last, and after it what no way leads to.
    """
    ids = [*graph.nodes, *graph.undeclared]
    seen: set[str] = set()
    order: list[str] = []
    for first in (*(node.id for node in graph.of_kind("start")), *ids):
        if first not in seen:
            found = _reached(graph, first, seen)
            exits = [id_ for id_ in found if id_ in graph.nodes and graph.nodes[id_].kind == "exit"]
            order += [id_ for id_ in found if id_ not in exits] + exits
    return order


def _reached(graph: Graph, first: str, seen: set[str]) -> list[str]:
    """`first` and what it leads to, in reverse postorder. Without recursion: graphs are deep."""
    finished: list[str] = []
    seen.add(first)
    stack = [(first, iter(reversed(graph.outgoing(first))))]
    while stack:
        id_, edges = stack[-1]
        target = next((edge.target for edge in edges if edge.target not in seen), None)
        if target is None:
            finished.append(id_)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(reversed(graph.outgoing(target)))))
    return finished[::-1]


def to_json(graph: Graph, marks: Marks) -> dict[str, Any]:
    """The graph as `run.json` has it, each node with what the run has made of it."""
    data = graph.to_json()
    for node in data["nodes"]:
        mark = marks.get(node["id"])
        node["run"] = mark.to_json() if mark else None
    return data
