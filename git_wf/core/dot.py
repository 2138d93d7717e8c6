"""The text of a workflow → its graph, and back. `dot.lark` beside this file is the grammar.

The parser is LALR with a lexer that knows what may come next, so the time is linear in the text
and nothing recurses, however deep subgraphs are nested. No tree is kept: each statement is read
into a small record, and the records are then applied in file order, scope by scope.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from git_wf.core.graph import (
    ALIASES,
    BYTE_ORDER_MARK,
    Diagnostic,
    Edge,
    Graph,
    Node,
    Place,
    Value,
    line_starts,
)
from git_wf.core.names import is_node_id
from git_wf.core.values import (
    literal_end,
    read_bare,
    read_quoted,
    write_quoted,
    write_value,
)
from git_wf.errors import WorkflowInvalid


class _Name(NamedTuple):
    text: str
    place: Place


class _Attribute(NamedTuple):
    key: str
    value: Value
    place: Place  # of the value


class _Defaults(NamedTuple):
    of: str  # `node`, `edge` or `graph`
    attributes: tuple[_Attribute, ...]


class _Declaration(NamedTuple):
    name: _Name
    attributes: tuple[_Attribute, ...]


class _Chain(NamedTuple):
    ends: tuple[_Name, ...]
    attributes: tuple[_Attribute, ...]


class _Subgraph(NamedTuple):
    statements: list[Any]


class _Workflow(NamedTuple):
    name: str
    statements: list[Any]


class _Problem(Exception):
    def __init__(self, place: Place, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic("syntax", "error", message, *place, fix=fix)


def parse(text: str, source: str) -> Graph:
    """The graph that `text` describes; `source` is what to call the file.

    Raises `WorkflowInvalid` with the place of the first thing that cannot be read.
    """
    body = text.removeprefix(BYTE_ORDER_MARK)
    try:
        _refuse_nul(body)
        workflow: Any = _parser().parse(body)
        return _Building(workflow, text).graph()
    except (UnexpectedToken, UnexpectedCharacters) as err:
        problem = _explain(body, err)
    except _Problem as err:
        problem = err
    found = problem.diagnostic
    told = f"{source}:{found.line}:{found.column}: {found.message}"
    raise WorkflowInvalid(told, [found], hint=found.fix) from None


def _refuse_nul(text: str) -> None:
    """No program, file name or commit message could take over what has one."""
    at = text.find("\0")
    if at >= 0:
        starts = line_starts(text[:at])
        raise _Problem(Place(len(starts), at - starts[-1] + 1), "a NUL byte: this is no text", None)


@cache
def _parser() -> Lark:
    return Lark.open(
        "dot.lark",
        rel_to=__file__,
        start="workflow",
        parser="lalr",
        lexer="contextual",
        transformer=_Reading(),
        maybe_placeholders=False,
    )


def _place(token: Token) -> Place:
    assert token.line is not None and token.column is not None
    return Place(token.line, token.column)


@v_args(inline=True)
class _Reading(Transformer[Token, Any]):
    """What the parser calls as soon as it has recognised something."""

    def name(self, token: Token) -> _Name:
        quoted = token.type == "QUOTED"
        return _Name(read_quoted(token) if quoted else str(token), _place(token))

    def keyword(self, token: Token) -> _Name:
        return _Name(str(token), _place(token))

    def value(self, *tokens: Token) -> tuple[Value, Place]:
        first = tokens[0]
        if first.type == "BARE":
            return read_bare(str(first)), _place(first)
        return "".join(map(read_quoted, tokens)), _place(first)

    def attribute(self, name: _Name, value: tuple[Value, Place]) -> _Attribute:
        if not name.text:
            raise _Problem(name.place, "an attribute has no name")
        return _Attribute(ALIASES.get(name.text, name.text), *value)

    def defaults(self, of: Token, *attributes: _Attribute) -> _Defaults:
        return _Defaults(str(of), attributes)

    def node(self, name: _Name, *attributes: _Attribute) -> _Declaration:
        return _Declaration(name, attributes)

    def edge(self, *parts: Any) -> _Chain:
        for part in parts:
            if isinstance(part, Token):
                raise _Problem(_place(part), *_GROUP_REFUSED)
        ends = tuple(part for part in parts if isinstance(part, _Name))
        return _Chain(ends, parts[len(ends) :])

    def subgraph(self, *parts: Any) -> _Subgraph:
        return _Subgraph([part for part in parts if not isinstance(part, Token)])

    def workflow(self, *parts: Any) -> _Workflow:
        named = bool(parts) and isinstance(parts[0], _Name)
        return _Workflow(parts[0].text if named else "", list(parts[named:]))


_Written = dict[str, _Attribute]


@dataclass
class _Scope:
    """The graph, or a subgraph in it. Defaults are shared with the outer scope until changed."""

    outer: int  # its index; -1 for the graph
    node_defaults: _Written
    edge_defaults: _Written
    label: str = ""


class _Building:
    """Applies the statements of a workflow, in file order."""

    def __init__(self, workflow: _Workflow, text: str) -> None:
        self.workflow = workflow
        self.text = text
        self.scopes: list[_Scope] = []
        self.own: _Written = {}
        self.written: dict[str, _Written] = {}  # node id → its attributes
        self.places: dict[str, Place] = {}
        self.memberships: dict[str, list[int]] = {}  # node id → scopes that declare it
        self.edges: list[Edge] = []

    def graph(self) -> Graph:
        self._walk()
        groups = self._groups()
        nodes = {}
        for id_, written in self.written.items():
            classes = [word for scope in self.memberships[id_] for word in groups[scope]]
            nodes[id_] = Node(
                id_,
                place=self.places[id_],
                groups=tuple(dict.fromkeys(classes)),
                attrs=_values(written),
                attr_places=_value_places(written),
            )
        return Graph(
            self.workflow.name,
            nodes,
            self.edges,
            dot=self.text,
            written=self.text,
            attrs=_values(self.own),
            attr_places=_value_places(self.own),
        )

    def _walk(self) -> None:
        current = self._open(-1)
        waiting: list[tuple[int, Iterator[Any]]] = []
        statements = iter(self.workflow.statements)
        while True:
            statement = next(statements, None)
            if statement is None:
                if not waiting:
                    return
                current, statements = waiting.pop()
            elif isinstance(statement, _Subgraph):
                waiting.append((current, statements))
                current, statements = self._open(current), iter(statement.statements)
            else:
                self._apply(statement, current)

    def _open(self, outer: int) -> int:
        above = self.scopes[outer] if self.scopes else _Scope(-1, {}, {})
        self.scopes.append(_Scope(outer, above.node_defaults, above.edge_defaults))
        return len(self.scopes) - 1

    def _apply(self, statement: Any, current: int) -> None:
        scope = self.scopes[current]
        if isinstance(statement, _Declaration):
            self._declare(statement, current)
        elif isinstance(statement, _Chain):
            self._connect(statement, scope)
        elif isinstance(statement, _Attribute):
            self._set((statement,), current)
        elif statement.of == "graph":
            self._set(statement.attributes, current)
        elif statement.of == "node":
            scope.node_defaults = {**scope.node_defaults, **_keyed(statement.attributes)}
        else:
            scope.edge_defaults = {**scope.edge_defaults, **_keyed(statement.attributes)}

    def _set(self, attributes: Iterable[_Attribute], current: int) -> None:
        if current == 0:
            self.own.update(_keyed(attributes))
            return
        for attribute in attributes:
            if attribute.key == "label":
                self.scopes[current].label = str(attribute.value)

    def _declare(self, statement: _Declaration, current: int) -> None:
        id_ = _checked_id(statement.name)
        if id_ not in self.written:
            self.written[id_] = dict(self.scopes[current].node_defaults)
            self.places[id_] = statement.name.place
            self.memberships[id_] = []
        self.written[id_].update(_keyed(statement.attributes))
        self.memberships[id_].append(current)

    def _connect(self, statement: _Chain, scope: _Scope) -> None:
        written = {**scope.edge_defaults, **_keyed(statement.attributes)}
        for end in statement.ends:
            _checked_id(end)
        for source, target in zip(statement.ends, statement.ends[1:], strict=False):
            self.edges.append(
                Edge(
                    source.text,
                    target.text,
                    len(self.edges),
                    source.place,
                    target.place,
                    attrs=_values(written),
                    attr_places=_value_places(written),
                )
            )

    def _groups(self) -> list[tuple[str, ...]]:
        """The classes that each scope gives to its nodes. Outer scopes come before inner ones."""
        groups: list[tuple[str, ...]] = []
        for scope in self.scopes:
            outer = groups[scope.outer] if groups else ()
            word = class_of_label(scope.label)
            groups.append((*outer, word) if word else outer)
        return groups


def _keyed(attributes: Iterable[_Attribute]) -> _Written:
    return {attribute.key: attribute for attribute in attributes}


def _values(written: _Written) -> dict[str, Value]:
    return {key: attribute.value for key, attribute in written.items()}


def _value_places(written: _Written) -> dict[str, Place]:
    return {key: attribute.place for key, attribute in written.items()}


def class_of_label(label: str) -> str:
    """The class that a subgraph's label gives to its nodes: `Loop A` → `loop-a`."""
    return re.sub(r"[\W]+", "-", label.lower()).strip("-")


def _checked_id(name: _Name) -> str:
    if not is_node_id(name.text):
        better = re.sub(r"\W+", "_", name.text, flags=re.ASCII)
        better = better if is_node_id(better) else f"_{better}"
        raise _Problem(
            name.place,
            f"not a node id: '{_shown(name.text)}': an id has letters, digits and underscores, "
            "and begins with no digit",
            f"write {better}" if is_node_id(better) else None,
        )
    return name.text


# What is wrong, in words.

_KEYWORDS = ("node", "edge", "graph", "subgraph")
_LITERAL = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_WORD = re.compile(rf"\w+(?:[.-]\w+)*|->|--|/\*|{_LITERAL}|.", re.DOTALL)
_NAME_OR_LITERAL = re.compile(rf"\w+(?:[.-]\w+)*|{_LITERAL}", re.DOTALL)
_SHOWN = 40  # characters of the file in a message


def _explain(text: str, err: UnexpectedToken | UnexpectedCharacters) -> _Problem:
    if isinstance(err, UnexpectedToken):
        ended, expected = err.token.type == "$END", err.accepts or err.expected
    else:
        ended, expected = False, err.allowed
    at = len(text) if ended else err.pos_in_stream
    assert at is not None, err
    starts = line_starts(text[:at])
    place = Place(len(starts), at - starts[-1] + 1)
    before = _before(err)
    found = _WORD.match(text, at)
    word = found[0] if found else ""
    return _refused(place, word, before, expected) or _misplaced(place, word, before, expected)


def _before(err: UnexpectedToken | UnexpectedCharacters) -> str:
    """The token before the place, as it is written; empty where it is not known."""
    if err.token_history and err.token_history[-1] is not None:
        return str(err.token_history[-1])
    read = err.state.value_stack[-1] if err.state.value_stack else None
    if isinstance(read, _Name):
        return read.text
    return str(read) if isinstance(read, Token) else ""


_GROUP_REFUSED = ("node groups as edge ends are not supported", "write one edge for each node")
_REFUSED_FIRST = {
    "strict": ("'strict' is not supported", "remove 'strict'"),
    "graph": ("'graph' is not supported: edges have a direction", "write 'digraph'"),
}
_REFUSED = {
    "--": ("'--' is not supported: edges have a direction", "write '->'"),
    '"': ("a quoted text is not closed", 'write \\" for a quote inside a text'),
    "/*": ("a comment is not closed", "close it with */"),
    "#": ("'#' begins a comment only at the start of a line", "write //"),
}


def _refused(place: Place, word: str, before: str, expected: Container[str]) -> _Problem | None:
    """What the grammar leaves out on purpose, and slips that have a name."""
    if "_DIGRAPH" in expected:
        refused: tuple[str, str | None] | None = _REFUSED_FIRST.get(word)
    elif "$END" in expected or "<END-OF-FILE>" in expected:  # as the parser, as the lexer says it
        told = "a file has one graph" if word.lower() == "digraph" else "nothing may follow"
        refused = (f"found {_named(word)} after the end of the graph: {told}", None)
    elif word == "<" and before == "=":
        refused = ("HTML labels are not supported", 'write a quoted text: "…"')
    elif (before, word) in (("->", "{"), ("}", "->")):
        refused = _GROUP_REFUSED
    elif word == ":" and _NAME_OR_LITERAL.fullmatch(before):
        name = _shown(before)
        refused = (f"ports are not supported: '{name}:'", f"write {name}")
    else:
        refused = _REFUSED.get(word)
    return None if refused is None else _Problem(place, *refused)


# The first terminal of these that may come says what is expected.
_EXPECTED = {
    "_DIGRAPH": "'digraph'",
    "BARE": "a value",
    "RBRACE": "a node, an edge, an attribute or '}'",
    "RSQB": "an attribute or ']'",
    "EQUAL": "'='",
    "LSQB": "'['",
    "NAME": "a node id",
    "QUOTED": "a quoted text",
    "LBRACE": "'{'",
}


def _misplaced(place: Place, word: str, before: str, expected: Container[str]) -> _Problem:
    """Anything else: what was found, and what was expected."""
    terminal = next(name for name in _EXPECTED if name in expected)
    message, fix = f"found {_named(word)}, expected {_EXPECTED[terminal]}", None
    if terminal == "EQUAL":
        called = f"attribute '{_shown(before)}'" if before else "an attribute"
        message = f"{called} has no value: {message}"
        fix = 'write \\" for a quote inside a text'
    elif terminal == "BARE" and word not in ("", "]", "}", ",", ";"):
        fix = 'write it as a quoted text: "…"'
    return _Problem(place, message, fix)


def _named(word: str) -> str:
    return f"'{_shown(word)}'" if word else "the end of the file"


def _shown(text: str) -> str:
    """A piece of the file as a message may show it."""
    line = re.sub(r"[\t\n\r]+", " ", text[: _SHOWN + 1])
    short = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
    return "".join(
        character if character.isprintable() else f"U+{ord(character):04X}" for character in short
    )


# And back to text.

_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")


def render(graph: Graph) -> str:
    """A workflow file that reads as `graph`."""
    name = f" {write_quoted(graph.name)}" if graph.name else ""
    lines = [f"digraph{name} {{"]
    if graph.attrs:
        lines.append(f"  graph{_list(graph.attrs)}")
    lines += [f"  {_declaration(node)}" for node in graph.nodes.values()]
    lines += [
        f"  {_id(edge.source)} -> {_id(edge.target)}{_list(edge.attrs)}" for edge in graph.edges
    ]
    return "\n".join([*lines, "}", ""])


def _declaration(node: Node) -> str:
    around = "".join(f"subgraph {{ label={write_quoted(word)} " for word in node.groups)
    return f"{around}{_id(node.id)}{_list(node.attrs)}{' }' * len(node.groups)}"


def _id(id_: str) -> str:
    return f'"{id_}"' if id_ in _KEYWORDS else id_


def _list(attrs: Mapping[str, Value]) -> str:
    if not attrs:
        return ""
    written = (
        f"{key if _BARE_KEY.fullmatch(key) else write_quoted(key)}={write_value(value)}"
        for key, value in attrs.items()
    )
    return f" [{', '.join(written)}]"


# Values that stand in files of their own.


def resolve_files(
    graph: Graph, read: Callable[[str], str | None]
) -> tuple[Graph, list[Diagnostic]]:
    """The graph with every goal and prompt of the form `@path` read from its file.

    `read` gives the text of a path relative to the workflow, None where there is none. The last
    newlines are dropped, as a shell does. The new graph's `dot` has the contents in place of the
    references; places stay those of the file as it was written.
    """
    finding = _Finding(graph, read)
    attrs = finding.resolved(graph, "goal", None)
    nodes = {
        id_: replace(node, attrs=finding.resolved(node, "prompt", id_))
        for id_, node in graph.nodes.items()
    }
    found = replace(graph, attrs=attrs, nodes=nodes, dot=finding.spliced(), loaded=finding.loaded)
    return found, finding.diagnostics


class _Finding:
    """One pass over the references of a graph. A default of many nodes is read once."""

    def __init__(self, graph: Graph, read: Callable[[str], str | None]) -> None:
        self.graph = graph
        self.read = read
        self.loaded: dict[Place, str] = dict(graph.loaded)
        self.diagnostics: list[Diagnostic] = []
        self._contents: dict[str, str | None] = {}
        self._splices: dict[Place, str] = {}

    def resolved(self, owner: Graph | Node, key: str, node: str | None) -> dict[str, Value]:
        value, place = owner.attrs.get(key), owner.attr_places.get(key)
        if not isinstance(value, str) or not is_file_ref(value) or place in self.graph.loaded:
            return owner.attrs
        path = value[1:].strip()
        content = self._content(path)
        if content is None:
            fix = f"make the file '{_shown(path)}', relative to the workflow"
            self._refuse(f"file reference does not exist: '@{_shown(path)}'", place, node, fix)
            return owner.attrs
        if "\0" in content:
            self._refuse(f"file has a NUL byte: '@{_shown(path)}'", place, node, "name a text file")
            return owner.attrs
        if place is not None:
            self.loaded[place] = path
            self._splices[place] = content
        return {**owner.attrs, key: content}

    def _content(self, path: str) -> str | None:
        if path not in self._contents:
            content = self.read(path)
            self._contents[path] = None if content is None else content.rstrip("\r\n")
        return self._contents[path]

    def _refuse(self, message: str, place: Place | None, node: str | None, fix: str) -> None:
        line, column = place or (None, None)
        found = Diagnostic("unresolved_file_ref", "error", message, line, column, node, fix=fix)
        self.diagnostics.append(found)

    def spliced(self) -> str:
        """The file with the contents in place of the references, all else as it was."""
        text = self.graph.dot
        begin = len(text) - len(text.removeprefix(BYTE_ORDER_MARK))
        starts = line_starts(text)
        pieces, at = [], 0
        for place, content in sorted(self._splices.items()):
            start = starts[place.line - 1] + place.column - 1
            start += begin if place.line == 1 else 0
            pieces += [text[at:start], write_quoted(content)]
            at = literal_end(text, start)
        return "".join([*pieces, text[at:]])


def is_file_ref(value: str) -> bool:
    """Whether a goal or prompt is `@` and a path: one line, nothing else."""
    return value.startswith("@") and bool(value[1:].strip()) and "\n" not in value
