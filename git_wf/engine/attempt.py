"""The attempts of one visit, and the outcome that they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from git_wf.core.context import clean_value
from git_wf.core.graph import Node
from git_wf.core.outcome import (
    CANCELLED,
    CONFIGURATION,
    FAIL,
    PARTIAL_SUCCESS,
    RETRY,
    SKIPPED,
    SUCCESS,
    Failure,
    Outcome,
    failed,
    succeeded,
)
from git_wf.core.retry import Policy, attempts, failure_signature, jittered
from git_wf.core.routing import failure_rule
from git_wf.core.templates import TemplateError
from git_wf.engine.handlers import find_handler
from git_wf.engine.kinds.conditional import route
from git_wf.engine.kinds.wait import pause
from git_wf.engine.state import Visit, added_usage
from git_wf.errors import UserError


@dataclass(frozen=True)
class Attempted:
    outcome: Outcome
    retries: int


def attempt_visit(visit: Visit, draw: Callable[[], float], first_delay: float | None) -> Attempted:
    """Runs the node as often as its policy says. Raises `Interrupted` or `Stalled`."""
    since = visit.clock.monotonic()
    usage: dict[str, Any] | None = None
    try:
        policy = attempts(visit.node, visit.run.graph, first_delay)
    except UserError as err:
        return Attempted(_settled(visit, failed(err.message, CONFIGURATION)), 0)
    while True:
        outcome = _attempt(visit)
        usage = added_usage(usage, outcome.usage)
        if not is_retried(outcome) or visit.attempt >= policy.attempts:
            break
        _pause_before_retry(visit, outcome, policy, draw)
        visit.attempt += 1
    duration = max(0, round((visit.clock.monotonic() - since) * 1000))
    outcome = replace(_settled(visit, outcome), usage=usage, duration_ms=duration)
    return Attempted(outcome, visit.attempt - 1)


def is_retried(outcome: Outcome) -> bool:
    """Whether another attempt may help: not where the workflow or its set-up is at fault."""
    if outcome.status == RETRY:
        return True
    kind = outcome.failure.kind if outcome.failure else ""
    return outcome.status == FAIL and kind not in (CONFIGURATION, CANCELLED)


def _attempt(visit: Visit) -> Outcome:
    if visit.run.dry_run:
        return _simulated(visit)
    try:
        return _admissible(find_handler(visit.node)(visit), visit)
    except UserError as err:
        return failed(err.message, CONFIGURATION)
    except TemplateError as err:
        return failed(f"template: {err.message}", CONFIGURATION)


def _simulated(visit: Visit) -> Outcome:
    """A dry run: everything succeeds, and people take the first choice."""
    if visit.node.kind == "conditional":
        return route(visit)
    if visit.node.kind == "human":
        visit.chosen = next(iter(visit.run.graph.outgoing(visit.node.id)), None)
    return succeeded()


def _admissible(outcome: Outcome, visit: Visit) -> Outcome:
    """The outcome without secrets; one whose values no context can hold is a failure."""
    try:
        updates = clean_value(outcome.context_updates)
    except ValueError as err:
        return failed(f"context_updates: {err}")
    return replace(
        outcome,
        context_updates=visit.redaction.value(updates),
        preferred_label=visit.redaction.text(outcome.preferred_label),
        notes=visit.redaction.text(outcome.notes),
    )


def _pause_before_retry(
    visit: Visit, outcome: Outcome, policy: Policy, draw: Callable[[], float]
) -> None:
    delay = jittered(policy.delay(visit.attempt), draw())
    visit.announce(
        "stage_retrying",
        node=visit.node.id,
        visit=visit.number,
        attempt=visit.attempt + 1,
        delay_s=round(delay, 3),
        reason=outcome.failure.message if outcome.failure else "the node asked for it",
    )
    pause(delay, visit.clock, visit.watch)


def _settled(visit: Visit, outcome: Outcome) -> Outcome:
    """The outcome after the last attempt, as the attributes of node and graph turn it."""
    node = visit.node
    exhausted = is_retried(outcome)
    if outcome.status == RETRY:
        outcome = replace(outcome, status=FAIL, failure=Failure("max retries exceeded"))
    if exhausted and outcome.status == FAIL and node.flag("allow_partial"):
        outcome = _excused(outcome, PARTIAL_SUCCESS, "allow_partial")
    if node.flag("auto_status") and outcome.status not in (SUCCESS, SKIPPED):
        outcome = _excused(outcome, SUCCESS, "auto_status")
    if outcome.status == FAIL and failure_rule(visit.run.graph, node) == "succeed":
        outcome = _excused(outcome, SUCCESS, "on_failure")
    return signed(node, outcome, visit)


def signed(node: Node, outcome: Outcome, visit: Visit) -> Outcome:
    """The outcome with the signature of its failure, and without the run's secrets."""
    if outcome.failure is None:
        return outcome
    message = visit.redaction.text(outcome.failure.message)
    kind = outcome.failure.kind
    return replace(
        outcome, failure=Failure(message, kind, failure_signature(node.id, kind, message))
    )


def _excused(outcome: Outcome, status: str, attribute: str) -> Outcome:
    told = outcome.failure.message if outcome.failure else f"status {outcome.status}"
    note = f"{attribute}: {told}"
    notes = f"{outcome.notes}\n{note}" if outcome.notes else note
    return replace(outcome, status=status, failure=None, notes=notes, extra={})
