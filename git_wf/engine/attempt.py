"""The attempts of one visit, and the outcome that they come to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from git_wf.core.children import MANAGER_LOOP
from git_wf.core.context import clean_value
from git_wf.core.outcome import (
    CANCELLED,
    CONFIGURATION,
    FAIL,
    PARTIAL_SUCCESS,
    RETRY,
    SKIPPED,
    SUCCESS,
    TRANSIENT,
    Failure,
    Outcome,
    failed,
    succeeded,
)
from git_wf.core.retry import Policy, attempts, failure_signature, jittered
from git_wf.core.routing import failure_rule
from git_wf.core.sections import FAN_IN, PARALLEL
from git_wf.core.templates import TemplateError
from git_wf.engine.answers import AnswerError, read_answer
from git_wf.engine.handlers import find_handler
from git_wf.engine.hooks import Decision
from git_wf.engine.kinds.wait import pause
from git_wf.engine.state import Visit, added_usage
from git_wf.errors import UserError


@dataclass(frozen=True)
class Attempted:
    outcome: Outcome
    retries: int


def attempt_visit(visit: Visit) -> Attempted:
    """Runs the node as often as its policy says. Raises `Interrupted` or `Stalled`."""
    since = visit.clock.monotonic()
    outcome = _decided(visit, visit.fire("stage_start"), None)
    if outcome is None:
        outcome = _settled(visit, _attempts(visit))
        over = "stage_failed" if outcome.status == FAIL else "stage_complete"
        reason = outcome.failure.message if outcome.failure else ""
        decision = visit.fire(over, status=outcome.status, reason=reason)
        outcome = _decided(visit, decision, outcome) or outcome
    duration = max(0, round((visit.clock.monotonic() - since) * 1000))
    outcome = signed(visit, replace(outcome, duration_ms=duration))
    return Attempted(outcome, visit.attempt - 1)


def _attempts(visit: Visit) -> Outcome:
    """The outcome of the last attempt, with the usage of all."""
    usage: dict[str, Any] | None = None
    try:
        policy = attempts(visit.node, visit.run.graph, visit.means.first_delay)
    except UserError as err:
        return failed(err.message, CONFIGURATION)
    while True:
        outcome = _attempt(visit)
        usage = added_usage(usage, outcome.usage)
        outcome = replace(outcome, usage=usage)
        if not is_retried(outcome) or visit.is_settled or visit.attempt >= policy.attempts:
            return outcome
        reason = outcome.failure.message if outcome.failure else "the node asked for it"
        decision = visit.fire("stage_retrying", attempt=visit.attempt + 1, reason=reason)
        if decision.word in ("block", "skip"):
            return outcome
        _pause_before_retry(visit, policy, reason)
        visit.attempt += 1


def _decided(visit: Visit, decision: Decision, outcome: Outcome | None) -> Outcome | None:
    """The outcome that a hook decided on, if it did. `outcome` is the node's own, if it has one."""
    base = outcome or succeeded()
    if decision.word == "skip":
        return replace(base, status=SKIPPED, failure=None, notes=decision.reason)
    if decision.word == "block":
        return replace(base, status=FAIL, failure=Failure(decision.reason, CANCELLED), extra={})
    if decision.word != "override":
        return None
    try:
        answer = read_answer(dict(decision.data), visit.redaction)
    except AnswerError as err:
        return replace(base, status=FAIL, failure=Failure(f"hook: {err}", CONFIGURATION))
    said = answer.outcome(base.context_updates)
    return replace(said, usage=base.usage, notes=said.notes or decision.reason)


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
    except OSError as err:
        return failed(f"{err.strerror or err}", TRANSIENT)
    except TemplateError as err:
        return failed(f"template: {err.message}", CONFIGURATION)


def _simulated(visit: Visit) -> Outcome:
    """A dry run: everything succeeds, and people take the first choice."""
    if visit.node.kind in ("conditional", PARALLEL, FAN_IN, MANAGER_LOOP):
        return find_handler(visit.node)(visit)
    if visit.node.kind == "human":
        visit.chosen = next(iter(visit.run.graph.outgoing(visit.node.id)), None)
    return succeeded()


def _admissible(outcome: Outcome, visit: Visit) -> Outcome:
    """The outcome as the context can take it; one whose values no context can hold is a failure."""
    try:
        updates = clean_value(outcome.context_updates)
    except ValueError as err:
        return failed(f"context_updates: {err}")
    for key in [key for key in updates if key.startswith("internal.")]:
        del updates[key]
        visit.announce(
            "notice",
            code="reserved_key",
            message=f"node '{visit.node.id}' set '{key}': keys in 'internal.' are the engine's",
        )
    return replace(outcome, context_updates=updates)


def _pause_before_retry(visit: Visit, policy: Policy, reason: str) -> None:
    delay = jittered(policy.delay(visit.attempt), visit.means.draw())
    visit.announce(
        "stage_retrying",
        node=visit.node.id,
        visit=visit.number,
        attempt=visit.attempt + 1,
        delay_s=round(delay, 3),
        reason=reason,
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
    return outcome


def signed(visit: Visit, outcome: Outcome) -> Outcome:
    """The outcome as it is recorded and told: its failure signed, no secret of the run in it."""
    hidden = visit.redaction
    failure = outcome.failure
    if failure is not None:
        message = hidden.text(failure.message)
        signature = failure_signature(visit.node.id, failure.kind, message)
        failure = Failure(message, failure.kind, signature)
    return replace(
        outcome,
        preferred_label=hidden.text(outcome.preferred_label),
        suggested_next_ids=tuple(map(hidden.text, outcome.suggested_next_ids)),
        context_updates=hidden.value(outcome.context_updates),
        notes=hidden.text(outcome.notes),
        failure=failure,
        extra=hidden.value(outcome.extra),
    )


def _excused(outcome: Outcome, status: str, attribute: str) -> Outcome:
    told = outcome.failure.message if outcome.failure else f"status {outcome.status}"
    note = f"{attribute}: {told}"
    notes = f"{outcome.notes}\n{note}" if outcome.notes else note
    return replace(outcome, status=status, failure=None, notes=notes, extra={})
