"""Reading child workflows: from files beside the workflow, and from what a run recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from git_wf.core.children import DIRECTORY, MANAGER_LOOP, MAX_DEPTH, Child, child_file, child_text
from git_wf.core.dot import parse, resolve_files
from git_wf.core.graph import Diagnostic, Graph, Node
from git_wf.core.stylesheet import StylesheetError, styled
from git_wf.core.validate import check
from git_wf.engine.plugins import installed_kinds
from git_wf.errors import StateUnreadable, WorkflowInvalid
from git_wf.store.objects import Tree, decode_tree
from git_wf.store.runs import RunStore

RULE = "child_workflow"


def file_reader(directory: Path) -> Callable[[str], str | None]:
    """Gives the text of a file by its path from `directory`; None where it cannot be read."""

    def read(name: str) -> str | None:
        try:
            return (directory / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    return read


@dataclass(frozen=True)
class ChildReader:
    """Reads the children of a workflow in `path`, and theirs. `inputs` as for `check`."""

    path: Path
    inputs: Collection[str] | None
    above: tuple[Path, ...] = ()  # the files on the way here, resolved

    def read(self, graph: Graph) -> tuple[dict[str, Child], list[Diagnostic]]:
        """The children by node; what is wrong with them is told of the node that names them."""
        found, diagnostics = {}, []
        for node in graph.of_kind(MANAGER_LOOP):
            child, faults = self._child(graph, node)
            diagnostics += [_diagnostic(node, severity, told) for severity, told in faults]
            if child is not None:
                found[node.id] = child
        return found, diagnostics

    def _child(self, graph: Graph, node: Node) -> tuple[Child | None, list[tuple[str, str]]]:
        named = child_file(graph, node)
        text: str | None = child_text(graph, node)
        path = self.path
        if named:
            path = self.path.parent / named
            text = file_reader(self.path.parent)(named)
            if text is None:
                return None, [("error", f"no file '{named}'")]
        elif not text:
            return None, [("error", "it names no child workflow")]
        above = (*self.above, self.path.resolve())
        if named and path.resolve() in above:
            return None, [("error", f"'{named}' is the workflow itself, or one around it")]
        if len(above) > MAX_DEPTH:
            return None, [("error", f"children are nested more than {MAX_DEPTH} deep")]
        return _read_child(
            text or "", named or f"child of {node.id}", replace(self, path=path, above=above)
        )


def _read_child(
    text: str, origin: str, reader: ChildReader
) -> tuple[Child | None, list[tuple[str, str]]]:
    try:
        graph = parse(text, origin)
    except WorkflowInvalid as err:
        return None, [_told(origin, one) for one in err.diagnostics]
    graph, diagnostics = resolve_files(graph, file_reader(reader.path.parent))
    diagnostics += check(graph, reader.inputs, installed_kinds())
    children, below = reader.read(graph)
    try:
        graph = styled(graph)
    except StylesheetError:
        assert any(one.rule == "stylesheet_syntax" for one in diagnostics)
    told = [_told(origin, one) for one in (*diagnostics, *below)]
    return Child(graph, origin, children), told


def _told(origin: str, one: Diagnostic) -> tuple[str, str]:
    place = f":{one.line}:{one.column}" if one.line else ""
    return one.severity, f"{origin}{place}: {one.message}"


def _diagnostic(node: Node, severity: str, told: str) -> Diagnostic:
    place = node.attr_places.get("stack.child_workflow") or node.place
    line, column = place or (None, None)
    return Diagnostic(RULE, severity, f"node '{node.id}': {told}", line, column, node.id)


def recorded_children(store: RunStore, tree: Tree) -> dict[str, Child]:
    """The children as the metadata of a run has them. Raises `StateUnreadable`."""
    below = tree.get(DIRECTORY.encode())
    if below is None:
        return {}
    tree = decode_tree(store.reader.read(below.oid)[1], store.repo.object_format)
    found = {}
    for name, entry in tree.items():
        if not name.endswith(b".dot"):
            continue
        node = name.removesuffix(b".dot").decode()
        text = store.reader.read(entry.oid)[1].decode("utf-8", "surrogateescape")
        try:
            graph = parse(text, f"{DIRECTORY}/{node}.dot")
        except WorkflowInvalid as err:
            raise StateUnreadable(f"read '{DIRECTORY}/{node}.dot': {err.message}") from err
        nested = {DIRECTORY.encode(): tree[node.encode()]} if node.encode() in tree else {}
        found[node] = Child(graph, node, recorded_children(store, nested))
    return found
