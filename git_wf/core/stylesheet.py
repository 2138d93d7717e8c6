"""Stylesheets: attributes for many nodes at once, `* { model: m } .hard { model: n; }`.

Selectors by rising weight: `*`, a shape, `.class`, `#id`. Of two rules that set one attribute of
a node the heavier wins, of equal ones the later. What a node says itself beats them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from git_wf.core.graph import ALIASES, Graph, Node, Place, Value
from git_wf.core.values import read_quoted

_BLANK = re.compile(r"(?:\s+|/\*.*?\*/)*", re.DOTALL)
_SELECTOR = re.compile(r"\*|\.[\w-]+|#[\w-]+|\w+")
_PROPERTY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s;{}"](?:[^;{}"\n]*[^\s;{}"])?')


class StylesheetError(Exception):
    """A stylesheet cannot be read; `offset` counts characters from its beginning."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True)
class Rule:
    """`selector` as it is written; the keys of `properties` are canonical."""

    selector: str
    properties: dict[str, str]

    @property
    def weight(self) -> int:
        return {"*": 0, ".": 2, "#": 3}.get(self.selector[0], 1)

    def selects(self, node: Node) -> bool:
        if self.weight == 0:
            return True
        if self.weight == 1:
            return node.shape == self.selector
        name = self.selector[1:]
        return name in node.classes if self.weight == 2 else name == node.id


def parse(text: str) -> list[Rule]:
    """The rules in the order of the text. Raises `StylesheetError` with the place of a fault."""
    return _Reading(text).rules()


def styled(graph: Graph) -> Graph:
    """The graph with the rules of its `model_stylesheet` applied. Raises `StylesheetError`."""
    text = graph.text("model_stylesheet")
    if not text.strip():
        return graph
    rules = sorted(parse(text), key=lambda rule: rule.weight)
    place = graph.attr_places.get("model_stylesheet")
    nodes = {id_: _styled(node, rules, place) for id_, node in graph.nodes.items()}
    return replace(graph, nodes=nodes)


def _styled(node: Node, rules: list[Rule], place: Place | None) -> Node:
    found: dict[str, Value] = {}
    for rule in rules:
        if rule.selects(node):
            found.update(rule.properties)
    places = {} if place is None else dict.fromkeys(found, place)
    return replace(node, attrs={**found, **node.attrs}, attr_places={**places, **node.attr_places})


class _Reading:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def rules(self) -> list[Rule]:
        found = []
        while not self._ends():
            selector = self._take(_SELECTOR, "a selector: *, a shape, .class or #id")
            self._expect("{")
            found.append(Rule(selector, self._properties()))
        return found

    def _properties(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while not self._follows("}"):
            name = self._take(_PROPERTY, "an attribute or '}'")
            self._expect(":")
            value = self._take(_VALUE, "a value")
            key = name.replace("-", "_")
            found[ALIASES.get(key, key)] = read_quoted(value) if value[0] == '"' else value
            if not self._follows(";"):
                self._expect("}", "';' or '}'")
                break
        return found

    def _ends(self) -> bool:
        self._skip()
        return self.at == len(self.text)

    def _skip(self) -> None:
        found = _BLANK.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def _follows(self, character: str) -> bool:
        self._skip()
        if not self.text.startswith(character, self.at):
            return False
        self.at += 1
        return True

    def _expect(self, character: str, wanted: str = "") -> None:
        if not self._follows(character):
            raise self._error(wanted or f"'{character}'")

    def _take(self, pattern: re.Pattern[str], wanted: str) -> str:
        self._skip()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self._error(wanted)
        self.at = found.end()
        return found[0]

    def _error(self, wanted: str) -> StylesheetError:
        character = self.text[self.at : self.at + 1]
        told = f"'{character}'" if character else "the end of the stylesheet"
        return StylesheetError(f"found {told}, expected {wanted}", self.at)
