"""Which edge is taken after a node, and why (language.md, section 4).

| `why` | what decided |
|---|---|
| `condition` | a true condition, the one of highest weight |
| `preferred_label`, `suggested` | what the node's answer asked for, among unconditional edges |
| `weight` | the unconditional edge of highest weight |
| `random` | a draw, by weight, where the node has `selection="random"` |
| `retry_target`, `fallback_retry_target` | the failed node's own |
| `graph_retry_target`, `graph_fallback_retry_target` | the graph's |
| `failure`, `no_edge` | nothing: the run fails |

Equal weights are decided by the target's id, then by file order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from git_wf.core.conditions import Condition, parse
from git_wf.core.graph import Edge, Graph, Node
from git_wf.core.outcome import FAIL, Outcome

Values = Callable[[str], Any]
Draw = Callable[[], float]  # a number from 0 to, not including, 1

_ACCELERATOR = re.compile(r"\s*(?:\[(?P<long>\w{1,8})\]\s*|(?P<one>\w)(?:\)\s*|\s+-\s+))")


@dataclass(frozen=True)
class Step:
    """Where a run goes. `target` is None where it ends, `edge` where none is taken."""

    target: str | None
    edge: Edge | None
    why: str
    reason: str = ""


def next_step(graph: Graph, node: Node, outcome: Outcome, values: Values, draw: Draw) -> Step:
    """What follows `node` with this outcome. `values` gives what a key of a condition stands for.

    A conditional node has no outcome of its own, so it cannot fail: there, `outcome` is that of
    the node before, and plain edges hold whatever it is.
    """
    edges = graph.outgoing(node.id)
    choice = _Choice(draw if node.text("selection") == "random" else None)
    true = [edge for edge in edges if edge.condition and _condition(edge).holds(values)]
    if true:
        return choice.step(true, "condition")
    if outcome.status == FAIL and node.kind != "conditional":
        return _after_failure(graph, node, outcome, choice)
    return _plain(edges, outcome, choice) or Step(
        None, None, "no_edge", f"no edge matches from '{node.id}'"
    )


def retry_step(graph: Graph, node: Node) -> Step | None:
    """Where a failed node, or a goal gate that has not succeeded, sends the run; None: nowhere.

    A target that is no node of the graph is passed over.
    """
    for why, target in _retry_targets(graph, node):
        if target in graph.nodes:
            return Step(target, None, why)
    return None


def failure_rule(graph: Graph, node: Node) -> str:
    """`on_failure` of the node, else of the graph: `route`, `succeed` or `exit`."""
    return node.text("on_failure") or graph.text("on_failure") or "exit"


def normal_label(label: str) -> str:
    """A label as labels are compared: lower case, trimmed, without `[K] `, `K) `, `K - `."""
    return accelerator(label)[1].lower()


def accelerator(label: str) -> tuple[str, str]:
    """The key that chooses an edge, in upper case, and the label without it.

    Where no key is written it is the first letter or digit; empty where there is none.
    """
    found = _ACCELERATOR.match(label)
    text = label[found.end() :].strip() if found else ""
    if found and text:
        return (found["long"] or found["one"]).upper(), text
    first = next((character for character in label if character.isalnum()), "")
    return first.upper(), label.strip()


def _after_failure(graph: Graph, node: Node, outcome: Outcome, choice: _Choice) -> Step:
    step = retry_step(graph, node)
    if step is None and failure_rule(graph, node) == "route":
        step = _plain(graph.outgoing(node.id), outcome, choice)
    told = outcome.failure.message if outcome.failure else ""
    return step or Step(None, None, "failure", told or f"node '{node.id}' failed")


def _plain(edges: Sequence[Edge], outcome: Outcome, choice: _Choice) -> Step | None:
    """The step along an unconditional edge, if there is one."""
    plain = [edge for edge in edges if not edge.condition]
    preferred = normal_label(outcome.preferred_label)
    if preferred:
        labelled = [edge for edge in plain if normal_label(edge.label) == preferred]
        if labelled:
            return choice.step(labelled, "preferred_label")
    for id_ in outcome.suggested_next_ids:
        suggested = [edge for edge in plain if edge.target == id_]
        if suggested:
            return choice.step(suggested, "suggested")
    return choice.step(plain, "weight") if plain else None


def _retry_targets(graph: Graph, node: Node) -> Iterator[tuple[str, str]]:
    for key in ("retry_target", "fallback_retry_target"):
        yield key, node.text(key)
    for key in ("retry_target", "fallback_retry_target"):
        yield f"graph_{key}", graph.text(key)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Condition:
    return parse(text)


def _condition(edge: Edge) -> Condition:
    return _parsed(edge.condition)


@dataclass(frozen=True)
class _Choice:
    """How one of several edges is taken: the heaviest, or by a draw."""

    draw: Draw | None

    def step(self, edges: Sequence[Edge], why: str) -> Step:
        if self.draw is not None and len(edges) > 1:
            edge, why = _drawn(edges, self.draw()), "random"
        else:
            edge = min(edges, key=lambda edge: (-edge.weight, edge.target))
        return Step(edge.target, edge, why)


def _drawn(edges: Sequence[Edge], fraction: float) -> Edge:
    """An edge without a weight weighs 1 in a draw. Where none weighs anything all are equal."""
    weights = [max(0.0, float(edge.weight if "weight" in edge.attrs else 1)) for edge in edges]
    if not any(weights):
        weights = [1.0] * len(edges)
    mark = fraction * sum(weights)
    for edge, weight in zip(edges, weights, strict=True):
        mark -= weight
        if mark < 0:
            return edge
    return [edge for edge, weight in zip(edges, weights, strict=True) if weight][-1]
