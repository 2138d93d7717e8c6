"""A workflow as data: nodes, edges, attributes, and where each of them stands in the file.

Attribute keys are canonical: the Attractor and Fabro spellings of one thing (`tool_command` and
`script`) have become one key. Places are those of the file as it was read; they and the
texts take no part in comparisons.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, overload

from git_wf.core.values import (
    LONGEST,
    Duration,
    Value,
    read_duration,
    read_number,
    source_offset,
    text_of,
)

__all__ = ["Diagnostic", "Duration", "Edge", "Graph", "Node", "Place", "Value", "excerpt"]

ALIASES = {
    "tool_command": "script",
    "llm_model": "model",
    "llm_provider": "provider",
    "default_max_retry": "default_max_retries",
    "stack.child_dotfile": "stack.child_workflow",
}
SHAPE_KINDS = {
    "Mdiamond": "start",
    "Msquare": "exit",
    "box": "agent",
    "tab": "prompt",
    "parallelogram": "command",
    "diamond": "conditional",
    "hexagon": "human",
    "insulator": "wait",
    "component": "parallel",
    "tripleoctagon": "fan_in",
    "house": "manager_loop",
}
KINDS = frozenset(SHAPE_KINDS.values())
ID_KINDS = {"start": "start", "exit": "exit", "end": "exit"}
TYPE_KINDS = {
    **{kind: kind for kind in KINDS},
    "codergen": "agent",
    "tool": "command",
    "wait.human": "human",
    "parallel.fan_in": "fan_in",
    "stack.manager_loop": "manager_loop",
}
DEFAULT_SHAPE = "box"
BYTE_ORDER_MARK = "\ufeff"
EXCERPT_WIDTH = 100  # characters
EXCERPT_BEFORE = 70  # of them before the place
TAB_WIDTH = 4
_KEY_REACH = 200  # characters before a value that are searched for its key
_KEY_BEFORE = re.compile(r'("[^"\n]*"|[\w.-]+)\s*=\s*\Z')


class Place(NamedTuple):
    """A place in a file. Both count from 1; a column is a character."""

    line: int
    column: int


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `severity` is `error` or `warning`, `edge` reads `a->b`."""

    rule: str
    severity: str
    message: str
    line: int | None = None
    column: int | None = None
    node: str | None = None
    edge: str | None = None
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class _Attributed:
    """Attributes, read as what a caller needs. What cannot be read so is as if it were absent."""

    attrs: dict[str, Value] = field(default_factory=dict, kw_only=True)
    attr_places: dict[str, Place] = field(default_factory=dict, compare=False, kw_only=True)

    def text(self, key: str, default: str = "") -> str:
        value = self.attrs.get(key)
        return default if value is None else text_of(value)

    def number(self, key: str) -> int | float | None:
        value = self.attrs.get(key)
        if isinstance(value, (bool, Duration)):
            return None
        return read_number(value.strip()) if isinstance(value, str) else value

    @overload
    def integer(self, key: str) -> int | None: ...
    @overload
    def integer(self, key: str, default: int) -> int: ...
    def integer(self, key: str, default: int | None = None) -> int | None:
        number = self.number(key)
        return default if number is None or number != int(number) else int(number)

    def flag(self, key: str, default: bool = False) -> bool:
        word = self.text(key).strip().lower()
        return word == "true" if word in ("true", "false") else default

    @overload
    def seconds(self, key: str) -> float | None: ...
    @overload
    def seconds(self, key: str, default: float) -> float: ...
    def seconds(self, key: str, default: float | None = None) -> float | None:
        """A duration; a number without a unit means seconds."""
        value = self.attrs.get(key)
        if isinstance(value, str):
            value = read_duration(value.strip()) or value
        if isinstance(value, Duration):
            return value.seconds
        number = self.number(key)
        return default if number is None or not 0 <= number <= LONGEST else float(number)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes as JSON has them."""
        return {
            key: value.text if isinstance(value, Duration) else value
            for key, value in self.attrs.items()
        }


@dataclass
class Node(_Attributed):
    id: str
    place: Place | None = field(default=None, compare=False)
    groups: tuple[str, ...] = ()  # a class for each labelled subgraph around it, outermost first

    @property
    def kind(self) -> str:
        """A kind of language.md section 2, or a `type` that is none of ours, as it is written.

        A type that no installed handler knows runs as an agent.
        """
        named = self.text("type")
        if named:
            return TYPE_KINDS.get(named, named)
        by_shape = SHAPE_KINDS.get(self.shape, "agent")
        if by_shape in ("start", "exit"):
            return by_shape
        if self.text("script"):
            return "command"
        return ID_KINDS.get(self.id, by_shape) if by_shape == "agent" else by_shape

    @property
    def shape(self) -> str:
        return self.text("shape") or DEFAULT_SHAPE

    @property
    def label(self) -> str:
        return self.text("label") or self.id

    @property
    def classes(self) -> tuple[str, ...]:
        """Its own classes (separated by commas or blanks), then those of its subgraphs."""
        own = re.split(r"[,\s]+", self.text("class"))
        return tuple(dict.fromkeys(word for word in (*own, *self.groups) if word))


@dataclass
class Edge(_Attributed):
    source: str
    target: str
    index: int = 0  # file order, from 0
    place: Place | None = field(default=None, compare=False)  # of the source's id
    target_place: Place | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        return self.text("label")

    @property
    def condition(self) -> str:
        """The condition's text; empty where the edge is unconditional."""
        return self.text("condition").strip()

    @property
    def weight(self) -> int | float:
        return self.number("weight") or 0

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass
class Graph(_Attributed):
    """A whole workflow. Ids that only edges mention are no nodes: `undeclared` has them."""

    name: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    # The workflow as it is run: the file, with the contents of `@` files in their places.
    dot: str = field(default="", compare=False)
    written: str = field(default="", compare=False)  # the file that the places are in
    # Which values came from an `@` file: the place of the value → the path.
    loaded: dict[Place, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self._outgoing: dict[str, list[Edge]] = {id_: [] for id_ in self.nodes}
        self._incoming: dict[str, list[Edge]] = {id_: [] for id_ in self.nodes}
        for edge in self.edges:
            self._outgoing.setdefault(edge.source, []).append(edge)
            self._incoming.setdefault(edge.target, []).append(edge)

    def outgoing(self, id_: str) -> list[Edge]:
        """In file order."""
        return self._outgoing.get(id_, [])

    def incoming(self, id_: str) -> list[Edge]:
        """In file order."""
        return self._incoming.get(id_, [])

    def of_kind(self, kind: str) -> list[Node]:
        return [node for node in self.nodes.values() if node.kind == kind]

    @property
    def start(self) -> Node:
        """The start node of a valid graph."""
        return self.of_kind("start")[0]

    @property
    def exit(self) -> Node:
        """The exit node of a valid graph."""
        return self.of_kind("exit")[0]

    @property
    def undeclared(self) -> dict[str, Place | None]:
        """Ids that only edges mention → where first."""
        ends = (
            pair
            for edge in self.edges
            for pair in ((edge.source, edge.place), (edge.target, edge.target_place))
        )
        found: dict[str, Place | None] = {}
        for id_, place in ends:
            if id_ not in self.nodes:
                found.setdefault(id_, place)
        return found

    @property
    def node_count(self) -> int:
        """Of all ids in the file, those that only edges mention included."""
        return len(self.nodes) + len(self.undeclared)

    def place_in(self, place: Place | None, offset: int) -> Place | None:
        """The place of the character `offset` of the value that is written at `place`."""
        if place is None or place in self.loaded or place.line > len(self._lines):
            return place
        start = self._lines[place.line - 1] + place.column - 1
        at = source_offset(self._body, start, offset)
        line = bisect_right(self._lines, at)
        return Place(line, at - self._lines[line - 1] + 1)

    def key_place(self, place: Place | None) -> Place | None:
        """The place of the key whose value is written at `place`."""
        if place is None or place.line > len(self._lines):
            return place
        start = self._lines[place.line - 1] + place.column - 1
        found = _KEY_BEFORE.search(self._body, max(0, start - _KEY_REACH), start)
        if found is None:
            return place
        line = bisect_right(self._lines, found.start(1))
        return Place(line, found.start(1) - self._lines[line - 1] + 1)

    @cached_property
    def _body(self) -> str:
        return self.written.removeprefix(BYTE_ORDER_MARK)

    @cached_property
    def _lines(self) -> list[int]:
        return line_starts(self._body)

    def to_json(self) -> dict[str, Any]:
        """As `run.json` has it."""
        return {
            "name": self.name,
            "attributes": self.attributes,
            "nodes": [
                {
                    "id": node.id,
                    "kind": node.kind,
                    "classes": list(node.classes),
                    "attributes": node.attributes,
                }
                for node in self.nodes.values()
            ],
            "edges": [
                {"from": edge.source, "to": edge.target, "attributes": edge.attributes}
                for edge in self.edges
            ],
        }


def line_starts(text: str) -> list[int]:
    """The offset of the first character of each line."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def excerpt(text: str, diagnostic: Diagnostic) -> str:
    """The line that a diagnostic is about, and a caret under the place; empty without a place.

    Tabs become blanks, and what a terminal would obey is not echoed. Of a long line, what is
    around the place.
    """
    if diagnostic.line is None:
        return ""
    lines = text.removeprefix(BYTE_ORDER_MARK).split("\n")
    line = lines[diagnostic.line - 1].rstrip("\r") if diagnostic.line <= len(lines) else ""
    at = (diagnostic.column or 1) - 1
    first = max(0, at - EXCERPT_BEFORE)
    shown = line[first : first + EXCERPT_WIDTH]
    number = str(diagnostic.line)
    before = "".join(_visible(character) for character in shown[: at - first])
    all_ = "".join(_visible(character) for character in shown)
    indent = " " * sum(map(_width, before))
    return f"{number} | {all_}\n{' ' * len(number)} | {indent}^"


def _visible(character: str) -> str:
    if character == "\t":
        return " " * TAB_WIDTH
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "\N{REPLACEMENT CHARACTER}" if hidden else character


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
