"""How much an agent is told of what went before: the fidelity of a visit, and its preamble.

| fidelity | what the agent knows |
|---|---|
| `full` | the session of its thread goes on: no preamble |
| `compact` | the goal, what was done and how it ended, the small values of the context |
| `summary:high` | the same, with the outputs of every node, cut to about 12,000 characters |
| `summary:medium` | the last ten nodes, outputs shorter, about 6,000 characters |
| `summary:low` | the last three nodes, one line each, about 2,400 characters |
| `truncate` | the goal and the run |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from git_wf.core.graph import Graph, Node
from git_wf.core.outcome import Outcome

FULL = "full"
COMPACT = "compact"
HIGH = "summary:high"
TRUNCATE = "truncate"
VALUE_LIMIT = 200  # characters of one value of the context
# What the preamble says otherwise, or nobody needs to be told.
_HIDDEN = ("internal.", "graph.", "response.", "command.", "tool.", "human.gate.")
_HIDDEN_KEYS = frozenset(
    (
        "current_node", "failure_class", "failure_signature", "last_response", "last_stage",
        "outcome", "preferred_label",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Detail:
    """What a mode tells: how many nodes, how much of each, how much in all (characters)."""

    nodes: int | None
    output: int
    values: bool
    limit: int


_DETAILS = {
    COMPACT: Detail(None, 0, True, 8000),
    HIGH: Detail(None, 2000, True, 12_000),
    "summary:medium": Detail(10, 500, True, 6000),
    "summary:low": Detail(3, 0, False, 2400),
    TRUNCATE: Detail(0, 0, False, 2400),
}
MODES = frozenset({FULL, *_DETAILS})


def resolve_fidelity(incoming: Mapping[str, Any] | None, node: Node, graph: Graph) -> str:
    """The fidelity of a visit: of the edge taken, else the node, else the graph, else compact."""
    written = (
        (incoming or {}).get("fidelity"),
        node.text("fidelity"),
        graph.text("default_fidelity"),
    )
    return next((mode for mode in written if mode in MODES), COMPACT)


def resolve_thread(
    incoming: Mapping[str, Any] | None, node: Node, graph: Graph, previous: str
) -> str:
    """The thread whose session goes on: edge, node, graph, the node's first class, `previous`."""
    return str(
        (incoming or {}).get("thread_id")
        or node.text("thread_id")
        or graph.text("default_thread")
        or next(iter(node.classes), "")
        or previous
    )


def write_preamble(
    mode: str,
    *,
    goal: str,
    run_id: str,
    prompt: str,
    completed: Iterable[str],
    outcomes: Mapping[str, Outcome],
    values: Mapping[str, Any],
) -> str:
    """What stands before a prompt; empty where there is nothing to tell.

    `completed` are the nodes in the order of their visits; of a node visited more than once the
    last visit is told. A goal that the prompt itself names is not repeated.
    """
    if mode == FULL:
        return ""
    detail = _DETAILS[mode]
    parts = [f"Goal: {goal}"] if goal and goal not in prompt else []
    if mode == TRUNCATE:
        parts.append(f"Run: {run_id}")
    done = [node for node in dict.fromkeys(reversed(list(completed))) if node in outcomes]
    done.reverse()
    told = done[-detail.nodes :] if detail.nodes else done if detail.nodes is None else []
    if told:
        lines = [line for node in told for line in _node_lines(node, outcomes, values, detail)]
        left = len(done) - len(told)
        earlier = [f"- ({left} earlier)"] if left else []
        parts.append("\n".join(["Done so far:", *earlier, *lines]))
    known = list(_value_lines(values)) if detail.values and told else []
    if known:
        parts.append("\n".join(["Known values:", *known]))
    return _cut("\n\n".join(parts), detail.limit)


def _node_lines(
    node: str, outcomes: Mapping[str, Outcome], values: Mapping[str, Any], detail: Detail
) -> Iterator[str]:
    outcome = outcomes[node]
    told = outcome.failure.message if outcome.failure else outcome.notes
    first = " ".join(told.split())
    yield f"- {node}: {outcome.status}" + (f" ({_cut(first, VALUE_LIMIT)})" if first else "")
    output = values.get(f"response.{node}") or outcome.context_updates.get("command.output")
    if detail.output and isinstance(output, str) and output.strip():
        for line in _cut(output.strip(), detail.output).splitlines():
            yield f"    {line}"


def _value_lines(values: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(values):
        if key in _HIDDEN_KEYS or key.startswith(_HIDDEN):
            continue
        value = values[key]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = " ".join(text.split())
        if text:
            yield f"- {key}: {_cut(text, VALUE_LIMIT)}"


def _cut(text: str, limit: int) -> str:
    """`text`, or its two ends: the end of an output says most, the beginning what it is."""
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}" if limit > 500 else f"{text[: limit - 1]}…"
