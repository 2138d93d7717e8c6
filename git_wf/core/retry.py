"""How often a node is tried, how long the pauses are, and when two failures are the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from git_wf.errors import UserError

if TYPE_CHECKING:
    from git_wf.core.graph import Graph, Node

DELAY_CAP = 60.0  # seconds, before jitter
JITTER = (0.5, 1.5)
SIGNATURE_LIMIT = 3  # equal deterministic failures, unless the graph says else


@dataclass(frozen=True)
class Policy:
    """`attempts` in all; the first pause is `first_delay` seconds, each next `factor` times it."""

    attempts: int
    first_delay: float
    factor: float

    def delay(self, retry: int) -> float:
        """Seconds before the `retry`-th further attempt, from 1, without jitter."""
        assert retry >= 1, retry
        delay = self.first_delay
        for _ in range(retry - 1):
            delay *= self.factor
            if delay >= DELAY_CAP or delay == 0:
                break
        return min(DELAY_CAP, delay)


STANDARD = Policy(5, 5.0, 2.0)
POLICIES = {
    "none": Policy(1, 0.0, 1.0),
    "standard": STANDARD,
    "aggressive": Policy(5, 0.5, 2.0),
    "linear": Policy(3, 0.5, 1.0),
    "patient": Policy(3, 2.0, 3.0),
}


def attempts(node: Node, graph: Graph, first_delay: float | None = None) -> Policy:
    """The policy of a node: its `retry_policy`, else `max_retries` of the node or the graph.

    `first_delay` (seconds) replaces the policy's own. Raises `UserError` for an unknown policy.
    """
    word = node.text("retry_policy")
    if word and word not in POLICIES:
        raise UserError(
            f"unknown retry_policy '{word}' of node '{node.id}'",
            hint=f"one of {', '.join(POLICIES)}",
        )
    if word:
        policy = POLICIES[word]
    else:
        retries = node.integer("max_retries", graph.integer("default_max_retries", 0))
        policy = Policy(max(0, retries) + 1, STANDARD.first_delay, STANDARD.factor)
    if first_delay is None:
        return policy
    return Policy(policy.attempts, first_delay, policy.factor)


def jittered(delay: float, draw: float) -> float:
    """`delay` times 0.5 to 1.5; `draw` is a random number from 0 to 1."""
    low, high = JITTER
    return delay * (low + (high - low) * draw)


# What differs between two failures that are the same: in this order.
_NORMALISED = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        (r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "<uuid>"),
        (r"(?:/private)?(?:/var)?/(?:tmp|folders)/[^\s'\":,;)]*", "<tmp>"),
        (r"\b0x[0-9a-f]+\b", "<hex>"),
        (r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b", "<hex>"),
        (r":\d+:\d+\b", ":<place>"),
        (r"\bline \d+(?:,? col(?:umn)? \d+)?", "<place>"),
        (r"\b\d+(?:\.\d+)?\s?(?:[nuµm]?s|secs?|seconds?|m|min|minutes?|h|hours?)\b", "<time>"),
        (r"\d+(?:\.\d+)?", "<n>"),
    )
)  # fmt: skip


def failure_signature(node: str, kind: str, message: str) -> str:
    """`node|class|reason`, with what changes from one time to the next made equal."""
    reason = " ".join(message[:2000].split())
    for pattern, word in _NORMALISED:
        reason = pattern.sub(word, reason)
    return f"{node}|{kind}|{reason[:200]}"
