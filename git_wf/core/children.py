"""Child workflows: what a manager loop runs, and the name of one run of it.

The workflow is named on the node or, as in Attractor, on the graph: a file in
`stack.child_workflow`, or its text itself in `stack.child_dot_source`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from git_wf.core.graph import Graph, Node
from git_wf.core.names import visit_name

MANAGER_LOOP = "manager_loop"
MAX_DEPTH = 8  # of children of children
DIRECTORY = "children"  # in a run's metadata: `children/<node>.dot`, nested `children/<node>/…`


@dataclass(frozen=True)
class Child:
    """A child workflow as it was read, and its own children by the node that runs them."""

    graph: Graph
    origin: str  # the file, or the node that has the text
    children: Mapping[str, Child] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildStep:
    """One run of a child: every attempt of a visit has its own."""

    node: str
    visit: int
    attempt: int

    @property
    def name(self) -> str:
        name = visit_name(self.node, self.visit)
        return name if self.attempt == 1 else f"{name}, attempt {self.attempt}"


def child_file(graph: Graph, node: Node) -> str:
    """The file that a manager loop names; empty where it has the text itself, or nothing."""
    if node.text("stack.child_dot_source").strip():
        return ""
    named = node.text("stack.child_workflow") or graph.text("stack.child_workflow")
    return named.strip()


def child_text(graph: Graph, node: Node) -> str:
    """The text of an inline child."""
    if node.text("stack.child_workflow").strip():
        return node.text("stack.child_dot_source")
    return node.text("stack.child_dot_source") or graph.text("stack.child_dot_source")


def child_files(children: Mapping[str, Child]) -> dict[str, bytes]:
    """The files of a run's metadata that hold its children."""
    files = {}
    for node, child in children.items():
        files[f"{DIRECTORY}/{node}.dot"] = child.graph.dot.encode("utf-8", "surrogateescape")
        below = child_files(child.children)
        for name, data in below.items():
            files[f"{DIRECTORY}/{node}{name.removeprefix(DIRECTORY)}"] = data
    return files
