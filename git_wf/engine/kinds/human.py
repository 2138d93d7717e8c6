"""A human node waits for a person, who chooses one of its outgoing edges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from git_wf.core.outcome import CONFIGURATION, TIMEOUT, Outcome, failed, succeeded
from git_wf.core.sections import branch_name
from git_wf.engine.people import (
    Choice,
    Question,
    Silence,
    Waiting,
    fitting_choice,
    offered_choices,
)
from git_wf.engine.state import Visit


def ask_person(visit: Visit) -> Outcome:
    """Raises `Waiting` where there is nobody to ask."""
    choices = offered_choices(visit.run.graph.outgoing(visit.node.id))
    if not choices:
        return failed("no edge leads on: there is nothing to choose", CONFIGURATION)
    if visit.people.auto_approve:
        return _chosen(visit, choices[0], "")
    question = _question(visit, choices)
    visit.announce("waiting", node=question.node, choices=question.to_json()["choices"])
    complaint = ""
    while True:
        answer = _answer(visit, question, complaint)
        visit.watch.touch()
        visit.watch.check_cancelled()
        if answer is Silence.NOBODY:
            raise Waiting(question)
        if answer is Silence.AGREES:
            return _chosen(visit, choices[0], "")
        if isinstance(answer, Silence):
            return _without_answer(visit, choices)
        choice = fitting_choice(answer, choices)
        if choice is not None:
            return _chosen(visit, choice, answer if choice.freeform else "")
        keys = ", ".join(one.key for one in choices)
        complaint = f"'{answer.strip()}' is none of {keys}"
        visit.announce("notice", code="answer_does_not_fit", message=complaint)


def _answer(visit: Visit, question: Question, complaint: str) -> str | Silence:
    if question.deadline is not None and visit.clock.now() >= question.deadline:
        return Silence.TIMED_OUT
    if visit.people.ask is None:
        return Silence.NOBODY
    return visit.people.ask(question, complaint)


def _question(visit: Visit, choices: tuple[Choice, ...]) -> Question:
    since = visit.clock.now()
    earlier = visit.people.waiting or {}
    branch = branch_name(visit.means.branch)
    before = (earlier.get("node"), earlier.get("visit"), earlier.get("branch") or "")
    resumed = before == (visit.node.id, visit.number, branch)
    if resumed and visit.attempt == 1:
        since = datetime.fromisoformat(str(earlier["since"]).replace("Z", "+00:00"))
    timeout = visit.node.seconds("timeout")
    return Question(
        visit.node.id,
        visit.number,
        visit.redaction.text(visit.node.label),
        choices,
        since,
        since + timedelta(seconds=timeout) if timeout else None,
        visit.watch.cancel.is_set,
        branch,
    )


def _without_answer(visit: Visit, choices: Sequence[Choice]) -> Outcome:
    named = visit.node.text("human.default_choice")
    choice = fitting_choice(named, choices) if named else None
    if choice is not None:
        return _chosen(visit, choice, "")
    return failed(f"nobody answered within {visit.node.text('timeout')}", TIMEOUT)


def _chosen(visit: Visit, choice: Choice, text: str) -> Outcome:
    updates = {"human.gate.selected": choice.key, "human.gate.label": choice.label}
    updates["human.gate.text"] = text
    visit.chosen = choice.edge  # labels may be alike: the edge itself is meant
    return succeeded(
        preferred_label=choice.label,
        suggested_next_ids=(choice.target,),
        context_updates=updates,
        notes=f"{choice.key}: {choice.text}" + (f": {text}" if text else ""),
    )
