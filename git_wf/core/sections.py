"""Parallel sections of a graph: what a fan-out opens, where it is joined, what is inside.

A branch begins at the target of an outgoing edge of the fan-out and ends at the join: the nearest
fan-in that every branch can reach, without one the nearest node of any kind. Of several, one that
no branch can pass by goes before one that a branch can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.graph import Graph, Node

PARALLEL, FAN_IN = "parallel", "fan_in"
WAIT_ALL, FIRST_SUCCESS = "wait_all", "first_success"
JOIN_POLICIES = (WAIT_ALL, FIRST_SUCCESS)
OLDER_POLICIES = {"all_success": WAIT_ALL}  # of another dialect: read as what is nearest
_FOLLOWED_LIMIT = 32  # branches of one fan-out: each costs a pass over all edges
# Which visit of which fan-out the next fan-in joins: `{"fan_out": …, "visit": …, "join": …}`.
SECTION_KEY = "internal.section"


@dataclass(frozen=True)
class BranchStep:
    """One branch of one visit of a fan-out. `number` counts its outgoing edges from 1."""

    fan_out: str
    visit: int
    number: int
    first: str  # the node that it begins with

    @property
    def section(self) -> str:
        return f"{self.fan_out}@{self.visit}"

    @property
    def own_name(self) -> str:
        """`1-plan`, which tells it from its siblings."""
        return f"{self.number}-{self.first}"

    @property
    def name(self) -> str:
        return f"{self.section}/{self.own_name}"


BranchPath = tuple[BranchStep, ...]  # from the outermost section inwards; empty for the run itself


def branch_name(path: BranchPath) -> str:
    """`f@1/1-a`; nested `f@1/1-g/g@1/2-x`."""
    return "/".join(step.name for step in path)


@dataclass(frozen=True)
class KeptBranch:
    """What is recorded of an open branch: by an earlier process, or just when it was opened.

    `checkpoint` has its artifacts joined; None before the first. Notices are (code, message).
    """

    checkpoint: Checkpoint | None
    head: str
    metadata_commit: str | None = None  # that holds the checkpoint
    notices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Merged:
    """What a merge came to. With conflicts or missing heads nothing was merged."""

    heads: tuple[str, ...] = ()  # that the next commit has as further parents
    conflicts: tuple[str, ...] = ()  # paths
    branch: str = ""  # the one at which they came up
    missing: tuple[str, ...] = ()  # heads that are not in this repository
    notices: tuple[tuple[str, str], ...] = ()  # code, message


def join_policy(node: Node) -> str:
    """Of a fan-out, as it is written but for older words."""
    word = node.text("join_policy") or WAIT_ALL
    return OLDER_POLICIES.get(word, word)


def do_branches_meet(graph: Graph, fan_out: str) -> bool:
    """Whether `find_join` finds anything, in time for large graphs.

    All branches that reach the exit meet there; of those that do not, and then of the others, as
    many are followed as have not met yet.
    """
    firsts = list(dict.fromkeys(edge.target for edge in graph.outgoing(fan_out)))
    leading = _leading_to_exit(graph, fan_out)
    astray = [id_ for id_ in firsts if id_ not in leading]
    if firsts and not astray and len(graph.of_kind("exit")) == 1:
        return True
    common: set[str] | None = None
    for first in (*astray, *(id_ for id_ in firsts if id_ in leading))[:_FOLLOWED_LIMIT]:
        reached = set(_distances(graph, first, fan_out))
        common = reached if common is None else common & reached
        if not common:
            return False
    return bool(common)


def _leading_to_exit(graph: Graph, fan_out: str) -> set[str]:
    """The nodes from which a way leads to an exit that is not by the fan-out."""
    waiting = [node.id for node in graph.of_kind("exit")]
    leading = set(waiting)
    for id_ in waiting:
        before = {edge.source for edge in graph.incoming(id_)} - leading - {fan_out}
        leading |= before
        waiting += before
    return leading


def find_join(graph: Graph, fan_out: str) -> str | None:
    """The node at which the branches of a fan-out end; None where they have none in common."""
    firsts = [edge.target for edge in graph.outgoing(fan_out)]
    if not firsts:
        return None
    distances = [_distances(graph, first, fan_out) for first in firsts]
    common = [id_ for id_ in graph.nodes if all(id_ in reached for reached in distances)]
    fan_ins = [id_ for id_ in common if graph.nodes[id_].kind == FAN_IN]
    nearest = sorted(fan_ins or common, key=lambda id_: max(found[id_] for found in distances))
    for id_ in nearest:
        if _is_unavoidable(graph, firsts, fan_out, id_):
            return id_
    return nearest[0] if nearest else None


def inside(graph: Graph, fan_out: str) -> set[str]:
    """The nodes that branches of a fan-out can visit, the join and the exit left out."""
    join = find_join(graph, fan_out)
    reached: set[str] = set()
    for edge in graph.outgoing(fan_out):
        reached |= set(_distances(graph, edge.target, fan_out, join))
    ends = {join, fan_out, *(node.id for node in graph.of_kind("exit"))}
    return {id_ for id_ in reached if id_ not in ends}


def enclosing_fan_outs(graph: Graph) -> dict[str, str]:
    """Node inside a section → the outermost fan-out around it."""
    fan_outs = [node.id for node in graph.of_kind(PARALLEL)]
    members = {id_: inside(graph, id_) for id_ in fan_outs}
    return dict(_outermost(members))


def _outermost(members: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    for fan_out, nodes in members.items():
        nested = any(
            fan_out in others and other not in nodes
            for other, others in members.items()
            if other != fan_out
        )
        if not nested:
            yield from ((node, fan_out) for node in sorted(nodes))


def _distances(
    graph: Graph, first: str, fan_out: str, without: str | None = None
) -> dict[str, int]:
    """Node → edges from `first`, never on through the fan-out itself or `without`."""
    found = {first: 0}
    waiting = [first]
    for id_ in waiting:
        if id_ in (fan_out, without):
            continue
        for edge in graph.outgoing(id_):
            if edge.target not in found:
                found[edge.target] = found[id_] + 1
                waiting.append(edge.target)
    found.pop(fan_out, None)
    return found


def _is_unavoidable(graph: Graph, firsts: list[str], fan_out: str, node: str) -> bool:
    """Whether no branch can come to an end of the graph but through `node`."""
    for first in firsts:
        for id_ in _distances(graph, first, fan_out, without=node):
            if id_ != node and not graph.outgoing(id_):
                return False
    return True
