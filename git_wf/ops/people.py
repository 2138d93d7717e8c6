"""Where the answers of people come from: a terminal, a file, or the command line.

An answers file is TOML, or JSON where its name ends with `.json`. It maps human nodes to answers,
a text for the first visit of the node, or a list with one text a visit:

    review = "A"
    name = ["Ada", "Bob"]
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.config_types import find_nul
from git_wf.core.graph import Graph
from git_wf.engine.people import (
    Ask,
    Choice,
    People,
    ask_from,
    fitting_choice,
    offered_choices,
    recorded_choices,
)
from git_wf.engine.people import Question as Question
from git_wf.engine.people import Silence as Silence
from git_wf.errors import UserError
from git_wf.ops.workflow import read_file, read_toml

HUMAN = "human"
JSON_HINT = '{"node": "answer", "another": ["first visit", "second visit"]}'
Answers = Mapping[str, Sequence[str]]  # node → one a visit


@dataclass(frozen=True)
class Answering:
    """How the people of a run are to be reached."""

    ask: Ask | None = None  # a terminal, where there is one
    auto_approve: bool = False
    answers: Answers | None = None
    answer: str | None = None  # to what the run waits for


@dataclass(frozen=True)
class Asked:
    """The visit that a run is about to make, or waits in, where it is that of a human node."""

    node: str
    visit: int
    choices: tuple[Choice, ...]
    deadline: datetime | None = None
    child: str | None = None  # the run of a child workflow that asks


def read_answers(path: Path) -> dict[str, tuple[str, ...]]:
    """The answers of a file. Raises `UserError` where it is not of the form."""
    data = read_file(path)
    tables = _read_json(data, path) if path.suffix == ".json" else read_toml(data, str(path))
    where = find_nul(tables)
    if where is not None:
        raise UserError(f"{path}: '{where}' has a NUL byte", hint="no answer can have one")
    return {node: _texts(said, node, path) for node, said in tables.items()}


def _read_json(data: bytes, path: Path) -> dict[str, Any]:
    try:
        tables = json.loads(data)
    except (ValueError, RecursionError) as err:
        raise UserError(f"{path}: not JSON: {_told(err)}", hint=JSON_HINT) from err
    if not isinstance(tables, dict):
        raise UserError(f"{path}: not an object of nodes and answers", hint=JSON_HINT)
    return tables


def _told(err: Exception) -> str:
    return str(err)[:1].lower() + str(err)[1:]


def _texts(said: Any, node: str, path: Path) -> tuple[str, ...]:
    texts = said if isinstance(said, list) else [said]
    if not all(isinstance(text, str) for text in texts):
        form = '{"%s": "A"}' if path.suffix == ".json" else '%s = "A"'
        raise UserError(
            f"{path}: '{node}': an answer is a text, or a list of texts, one a visit",
            hint=form % node,
        )
    return tuple(texts)


def check_answers(answers: Answers, graph: Graph) -> None:
    """Raises `UserError` for a node that is no human one, and for an answer that fits nothing."""
    for node, texts in answers.items():
        if node not in graph.nodes or graph.nodes[node].kind != HUMAN:
            known = [one.id for one in graph.of_kind(HUMAN)]
            near = difflib.get_close_matches(node, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
            if not known:
                hint = "leave --answers out: the workflow asks nobody"
            raise UserError(f"answers: '{node}' is no human node", hint=hint)
        choices = offered_choices(graph.outgoing(node))
        for text in texts:
            if fitting_choice(text, choices) is None:
                raise UserError(
                    f"answers: '{text}' is no answer to '{node}'", hint=choice_lines(choices)
                )


def choice_lines(choices: Sequence[Choice]) -> list[str]:
    return [f"{one.key}  {one.text}{'  (any text)' if one.freeform else ''}" for one in choices]


def find_asked(
    graph: Graph, checkpoint: Checkpoint | None, waiting: Mapping[str, Any] | None
) -> Asked | None:
    """What an answer to the run would be the answer to; None where nobody is asked."""
    if waiting is not None:
        node, visit = str(waiting.get("node")), int(waiting.get("visit") or 1)
        told = waiting.get("deadline")
        deadline = datetime.fromisoformat(str(told).replace("Z", "+00:00")) if told else None
        child = waiting.get("child")
        if child is not None:
            where = (str(child.get("node")), int(child.get("visit") or 1))
            return Asked(*where, recorded_choices(waiting), deadline, str(child.get("run")))
        return Asked(node, visit, offered_choices(graph.outgoing(node)), deadline)
    if checkpoint is None:
        outgoing = graph.outgoing(graph.start.id)
        next_node = outgoing[0].target if len(outgoing) == 1 else None
    else:
        next_node = checkpoint.next_node_id
    if next_node not in graph.nodes or graph.nodes[next_node].kind != HUMAN:
        return None
    visit = checkpoint.node_visits.get(next_node, 0) + 1 if checkpoint else 1
    return Asked(next_node, visit, offered_choices(graph.outgoing(next_node)))


def make_people(
    answering: Answering,
    graph: Graph,
    waiting: Mapping[str, Any] | None = None,
    asked: Asked | None = None,
) -> People:
    """Checks the answers that were given beforehand. `asked` is what `--answer` is the answer to.

    Raises `UserError`.
    """
    if answering.answers is not None:
        check_answers(answering.answers, graph)
    ask = answering.ask
    if answering.auto_approve and (answering.answers or answering.answer is not None):
        ask = _agree
    if answering.answers:
        ask = ask_from(answering.answers, ask)
    if answering.answer is not None and asked is not None and asked.child is None:
        ask = _answer_once(asked, answering.answer, ask)
    return People(ask, answering.auto_approve and ask is answering.ask, waiting)


def _agree(question: Question, complaint: str) -> str | Silence:
    return Silence.AGREES


def _answer_once(asked: Asked, answer: str, otherwise: Ask | None) -> Ask:
    def ask(question: Question, complaint: str) -> str | Silence:
        if (question.node, question.visit) == (asked.node, asked.visit) and not complaint:
            return answer
        return otherwise(question, complaint) if otherwise else Silence.NOBODY

    return ask


def check_answer(answering: Answering, asked: Asked | None, run: str, now: datetime) -> None:
    """Raises `UserError` where the run asks nobody, and where the answer comes late or fits not."""
    if answering.answer is None:
        return
    if asked is None:
        raise UserError(f"run {run} waits for no answer", hint=f"git wf resume {run}")
    if asked.deadline is not None and now >= asked.deadline:
        raise UserError(
            f"the time to answer '{asked.node}' is over", hint=f"git wf resume {run} goes on"
        )
    if fitting_choice(answering.answer, asked.choices) is None:
        raise UserError(
            f"'{answering.answer}' is no answer to '{asked.node}'", hint=choice_lines(asked.choices)
        )


def is_unanswered(answering: Answering, asked: Asked, now: datetime) -> bool:
    """Whether going on would come to wait at once again."""
    if answering.ask or answering.auto_approve or answering.answer is not None:
        return False
    answers = {} if asked.child else answering.answers or {}
    given = answers.get(asked.node, ())
    is_over = asked.deadline is not None and now >= asked.deadline
    return len(given) < asked.visit and not is_over
